package tlsport

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
)

// Check decides about the certificate of the other side, which is valid and of a trusted
// authority. It is nil if the other side has none and needs none.
type Check func(leaf *x509.Certificate) error

// Accept returns a configuration for a connection that another server has made, with the
// certificates that are current. Nothing is resumed: each handshake proves the identity
// of the other side.
func (p *Port) Accept(check Check) *tls.Config {
	p.reread()
	c := p.current.Load().Clone()
	c.SessionTicketsDisabled, c.DynamicRecordSizingDisabled = true, true
	c.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		p.suites.steer(hello)
		return nil, nil // c
	}
	c.VerifyConnection = func(s tls.ConnectionState) error {
		if err := p.suites.check(s); err != nil {
			return err
		}
		if leafOf(s) != nil {
			if err := p.revoked.check(s.VerifiedChains); err != nil {
				return err
			}
		}
		return check(leafOf(s))
	}
	return c
}

// Dial returns a configuration for a connection to another server, with the certificates
// that are current. check alone decides which host the certificate must name.
func (p *Port) Dial(check Check) *tls.Config {
	p.reread()
	own := p.current.Load()
	return &tls.Config{
		MinVersion: own.MinVersion, MaxVersion: own.MaxVersion, CipherSuites: own.CipherSuites,
		DynamicRecordSizingDisabled: true,
		InsecureSkipVerify:          true, // VerifyConnection does it, without a name
		VerifyConnection: func(s tls.ConnectionState) error {
			if err := p.suites.check(s); err != nil {
				return err
			}
			chains, err := verifyChain(s.PeerCertificates, own.ClientCAs, x509.ExtKeyUsageServerAuth)
			if err == nil {
				err = p.revoked.check(chains)
			}
			if err != nil {
				return err
			}
			return check(leafOf(s))
		},
		GetClientCertificate: func(request *tls.CertificateRequestInfo) (*tls.Certificate, error) {
			// If the other side names no authority of ours, its refusal says more
			// than a connection without a certificate.
			i := max(0, slices.IndexFunc(own.Certificates, func(c tls.Certificate) bool { return request.SupportsCertificate(&c) == nil }))
			return &own.Certificates[i], nil
		},
	}
}

func leafOf(s tls.ConnectionState) *x509.Certificate {
	if len(s.PeerCertificates) == 0 {
		return nil
	}
	return s.PeerCertificates[0]
}

// verifyChain verifies the certificates of the other side, the leaf first. Without roots
// they are those of the operating system. REQUIRES: chain is not empty.
func verifyChain(chain []*x509.Certificate, roots *x509.CertPool, usage x509.ExtKeyUsage) ([][]*x509.Certificate, error) {
	between := x509.NewCertPool()
	for _, issuer := range chain[1:] {
		between.AddCert(issuer)
	}
	return chain[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{usage}})
}

// Names reports whether a certificate names a host, which is a name or an IP address. Its
// common name counts only if it has no alternative names of these kinds.
func Names(leaf *x509.Certificate, host string) bool {
	if len(leaf.DNSNames)+len(leaf.IPAddresses) == 0 {
		return host != "" && strings.EqualFold(leaf.Subject.CommonName, strings.TrimSuffix(host, "."))
	}
	return leaf.VerifyHostname(host) == nil
}

// How much of what a certificate says an error shows.
const (
	maxNames     = 3
	maxNameBytes = 64
)

// Describe says whose certificate it is: its subject and the hosts that it names, cut.
func Describe(leaf *x509.Certificate) string {
	names := slices.Clone(leaf.DNSNames)
	for _, ip := range leaf.IPAddresses {
		names = append(names, net.IP(ip).String())
	}
	if more := len(names) - maxNames; more > 0 {
		names = append(names[:maxNames], fmt.Sprintf("%d more", more))
	}
	for i, name := range names {
		names[i] = cutName(name)
	}
	return fmt.Sprintf("the certificate %q of %q", cutName(leaf.Subject.String()), strings.Join(names, ", "))
}

// maxReason is how many bytes of a reason Explain returns.
const maxReason = 400

// Explain returns why a handshake has failed. A certificate that cannot be verified is named,
// and the text is cut: much of it comes from outside.
func Explain(err error) error {
	var bad *tls.CertificateVerificationError
	if errors.As(err, &bad) && len(bad.UnverifiedCertificates) > 0 {
		err = fmt.Errorf("%s: %w", Describe(bad.UnverifiedCertificates[0]), bad.Err)
	}
	if text := err.Error(); len(text) > maxReason {
		return errors.New(strings.ToValidUTF8(text[:maxReason], "") + "...")
	}
	return err
}

// Violates reports whether a read on an established connection has failed because the other
// side violates TLS, for example by asking for a renegotiation. The end of a connection, and
// an alert by which the other side ends it, are no violations.
func Violates(err error) bool {
	var alert *net.OpError
	if errors.As(err, &alert) {
		return alert.Op == "local error"
	}
	var record tls.RecordHeaderError
	return errors.As(err, &record) || strings.HasPrefix(err.Error(), "tls: ")
}

func cutName(name string) string {
	if len(name) <= maxNameBytes {
		return name
	}
	return strings.ToValidUTF8(name[:maxNameBytes], "") + "..."
}
