package cli

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pinfold-zk/pinfold/internal/config"
	"github.com/pinfold-zk/pinfold/internal/keystore"
)

// property is a Java property, and the place that has set it.
type property struct{ value, where string }

// javaProperties returns the properties that zkCli.sh would have: those of flags, which are -Dname=value
// as in CLIENT_JVMFLAGS, and those of a file of -client-configuration, which override them. Its errors
// are usage errors.
func javaProperties(flags, file string) (map[string]property, error) {
	all := map[string]property{}
	for name, value := range config.FlagProperties(flags) {
		all[name] = property{value, "CLIENT_JVMFLAGS"}
	}
	if file == "" {
		return all, nil
	}
	where := "--client-configuration: " + file
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, usageError{"--client-configuration: " + err.Error()}
	}
	settings, err := config.Properties(text)
	if err != nil {
		return nil, usageError{fmt.Sprintf("%s: %v", where, err)}
	}
	for name, value := range settings {
		all[name] = property{value, where}
	}
	return all, nil
}

// use takes what the properties say of TLS into the options, except where those say something
// themselves. Properties that are about other things, or about servers, are ignored. Its errors are usage errors: of a
// setting of TLS that is not known here, as a connection without it may be less safe than one
// with it.
func (o *tlsOptions) use(properties map[string]property) error {
	if !isTrue(properties["zookeeper.client.secure"].value) {
		return nil
	}
	o.on = true
	for name, p := range properties {
		setting, isTLS := strings.CutPrefix(name, "zookeeper.ssl.")
		if !isTLS || p.value == "" || strings.HasPrefix(setting, "quorum.") {
			continue
		}
		if err := o.takeProperty(setting, p.value); err != nil {
			return usageError{fmt.Sprintf("%s, %s: %v", p.where, name, err)}
		}
	}
	for name, store := range map[string]*keystore.Store{"trustStore": &o.trust, "keyStore": &o.own} {
		if err := checkStore(store); err != nil {
			name = "zookeeper.ssl." + name
			return usageError{fmt.Sprintf("%s, %s: %v", cmp.Or(properties[name+".type"], properties[name+".location"]).where, name, err)}
		}
	}
	if lowest, highest := o.java.Versions(); lowest > highest {
		const name = "zookeeper.ssl.ciphersuites"
		return usageError{fmt.Sprintf("%s, %s: has no cipher suite for the protocol versions that are enabled", properties[name].where, name)}
	}
	return nil
}

// isTrue reports whether a property is true, as Java reads it.
func isTrue(value string) bool { return strings.EqualFold(value, "true") }

func (o *tlsOptions) takeProperty(name, value string) error {
	for prefix, store := range map[string]*keystore.Store{"trustStore.": &o.trust, "keyStore.": &o.own} {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			return takeStore(store, rest, value)
		}
	}
	switch name {
	case "hostnameVerification":
		o.anyHost = value == "false"
	case "protocol":
		o.java.Protocol = value
		return config.CheckProtocols(value)
	case "enabledProtocols":
		o.java.Protocols = strings.FieldsFunc(value, isComma)
		return config.CheckProtocols(o.java.Protocols...)
	case "ciphersuites":
		o.java.Suites = strings.FieldsFunc(value, isComma)
	case "crl":
		o.java.CRL = isTrue(value)
	case "ocsp":
		o.java.OCSP = isTrue(value)
	case "clientAuth", "clientHostnameVerification", "authProvider", "handshakeDetectionTimeoutMillis":
		// These are about servers.
	case "sslProvider", "allowReverseDnsLookup":
		// There is one implementation, and the name that the client connects to counts alone.
	default:
		return errors.New("is not supported")
	}
	return nil
}

// isComma separates the words of a list.
func isComma(r rune) bool { return r == ',' || r == ' ' || r == '\t' }

// takeStore takes a property of a store.
func takeStore(s *keystore.Store, name, value string) error {
	switch name {
	case "location":
		s.File = value
	case "type":
		s.Type = value
	case "password":
		s.Password = value
	case "passwordPath":
		s.PasswordFile = value
	default:
		return errors.New("is not supported")
	}
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
