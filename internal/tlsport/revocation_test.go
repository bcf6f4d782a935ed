package tlsport

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ocsp"

	"github.com/pinfold-zk/pinfold/internal/config"
	"github.com/pinfold-zk/pinfold/test/certs"
)

// authority answers for what it has issued, as a web server would.
type authority struct {
	certs.Identity
	t       testing.TB
	now     time.Time
	revoked map[string]bool // serial numbers
	asked   int

	down       bool             // nothing is answered
	silent     bool             // there is no OCSP
	unknown    bool             // OCSP does not know any certificate
	late       bool             // answers are out of date
	signer     *certs.Identity  // of OCSP answers; nil: the authority
	extensions []pkix.Extension // of the list
}

func newAuthority(t testing.TB) *authority {
	return &authority{Identity: certs.New(t, "authority", signs), t: t, now: time.Now(), revoked: map[string]bool{}}
}

// signs makes an authority of it.
func signs(c *x509.Certificate) {
	c.IsCA, c.BasicConstraintsValid, c.KeyUsage = true, true, x509.KeyUsageCertSign|x509.KeyUsageCRLSign
}

// both names a responder and a distribution point.
func both(c *x509.Certificate) {
	c.OCSPServer, c.CRLDistributionPoints = []string{"http://ca/ocsp"}, []string{"http://ca/crl"}
}

func onlyList(c *x509.Certificate) { c.CRLDistributionPoints = []string{"http://ca/crl"} }

func (a *authority) fetch(_ context.Context, url string, request []byte, _ int64) ([]byte, error) {
	a.asked++
	if a.down || a.silent && request != nil {
		return nil, errors.New("connection refused")
	}
	next := a.now.Add(time.Hour)
	if a.late {
		next = a.now.Add(-time.Hour)
	}
	if request == nil {
		list := &x509.RevocationList{Number: big.NewInt(1), ThisUpdate: a.now.Add(-2 * time.Hour), NextUpdate: next, ExtraExtensions: a.extensions}
		for serial := range a.revoked {
			list.RevokedCertificateEntries = append(list.RevokedCertificateEntries,
				x509.RevocationListEntry{SerialNumber: new(big.Int).SetBytes([]byte(serial)), RevocationTime: a.now})
		}
		return x509.CreateRevocationList(rand.Reader, list, a.TLS.Leaf, a.TLS.PrivateKey.(crypto.Signer))
	}
	q, err := ocsp.ParseRequest(request)
	if err != nil {
		a.t.Error(err)
	}
	status := ocsp.Good
	if a.revoked[string(q.SerialNumber.Bytes())] {
		status = ocsp.Revoked
	} else if a.unknown {
		status = ocsp.Unknown
	}
	answer := ocsp.Response{Status: status, SerialNumber: q.SerialNumber, ThisUpdate: a.now.Add(-2 * time.Hour), NextUpdate: next}
	by := &a.Identity
	if a.signer != nil {
		by, answer.Certificate = a.signer, a.signer.TLS.Leaf
	}
	return ocsp.CreateResponse(a.TLS.Leaf, by.TLS.Leaf, answer, by.TLS.PrivateKey.(crypto.Signer))
}

func (a *authority) revoke(i certs.Identity) {
	a.revoked[string(i.TLS.Leaf.SerialNumber.Bytes())] = true
}

func (a *authority) checker(useOCSP bool) *revocation {
	r := newRevocation(useOCSP)
	r.fetch, r.now = a.fetch, func() time.Time { return a.now }
	return r
}

