package ensemble

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/test/ensemble/cluster"
	"github.com/pinfold-zk/pinfold/test/kdc"
	"github.com/pinfold-zk/pinfold/zk"
)

// realm is a realm of the test's own, with a KDC.
type realm struct {
	*kdc.KDC
	r     *rig
	dir   string
	users string // key table of clients
}

// startKDC starts a KDC at a port of the ensemble.
func (r *rig) startKDC(e *cluster.Ensemble) *realm {
	r.t.Helper()
	dir := r.t.TempDir()
	k, err := kdc.Start(r.within(patience), dir, e.FreePort)
	r.must(err)
	r.t.Cleanup(k.Close)
	return &realm{KDC: k, r: r, dir: dir}
}

// flags writes a login file in which a member accepts logins as one principal and logs in
// as another, and accepts clients, and returns the flags of its process.
func (k *realm) flags(server, learner string) string {
	k.r.t.Helper()
	text := ""
	for section, principal := range map[string]string{"QuorumServer": server, "QuorumLearner": learner, "Server": clientService} {
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

// newKeys gives principals new keys, and adds them to the key tables of the members that run.
func (k *realm) newKeys(principals ...string) {
	k.r.t.Helper()
	for _, p := range principals {
		file := filepath.Join(k.dir, strings.ReplaceAll(p, "/", "-")+".keytab")
		k.r.must(k.Run("kadmin.local", "-q", "ktadd -k "+file+" "+p))
	}
	k.r.step("new keys of %v", principals)
}

// clientService is the principal at which clients log in.
const clientService = "zookeeper/127.0.0.1"

// clientsLogIn has bob log in at each member by Kerberos and create a znode of his own, which
// eve may not read.
func (k *realm) clientsLogIn() {
	k.r.t.Helper()
	for _, m := range k.r.e.Members {
		dial := func(user string) *client.Client {
			mechanism, err := client.Kerberos(client.KerberosOptions{Principal: user + "@" + kdc.Realm, Keytab: k.users, Config: k.Config})
			k.r.must(err)
			c, err := client.Dial(k.r.within(patience), m.Client, client.SASL(mechanism), client.SessionTimeout(30*time.Second))
			k.r.must(err)
			return c
		}
		bob, eve := dial("bob"), dial("eve")
		path, err := bob.Create(k.r.within(patience), "/of-bob", []byte("his"), zk.Persistent,
			[]zk.ACL{{Perms: zk.PermAll, ID: zk.ID{Scheme: "sasl", ID: "bob@" + kdc.Realm}}})
		k.r.must(err)
		if data, _, err := bob.Get(k.r.within(patience), path); err != nil || string(data) != "his" {
			k.r.t.Errorf("%v: bob reads %q, %v", m, data, err)
		}
		if data, _, err := eve.Get(k.r.within(patience), path); !errors.Is(err, zk.ErrNoAuth) {
			k.r.t.Errorf("%v: eve reads %q, %v", m, data, err)
		}
		k.r.must(bob.Delete(k.r.within(patience), path, -1))
		bob.Close()
		eve.Close()
	}
}

// TestLoginsByKerberos has the members log in by Kerberos, with the names that Apache's guide
// gives them: every voter leads and is killed, clients log in by Kerberos at each member before
// and after that, all principals get new keys, and a member whose principal is of another
// host is refused.
func TestLoginsByKerberos(t *testing.T) {
	for _, members := range mixtures(t, "pinfold,apache,apache-3.9", "pinfold,pinfold,pinfold") {
		t.Run(members, func(t *testing.T) {
			var k *realm
			var good string
			r := &rig{t: t}
			r = newRig(t, members, rigOptions{lines: smallFiles(), before: func(e *cluster.Ensemble) {
				k = r.startKDC(e)
				var err error
				k.users, err = k.Keytab("users.keytab", "bob@"+kdc.Realm, "eve@"+kdc.Realm)
				r.must(err)
				good = k.flags("zkquorum/127.0.0.1", "learner/127.0.0.1")
				for _, m := range e.Members {
					m.SetFlags(good)
					r.must(m.Configure(append([]string{saslLine, "quorum.auth.kerberos.servicePrincipal=zkquorum/_HOST"}, loginLines...)...))
				}
			}})
			k.r = r
			r.load()
			k.clientsLogIn()
			k.newKeys("zkquorum/127.0.0.1", "learner/127.0.0.1", clientService)
			r.leadersKilled()
			k.clientsLogIn()
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

// TestLoginsByCanonicalName has the members log in by Kerberos with kerberos.canonicalizeHostNames: their
// principals have the name that 127.0.0.1, the host of all server lines, has in DNS or /etc/hosts. A member whose
// principal has the address is refused.
func TestLoginsByCanonicalName(t *testing.T) {
	names, err := net.DefaultResolver.LookupAddr(t.Context(), "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	host := strings.TrimSuffix(names[0], ".")
	const canonical = " -Dzookeeper.kerberos.canonicalizeHostNames=true"
	for _, members := range mixtures(t, "pinfold,apache,apache-3.9", "pinfold,pinfold,pinfold") {
		t.Run(members, func(t *testing.T) {
			var k *realm
			var good string
			r := &rig{t: t}
			r = newRig(t, members, rigOptions{lines: smallFiles(), before: func(e *cluster.Ensemble) {
				k = r.startKDC(e)
				good = k.flags("zkquorum/"+host, "learner/"+host) + canonical
				for _, m := range e.Members {
					m.SetFlags(good)
					r.must(m.Configure(append([]string{saslLine, "quorum.auth.kerberos.servicePrincipal=zkquorum/_HOST"}, loginLines...)...))
				}
			}})
			k.r = r
			r.load()
			r.leadersKilled()
			r.nothingRefused()
			last := r.e.Members[len(r.e.Members)-1]
			r.isRefused(last, "names a host that no server line has (the canonical name of 127.0.0.1 is "+host+")", func() {
				last.SetFlags(k.flags("zkquorum/"+host, "learner/127.0.0.1") + canonical)
			})
			last.SetFlags(good)
			r.finish()
		})
	}
}
