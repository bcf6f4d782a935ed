package cli

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
)

// tlsOptions say how connections are encrypted.
type tlsOptions struct {
	on        bool
	ca        string // file with the certificates of trusted authorities; "" for the system's
	cert, key string // files of the client's own certificate; "" for none
	anyHost   bool   // accept a trusted certificate for any host name
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
	if o.anyHost {
		c.InsecureSkipVerify, c.VerifyConnection = true, verifyChain(c.RootCAs)
	}
	if o.cert != "" || o.key != "" {
		own, err := tls.LoadX509KeyPair(o.cert, o.key)
		if err != nil {
			return nil, usageError{"--tls-cert and --tls-key: " + err.Error()}
		}
		c.Certificates = []tls.Certificate{own}
	}
	return c, nil
}