func TestRevocation(t *testing.T) {
	scopeOf := func(b ...byte) []pkix.Extension {
		return []pkix.Extension{{Id: oidDistributionPoint, Critical: true, Value: append([]byte{0x30, byte(len(b))}, b...)}}
	}
	for _, c := range []struct {
		name    string
		ocsp    bool
		cert    func(*x509.Certificate)
		change  func(*authority)
		revoked bool
		want    string // what an error says of a certificate that is not revoked; "": it is valid
		missed  bool   // a revoked certificate has the same error
	}{
		{name: "list", cert: both},
		{name: "responder", ocsp: true, cert: both},
		{name: "responder down, list", ocsp: true, cert: both, change: func(a *authority) { a.silent = true }},
		{name: "responder does not know", ocsp: true, cert: both, change: func(a *authority) { a.unknown = true }},
		{name: "no responder, list", ocsp: true, cert: onlyList},
		{name: "all down", ocsp: true, cert: both, change: func(a *authority) { a.down = true }, want: "connection refused", missed: true},
		{name: "nobody to ask", ocsp: true, cert: func(*x509.Certificate) {}, want: "names no distribution point", missed: true},
		{name: "list is down", cert: both, change: func(a *authority) { a.down = true }, want: "connection refused", missed: true},
		{name: "list out of date", cert: both, change: func(a *authority) { a.late = true }, want: "only valid until", missed: true},
		{name: "answers out of date", ocsp: true, cert: both, change: func(a *authority) { a.late = true }, want: "only valid until", missed: true},
		{name: "list of users", cert: both, change: func(a *authority) { a.extensions = scopeOf(0x81, 1, 0xff) }},
		{name: "list of authorities", cert: both, change: func(a *authority) { a.extensions = scopeOf(0x82, 1, 0xff) }, want: "not about such certificates", missed: true},
		{name: "list with an unknown extension", cert: both, want: "which is not known", missed: true,
			change: func(a *authority) {
				a.extensions = []pkix.Extension{{Id: []int{1, 2, 3}, Critical: true, Value: []byte{5, 0}}}
			}},
		{name: "delegated responder", ocsp: true, cert: func(c *x509.Certificate) { c.OCSPServer = []string{"http://ca/ocsp"} }, change: func(a *authority) {
			signer := a.Issue(a.t, "responder", func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageOCSPSigning} })
			a.signer = &signer
		}},
		{name: "a stranger's answer", ocsp: true, cert: func(c *x509.Certificate) { c.OCSPServer = []string{"http://ca/ocsp"} }, want: "not for OCSP", missed: true,
			change: func(a *authority) { signer := a.Issue(a.t, "other"); a.signer = &signer }},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newAuthority(t)
			good, bad := a.Issue(t, "good", c.cert), a.Issue(t, "bad", c.cert)
			a.revoke(bad)
			if c.change != nil {
				c.change(a)
			}
			r := a.checker(c.ocsp)
			err := r.check([][]*x509.Certificate{{good.TLS.Leaf, a.TLS.Leaf}})
			if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, errUndetermined) || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("the good certificate: %v, want %q", err, c.want)
			}
			err = r.check([][]*x509.Certificate{{bad.TLS.Leaf, a.TLS.Leaf}})
			if err == nil || errors.Is(err, ErrRevoked) == c.missed {
				t.Errorf("the bad certificate: %v", err)
			}
		})
	}
}

// Answers are kept. A server that is down is not asked all the time, and matters only when its
// last answer has run out.
func TestRevocationIsCached(t *testing.T) {
	a := newAuthority(t)
	leaf := a.Issue(t, "leaf", onlyList)
	chains := [][]*x509.Certificate{{leaf.TLS.Leaf, a.TLS.Leaf}}
	r := a.checker(false)
	check := func(want error, asked int) {
		t.Helper()
		for range 5 {
			if err := r.check(chains); !errors.Is(err, want) {
				t.Errorf("%v, want %v", err, want)
			}
		}
		if a.asked != asked {
			t.Errorf("asked %d times, want %d", a.asked, asked)
		}
	}
	a.down = true
	check(errUndetermined, 1)
	a.down, a.now = false, a.now.Add(retryFailed)
	check(nil, 2)
	a.down, a.now = true, a.now.Add(refreshAfter)
	check(nil, 3) // the list is as old as its nextUpdate, which counts for some time more
	a.now = a.now.Add(clockSkew + retryFailed)
	check(errUndetermined, 4)
	a.down, a.now = false, a.now.Add(retryFailed)
	a.revoke(leaf)
	check(ErrRevoked, 5)
}

// A revoked authority in between makes the chain invalid, and another chain may be valid.
func TestRevokedAuthority(t *testing.T) {
	a := newAuthority(t)
	between := a.Issue(t, "between", signs, onlyList)
	leaf := between.Issue(t, "leaf")
	a.revoke(between)
	r := a.checker(false)
	revoked := []*x509.Certificate{leaf.TLS.Leaf, between.TLS.Leaf, a.TLS.Leaf}
	if err := r.check([][]*x509.Certificate{revoked}); !errors.Is(err, ErrRevoked) {
		t.Error(err)
	}
	other := a.Issue(t, "other", onlyList)
	if err := r.check([][]*x509.Certificate{revoked, {other.TLS.Leaf, a.TLS.Leaf}}); err != nil {
		t.Error(err)
	}
	if err := r.check(nil); err == nil {
		t.Error("no chain is valid")
	}
}

// What is remembered is bounded.
func TestRevocationForgets(t *testing.T) {
	r := newRevocation(true)
	for i := range 3 * maxCached {
		a := r.cache(string(rune(i)))
		r.weigh(a, maxCachedBytes/10)
	}
	if n := len(r.mu.cached); n > maxCached || r.mu.bytes > maxCachedBytes || r.mu.bytes < 0 {
		t.Errorf("%d answers, %d bytes", n, r.mu.bytes)
	}
}

