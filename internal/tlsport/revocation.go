package tlsport

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"golang.org/x/crypto/ocsp"
)

// Limits of what is asked about certificates.
const (
	fetchTimeout   = 5 * time.Second // of one question
	maxAnswerBytes = 64 << 10        // of an OCSP responder
	maxListBytes   = 16 << 20        // of a list of revoked certificates
	maxServers     = 3               // of each kind that are asked about a certificate
	maxCached      = 1000            // answers and lists
	maxCachedBytes = 64 << 20        // of lists
	refreshAfter   = time.Hour       // an answer is asked for again; the old one counts until its nextUpdate
	retryRefresh   = 10 * time.Minute
	retryFailed    = 10 * time.Second
	clockSkew      = 15 * time.Minute // as in Java
)

// revocation finds out whether certificates are revoked, as Java does: by OCSP if ocsp is
// set, and by the lists at the certificate's distribution points if OCSP gives no answer or
// is not set. If neither tells, the certificate is refused. Answers are kept until their
// nextUpdate; one question at a time is asked of each server.
type revocation struct {
	ocsp  bool
	fetch func(ctx context.Context, url string, request []byte, limit int64) ([]byte, error)
	now   func() time.Time

	mu struct {
		sync.Mutex
		cached map[string]*answer // by URL, and for OCSP the question
		bytes  int
	}
}

// answer is what a server has said, and when to ask again.
type answer struct {
	sync.Mutex // held while the server is asked
	key        string
	bytes      int       // of a list; guarded by revocation.mu
	asked      time.Time // the last time, with or without success
	err        error     // of the last time
	until      time.Time // how long the rest counts; zero: there is none
	status     int       // of OCSP
	list       *x509.RevocationList
	revoked    map[string]bool // serial numbers in list
}

func newRevocation(useOCSP bool) *revocation {
	r := &revocation{ocsp: useOCSP, fetch: fetchURL, now: time.Now}
	r.mu.cached = map[string]*answer{}
	return r
}

// ErrRevoked is in the error about a certificate that is revoked.
var ErrRevoked = errors.New("the certificate is revoked")

// errUndetermined is in the error about a certificate of which that cannot be found out.
var errUndetermined = errors.New("whether the certificate is revoked cannot be found out")

// check returns nil if all certificates of one of the chains are valid. The last one of a
// chain, which is trusted, is not checked.
func (r *revocation) check(chains [][]*x509.Certificate) (err error) {
	if r == nil {
		return nil
	}
	err = fmt.Errorf("%w: there is no chain", errUndetermined)
	for _, chain := range chains {
		if err = r.checkChain(chain); err == nil {
			return nil
		}
	}
	return err
}

func (r *revocation) checkChain(chain []*x509.Certificate) error {
	for i := len(chain) - 2; i >= 0; i-- { // a revoked authority cannot speak for what it has signed
		if err := r.checkOne(chain[i], chain[i+1]); err != nil {
			return fmt.Errorf("%s: %w", Describe(chain[i]), err)
		}
	}
	return nil
}

func (r *revocation) checkOne(cert, issuer *x509.Certificate) error {
	var errs []error
	if r.ocsp {
		status, err := r.askResponders(cert, issuer)
		switch {
		case err != nil:
			errs = append(errs, err)
		case status == ocsp.Good:
			return nil
		case status == ocsp.Revoked:
			return ErrRevoked
		default:
			errs = append(errs, errors.New("OCSP: the responder does not know it"))
		}
	}
	revoked, err := r.askLists(cert, issuer)
	switch {
	case err == nil && revoked:
		return ErrRevoked
	case err == nil:
		return nil
	}
	return fmt.Errorf("%w: %w", errUndetermined, errors.Join(append(errs, err)...))
}

