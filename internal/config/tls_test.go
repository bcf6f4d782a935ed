package config

import (
	"crypto/tls"
	"testing"
)

// Nothing that the file says of TLS is left out silently.
func TestTLSReports(t *testing.T) {
	const base = "dataDir=/d\nclientPort=2181\nsecureClientPort=2281\nssl.keyStore.location=/k.p12\n"
	const all = "ssl.ciphersuites=TLS_AES_256_GCM_SHA384,TLS_AES_128_GCM_SHA256,TLS_CHACHA20_POLY1305_SHA256"
	for _, c := range []struct{ file, want string }{
		{base, ""},
		{base + "ssl.enabledProtocols=TLSv1.3, TLSv1.2\nssl.clientAuth=WANT\nssl.protocol=TLSv1.2\nfips-mode=false\nclient.certReload=true", ""},
		{base + "ssl.enabledProtocols=TLSv1.1", "error zoo.cfg:5: ssl.enabledProtocols=TLSv1.1: TLSv1.1 is not one of TLSv1.3, TLSv1.2\n"},
		{base + "ssl.clientAuth=yes", "error zoo.cfg:5: ssl.clientAuth=yes: not one of none, want, need\n"},
		{base + "ssl.crl=true", ""},
		{base + "ssl.keystore.location=/k", "error zoo.cfg:5: ssl.keystore.location=/k: the key is not known\n"},
		{base + "ssl.authProvider=mine", "error zoo.cfg:5: ssl.authProvider=mine: only x509 exists, as Java classes cannot be loaded\n"},
		{base + "ssl.ciphersuites=TLS_NONE", "warning zoo.cfg:5: ssl.ciphersuites: TLS_NONE: not known here, and not used\n" +
			"error zoo.cfg:5: ssl.ciphersuites: has no cipher suite for TLSv1.3\n"},
		{base + all, ""},
		{base + all + ",TLS_DHE_RSA_WITH_AES_128_GCM_SHA256\nssl.enabledProtocols=TLSv1.3,TLSv1.2",
			"warning zoo.cfg:5: ssl.ciphersuites: TLS_DHE_RSA_WITH_AES_128_GCM_SHA256: not known here, and not used\n"},
		{base + "ssl.ciphersuites=TLS_AES_256_GCM_SHA384", ""},
		{base + "ssl.ciphersuites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "error zoo.cfg:5: ssl.ciphersuites: has no cipher suite for TLSv1.3\n"},
		{base + "ssl.enabledProtocols=TLSv1.2\nssl.ciphersuites=TLS_AES_256_GCM_SHA384", "error zoo.cfg:6: ssl.ciphersuites: has no cipher suite for TLSv1.2\n"},
		{base + "ssl.enabledProtocols=TLSv1.2\nssl.ciphersuites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", ""},
		{base + "ssl.authProvider=X509", "error zoo.cfg:5: ssl.authProvider=X509: only x509 exists, as Java classes cannot be loaded\n"},
		{base + "ssl.authProvider=1\nauthProvider.1=" + x509Provider, "error zoo.cfg:5: ssl.authProvider=1: only x509 exists, as Java classes cannot be loaded\n"},
		{base + "ssl.authProvider=x509\nauthProvider.x509=" + x509Provider, ""},
		{base + "authProvider.x509=" + saslProvider, "error zoo.cfg:5: authProvider.x509=" + saslProvider + ": a port with TLS needs the class " + x509Provider + "\n"},
		{"dataDir=/d\nclientPort=1\nauthProvider.1=" + x509Provider + "\nenforce.auth.enabled=true\nenforce.auth.schemes=x509", ""},
		{"dataDir=/d\nclientPort=1\nenforce.auth.enabled=true\nenforce.auth.schemes=x509", "error zoo.cfg:4: enforce.auth.schemes=x509: the scheme \"x509\" does not exist\n"},
		{"dataDir=/d\nclientPort=1\nsecureClientPortAddress=h", "error zoo.cfg:3: secureClientPortAddress=h: needs secureClientPort\n"},
		{"dataDir=/d\nsecureClientPort=1\nssl.keyStore.location=/k\nclient.portUnification=true", "error zoo.cfg:4: client.portUnification=true: needs clientPort\n"},
		{"dataDir=/d\nclientPort=1\nclient.portUnification=true", "error zoo.cfg: ssl.keyStore.location: is not set; client.portUnification needs it\n"},
		{"dataDir=/d\nclientPort=1\nX509AuthenticationProvider.superUser=CN=a",
			"warning zoo.cfg:3: X509AuthenticationProvider.superUser: has no effect without secureClientPort or client.portUnification\n"},
		{"dataDir=/d\nclientPort=1\nssl.crl=true\nssl.ocsp=true\nssl.clientHostnameVerification=true\nssl.clientAuth=need",
			"warning zoo.cfg:3: ssl.crl: has no effect without secureClientPort or client.portUnification\n" +
				"warning zoo.cfg:4: ssl.ocsp: has no effect without secureClientPort or client.portUnification\n" +
				"warning zoo.cfg:5: ssl.clientHostnameVerification: has no effect without secureClientPort or client.portUnification\n" +
				"warning zoo.cfg:6: ssl.clientAuth: has no effect without secureClientPort or client.portUnification\n"},
		{"dataDir=/d\nclientPort=1\nssl.crl=false\nssl.quorum.crl=true\nssl.quorum.ocsp=true",
			"warning zoo.cfg:4: ssl.quorum.crl: has no effect: neither the ports of servers nor the administration server have TLS\n" +
				"warning zoo.cfg:5: ssl.quorum.ocsp: has no effect: neither the ports of servers nor the administration server have TLS\n"},
	} {
		inDir(t, map[string]string{"zoo.cfg": c.file})
		_, warnings, err := Load("zoo.cfg", nil, "")
		if got := report(warnings, err); got != c.want {
			t.Errorf("%s\ngot  %swant %s", c.file, got, c.want)
		}
	}
}

// The defaults are those of 3.9: TLS 1.3 alone, and a client needs a certificate.
func TestTLSDefaults(t *testing.T) {
	inDir(t, map[string]string{"zoo.cfg": "dataDir=/d\nsecureClientPort=1\nssl.keyStore.location=/k.jks\nssl.clientHostnameVerification=true\nssl.hostnameVerification=false"})
	c, _, err := Load("zoo.cfg", nil, "")
	if err != nil {
		t.Fatal(err)
	}
	lowest, highest := c.TLS.Versions()
	if lowest != tls.VersionTLS13 || highest != tls.VersionTLS13 || c.TLS.ClientAuth != "need" || !c.TLS.ClientHost || c.TLS.Hosts || !c.Client.OnlySecure || !c.Auth.X509 {
		t.Errorf("%x, %x, %+v", lowest, highest, c.TLS)
	}
}

// Nothing that the file says of TLS between servers is left out silently.
func TestQuorumTLSReports(t *testing.T) {
	const members = "dataDir=data\nclientPort=1\ninitLimit=5\nsyncLimit=2\nserver.1=a:1:2\nserver.2=b:1:2\nserver.3=c:1:2\n"
	const stores = members + "ssl.quorum.keyStore.location=/k.p12\nssl.quorum.trustStore.location=/t.p12\n"
	const full = stores + "sslQuorum=true\n"
	for _, c := range []struct{ file, want string }{
		{full, ""},
		{stores + "portUnification=true\nssl.quorum.protocol=TLSv1.2\nssl.quorum.handshakeDetectionTimeoutMillis=-1", ""},
		{members + "sslQuorum=true\nssl.quorum.trustStore.location=/t.p12", "error zoo.cfg: ssl.quorum.keyStore.location: is not set; sslQuorum needs it\n"},
		{members + "portUnification=true\nssl.quorum.trustStore.location=/t.p12", "error zoo.cfg: ssl.quorum.keyStore.location: is not set; portUnification needs it\n"},
		{members + "sslQuorum=true\nssl.quorum.keyStore.location=/k.p12", "warning zoo.cfg: ssl.quorum.trustStore.location: is not set: " +
			"any certificate that the operating system trusts is valid for a server of the ensemble\n"},
		{full + "ssl.quorum.clientAuth=none", "warning zoo.cfg:11: ssl.quorum.clientAuth: none: anyone who reaches the port may connect as a server of the ensemble\n"},
		{full + "ssl.quorum.clientAuth=some", "error zoo.cfg:11: ssl.quorum.clientAuth=some: not one of none, want, need\n"},
		{full + "ssl.quorum.verifyPeers=true\nssl.quorum.clientAuth=want",
			"error zoo.cfg:12: ssl.quorum.clientAuth=want: ssl.quorum.verifyPeers needs the certificate of each server\n"},
		{full + "ssl.quorum.verifyPeers=true\nportUnification=true",
			"warning zoo.cfg:12: portUnification: true: servers that connect without TLS are not subject to ssl.quorum.verifyPeers\n"},
		{stores + "ssl.quorum.verifyPeers=true", "error zoo.cfg:10: ssl.quorum.verifyPeers=true: needs sslQuorum or portUnification\n"},
		{full + "ssl.quorum.ocsp=true", ""},
		{full + "ssl.quorum.verifypeers=true", "error zoo.cfg:11: ssl.quorum.verifypeers=true: the key is not known\n"},
		{full + "ssl.quorum.protocol=TLSv1.1", "error zoo.cfg:11: ssl.quorum.protocol=TLSv1.1: not one of TLSv1.3, TLSv1.2\n"},
		{full + "ssl.quorum.protocol=TLSv1.2\nssl.quorum.ciphersuites=TLS_AES_256_GCM_SHA384", "error zoo.cfg:12: ssl.quorum.ciphersuites: has no cipher suite for TLSv1.2\n"},
		{full + "ssl.quorum.ciphersuites=TLS_AES_256_GCM_SHA384,TLS_AES_128_GCM_SHA256,TLS_CHACHA20_POLY1305_SHA256", ""},
	} {
		inDir(t, map[string]string{"zoo.cfg": c.file, "data/myid": "1"})
		_, warnings, err := Load("zoo.cfg", nil, "")
		if got := report(warnings, err); got != c.want {
			t.Errorf("%s\ngot  %swant %s", c.file, got, c.want)
		}
	}
}

// The defaults of TLS between servers are those of 3.9: TLS 1.3 and 1.2, a certificate of
// each server, and names only without fips-mode or if the file asks for them.
func TestQuorumTLSDefaults(t *testing.T) {
	const base = "dataDir=/d\nclientPort=1\nssl.quorum."
	for _, c := range []struct {
		file            string
		hosts, client   bool
		lowest, highest uint16
	}{
		{"keyStore.location=/k.jks", false, false, tls.VersionTLS12, tls.VersionTLS13},
		{"protocol=TLSv1.3\nfips-mode=true", false, false, tls.VersionTLS12, tls.VersionTLS13},
		{"protocol=TLSv1.2\nfips-mode=false", true, true, tls.VersionTLS12, tls.VersionTLS12},
		{"enabledProtocols=TLSv1.3\nfips-mode=false\nssl.quorum.clientHostnameVerification=false", true, false, tls.VersionTLS13, tls.VersionTLS13},
		{"ciphersuites=TLS_AES_256_GCM_SHA384,TLS_AES_128_GCM_SHA256,TLS_CHACHA20_POLY1305_SHA256", false, false, tls.VersionTLS13, tls.VersionTLS13},
		{"ciphersuites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", false, false, tls.VersionTLS12, tls.VersionTLS12},
		{"hostnameVerification=true", true, true, tls.VersionTLS12, tls.VersionTLS13},
		{"clientHostnameVerification=true", false, true, tls.VersionTLS12, tls.VersionTLS13},
		{"hostnameVerification=false\nfips-mode=false\nssl.quorum.clientHostnameVerification=true", false, false, tls.VersionTLS12, tls.VersionTLS13},
	} {
		inDir(t, map[string]string{"zoo.cfg": base + c.file})
		cfg, _, err := Load("zoo.cfg", nil, "")
		if err != nil {
			t.Fatal(err)
		}
		lowest, highest := cfg.QuorumTLS.Versions()
		if q := cfg.Quorum.TLS; q.Hosts != c.hosts || q.ClientHosts != c.client || lowest != c.lowest || highest != c.highest || cfg.QuorumTLS.ClientAuth != "need" {
			t.Errorf("%s: %+v, %x, %x", c.file, q, lowest, highest)
		}
	}
}
