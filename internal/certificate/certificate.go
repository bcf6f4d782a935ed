// Package certificate makes certificates, for tests and measurements.
package certificate

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"time"
)

// Identity is a certificate with its private key.
type Identity struct {
	TLS  tls.Certificate // with Leaf
	Key  []byte          // PEM, PKCS #8
	Cert []byte          // PEM
}

// New makes a certificate with a new key on the curve P-256. Its subject is CN=name, and it is
// valid from an hour ago for the given time. by signs it; nil: it signs itself. Each change may
// alter the template.
func New(by *Identity, name string, valid time.Duration, change ...func(*x509.Certificate)) (Identity, error) {
	id, err := create(by, name, valid, change)
	if err != nil {
		return Identity{}, fmt.Errorf("certificate %q: %w", name, err)
	}
	return id, nil
}

func create(by *Identity, name string, valid time.Duration, change []func(*x509.Certificate)) (id Identity, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return id, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 63))
	if err != nil {
		return id, err
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(valid),
	}
	for _, f := range change {
		f(template)
	}
	parent, signer := template, crypto.PrivateKey(key)
	if by != nil {
		parent, signer = by.TLS.Leaf, by.TLS.PrivateKey
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		return id, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return id, err
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return id, err
	}
	return Identity{
		TLS:  tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf},
		Key:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}),
		Cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
	}, nil
}

// Authority lets a certificate sign others, for New.
func Authority(c *x509.Certificate) { c.IsCA, c.BasicConstraintsValid = true, true }

// PEM is the key and the certificate, as a key store has them.
func (id Identity) PEM() []byte { return append(id.Key[:len(id.Key):len(id.Key)], id.Cert...) }
