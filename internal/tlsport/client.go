package tlsport

import (
	"crypto/tls"
	"crypto/x509"

	"github.com/pinfold-zk/pinfold/internal/config"
)

// ForClient completes c, the configuration of a client that trusts c.RootCAs, by the settings of t: the protocol
// versions and cipher suites, if t has any, and whether the server's certificate may be revoked. With anyHost, a
// trusted certificate is valid for any host. REQUIRES: t.Versions returns a version.
func ForClient(t config.TLS, c *tls.Config, anyHost bool) {
	if t.Protocol != "" || len(t.Protocols)+len(t.Suites) > 0 {
		c.MinVersion, c.MaxVersion = t.Versions()
		c.CipherSuites = t.SuiteIDs()
	}
	suites := suites13(t.Suites13())
	var revoked *revocation
	if t.CRL || t.OCSP {
		revoked = newRevocation(t.OCSP)
	}
	c.InsecureSkipVerify = anyHost // VerifyConnection does the rest of it
	c.VerifyConnection = func(s tls.ConnectionState) (err error) {
		if err := suites.check(s); err != nil {
			return err
		}
		chains := s.VerifiedChains
		if anyHost {
			if chains, err = verifyChain(s.PeerCertificates, c.RootCAs, x509.ExtKeyUsageServerAuth); err != nil {
				return err
			}
		}
		return revoked.check(chains)
	}
}
