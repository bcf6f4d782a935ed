package cli

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// readProperties takes what a file of zkCli.sh's -client-configuration says of TLS
// into the options, except where those say something themselves. What else such a
// file has is for Java, and passed over. Its errors are usage errors: of a setting of
// TLS that is not known here, as a connection without it may be less safe than one
// with it.
func (o *tlsOptions) readProperties(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return usageError{"--client-configuration: " + err.Error()}
	}
	settings := parseProperties(string(text))
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

// parseProperties reads lines name=value as java.util.Properties does, without
// escapes in Unicode: of the white space around both, "=", ":" or white space
// between them, comments, and lines that a backslash continues.
func parseProperties(text string) map[string]string {
	settings := map[string]string{}
	line := ""
	for part := range strings.Lines(text) {
		part = strings.TrimSpace(part)
		if line == "" && (part == "" || part[0] == '#' || part[0] == '!') {
			continue
		}
		if before, ok := strings.CutSuffix(part, `\`); ok {
			line += before
			continue
		}
		line += part
		end := strings.IndexAny(line, "=: \t")
		if end < 0 {
			end = len(line)
		}
		value := strings.TrimSpace(line[end:])
		value = strings.TrimSpace(strings.TrimPrefix(strings.TrimPrefix(value, "="), ":"))
		settings[line[:end]] = strings.NewReplacer(`\\`, `\`, `\:`, ":", `\=`, "=", `\ `, " ").Replace(value)
		line = ""
	}
	return settings
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