// A client with a revoked certificate does not get in, nor does it resume a session that it
// had before.
func TestRevokedClient(t *testing.T) {
	a := newAuthority(t)
	server := a.Issue(t, "server")
	client := a.Issue(t, "client", func(c *x509.Certificate) {
		onlyList(c)
		c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	})
	p := open(t, server, config.TLS{ClientAuth: "need", CRL: true}, a.Identity)
	p.revoked = a.checker(false)
	shared, dial := p.Config(), clientConfig(a.Identity, client)
	dial.ClientSessionCache = tls.NewLRUClientSessionCache(1)
	for range 2 {
		if _, _, err, _ := shake(t, shared, dial); err != nil {
			t.Fatal(err)
		}
	}
	a.revoke(client)
	if state, _, err, _ := shake(t, shared, dial); err != nil || !state.DidResume {
		t.Errorf("before the list is read again: %v, resumed: %v", err, state.DidResume)
	}
	p.revoked = a.checker(false)
	if _, _, err, _ := shake(t, shared, dial); !errors.Is(err, ErrRevoked) {
		t.Error(err)
	}
}

// Two servers with revoked certificates refuse each other.
func TestRevokedPeer(t *testing.T) {
	a := newAuthority(t)
	one := a.Issue(t, "one", onlyList)
	p := open(t, one, config.TLS{ClientAuth: "need", CRL: true}, a.Identity)
	p.revoked = a.checker(false)
	pass := func(*x509.Certificate) error { return nil }
	if _, _, err, clientErr := shake(t, p.Accept(pass), p.Dial(pass)); err != nil || clientErr != nil {
		t.Errorf("%v, %v", err, clientErr)
	}
	a.revoke(one)
	p.revoked = a.checker(false)
	if _, _, _, err := shake(t, p.Accept(pass), p.Dial(pass)); !errors.Is(err, ErrRevoked) {
		t.Errorf("the server that connects: %v", err)
	}
	blind := p.Dial(pass)
	blind.VerifyConnection = nil
	if _, _, err, _ := shake(t, p.Accept(pass), blind); !errors.Is(err, ErrRevoked) {
		t.Errorf("the server that accepts: %v", err)
	}
}

// A question has the form that servers expect, and a long answer is not read.
func TestFetch(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		switch body, err := io.ReadAll(q.Body); {
		case err != nil || q.URL.Path == "/none":
			w.WriteHeader(http.StatusNotFound)
		case q.Method == http.MethodPost:
			fmt.Fprint(w, q.Header.Get("Content-Type"), " ", string(body))
		default:
			fmt.Fprint(w, "0123456789")
		}
	}))
	defer s.Close()
	for _, c := range []struct {
		path, question string
		limit          int64
		want           string
	}{
		{"/crl", "", 10, "0123456789"},
		{"/crl", "", 9, "more than 9 bytes"},
		{"/ocsp", "question", 100, "application/ocsp-request question"},
		{"/none", "", 10, "404"},
	} {
		var question []byte
		if c.question != "" {
			question = []byte(c.question)
		}
		b, err := fetchURL(t.Context(), s.URL+c.path, question, c.limit)
		if got := fmt.Sprint(string(b), err); !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.path, got, c.want)
		}
	}
	if _, err := fetchURL(t.Context(), "ldap://localhost/x", nil, 10); err == nil {
		t.Error("LDAP is known")
	}
}

// FuzzAnswers: no answer of a list's or a responder's server that the authority has not signed makes a revoked
// certificate valid.
func FuzzAnswers(f *testing.F) {
	a, stranger := newAuthority(f), newAuthority(f)
	cert := a.Issue(f, "client", both)
	a.revoke(cert)
	chain := [][]*x509.Certificate{{cert.TLS.Leaf, a.TLS.Leaf}}
	question, err := ocsp.CreateRequest(cert.TLS.Leaf, a.TLS.Leaf, nil)
	if err != nil {
		f.Fatal(err)
	}
	for _, by := range []*authority{a, stranger} {
		for _, request := range [][]byte{nil, question} {
			answer, err := by.fetch(f.Context(), "", request, 0)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(answer)
		}
	}
	f.Fuzz(func(t *testing.T, answer []byte) {
		for _, useOCSP := range []bool{false, true} {
			r := a.checker(useOCSP)
			r.fetch = func(context.Context, string, []byte, int64) ([]byte, error) { return answer, nil }
			if err := r.check(chain); err == nil {
				t.Errorf("OCSP %v: %x makes a revoked certificate valid", useOCSP, answer)
			}
		}
	})
}
