package config

import (
	"slices"
	"strings"
	"testing"
)

// What each configuration is warned of: the level and the key. The lines of safe are good, and
// each case adds some to them.
func TestRisks(t *testing.T) {
	const safe = "dataDir=/d\nsecureClientPort=2281\nssl.keyStore.location=/k.pem\nssl.trustStore.location=/t.pem\nssl.crl=true\n" +
		"audit.enable=true\nsessionSecretFile=/s\nDigestAuthenticationProvider.digestAlg=SHA-256\n"
	const sasl = "authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider\n"
	const ensemble = "initLimit=5\nsyncLimit=5\nserver.1=a:2888:3888\nserver.2=b:2888:3888\nserver.3=c:2888:3888\ndb.autocreate=false\n"
	const quorum = ensemble + "sslQuorum=true\nssl.quorum.keyStore.location=/k.pem\nssl.quorum.trustStore.location=/t.pem\nssl.quorum.verifyPeers=true\nssl.quorum.ocsp=true\n"
	for _, c := range []struct {
		name, file string
		want       []string
	}{
		{"safe", safe, nil},
		{"plain port", safe + "clientPort=2181\n", []string{"open clientPort", "weak enforce.auth.enabled"}},
		{"plain port with enforced authentication", safe + sasl + "clientPort=2181\nenforce.auth.enabled=true\nenforce.auth.schemes=x509,sasl\n", []string{"weak clientPort"}},
		{"plain port with required logins", safe + sasl + "clientPort=2181\nsessionRequireClientSASLAuth=true\n", []string{"weak clientPort"}},
		{"any password is enough", safe + "clientPort=2181\nenforce.auth.enabled=true\nenforce.auth.schemes=x509,digest\n", []string{"open clientPort", "weak enforce.auth.schemes"}},
		{"any address is enough", safe + "ssl.clientAuth=want\nenforce.auth.enabled=true\nenforce.auth.schemes=ip\n", []string{"weak ssl.clientAuth", "weak enforce.auth.schemes"}},
		{"any password beside a certificate", safe + "enforce.auth.enabled=true\nenforce.auth.schemes=digest\n", nil},
		{"both on one port", safe + "clientPort=2181\nclient.portUnification=true\n", []string{"open clientPort", "weak client.portUnification", "weak enforce.auth.enabled"}},
		{"no certificate of clients", safe + "ssl.clientAuth=want\n", []string{"weak ssl.clientAuth", "weak enforce.auth.enabled"}},
		{"any authority", strings.Replace(safe, "ssl.trustStore.location=/t.pem\n", "", 1), []string{"open ssl.trustStore.location"}},
		{"no revocation", strings.Replace(safe, "ssl.crl=true\n", "", 1), []string{"weak ssl.crl"}},
		{"weak suites", safe + "ssl.enabledProtocols=TLSv1.2\nssl.ciphersuites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_RSA_WITH_3DES_EDE_CBC_SHA\n", []string{"weak ssl.ciphersuites"}},
		{"good suites", safe + "ssl.enabledProtocols=TLSv1.2\nssl.ciphersuites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256\n", nil},
		{"weak suites of servers", safe + quorum + "ssl.quorum.protocol=TLSv1.2\nssl.quorum.ciphersuites=TLS_RSA_WITH_AES_128_CBC_SHA256,TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256\n",
			[]string{"weak ssl.quorum.ciphersuites"}},
		{"ensemble", safe + quorum, nil},
		{"emptied disks", safe + strings.Replace(quorum, "db.autocreate=false\n", "", 1), []string{"weak db.autocreate"}},
		{"plain ensemble", safe + ensemble, []string{"open sslQuorum"}},
		{"plain ensemble with SASL", safe + ensemble + "quorum.auth.enableSasl=true\nquorum.auth.learnerRequireSasl=true\nquorum.auth.serverRequireSasl=true\n",
			[]string{"weak sslQuorum"}},
		{"SASL is not required", safe + quorum + "quorum.auth.enableSasl=true\nquorum.auth.learnerRequireSasl=true\n", []string{"weak quorum.auth.serverRequireSasl"}},
		{"half way to TLS", safe + quorum + "portUnification=true\n", []string{"open portUnification"}},
		{"servers without certificates", safe + quorum + "ssl.quorum.clientAuth=none\nssl.quorum.verifyPeers=false\n", []string{"open ssl.quorum.clientAuth"}},
		{"servers of any name", safe + strings.Replace(quorum, "verifyPeers=true", "verifyPeers=false", 1), []string{"weak ssl.quorum.verifyPeers"}},
		{"words", safe + "4lw.commands.whitelist=*\n", []string{"weak 4lw.commands.whitelist"}},
		{"some words", safe + "4lw.commands.whitelist=srvr,mntr\n", nil},
		{"administration", safe + "admin.enableServer=true\n", []string{"weak admin.serverAddress", "weak admin.restore.enabled"}},
		{"administration for those whom the root's ACL names", safe + "admin.enableServer=true\nadmin.authorizeAnyone=false\n", []string{"weak admin.serverAddress"}},
		{"administration on this machine", safe + "admin.enableServer=true\nadmin.serverAddress=127.0.0.1\nadmin.pprof.enabled=true\n", []string{"weak admin.pprof.enabled"}},
		{"administration with certificates", safe + "admin.enableServer=true\nadmin.forceHttps=true\nadmin.needClientAuth=true\nssl.quorum.keyStore.location=/k.pem\n", nil},
		{"metrics", safe + "metricsProvider.className=" + prometheusProvider + "\n", []string{"weak metricsProvider.httpHost"}},
		{"no ACLs", safe + "skipACL=yes\n", []string{"open skipACL"}},
		{"superuser without digest", safe + "DigestAuthenticationProvider.superDigest=super:x\nDigestAuthenticationProvider.enabled=false\n", nil},
		{"superuser", safe + "DigestAuthenticationProvider.superDigest=super:x\n", []string{"weak DigestAuthenticationProvider.superDigest"}},
		{"weak hash", strings.Replace(safe, "SHA-256", "SHA1", 1), []string{"weak DigestAuthenticationProvider.digestAlg"}},
		{"failed logins", safe + "allowSaslFailedClients=true\n", []string{"weak allowSaslFailedClients"}},
		{"any address", safe + "IPAuthenticationProvider.usexforwardedfor=true\n", []string{"weak IPAuthenticationProvider.usexforwardedfor"}},
		{"no audit log", strings.Replace(safe, "audit.enable=true", "", 1), []string{"weak audit.enable"}},
		{"sessions", strings.Replace(safe, "sessionSecretFile=/s", "", 1), []string{"weak sessionSecretFile"}},
		{"a password in the file", safe + "ssl.keyStore.password=x\n", []string{"weak ssl.keyStore.password"}},
		{"a password in a file of its own", safe + "ssl.keyStore.passwordPath=/p\n", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			id := int64(1)
			inDir(t, map[string]string{"zoo.cfg": c.file})
			cfg, _, err := (&Source{File: "zoo.cfg", ID: &id, Flags: []string{"-Djava.security.auth.login.config=/j"}}).Load()
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, r := range cfg.Risks() {
				level, _, _ := strings.Cut(r.String(), ":")
				got = append(got, level+" "+r.Key)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%q\nwant %q", got, c.want)
			}
		})
	}
}

// A risk says in which line it is.
func TestRiskHasAPlace(t *testing.T) {
	inDir(t, map[string]string{"zoo.cfg": "dataDir=/d\nclientPort=2181\nskipACL=yes\n"})
	cfg, _, err := Load("zoo.cfg", []string{"-Dzookeeper.ssl.keyStore.password=x"}, "")
	if err != nil {
		t.Fatal(err)
	}
	places := map[string]string{}
	for _, r := range cfg.Risks() {
		places[r.Key] = r.Where
		if strings.Contains(r.String(), "=x") {
			t.Errorf("the secret is shown: %v", r)
		}
	}
	for key, want := range map[string]string{"skipACL": "zoo.cfg:3", "clientPort": "zoo.cfg:2", "audit.enable": "zoo.cfg", "ssl.keyStore.password": "command line"} {
		if places[key] != want {
			t.Errorf("%s: %q, want %q", key, places[key], want)
		}
	}
}
