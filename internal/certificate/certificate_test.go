package certificate

import (
	"crypto/tls"
	"crypto/x509"
	"testing"
	"time"
)

// An authority signs a certificate, which names what the caller wants and can be read back.
func TestNew(t *testing.T) {
	authority, err := New(nil, "authority", time.Hour, Authority)
	if err != nil {
		t.Fatal(err)
	}
	id, err := New(&authority, "server", time.Hour, func(c *x509.Certificate) { c.DNSNames = []string{"host"} })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tls.X509KeyPair(id.PEM(), id.PEM()); err != nil {
		t.Error(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority.Cert)
	if _, err := id.TLS.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: "host"}); err != nil {
		t.Error(err)
	}
	if id.TLS.Leaf.IsCA || id.TLS.Leaf.Subject.CommonName != "server" {
		t.Errorf("%v, an authority: %v", id.TLS.Leaf.Subject, id.TLS.Leaf.IsCA)
	}
}
