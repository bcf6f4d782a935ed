// Package kdc runs MIT's Kerberos KDC for tests: a realm of its own in a directory of the
// test, on a port of the loopback interface, without root. Debian has it in krb5-kdc and
// krb5-admin-server.
package kdc

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/pinfold-zk/pinfold/test/ensemble/cluster"
)

// Realm is the realm of every KDC.
const Realm = "EXAMPLE.COM"

// A KDC is a realm with its database and a process that serves it.
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

// Start makes a realm in dir, which must exist, and serves it at 127.0.0.1:port. It returns
// when the KDC answers.
func Start(ctx context.Context, dir string, port int) (*KDC, error) {
	k := &KDC{dir: dir, Config: filepath.Join(dir, "krb5.conf")}
	texts := map[string]string{
		"krb5.conf": fmt.Sprintf(`[libdefaults]
 default_realm = %[1]s
 dns_lookup_kdc = false
 dns_lookup_realm = false
 dns_canonicalize_hostname = false
 rdns = false
 udp_preference_limit = 1
[realms]
 %[1]s = {
  kdc = 127.0.0.1:%[2]d
 }
`, Realm, port),
		"kdc.conf": fmt.Sprintf(`[realms]
 %[1]s = {
  database_name = %[3]s/principal
  key_stash_file = %[3]s/stash
  acl_file = %[3]s/acl
  kdc_listen = 127.0.0.1:%[2]d
  kdc_tcp_listen = 127.0.0.1:%[2]d
 }
[logging]
 kdc = FILE:%[3]s/kdc.log
`, Realm, port, dir),
	}
	for name, text := range texts {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return nil, fmt.Errorf("kdc: %w", err)
		}
	}
	if err := k.Run("kdb5_util", "create", "-s", "-r", Realm, "-P", "master"); err != nil {
		return nil, err
	}
	server, err := program("krb5kdc")
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(server, "-n", "-P", filepath.Join(dir, "kdc.pid"))
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

// Keytab adds principals with random keys and returns a file with their keys.
func (k *KDC) Keytab(name string, principals ...string) (file string, err error) {
	file = filepath.Join(k.dir, name)
	for _, p := range principals {
		for _, query := range []string{"addprinc -randkey " + p, "ktadd -k " + file + " " + p} {
			if err := k.Run("kadmin.local", "-q", query); err != nil {
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