// askResponders asks the certificate's OCSP responders until one answers.
func (r *revocation) askResponders(cert, issuer *x509.Certificate) (status int, err error) {
	question, err := ocsp.CreateRequest(cert, issuer, nil)
	if err != nil {
		return 0, fmt.Errorf("OCSP: %w", err)
	}
	err = errors.New("OCSP: it names no responder")
	for _, url := range cert.OCSPServer[:min(maxServers, len(cert.OCSPServer))] {
		a := r.cache("ocsp " + url + " " + string(question))
		a.Lock()
		if r.due(a) {
			a.asked, a.err = r.now(), r.askResponder(a, url, question, cert, issuer)
		}
		status, err = a.status, r.failure(a)
		a.Unlock()
		if err == nil {
			return status, nil
		}
		err = fmt.Errorf("OCSP: %w", err)
	}
	return 0, err
}

func (r *revocation) askResponder(a *answer, url string, question []byte, cert, issuer *x509.Certificate) error {
	b, err := r.get(url, question, maxAnswerBytes)
	if err != nil {
		return err
	}
	got, err := ocsp.ParseResponseForCert(b, cert, issuer)
	if err != nil {
		return err
	}
	until := got.NextUpdate
	if until.IsZero() {
		until = got.ThisUpdate
	}
	if err := r.inTime(got.ThisUpdate, until); err != nil {
		return err
	}
	if c := got.Certificate; c != nil && !bytes.Equal(c.Raw, issuer.Raw) {
		if now := r.now(); now.Before(c.NotBefore) || now.After(c.NotAfter) {
			return errors.New("the responder's certificate is not valid at this time")
		}
		if !slices.Contains(c.ExtKeyUsage, x509.ExtKeyUsageOCSPSigning) {
			return errors.New("the responder's certificate is not for OCSP")
		}
	}
	a.status, a.until = got.Status, until
	return nil
}

// askLists looks the certificate up in the first list of its distribution points that can be
// used.
func (r *revocation) askLists(cert, issuer *x509.Certificate) (revoked bool, err error) {
	err = errors.New("CRL: it names no distribution point")
	points := cert.CRLDistributionPoints
	for _, url := range points[:min(maxServers, len(points))] {
		a := r.cache("crl " + url)
		a.Lock()
		if r.due(a) {
			a.asked, a.err = r.now(), r.askList(a, url)
		}
		err = r.failure(a)
		if err == nil {
			err = usable(a.list, cert, issuer)
		}
		revoked = a.revoked[string(cert.SerialNumber.Bytes())]
		a.Unlock()
		if err == nil {
			return revoked, nil
		}
		err = fmt.Errorf("CRL: %w", err)
	}
	return false, err
}

func (r *revocation) askList(a *answer, url string) error {
	b, err := r.get(url, nil, maxListBytes)
	if err != nil {
		return err
	}
	list, err := x509.ParseRevocationList(b)
	if err != nil {
		return err
	}
	if list.NextUpdate.IsZero() {
		return errors.New("the list has no nextUpdate")
	}
	if err := r.inTime(list.ThisUpdate, list.NextUpdate); err != nil {
		return err
	}
	revoked := make(map[string]bool, len(list.RevokedCertificateEntries))
	for i := range list.RevokedCertificateEntries {
		revoked[string(list.RevokedCertificateEntries[i].SerialNumber.Bytes())] = true
	}
	list.RevokedCertificateEntries = nil
	a.list, a.revoked, a.until = list, revoked, list.NextUpdate
	r.weigh(a, 2*len(b))
	return nil
}

// The extensions of a list that may be critical.
var (
	oidAuthorityKey      = asn1.ObjectIdentifier{2, 5, 29, 35}
	oidNumber            = asn1.ObjectIdentifier{2, 5, 29, 20}
	oidDistributionPoint = asn1.ObjectIdentifier{2, 5, 29, 28}
)

// scope is the extension issuingDistributionPoint: which certificates a list is about.
type scope struct {
	Point      asn1.RawValue  `asn1:"optional,tag:0"`
	Users      bool           `asn1:"optional,tag:1"`
	CAs        bool           `asn1:"optional,tag:2"`
	Reasons    asn1.BitString `asn1:"optional,tag:3"`
	Indirect   bool           `asn1:"optional,tag:4"`
	Attributes bool           `asn1:"optional,tag:5"`
}

