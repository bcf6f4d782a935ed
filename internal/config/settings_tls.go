package config

import (
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"
)

func tlsSettings() []setting {
	return slices.Concat([]setting{
		{name: "secureClientPort", scope: inFile,
			setter: port(func(c *Config) *int { return &c.Client.SecurePort }),
			note:   "port for clients with TLS, beside `clientPort` or instead of it; 0 lets the system choose. See [security](security.md)"},
		{name: "secureClientPortAddress", scope: inFile,
			setter: filled(func(c *Config) *string { return &c.Client.SecureHost }),
			note:   "address that it listens on; every address if it is not set"},
		{name: "client.portUnification", scope: property, def: "false",
			setter: boolean(func(c *Config) *bool { return &c.Client.Unified }),
			note:   "`clientPort` accepts TLS as well: the first byte of a connection decides"},
		{name: "client.certReload", scope: property, def: "false", effect: accepted, setter: anyBoolean(),
			note: "the files are always read again when they change"},
		{name: "netty.server.outstandingHandshake.limit", scope: property, def: "-1",
			setter: count(-1<<31, func(c *Config) *int { return &c.Client.MaxHandshakes }),
			note:   "TLS handshakes in progress, beyond which a connection is closed; -1: it waits while there are 1,000"},
		{name: "netty.server.earlyDropSecureConnectionHandshakes", scope: property, def: "false",
			setter: boolean(func(c *Config) *bool { return &c.Client.EarlyDrop }),
			note:   "a server without a quorum closes connections with TLS before the handshake; otherwise after it, as it does those without TLS"},
		{name: "ssl.protocol", scope: property, def: "TLSv1.3",
			setter: oneOf(protocols, func(c *Config, s string) { c.TLS.Protocol = s }), note: "the only protocol version, unless `ssl.enabledProtocols` is set"},
		{name: "ssl.enabledProtocols", scope: property,
			setter: setter{set: func(c *Config, text string) (err error) { c.TLS.Protocols, err = protocolList(text); return err }},
			note:   "TLSv1.3, TLSv1.2, or both, separated by commas. Older versions are refused"},
		{name: "ssl.ciphersuites", scope: property,
			setter: setter{set: func(c *Config, text string) error { c.TLS.Suites = commaList(text); return nil }},
			note:   "names of cipher suites, separated by commas. A protocol version of which none is listed is off, as in Java"},
		{name: "ssl.clientAuth", scope: property, def: "need",
			setter: setter{set: func(c *Config, text string) error {
				c.TLS.ClientAuth = strings.ToLower(text)
				return checkClientAuth(text)
			}},
			note: "whether a client must have a certificate: `need`, `want` or `none`"},
		{name: "ssl.hostnameVerification", scope: property, def: "true", setter: boolean(func(c *Config) *bool { return &c.TLS.Hosts }),
			note: "`false` turns `ssl.clientHostnameVerification` off"},
		{name: "ssl.clientHostnameVerification", scope: property, def: "false", setter: boolean(func(c *Config) *bool { return &c.TLS.ClientHost }),
			note: "a client's certificate must name the address from which the client connects"},
		{name: "ssl.handshakeDetectionTimeoutMillis", scope: property, def: "5000", effect: accepted, setter: anyWhole(),
			note: "a connection that sends nothing is closed after `nio.sessionlessCnxnTimeout`"},
		{name: "ssl.sslProvider", scope: property, def: "JDK", effect: accepted, setter: anyWords(), note: "it is Go's"},
		{name: "ssl.authProvider", scope: property, def: "x509", effect: refused, harmless: "x509",
			setter: setter{set: func(_ *Config, text string) error {
				if text != "x509" {
					return errors.New("only x509 exists, as Java classes cannot be loaded")
				}
				return nil
			}},
			note: "only x509 exists, as Java classes cannot be loaded. With the name of any other provider of its own, Apache serves no client with TLS"},
		{name: "X509AuthenticationProvider.superUser", scope: property,
			setter: words(func(c *Config) *string { return &c.Auth.X509SuperUser }),
			note:   "subject of the certificate whose owner is the superuser, as `CN=admin,O=Example`"},
	}, storeSettings("ssl.", "the client port", func(c *Config) *TLS { return &c.TLS }),
		storeSettings("ssl.quorum.", "connections between servers, and of the administration server", func(c *Config) *TLS { return &c.QuorumTLS }),
		quorumTLSSettings(),
		revocationSettings("ssl.", func(c *Config) *TLS { return &c.TLS }),
		revocationSettings("ssl.quorum.", func(c *Config) *TLS { return &c.QuorumTLS }),
		without("use `ssl.crl` or `ssl.ocsp`", "bare refused boolean com.sun.net.ssl.checkRevocation=false"),
		without("Java classes cannot be loaded; use key and trust stores", "property refused words ssl.context.supplier.class ssl.quorum.context.supplier.class"),
		without("the address alone counts", "property missing boolean ssl.allowReverseDnsLookup=false"),
		without("the key is not known", "property refused words ssl.*"),
		[]setting{{name: "fips-mode", scope: property, def: "true", setter: boolean(func(c *Config) *bool { return &c.Quorum.TLS.FIPS }),
			note: "`false` turns `ssl.quorum.hostnameVerification` on. By which rules a host name is checked does not depend on it"}},
	)
}

