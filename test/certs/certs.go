// Package certs makes certificates for tests, valid for an hour on both sides of now.
package certs

import (
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/internal/certificate"
)

// Identity is a certificate with its private key.
type Identity struct{ certificate.Identity }

// New makes a certificate that signs itself and may sign others: the subject is CN=name, the
// hosts are localhost, 127.0.0.1 and 127.0.0.2. Each change may alter the template.
func New(t testing.TB, name string, change ...func(*x509.Certificate)) Identity {
	t.Helper()
	return create(t, nil, name, append([]func(*x509.Certificate){certificate.Authority}, change...))
}

// Issue makes a certificate that by signs. It is like one of New, but signs no others.
func (by Identity) Issue(t testing.TB, name string, change ...func(*x509.Certificate)) Identity {
	t.Helper()
	return create(t, &by.Identity, name, change)
}

// create makes a certificate signed by an identity, or by itself.
func create(t testing.TB, by *certificate.Identity, name string, change []func(*x509.Certificate)) Identity {
	t.Helper()
	local := func(c *x509.Certificate) {
		c.DNSNames, c.IPAddresses = []string{"localhost"}, []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(127, 0, 0, 2)}
	}
	id, err := certificate.New(by, name, time.Hour, append([]func(*x509.Certificate){local}, change...)...)
	must(t, err)
	return Identity{id}
}

// Store writes the key and the certificate into one file of a directory of the test's own,
// and returns its name.
func (i Identity) Store(t testing.TB) string {
	t.Helper()
	return file(t, "store.pem", i.PEM())
}

// Trust writes the certificate into a file of a directory of the test's own, and returns its name.
func (i Identity) Trust(t testing.TB) string {
	t.Helper()
	return file(t, "trust.pem", i.Cert)
}

func file(t testing.TB, name string, content []byte) string {
	t.Helper()
	name = filepath.Join(t.TempDir(), name)
	must(t, os.WriteFile(name, content, 0o600))
	return name
}

// Pool holds the certificate alone.
func (i Identity) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(i.TLS.Leaf)
	return pool
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
