package certs

import (
	"crypto"
	"crypto/rand"
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
)

// Issuer is an authority with a web server: /crl is its list, /late one that has run out, /ocsp
// its responder, /unsure a responder that knows no certificate. Nothing else is there.
type Issuer struct {
	Identity
	url string

	mu      sync.Mutex
	revoked map[string]bool // serial numbers
}

// NewIssuer makes an authority, and starts its web server, which ends with the test.
func NewIssuer(t *testing.T) *Issuer {
	t.Helper()
	i := &Issuer{revoked: map[string]bool{}, Identity: New(t, "authority", func(c *x509.Certificate) {
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

func (i *Issuer) answer(q *http.Request) ([]byte, error) {
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

// Named issues a certificate that names a list and a responder, "" for none. change may alter it.
func (i *Issuer) Named(t *testing.T, name, list, responder string, change ...func(*x509.Certificate)) Identity {
	t.Helper()
	return i.Issue(t, name, append(change, func(c *x509.Certificate) {
		if list != "" {
			c.CRLDistributionPoints = []string{i.url + list}
		}
		if responder != "" {
			c.OCSPServer = []string{i.url + responder}
		}
	})...)
}

// Revoke revokes a certificate.
func (i *Issuer) Revoke(id Identity) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.revoked[string(id.TLS.Leaf.SerialNumber.Bytes())] = true
}
