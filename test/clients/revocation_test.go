package clients

import (
	"crypto"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ocsp"

	"github.com/pinfold-zk/pinfold/test/certs"
)

// issuer is an authority with a web server: /crl is its list, /late one that has run out, /ocsp
// its responder, /unsure a responder that knows no certificate. Nothing else is there.
type issuer struct {
	certs.Identity
	url string

	mu      sync.Mutex
	revoked map[string]bool // serial numbers
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{revoked: map[string]bool{}, Identity: certs.New(t, "authority", func(c *x509.Certificate) {
		c.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature
	})}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		answer, err := i.answer(q)
		if err != nil {
			http.Error(w, err.Error(), http.StatusNotFound)
			return
		}
		_, _ = w.Write(answer) // the server may have gone
	}))
	t.Cleanup(web.Close)
	i.url = web.URL
	return i
}

func (i *issuer) answer(q *http.Request) ([]byte, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	now, key := time.Now(), i.TLS.PrivateKey.(crypto.Signer)
	page, question, _ := strings.Cut(q.URL.Path[1:], "/") // Java puts a short question into the path
	switch page {
	case "crl", "late":
		list := &x509.RevocationList{Number: big.NewInt(1), ThisUpdate: now.Add(-2 * time.Hour), NextUpdate: now.Add(time.Hour)}
		if page == "late" {
			list.NextUpdate = now.Add(-time.Hour)
		}
		for serial := range i.revoked {
			list.RevokedCertificateEntries = append(list.RevokedCertificateEntries,
				x509.RevocationListEntry{SerialNumber: new(big.Int).SetBytes([]byte(serial)), RevocationTime: now.Add(-time.Minute)})
		}
		return x509.CreateRevocationList(rand.Reader, list, i.TLS.Leaf, key)
	case "ocsp", "unsure":
		body, err := base64.StdEncoding.DecodeString(question)
		if q.Method == http.MethodPost {
			body, err = io.ReadAll(q.Body)
		}
		if err != nil {
			return nil, err
		}
		asked, err := ocsp.ParseRequest(body)
		if err != nil {
			return nil, err
		}
		a := ocsp.Response{Status: ocsp.Good, SerialNumber: asked.SerialNumber, ThisUpdate: now.Add(-time.Minute), NextUpdate: now.Add(time.Hour)}
		switch {
		case page == "unsure":
			a.Status = ocsp.Unknown
		case i.revoked[string(asked.SerialNumber.Bytes())]:
			a.Status, a.RevokedAt = ocsp.Revoked, now.Add(-time.Minute)
		}
		return ocsp.CreateResponse(i.TLS.Leaf, i.TLS.Leaf, a, key)
	}
	return nil, fmt.Errorf("there is no %s", q.URL.Path)
}

// client issues a certificate that names a list and a responder, "" for none.
func (i *issuer) client(t *testing.T, list, responder string, revoked bool) tls.Certificate {
	t.Helper()
	c := i.Issue(t, "client", func(c *x509.Certificate) {
		if list != "" {
			c.CRLDistributionPoints = []string{i.url + list}
		}
		if responder != "" {
			c.OCSPServer = []string{i.url + responder}
		}
	})
	if revoked {
		i.revoked[string(c.TLS.Leaf.SerialNumber.Bytes())] = true
	}
	return c.TLS
}

// TestRevocation has clients with revoked certificates and with others connect to Apache 3.8.0
// and 3.9.3 and to Pinfold with the same settings: the same are let in. Apache 3.9.3 lets nobody in
// with ssl.ocsp: its TLS has no OCSP, it says.
func TestRevocation(t *testing.T) {
	i := newIssuer(t)
	cases := []struct {
		name string
		cert tls.Certificate
	}{}
	for _, of := range []struct{ list, responder string }{
		{"", ""}, {"/crl", ""}, {"/late", ""}, {"/none", ""}, {"", "/ocsp"}, {"/crl", "/ocsp"}, {"/crl", "/none"}, {"/crl", "/unsure"}, {"/none", "/ocsp"}, {"/late", "/none"},
	} {
		for _, revoked := range []bool{false, true} {
			name := fmt.Sprintf("CRL %q, OCSP %q, revoked %v", of.list, of.responder, revoked)
			cases = append(cases, struct {
				name string
				cert tls.Certificate
			}{name, i.client(t, of.list, of.responder, revoked)})
		}
	}
	server, trust := i.Issue(t, "server").Store(t), i.Trust(t)
	for _, settings := range []string{"ssl.crl=true", "ssl.ocsp=true", "ssl.crl=true ssl.ocsp=true"} {
		t.Run(settings, func(t *testing.T) {
			kinds := []string{"apache", "apache-3.9", "pinfold"}
			if *pinfold == "" {
				t.Skip("-pinfold names the binary")
			}
			let := map[string][]bool{}
			for _, kind := range kinds {
				addr := secured(t, kind, append(strings.Fields(settings), "ssl.keyStore.location="+server, "ssl.trustStore.location="+trust)...)
				for _, c := range cases {
					let[kind] = append(let[kind], letIn(t, addr, c.cert))
				}
			}
			for n, c := range cases {
				t.Logf("%-60s %v %v %v", c.name, let[kinds[0]][n], let[kinds[1]][n], let[kinds[2]][n])
				ours, later := let["pinfold"][n], let["apache-3.9"][n]
				if ours != let["apache"][n] {
					t.Errorf("%s: Apache 3.8.0 lets it in: %v, Pinfold: %v", c.name, let["apache"][n], ours)
				}
				// "OCSP is not supported with this SslProvider: JDK"
				if broken := strings.Contains(settings, "ocsp"); later && broken || later != ours && !broken {
					t.Errorf("%s: Apache 3.9.3 lets it in: %v, Pinfold: %v", c.name, later, ours)
				}
			}
		})
	}
}

// letIn reports whether a server answers a client with a certificate.
func letIn(t *testing.T, addr string, cert tls.Certificate) bool {
	t.Helper()
	return version(t, addr, &tls.Config{Certificates: []tls.Certificate{cert}}) != 0
}