// usable returns nil if the list is the issuer's, and tells about the certificate.
func usable(list *x509.RevocationList, cert, issuer *x509.Certificate) error {
	if !bytes.Equal(list.RawIssuer, cert.RawIssuer) {
		return errors.New("the list is not of the certificate's issuer")
	}
	if err := list.CheckSignatureFrom(issuer); err != nil {
		return err
	}
	for _, e := range list.Extensions {
		switch {
		case e.Id.Equal(oidDistributionPoint):
			var s scope
			if rest, err := asn1.Unmarshal(e.Value, &s); err != nil || len(rest) > 0 {
				return errors.New("the list's scope cannot be read")
			}
			if s.Indirect || s.Attributes || s.Reasons.BitLength > 0 || s.Users && cert.IsCA || s.CAs && !cert.IsCA {
				return errors.New("the list is not about such certificates")
			}
		case e.Critical && !e.Id.Equal(oidAuthorityKey) && !e.Id.Equal(oidNumber):
			return fmt.Errorf("the list has the critical extension %v, which is not known", e.Id)
		}
	}
	return nil
}

// inTime returns nil if an answer counts now.
func (r *revocation) inTime(from, until time.Time) error {
	switch now := r.now(); {
	case now.Before(from.Add(-clockSkew)):
		return fmt.Errorf("the answer is only valid from %v", from)
	case now.After(until.Add(clockSkew)):
		return fmt.Errorf("the answer was only valid until %v", until)
	}
	return nil
}

// due reports whether the server must be asked. REQUIRES: a is locked.
func (r *revocation) due(a *answer) bool {
	age := r.now().Sub(a.asked)
	switch counts := r.now().Before(a.until); {
	case a.asked.IsZero():
		return true
	case counts && a.err == nil:
		return age >= refreshAfter
	case counts:
		return age >= retryRefresh
	}
	return age >= retryFailed
}

// failure returns why an answer does not count. A failure does not matter while an earlier
// answer counts. REQUIRES: a is locked.
func (r *revocation) failure(a *answer) error {
	switch {
	case a.until.IsZero():
		return a.err
	case r.now().After(a.until.Add(clockSkew)):
		return errors.Join(errors.New("the last answer counts no longer"), a.err)
	}
	return nil
}

// cache returns the answer for a key, an empty one if there is none.
func (r *revocation) cache(key string) *answer {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.mu.cached[key]
	if a == nil {
		r.evict(maxCached-1, maxCachedBytes)
		a = &answer{key: key}
		r.mu.cached[key] = a
	}
	return a
}

// weigh notes how many bytes a list takes.
func (r *revocation) weigh(a *answer, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.cached[a.key] != a {
		return // it was forgotten meanwhile
	}
	r.mu.bytes += n - a.bytes
	a.bytes = n
	r.evict(maxCached, maxCachedBytes)
}

// evict forgets answers, any of them, beyond a number or size. REQUIRES: r.mu.
func (r *revocation) evict(number, size int) {
	for key, a := range r.mu.cached {
		if len(r.mu.cached) <= number && r.mu.bytes <= size {
			return
		}
		r.mu.bytes -= a.bytes
		a.bytes = 0
		delete(r.mu.cached, key)
	}
}

func (r *revocation) get(url string, request []byte, limit int64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), fetchTimeout)
	defer cancel()
	return r.fetch(ctx, url, request, limit)
}

// client asks servers. It keeps no connection.
var client = http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10}}

// fetchURL gets a URL, or posts an OCSP request to it.
func fetchURL(ctx context.Context, url string, request []byte, limit int64) ([]byte, error) {
	method := http.MethodGet
	if request != nil {
		method = http.MethodPost
	}
	q, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(request))
	if err != nil {
		return nil, err
	}
	if request != nil {
		q.Header.Set("Content-Type", "application/ocsp-request")
	}
	a, err := client.Do(q)
	if err != nil {
		return nil, err
	}
	defer a.Body.Close() // only read
	if a.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s", url, a.Status)
	}
	b, err := io.ReadAll(io.LimitReader(a.Body, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("%s answers with more than %d bytes", url, limit)
	}
	return b, err
}
