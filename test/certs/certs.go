// Package certs makes certificates for tests, valid for an hour on both sides of now.
package certs

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Identity is a certificate with its private key.
type Identity struct {
	TLS  tls.Certificate // with Leaf
	Key  []byte          // PEM, PKCS #8
	Cert []byte          // PEM
}

// New makes a certificate that signs itself and may sign others: the subject is CN=name, the
// hosts are localhost, 127.0.0.1 and 127.0.0.2. Each change may alter the template.
func New(t testing.TB, name string, change ...func(*x509.Certificate)) Identity {
	t.Helper()
	authority := func(c *x509.Certificate) { c.IsCA, c.BasicConstraintsValid = true, true }
	return create(t, nil, name, append([]func(*x509.Certificate){authority}, change...))
}

// Issue makes a certificate that by signs. It is like one of New, but signs no others.
func (by Identity) Issue(t testing.TB, name string, change ...func(*x509.Certificate)) Identity {
	t.Helper()
	return create(t, &by, name, change)
}

// create makes a certificate signed by an identity, or by itself.
func create(t testing.TB, by *Identity, name string, change []func(*x509.Certificate)) Identity {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 63))
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(127, 0, 0, 2)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	for _, f := range change {
		f(template)
	}
	parent, signer := template, crypto.PrivateKey(key)
	if by != nil {
		parent, signer = by.TLS.Leaf, by.TLS.PrivateKey
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	must(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	leaf, err := x509.ParseCertificate(der)
	must(t, err)
	return Identity{
		TLS:  tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf},
		Key:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}),
		Cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
	}
}

// PEM is the key and the certificate, as a key store has them.
func (i Identity) PEM() []byte { return append(i.Key[:len(i.Key):len(i.Key)], i.Cert...) }

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
