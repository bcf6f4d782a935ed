package cli

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"

	"github.com/pinfold-zk/pinfold/internal/config"
	"github.com/pinfold-zk/pinfold/internal/keystore"
	"github.com/pinfold-zk/pinfold/internal/tlsport"
)

// tlsOptions say how connections are encrypted.
type tlsOptions struct {
	on        bool
	ca        string // file with the certificates of trusted authorities; "" for the system's
	cert, key string // files of the client's own certificate; "" for none
	anyHost   bool   // accept a trusted certificate for any host name

	// The stores of a file of properties: trust is used without ca, own without cert and key.
	trust, own keystore.Store

	// java has the protocol versions, the cipher suites and whether certificates may be revoked, of
	// Java properties.
	java config.TLS
}

// config is what the options mean; nil for no TLS. Naming a file turns TLS on.
// Its errors are usage errors.
func (o tlsOptions) config() (*tls.Config, error) {
	if !o.on && o.ca == "" && o.cert == "" && o.key == "" {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.ca != "" {
		text, err := os.ReadFile(o.ca)
		if err != nil {
			return nil, usageError{"--tls-ca: " + err.Error()}
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, usageError{fmt.Sprintf("--tls-ca: %s has no certificate in PEM", o.ca)}
		}
	}
	if o.ca == "" && o.trust.File != "" {
		list, err := trustedIn(o.trust)
		if err != nil {
			return nil, usageError{"--client-configuration: " + err.Error()}
		}
		c.RootCAs = list
	}
	tlsport.ForClient(o.java, c, o.anyHost)
	if o.cert != "" || o.key != "" {
		own, err := tls.LoadX509KeyPair(o.cert, o.key)
		if err != nil {
			return nil, usageError{"--tls-cert and --tls-key: " + err.Error()}
		}
		c.Certificates = []tls.Certificate{own}
	} else if o.own.File != "" {
		keys, err := keysIn(o.own)
		if err != nil {
			return nil, usageError{"--client-configuration: " + err.Error()}
		}
		c.Certificates = keys
	}
	return c, nil
}

// trustedIn returns the certificates in a trust store.
func trustedIn(s keystore.Store) (*x509.CertPool, error) {
	files, err := s.Read()
	if err != nil {
		return nil, err
	}
	list, err := files.Trusted()
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	for _, c := range list {
		pool.AddCert(c)
	}
	return pool, nil
}

// keysIn returns the keys in a key store, with their certificates.
func keysIn(s keystore.Store) ([]tls.Certificate, error) {
	files, err := s.Read()
	if err != nil {
		return nil, err
	}
	return files.Keys()
}
