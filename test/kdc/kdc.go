// Package kdc runs MIT's Kerberos KDC for tests: realms of the test's own in a directory of
// the test, on a port of the loopback interface, without root. Debian has it in krb5-kdc and
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

// The realms of every KDC. Members of Other get tickets for services of Realm, and not the
// other way: Realm trusts Other.
const (
	Realm = "EXAMPLE.COM" // the default
	Other = "OTHER.COM"
)

// A KDC is two realms, each with its database, and a process that serves them.
type KDC struct {
	Config string // krb5.conf

	dir  string
	proc *cluster.ClientProcess
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

// Start makes the realms in dir, which must exist, and serves them at 127.0.0.1:port. It
// returns when the KDC answers.
func Start(ctx context.Context, dir string, port int) (*KDC, error) {
	k := &KDC{dir: dir, Config: filepath.Join(dir, "krb5.conf")}
	if err := k.configure(port); err != nil {
		return nil, err
	}
	for _, realm := range []string{Realm, Other} {
		if err := k.Run("kdb5_util", "create", "-s", "-r", realm, "-P", "master"); err != nil {
			return nil, err
		}
		// The key that both realms share is made of a password.
		trust := "addprinc -pw trust krbtgt/" + Realm + "@" + Other
		if err := k.Run("kadmin.local", "-r", realm, "-q", trust); err != nil {
			return nil, err
		}
	}
	server, err := program("krb5kdc")
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(server, "-n", "-r", Realm, "-r", Other, "-P", filepath.Join(dir, "kdc.pid"))
	cmd.Env = k.Env()
	if k.proc, err = cluster.StartClient(cmd, filepath.Join(dir, "kdc.out")); err != nil {
		return nil, err
	}
	if err := answers(ctx, port); err != nil {
		k.Close()
		out, _ := os.ReadFile(filepath.Join(dir, "kdc.out"))
		return nil, fmt.Errorf("kdc: it does not answer: %w\n%s", err, out)
	}
	return k, nil
}

// configure writes krb5.conf and kdc.conf.
func (k *KDC) configure(port int) error {
	ours := fmt.Sprintf("[libdefaults]\n default_realm = %s\n dns_lookup_kdc = false\n dns_lookup_realm = false\n"+
		" dns_canonicalize_hostname = false\n rdns = false\n udp_preference_limit = 1\n[realms]\n", Realm)
	theirs := "[logging]\n kdc = FILE:" + filepath.Join(k.dir, "kdc.log") + "\n[realms]\n"
	for _, realm := range []string{Realm, Other} {
		ours += fmt.Sprintf(" %s = {\n  kdc = 127.0.0.1:%d\n }\n", realm, port)
		theirs += fmt.Sprintf(" %[1]s = {\n  database_name = %[3]s/%[1]s\n  key_stash_file = %[3]s/%[1]s.stash\n  acl_file = %[3]s/acl\n"+
			"  kdc_listen = 127.0.0.1:%[2]d\n  kdc_tcp_listen = 127.0.0.1:%[2]d\n }\n", realm, port, k.dir)
	}
	for name, text := range map[string]string{"krb5.conf": ours, "kdc.conf": theirs} {
		if err := os.WriteFile(filepath.Join(k.dir, name), []byte(text), 0o600); err != nil {
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

// Close ends the process.
func (k *KDC) Close() { k.proc.Kill() }
