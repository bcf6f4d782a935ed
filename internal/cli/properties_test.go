package cli

import (
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pinfold-zk/pinfold/test/certs"
)

// shakeHands connects with the configuration that the properties mean to a server, and returns
// the protocol version.
func shakeHands(t *testing.T, flags, file string, server *tls.Config) (version string, err error) {
	t.Helper()
	properties, err := javaProperties(flags, file)
	if err != nil {
		t.Fatal(err)
	}
	var o tlsOptions
	if err := o.use(properties); err != nil {
		t.Fatal(err)
	}
	config, err := o.config()
	if err != nil {
		t.Fatal(err)
	}
	if config == nil {
		return "plain", nil
	}
	config.ServerName = "localhost"
	l, err := tls.Listen("tcp", "127.0.0.1:0", server)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		nc, err := l.Accept()
		if err != nil {
			return
		}
		_ = nc.(*tls.Conn).Handshake() // the client's error counts
		_, _ = nc.Read(make([]byte, 1))
		nc.Close()
	}()
	nc, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c := tls.Client(nc, config)
	defer c.Close()
	err = c.Handshake()
	return tls.VersionName(c.ConnectionState().Version), err
}

// Protocol versions, cipher suites and revocation mean what they mean for zkCli.sh, in CLIENT_JVMFLAGS and in the
// file of -client-configuration, which overrides them.
func TestJavaProperties(t *testing.T) {
	issuer := certs.NewIssuer(t)
	good, revoked := issuer.Named(t, "localhost", "/crl", "/ocsp"), issuer.Named(t, "localhost", "/crl", "/ocsp")
	issuer.Revoke(revoked)
	silent := issuer.Named(t, "localhost", "", "")
	trust := filepath.Join(t.TempDir(), "trust.pem")
	if err := os.WriteFile(trust, issuer.Cert, 0o600); err != nil {
		t.Fatal(err)
	}
	const old = tls.VersionTLS12
	base := "-Xmx64m -Dzookeeper.client.secure=True -Dzookeeper.clientCnxnSocket=org.apache.zookeeper.ClientCnxnSocketNetty -Dzookeeper.ssl.trustStore.location=" + trust +
		" -Dzookeeper.ssl.clientAuth=want -Dzookeeper.ssl.quorum.hostnameVerification=false "
	for _, c := range []struct {
		flags, file string
		server      certs.Identity
		highest     uint16 // that the server has
		want        string // version, or a part of the error
	}{
		{"", "", good, 0, "plain"},
		{base, "", good, 0, "TLS 1.3"},
		{base, "zookeeper.client.secure=false", good, 0, "plain"},
		{base + "-Dzookeeper.ssl.protocol=TLSv1.2", "", good, 0, "TLS 1.2"},
		{base + "-Dzookeeper.ssl.protocol=TLSv1.3", "", good, old, "protocol version"},
		{base + "-Dzookeeper.ssl.protocol=TLSv1.3 -Dzookeeper.ssl.enabledProtocols=TLSv1.2,TLSv1.3", "", good, old, "TLS 1.2"},
		{base + "-Dzookeeper.ssl.protocol=TLSv1.3", "zookeeper.ssl.protocol=TLSv1.2", good, 0, "TLS 1.2"},
		{base + "-Dzookeeper.ssl.ciphersuites=TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "", good, 0, "TLS 1.2"},
		{base + "-Dzookeeper.ssl.ciphersuites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "", good, 0, "handshake failure"}, // for another kind of key
		{base + "'-Dzookeeper.ssl.ciphersuites=TLS_CHACHA20_POLY1305_SHA256'", "", good, 0, "is not one of ciphersuites"},
		{base + "-Dzookeeper.ssl.crl=true", "", good, 0, "TLS 1.3"},
		{base + "-Dzookeeper.ssl.crl=true", "", revoked, 0, "is revoked\n"},
		{base + "-Dzookeeper.ssl.crl=true", "zookeeper.ssl.crl=false", revoked, 0, "TLS 1.3"},
		{base + "-Dzookeeper.ssl.ocsp=TRUE", "", revoked, 0, "is revoked\n"},
		{base + "-Dzookeeper.ssl.ocsp=true -Dzookeeper.ssl.hostnameVerification=false", "", revoked, 0, "is revoked\n"},
		{base + "-Dzookeeper.ssl.crl=true", "", silent, 0, "cannot be found out"},
	} {
		file := ""
		if c.file != "" {
			file = filepath.Join(t.TempDir(), "client.properties")
			if err := os.WriteFile(file, []byte(c.file), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		version, err := shakeHands(t, c.flags, file, &tls.Config{Certificates: []tls.Certificate{c.server.TLS}, MaxVersion: c.highest})
		if err != nil && !strings.Contains(err.Error()+"\n", c.want) || err == nil && version != c.want {
			t.Errorf("%s %s: %s, %v; want %s", strings.TrimPrefix(c.flags, base), c.file, version, err, c.want)
		}
	}
}

// A login file that Java's flags name counts, unless it lacks the section or SASL is off.
func TestLoginOfJavaProperties(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"good": `Client { org.apache.zookeeper.server.auth.DigestLoginModule required username="bob" password="s"; };`, "other": "Server { x required; };",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const flag = " -Djava.security.auth.login.config="
	for flags, want := range map[string]bool{
		"": false, flag + dir + "/good": true, flag + "=file:" + dir + "/good": true, flag + dir + "/other": false,
		flag + dir + "/good -Dzookeeper.sasl.client=false": false, flag + dir + "/good -Dzookeeper.sasl.clientconfig=Other": false,
	} {
		properties, err := javaProperties(flags, "")
		if err != nil {
			t.Fatal(err)
		}
		var o loginOptions
		o.use(properties)
		if m, err := o.mechanism(); (m != nil) != want || err != nil {
			t.Errorf("%s: %v, %v", flags, m, err)
		}
	}
}