// storeSettings are the settings of the key store and the trust store of a port.
func storeSettings(prefix, of string, at func(*Config) *TLS) (list []setting) {
	for _, store := range []struct {
		name, content string
		at            func(*Config) *Store
	}{
		{"keyStore", "private key and certificates", func(c *Config) *Store { return &at(c).KeyStore }},
		{"trustStore", "trusted certificates", func(c *Config) *Store { return &at(c).TrustStore }},
	} {
		list = append(list,
			setting{name: prefix + store.name + ".location", scope: property,
				setter: filled(func(c *Config) *string { return &store.at(c).File }),
				note:   "file with the " + store.content + " of " + of},
			setting{name: prefix + store.name + ".password", scope: property,
				setter: words(func(c *Config) *string { return &store.at(c).Password }),
				note:   "its password"},
			setting{name: prefix + store.name + ".passwordPath", scope: property,
				setter: filled(func(c *Config) *string { return &store.at(c).PasswordFile }),
				note:   "file with the password, which then counts"},
			setting{name: prefix + store.name + ".type", scope: property,
				setter: setter{set: func(c *Config, text string) error { store.at(c).Type = text; return nil }},
				note:   "PEM, JKS or PKCS12; if it is not set, the suffix decides: .pem, .jks or .p12"})
	}
	return list
}

func revocationSettings(prefix string, at func(*Config) *TLS) []setting {
	return []setting{
		{name: prefix + "crl", scope: property, def: "false", setter: boolean(func(c *Config) *bool { return &at(c).CRL }),
			note: "a certificate must not be [revoked](security.md#revocation): the lists at its distribution points decide"},
		{name: prefix + "ocsp", scope: property, def: "false", setter: boolean(func(c *Config) *bool { return &at(c).OCSP }),
			note: "the same, but its OCSP responder decides; the lists if that has no answer"},
	}
}

// protocols are the protocol versions that exist here.
var protocols = []string{"TLSv1.3", "TLSv1.2"}

func protocolList(text string) ([]string, error) {
	list := commaList(text)
	return list, CheckProtocols(list...)
}

// CheckProtocols returns an error if one of the names of protocol versions does not exist here.
func CheckProtocols(names ...string) error {
	for _, name := range names {
		if !slices.Contains(protocols, name) {
			return fmt.Errorf("%s is not one of %s", name, strings.Join(protocols, ", "))
		}
	}
	return nil
}

func checkClientAuth(text string) error {
	switch strings.ToLower(text) {
	case "none", "want", "need":
		return nil
	}
	return errors.New("not one of none, want, need")
}

// suite returns the cipher suite of that name, nil if there is none.
func suite(name string) *tls.CipherSuite {
	all := slices.Concat(tls.CipherSuites(), tls.InsecureCipherSuites())
	if i := slices.IndexFunc(all, func(s *tls.CipherSuite) bool { return s.Name == name }); i >= 0 {
		return all[i]
	}
	return nil
}

// Versions returns the lowest and the highest protocol version, as numbers of package
// crypto/tls. As in Java, a version without a cipher suite in the list is off.
// REQUIRES: the configuration was loaded without an error.
func (t *TLS) Versions() (lowest, highest uint16) {
	lowest, highest = tls.VersionTLS13, tls.VersionTLS12
	for _, name := range t.enabled() {
		version := uint16(tls.VersionTLS13)
		if name == "TLSv1.2" {
			version = tls.VersionTLS12
		}
		if len(t.Suites) == 0 || len(t.suites(version)) > 0 {
			lowest, highest = min(lowest, version), max(highest, version)
		}
	}
	return lowest, highest
}

