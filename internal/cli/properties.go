package cli

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pinfold-zk/pinfold/internal/config"
	"github.com/pinfold-zk/pinfold/internal/keystore"
)

// readProperties reads a file of zkCli.sh's -client-configuration.
func readProperties(file string) (map[string]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, usageError{"--client-configuration: " + err.Error()}
	}
	settings, err := config.Properties(text)
	if err != nil {
		return nil, usageError{fmt.Sprintf("--client-configuration: %s: %v", file, err)}
	}
	return settings, nil
}

// readProperties takes what a file of zkCli.sh's -client-configuration says of TLS
// into the options, except where those say something themselves. What else such a
// file has is for Java, and passed over. Its errors are usage errors: of a setting of
// TLS that is not known here, as a connection without it may be less safe than one
// with it.
func (o *tlsOptions) readProperties(file string) error {
	settings, err := readProperties(file)
	if err != nil {
		return err
	}
	if settings["zookeeper.client.secure"] != "true" {
		return nil
	}
	o.on = true
	for name, value := range settings {
		setting, isTLS := strings.CutPrefix(name, "zookeeper.ssl.")
		if !isTLS || value == "" {
			continue
		}
		if err := o.takeProperty(setting, value); err != nil {
			return usageError{fmt.Sprintf("--client-configuration: %s, %s: %v", file, name, err)}
		}
	}
	for name, store := range map[string]*keystore.Store{"trustStore": &o.trust, "keyStore": &o.own} {
		if err := checkStore(store); err != nil {
			return usageError{fmt.Sprintf("--client-configuration: %s, zookeeper.ssl.%s: %v", file, name, err)}
		}
	}
	return nil
}

func (o *tlsOptions) takeProperty(name, value string) error {
	for prefix, store := range map[string]*keystore.Store{"trustStore.": &o.trust, "keyStore.": &o.own} {
		switch rest, ok := strings.CutPrefix(name, prefix); {
		case !ok:
			continue
		case rest == "location":
			store.File = value
		case rest == "type":
			store.Type = value
		case rest == "password":
			store.Password = value
		case rest == "passwordPath":
			store.PasswordFile = value
		default:
			return errors.New("is not supported")
		}
		return nil
	}
	if name != "hostnameVerification" {
		return errors.New("is not supported")
	}
	o.anyHost = value == "false"
	return nil
}

// checkStore reports whether the format of a store is known. A file whose suffix says nothing
// is in PEM.
func checkStore(s *keystore.Store) error {
	if s.Type == "" && !slices.Contains([]string{".jks", ".p12", ".pfx", ".bcfks"}, strings.ToLower(filepath.Ext(s.File))) {
		s.Type = "PEM"
	}
	_, err := s.Format()
	return err
}

// verifyChain is what remains of a server's certificate's check when the host's name
// is not looked at.
func verifyChain(roots *x509.CertPool) func(tls.ConnectionState) error {
	return func(s tls.ConnectionState) error {
		if len(s.PeerCertificates) == 0 {
			return errors.New("the server has no certificate")
		}
		between := x509.NewCertPool()
		for _, c := range s.PeerCertificates[1:] {
			between.AddCert(c)
		}
		_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between})
		return err
	}
}
