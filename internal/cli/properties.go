package cli

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/pinfold-zk/pinfold/internal/config"
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
	return nil
}

func (o *tlsOptions) takeProperty(name, value string) error {
	switch name {
	case "trustStore.location":
		if o.ca == "" {
			o.ca = value
		}
		return checkStore(value)
	case "keyStore.location":
		if o.cert == "" && o.key == "" {
			o.cert, o.key = value, value
		}
		return checkStore(value)
	case "trustStore.type", "keyStore.type":
		if !strings.EqualFold(value, "PEM") {
			return errJavaStore
		}
	case "hostnameVerification":
		o.anyHost = value == "false"
	case "trustStore.password", "keyStore.password", "trustStore.passwordPath", "keyStore.passwordPath":
		// of files in PEM, only keys may have one, and one that has cannot be read
	default:
		return errors.New("is not supported")
	}
	return nil
}

var errJavaStore = errors.New("only PEM can be read; keytool -importkeystore -deststoretype PKCS12 and openssl pkcs12 -nodes make it of others")

// checkStore refuses what Java takes for a keystore of its own by the name.
func checkStore(file string) error {
	switch strings.ToLower(filepath.Ext(file)) {
	case ".jks", ".p12", ".pfx", ".bcfks":
		return errJavaStore
	}
	return nil
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
