// Package handshakes makes the TLS handshakes that a server must refuse.
package handshakes

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/test/certs"
)

// Refused is a handshake that a server must refuse.
type Refused struct {
	Name string
	Why  string // part of the reason in the server's log
	// Certificate is the subject in the server's log, "" if the server has seen no certificate.
	Certificate string

	config  *tls.Config         // of the client; nil: there is no TLS
	rewrite func([]byte) []byte // of the first record; nil: it stays as it is
}

// Clients returns handshakes that a server refuses that demands a certificate by authority
// and allows TLS 1.3 and, if old is set, TLS 1.2. change alters each certificate.
func Clients(t testing.TB, authority certs.Identity, old bool, change ...func(*x509.Certificate)) []Refused {
	t.Helper()
	issue := func(by certs.Identity, name string, more ...func(*x509.Certificate)) tls.Certificate {
		return by.Issue(t, name, append(more, change...)...).TLS
	}
	valid := issue(authority, "valid")
	stolen := valid
	stolen.PrivateKey = issue(authority, "thief").PrivateKey
	list := []Refused{
		{Name: "plain", Why: "does not use "},
		{Name: "without a certificate", Why: "didn't provide a certificate", config: with(tls.Certificate{})},
		{Name: "of another authority", Why: "unknown authority", Certificate: "CN=stranger", config: with(issue(certs.New(t, "authority"), "stranger"))},
		{Name: "signed by itself", Why: "unknown authority", Certificate: "CN=self", config: with(certs.New(t, "self", change...).TLS)},
		{Name: "expired", Why: "has expired", Certificate: "CN=expired", config: with(issue(authority, "expired", func(c *x509.Certificate) {
			c.NotBefore, c.NotAfter = time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour)
		}))},
		{Name: "not yet valid", Why: "not yet valid", Certificate: "CN=early", config: with(issue(authority, "early", func(c *x509.Certificate) {
			c.NotBefore, c.NotAfter = time.Now().Add(time.Hour), time.Now().Add(2*time.Hour)
		}))},
		{Name: "for another purpose", Why: "incompatible key usage", Certificate: "CN=mail", config: with(issue(authority, "mail", func(c *x509.Certificate) {
			c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageEmailProtection}
		}))},
		{Name: "without the key", Why: "invalid signature by the client certificate", config: with(stolen)},
		{Name: "TLS 1.0", Why: "unsupported versions", config: versions(with(valid), tls.VersionTLS10)},
		{Name: "TLS 1.1", Why: "unsupported versions", config: versions(with(valid), tls.VersionTLS11)},
		{Name: "a length that is too long", Why: "oversized record", config: with(valid), rewrite: func(hello []byte) []byte {
			return append(hello[:3], 0xFF, 0xFF)
		}},
		{Name: "no handshake in a record", Why: "unexpected handshake message", config: with(valid), rewrite: func(hello []byte) []byte {
			clear(hello[5:])
			return hello
		}},
	}
	older := versions(with(valid), tls.VersionTLS12)
	if !old {
		return append(list, Refused{Name: "TLS 1.2", Why: "unsupported versions", config: older})
	}
	return append(list,
		Refused{Name: "weak cipher suites", Why: "no cipher suite supported", config: older, rewrite: func(hello []byte) []byte {
			// RC4, 3DES, NULL, EXPORT and anonymous ones.
			return suites(hello, 0x0005, 0x000A, 0x0002, 0x0003, 0x0034, 0xC011, 0xC012)
		}},
		Refused{Name: "a fallback that nobody has forced", Why: "inappropriate protocol fallback", config: older, rewrite: func(hello []byte) []byte {
			const fallback = 0x5600 // TLS_FALLBACK_SCSV
			return suites(hello, tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, fallback)
		}})
}

// Wrong returns a handshake with a certificate by authority that is wrong because of change. Its
// subject is CN=name.
func Wrong(t testing.TB, authority certs.Identity, name, why string, change func(*x509.Certificate)) Refused {
	t.Helper()
	return Refused{Name: name, Why: why, Certificate: "CN=" + name, config: with(authority.Issue(t, name, change).TLS)}
}

// with is the configuration of a client with a certificate, or without if it has no content.
func with(own tls.Certificate) *tls.Config {
	return &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12, GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		return &own, nil
	}}
}

// versions has a client offer no later version than the highest.
func versions(c *tls.Config, highest uint16) *tls.Config {
	c.MinVersion, c.MaxVersion = tls.VersionTLS10, highest
	return c
}

// suites puts cipher suites into a record with a ClientHello, in the place of those that are there.
func suites(hello []byte, ids ...uint16) []byte {
	const session = 5 + 4 + 2 + 32 // record, message, version, random
	at := session + 1 + int(hello[session])
	n := int(binary.BigEndian.Uint16(hello[at:])) / 2
	for i := range n {
		binary.BigEndian.PutUint16(hello[at+2+2*i:], ids[min(i, len(ids)-1)])
	}
	return hello
}

// Try makes the handshake on nc, writes a request, and returns what is answered to that until
// nc ends: nothing, if the handshake was refused. The deadline is that of nc.
func (r *Refused) Try(nc net.Conn, request []byte) []byte {
	if r.config != nil {
		nc = tls.Client(&first{Conn: nc, rewrite: r.rewrite}, r.config)
	}
	_, _ = nc.Write(request) // it may be refused before
	answer, _ := io.ReadAll(nc)
	return answer
}

// first is a connection whose first written bytes are rewritten.
type first struct {
	net.Conn
	rewrite func([]byte) []byte // nil: no more
}

// Write implements net.Conn.
func (f *first) Write(b []byte) (int, error) {
	n := len(b)
	if f.rewrite != nil {
		b, f.rewrite = f.rewrite(append([]byte(nil), b...)), nil
	}
	if _, err := f.Conn.Write(b); err != nil {
		return 0, err
	}
	return n, nil
}

// Hello returns the first record of a handshake.
func Hello() []byte {
	var hello []byte
	here, there := net.Pipe()
	_ = there.Close()
	seen := &first{Conn: here, rewrite: func(b []byte) []byte { hello = b; return nil }}
	_ = tls.Client(seen, &tls.Config{InsecureSkipVerify: true}).Handshake() // nobody answers
	return hello
}
