package ensemble

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pinfold-zk/pinfold/test/ensemble/cluster"
	"github.com/pinfold-zk/pinfold/test/kdc"
)

// realm is a realm of the test's own, with a KDC.
type realm struct {
	*kdc.KDC
	r   *rig
	dir string
}

// startKDC starts a KDC at a port of the ensemble.
func (r *rig) startKDC(e *cluster.Ensemble) *realm {
	r.t.Helper()
	port, err := e.FreePort()
	r.must(err)
	dir := r.t.TempDir()
	k, err := kdc.Start(r.within(patience), dir, port)
	r.must(err)
	r.t.Cleanup(k.Close)
	return &realm{k, r, dir}
}

// flags writes a login file in which a member accepts logins as one principal and logs in
// as another, and returns the flags of its process.
func (k *realm) flags(server, learner string) string {
	k.r.t.Helper()
	text := ""
	for section, principal := range map[string]string{"QuorumServer": server, "QuorumLearner": learner} {
		name := strings.ReplaceAll(principal, "/", "-") + ".keytab"
		file := filepath.Join(k.dir, name)
		principal += "@" + kdc.Realm
		if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
			_, err := k.Keytab(name, principal)
			k.r.must(err)
		}
		text += fmt.Sprintf("%s {\n com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true useTicketCache=false\n keyTab=%q\n principal=%q;\n};\n",
			section, file, principal)
	}
	jaas := filepath.Join(k.dir, strings.ReplaceAll(learner, "/", "-")+".jaas")
	k.r.must(os.WriteFile(jaas, []byte(text), 0o600))
	return smallJVM + " -Djava.security.krb5.conf=" + k.Config + " -Djava.security.auth.login.config=" + jaas
}

// TestLoginsByKerberos has the members log in by Kerberos, with the names that Apache's guide
// gives them: every voter leads and is killed, and a member whose principal is of another
// host is refused.
func TestLoginsByKerberos(t *testing.T) {
	for _, members := range mixtures(t, "pinfold,apache,apache-3.9", "pinfold,pinfold,pinfold") {
		t.Run(members, func(t *testing.T) {
			var k *realm
			var good string
			r := &rig{t: t}
			r = newRig(t, members, rigOptions{lines: smallFiles(), before: func(e *cluster.Ensemble) {
				k = r.startKDC(e)
				good = k.flags("zkquorum/127.0.0.1", "learner/127.0.0.1")
				for _, m := range e.Members {
					m.SetFlags(good)
					r.must(m.Configure(append([]string{"quorum.auth.kerberos.servicePrincipal=zkquorum/_HOST"}, loginLines...)...))
				}
			}})
			r.load()
			r.leadersKilled()
			r.nothingRefused()
			last := r.e.Members[len(r.e.Members)-1]
			r.isRefused(last, "names a host that no server line has", func() {
				last.SetFlags(k.flags("zkquorum/127.0.0.1", "learner/elsewhere"))
			})
			last.SetFlags(good)
			r.finish()
		})
	}
}
