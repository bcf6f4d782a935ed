package config

import (
	"slices"
	"strings"
	"time"
)

// quorumTLSSettings are those of TLS between servers.
func quorumTLSSettings() []setting {
	return slices.Concat([]setting{
		{name: "sslQuorum", scope: inFile, def: "false", setter: boolean(func(c *Config) *bool { return &c.Quorum.TLS.Enabled }),
			note: "connections between servers have TLS, on both ports. See [security](security.md#tls-between-servers)"},
		{name: "portUnification", scope: inFile, def: "false", setter: boolean(func(c *Config) *bool { return &c.Quorum.TLS.Plain }),
			note: "both ports accept connections with TLS and without: the first byte decides. With `sslQuorum` off, this server makes its own without"},
		{name: "sslQuorumReloadCertFiles", scope: inFile, def: "false", effect: accepted, setter: anyBoolean(),
			note: "the files are always read again when they change"},
		{name: "ssl.quorum.protocol", scope: property, def: "TLSv1.3",
			// As in Java, TLSv1.3 names a context that has 1.2, too.
			setter: oneOf(protocols, func(c *Config, s string) { c.QuorumTLS.Protocol = strings.TrimSuffix(s, "TLSv1.3") }),
			note:   "the highest protocol version: TLSv1.3, which allows TLSv1.2 as well, or TLSv1.2"},
		{name: "ssl.quorum.enabledProtocols", scope: property,
			setter: setter{set: func(c *Config, text string) (err error) { c.QuorumTLS.Protocols, err = protocolList(text); return err }},
			note:   "TLSv1.3, TLSv1.2, or both, separated by commas; counts in place of `ssl.quorum.protocol`"},
		{name: "ssl.quorum.ciphersuites", scope: property,
			setter: setter{set: func(c *Config, text string) error { c.QuorumTLS.Suites = commaList(text); return nil }},
			note:   "like `ssl.ciphersuites`"},
		{name: "ssl.quorum.clientAuth", scope: property, def: "need",
			setter: setter{set: func(c *Config, text string) error {
				if err := checkClientAuth(text); err != nil {
					return err
				}
				c.QuorumTLS.ClientAuth = strings.ToLower(text)
				return nil
			}},
			note: "whether a server that connects must have a certificate: `need`, `want` or `none`"},
		{name: "ssl.quorum.hostnameVerification", scope: property,
			setter: boolean(func(c *Config) *bool { return &c.Quorum.TLS.Hosts }),
			note: "the certificate of a server to which this one connects must name the host or the address of its server line. If it is " +
				"not set, as in Apache: `true` with `fips-mode=false`, otherwise `false`. Apache does not check with `fips-mode`, even if it is set"},
		{name: "ssl.quorum.clientHostnameVerification", scope: property,
			setter: boolean(func(c *Config) *bool { return &c.Quorum.TLS.ClientHosts }),
			note: "the certificate of a server that connects must name its address, or a host of a server line that has this address. If it " +
				"is not set, it is as `ssl.quorum.hostnameVerification`, whose `false` turns it off"},
		{name: "ssl.quorum.allowReverseDnsLookup", scope: property, def: "true", effect: accepted, setter: anyBoolean(),
			note: "no name of an address is looked up: the addresses of the hosts in the server lines are"},
		{name: "ssl.quorum.verifyPeers", scope: property, def: "false",
			setter: boolean(func(c *Config) *bool { return &c.Quorum.TLS.Members }),
			note:   "only in Pinfold. A server's certificate must name the host of the server line of the id that it claims"},
		{name: "ssl.quorum.handshakeDetectionTimeoutMillis", scope: property, def: "5000",
			setter: millis(-1<<31, func(c *Config) *time.Duration { return &c.Quorum.TLS.Timeout }),
			note:   "ms for the first byte and the handshake on an accepted connection; less than 1 means 5000"},
	}, without("the key is not known", "property refused words ssl.quorum.*"))
}

// finishQuorumTLS checks the settings of TLS between servers, and sets those that depend
// on others.
func (l *loader) finishQuorumTLS() {
	t := &l.config.Quorum.TLS
	const prefix = "zookeeper.ssl.quorum."
	if !l.isSet(prefix + "hostnameVerification") {
		t.Hosts = !t.FIPS
	}
	switch off := l.isSet(prefix+"hostnameVerification") && !t.Hosts; {
	case off:
		t.ClientHosts = false
	case !l.isSet(prefix + "clientHostnameVerification"):
		t.ClientHosts = t.Hosts
	}
	if !t.Ports() {
		if t.Members {
			l.fail(l.places[prefix+"verifyPeers"], "ssl.quorum.verifyPeers", "true", "needs sslQuorum or portUnification")
		}
		return
	}
	if !l.config.Quorum.Distributed() {
		return // there is no such port
	}
	key, without := "sslQuorum", l.config.QuorumTLS.ClientAuth
	if !t.Enabled {
		key = "portUnification"
	}
	l.checkTLS(&l.config.QuorumTLS, key, "ssl.quorum.")
	where := l.places[prefix+"clientAuth"]
	switch {
	case without != "need" && t.Members:
		l.fail(where, "ssl.quorum.clientAuth", without, "ssl.quorum.verifyPeers needs the certificate of each server")
	case without != "need":
		l.warn(where, "ssl.quorum.clientAuth", "%s: anyone who reaches the port may connect as a server of the ensemble", without)
	}
	if l.config.QuorumTLS.TrustStore.File == "" {
		l.warn(l.name, "ssl.quorum.trustStore.location", "is not set: any certificate that the operating system trusts is valid for a server of the ensemble")
	}
	if t.Members && t.Plain {
		l.warn(l.places["portUnification"], "portUnification", "true: servers that connect without TLS are not subject to ssl.quorum.verifyPeers")
	}
}
