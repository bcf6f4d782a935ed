package ensemble

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pinfold-zk/pinfold/test/ensemble/cluster"
)

const realm = "PINFOLD.TEST"

// A kdc is MIT's KDC with a realm of the test's own.
type kdc struct {
	r      *rig
	dir    string
	Config string // krb5.conf
}

// kdcTools are what a KDC needs; where they are in Debian.
var kdcTools = map[string]string{"kdb5_util": "/usr/sbin/kdb5_util", "kadmin.local": "/usr/sbin/kadmin.local", "krb5kdc": "/usr/sbin/krb5kdc"}

// needKDC skips the test without MIT's KDC.
func needKDC(t *testing.T) {
	t.Helper()
	for _, tool := range kdcTools {
		if _, err := os.Stat(tool); err != nil {
			t.Skip("no KDC here: install the Debian packages krb5-kdc and krb5-admin-server")
		}
	}
}

// startKDC makes a realm and serves it at a port of the ensemble.
func (r *rig) startKDC(e *cluster.Ensemble) *kdc {
	r.t.Helper()
	port, err := e.FreePort()
	r.must(err)
	k := &kdc{r: r, dir: r.t.TempDir()}
	k.Config = k.write("krb5.conf", fmt.Sprintf("[libdefaults]\n default_realm = %s\n dns_lookup_kdc = false\n dns_lookup_realm = false\n rdns = false\n udp_preference_limit = 1\n"+
		"[realms]\n %s = {\n  kdc = 127.0.0.1:%d\n }\n", realm, realm, port))
	k.write("kdc.conf", fmt.Sprintf("[kdcdefaults]\n kdc_listen = \"\"\n kdc_tcp_listen = 127.0.0.1:%d\n[realms]\n %s = {\n  database_name = %s/principal\n  key_stash_file = %s/stash\n  acl_file = %s/acl\n"+
		"  supported_enctypes = aes256-cts-hmac-sha1-96:normal aes128-cts-hmac-sha1-96:normal\n }\n[logging]\n kdc = FILE:%s/kdc.log\n", port, realm, k.dir, k.dir, k.dir, k.dir))
	k.run("kdb5_util", "create", "-s", "-r", realm, "-P", "a master password")
	ctx, stop := context.WithCancel(r.t.Context())
	cmd := exec.CommandContext(ctx, kdcTools["krb5kdc"], "-n")
	cmd.Env = k.environ()
	r.must(cmd.Start())
	r.t.Cleanup(func() {
		stop()
		_ = cmd.Wait() // by our signal
	})
	r.must(e.Until(r.within(patience), func() bool {
		nc, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			nc.Close()
		}
		return err == nil
	}))
	return k
}

func (k *kdc) environ() []string {
	return append(os.Environ(), "KRB5_CONFIG="+k.Config, "KRB5_KDC_PROFILE="+filepath.Join(k.dir, "kdc.conf"))
}

func (k *kdc) write(name, text string) string {
	k.r.t.Helper()
	file := filepath.Join(k.dir, name)
	k.r.must(os.WriteFile(file, []byte(text), 0o600))
	return file
}

func (k *kdc) run(tool string, args ...string) {
	k.r.t.Helper()
	cmd := exec.CommandContext(k.r.within(patience), kdcTools[tool], args...)
	cmd.Env = k.environ()
	if out, err := cmd.CombinedOutput(); err != nil {
		k.r.t.Fatalf("%s %s: %v\n%s", tool, args[0], err, out)
	}
}

// keytab makes a principal and returns the file with its key.
func (k *kdc) keytab(principal string) string {
	k.r.t.Helper()
	file := filepath.Join(k.dir, strings.ReplaceAll(principal, "/", "-")+".keytab")
	k.run("kadmin.local", "-r", realm, "addprinc", "-randkey", principal)
	k.run("kadmin.local", "-r", realm, "ktadd", "-k", file, principal)
	return file
}

// flags writes a login file in which a member accepts logins as one principal and logs in
// as another, and returns the flags of its process.
func (k *kdc) flags(server, learner string) string {
	k.r.t.Helper()
	text := ""
	for section, principal := range map[string]string{"QuorumServer": server, "QuorumLearner": learner} {
		file := filepath.Join(k.dir, strings.ReplaceAll(principal, "/", "-")+".keytab")
		if _, err := os.Stat(file); err != nil {
			k.keytab(principal)
		}
		text += fmt.Sprintf("%s {\n com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true useTicketCache=false\n keyTab=%q\n principal=%q;\n};\n",
			section, file, principal+"@"+realm)
	}
	jaas := k.write(strings.ReplaceAll(learner, "/", "-")+".jaas", text)
	return smallJVM + " -Djava.security.krb5.conf=" + k.Config + " -Djava.security.auth.login.config=" + jaas
}

// TestLoginsByKerberos has the members log in by Kerberos, with the names that Apache's guide
// gives them: every voter leads and is killed, and a member whose principal is of another
// host is refused.
func TestLoginsByKerberos(t *testing.T) {
	needKDC(t)
	for _, members := range mixtures(t, "pinfold,apache,apache-3.9", "pinfold,pinfold,pinfold") {
		t.Run(members, func(t *testing.T) {
			var k *kdc
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