// SuiteIDs returns the numbers of the cipher suites below TLS 1.3 in package crypto/tls,
// nil for its own choice.
func (t *TLS) SuiteIDs() []uint16 { return t.suites(tls.VersionTLS12) }

// Suites13 returns the numbers of the cipher suites of TLS 1.3, nil for all.
func (t *TLS) Suites13() []uint16 { return t.suites(tls.VersionTLS13) }

// suites returns the listed suites of a protocol version.
func (t *TLS) suites(version uint16) (ids []uint16) {
	for _, name := range t.Suites {
		if s := suite(name); s != nil && slices.Contains(s.SupportedVersions, version) {
			ids = append(ids, s.ID)
		}
	}
	return ids
}

func (t *TLS) enabled() []string {
	if len(t.Protocols) > 0 {
		return t.Protocols
	}
	if t.Protocol == "" {
		return protocols // nothing is set for the other servers, or it is the administration server, which has no such keys
	}
	return []string{t.Protocol}
}

// finishTLS checks the settings of the ports with TLS, if there are any.
func (l *loader) finishTLS() {
	c := l.config
	if l.isSet("secureClientPortAddress") && !c.Client.Secure {
		l.fail(l.places["secureClientPortAddress"], "secureClientPortAddress", c.Client.SecureHost, "needs secureClientPort")
	}
	if c.Client.Unified && c.Client.OnlySecure {
		l.fail(l.places["zookeeper.client.portUnification"], "client.portUnification", "true", "needs clientPort")
	}
	if c.Client.Secure || c.Client.Unified {
		c.Auth.X509 = true
		const provider = "authProvider.x509"
		if class := c.Properties["zookeeper."+provider]; class != "" && !strings.EqualFold(class, x509Provider) {
			l.fail(l.places["zookeeper."+provider], provider, class, "a port with TLS needs the class "+x509Provider)
		}
		key := "secureClientPort"
		if !c.Client.Secure {
			key = "client.portUnification"
		}
		l.checkTLS(&c.TLS, key, "ssl.")
	}
	if c.Admin.HTTPS() {
		l.checkTLS(c.AdminTLS(), "admin.forceHttps or admin.portUnification", "ssl.quorum.")
	}
	l.finishQuorumTLS()
	l.warnUnused()
}

// warnUnused warns about defences of ports that have no TLS: their owner believes in them.
func (l *loader) warnUnused() {
	c := l.config
	warn := func(key string, set bool, reason string) {
		if set {
			l.warnAt("zookeeper."+key, reason)
		}
	}
	if !c.Client.Secure && !c.Client.Unified {
		const reason = "has no effect without secureClientPort or client.portUnification"
		warn("X509AuthenticationProvider.superUser", c.Auth.X509SuperUser != "", reason)
		warn("ssl.crl", c.TLS.CRL, reason)
		warn("ssl.ocsp", c.TLS.OCSP, reason)
		warn("ssl.clientHostnameVerification", c.TLS.ClientHost, reason)
		warn("ssl.clientAuth", l.isSet("zookeeper.ssl.clientAuth"), reason)
	}
	if !c.Quorum.TLS.Ports() && !c.Admin.HTTPS() {
		const reason = "has no effect: neither the ports of servers nor the administration server have TLS"
		warn("ssl.quorum.crl", c.QuorumTLS.CRL, reason)
		warn("ssl.quorum.ocsp", c.QuorumTLS.OCSP, reason)
	}
}

// checkTLS checks that a port, which key enables, has what it needs of the settings that
// begin with prefix.
func (l *loader) checkTLS(t *TLS, key, prefix string) {
	if t.KeyStore.File == "" {
		l.fail(l.name, prefix+"keyStore.location", "", "is not set; "+key+" needs it")
	}
	if len(t.Suites) > 0 {
		l.checkSuites(t, prefix)
	}
}

// checkSuites checks a list of cipher suites.
func (l *loader) checkSuites(t *TLS, prefix string) {
	key := prefix + "ciphersuites"
	where := l.places["zookeeper."+key]
	if unknown := slices.DeleteFunc(slices.Clone(t.Suites), func(name string) bool { return suite(name) != nil }); len(unknown) > 0 {
		l.warn(where, key, "%s: not known here, and not used", strings.Join(unknown, ", "))
	}
	if lowest, highest := t.Versions(); lowest > highest {
		l.fail(where, key, "", "has no cipher suite for "+strings.Join(t.enabled(), " or for "))
	}
}
