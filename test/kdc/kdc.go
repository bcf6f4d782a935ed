// Package kdc runs MIT's Kerberos KDCs for tests: realms of the test's own in a directory of
// the test, on ports of the loopback interface, without root. Debian has it in krb5-kdc and
// krb5-admin-server.
package kdc

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/pinfold-zk/pinfold/test/ensemble/cluster"
)

// The realms. Each has a KDC of its own. Users of Other get tickets for services of Realm, and
// those of Far through Other: Realm trusts Other, which trusts Far. No trust goes the other way.
const (
	Realm = "EXAMPLE.COM" // the default
	Other = "OTHER.COM"
	Far   = "FAR.COM"
)

var realms = []string{Realm, Other, Far}

// trusts are the pairs of realms of which the first trusts the second.
var trusts = [][2]string{{Realm, Other}, {Other, Far}}

// path is the section of krb5.conf that says how users of Far reach Realm.
const path = "[capaths]\n " + Far + " = {\n  " + Realm + " = " + Other + "\n  " + Other + " = .\n }\n"

// A KDC is all realms, each with its database and a process that serves it.
type KDC struct {
	Config string // krb5.conf

	dir   string
	ports map[string]int // by realm
	procs map[string]*cluster.ClientProcess
}

// program finds one of MIT's programs, some of which are only in root's path.
func program(name string) (string, error) {
	for _, dir := range []string{"/usr/sbin", "/usr/bin"} {
		if file := filepath.Join(dir, name); exec.Command("test", "-x", file).Run() == nil {
			return file, nil
		}
	}
	return "", fmt.Errorf("kdc: %s is missing: install the Debian packages krb5-kdc, krb5-admin-server and krb5-user", name)
}

// Start makes the realms in dir, which must exist, and serves each at a free port of 127.0.0.1.
// It returns when all KDCs answer.
func Start(ctx context.Context, dir string, freePort func() (int, error)) (*KDC, error) {
	k := &KDC{dir: dir, Config: filepath.Join(dir, "krb5.conf"), ports: map[string]int{}, procs: map[string]*cluster.ClientProcess{}}
	for _, realm := range realms {
		var err error
		if k.ports[realm], err = freePort(); err != nil {
			return nil, err
		}
	}
	if err := k.configure(k.Config, "kdc.conf", path, true); err != nil {
		return nil, err
	}
	for _, realm := range realms {
		if err := k.Run("kdb5_util", "create", "-s", "-r", realm, "-P", "master"); err != nil {
			return nil, err
		}
	}
	for _, trust := range trusts {
		for _, realm := range trust {
			// The key that both realms share is made of a password.
			query := "addprinc -pw trust krbtgt/" + trust[0] + "@" + trust[1]
			if err := k.Run("kadmin.local", "-r", realm, "-q", query); err != nil {
				return nil, err
			}
		}
	}
	for _, realm := range realms {
		if err := k.serve(ctx, realm, k.Env()); err != nil {
			k.Close()
			return nil, err
		}
	}
	return k, nil
}

// serve starts the KDC of a realm, and returns when it answers.
func (k *KDC) serve(ctx context.Context, realm string, env []string) error {
	server, err := program("krb5kdc")
	if err != nil {
		return err
	}
	cmd := exec.Command(server, "-n", "-r", realm, "-P", filepath.Join(k.dir, realm+".pid"))
	cmd.Env = env
	said := filepath.Join(k.dir, realm+".out")
	p, err := cluster.StartClient(cmd, said)
	if err != nil {
		return err
	}
	k.procs[realm] = p
	if err := answers(ctx, k.ports[realm]); err != nil {
		out, _ := os.ReadFile(said)
		return fmt.Errorf("kdc: that of %s does not answer: %w\n%s", realm, err, out)
	}
	return nil
}

// ForgetPath restarts the KDC of Realm with a krb5.conf that does not have the way of Far's users.
// If it rejects, which is MIT's default, they get no ticket; else one that says that the KDC has
// not checked their way.
func (k *KDC) ForgetPath(ctx context.Context, reject bool) error {
	k.procs[Realm].Kill()
	config := filepath.Join(k.dir, "forgetful.conf")
	if err := k.configure(config, "forgetful-kdc.conf", "", reject); err != nil {
		return err
	}
	return k.serve(ctx, Realm, append(os.Environ(), "KRB5_CONFIG="+config, "KRB5_KDC_PROFILE="+filepath.Join(k.dir, "forgetful-kdc.conf")))
}

// configure writes krb5.conf, with the section capaths, and kdc.conf.
func (k *KDC) configure(config, profile, capaths string, reject bool) error {
	ours := fmt.Sprintf("[libdefaults]\n default_realm = %s\n dns_lookup_kdc = false\n dns_lookup_realm = false\n"+
		" dns_canonicalize_hostname = false\n rdns = false\n udp_preference_limit = 1\n%s[realms]\n", Realm, capaths)
	theirs := "[logging]\n kdc = FILE:" + filepath.Join(k.dir, "kdc.log") + "\n[realms]\n"
	for _, realm := range realms {
		ours += fmt.Sprintf(" %s = {\n  kdc = 127.0.0.1:%d\n }\n", realm, k.ports[realm])
		theirs += fmt.Sprintf(" %[1]s = {\n  database_name = %[3]s/%[1]s\n  key_stash_file = %[3]s/%[1]s.stash\n  acl_file = %[3]s/acl\n"+
			"  kdc_listen = 127.0.0.1:%[2]d\n  kdc_tcp_listen = 127.0.0.1:%[2]d\n  reject_bad_transit = %[4]t\n }\n", realm, k.ports[realm], k.dir, reject)
	}
	for file, text := range map[string]string{config: ours, filepath.Join(k.dir, profile): theirs} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return fmt.Errorf("kdc: %w", err)
		}
	}
	return nil
}

// answers waits until the port accepts a connection.
func answers(ctx context.Context, port int) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			return c.Close()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return err
		}
	}
}

// Env is the environment for programs that use the realm.
func (k *KDC) Env() []string {
	return append(os.Environ(), "KRB5_CONFIG="+k.Config, "KRB5_KDC_PROFILE="+filepath.Join(k.dir, "kdc.conf"))
}

// Run runs one of MIT's programs.
func (k *KDC) Run(name string, args ...string) error {
	file, err := program(name)
	if err != nil {
		return err
	}
	cmd := exec.Command(file, args...)
	cmd.Env = k.Env()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("kdc: %s %v: %w\n%s", name, args, err, out)
	}
	return nil
}

// Keytab adds principals, NAME@REALM, with random keys and returns a file with their keys.
func (k *KDC) Keytab(name string, principals ...string) (file string, err error) {
	file = filepath.Join(k.dir, name)
	for _, p := range principals {
		_, realm, _ := strings.Cut(p, "@")
		for _, query := range []string{"addprinc -randkey " + p, "ktadd -k " + file + " " + p} {
			if err := k.Run("kadmin.local", "-r", realm, "-q", query); err != nil {
				return "", err
			}
		}
	}
	return file, nil
}

// Cache gets tickets for a principal of a key table, as kinit does, and returns the file of
// the ticket cache.
func (k *KDC) Cache(name, keytab, principal string) (file string, err error) {
	file = filepath.Join(k.dir, name)
	return file, k.Run("kinit", "-c", file, "-k", "-t", keytab, principal)
}

// Close ends the processes.
func (k *KDC) Close() {
	for _, p := range k.procs {
		p.Kill()
	}
}
