package clients

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/test/certs"
	"github.com/pinfold-zk/pinfold/zk"
)

// securePort is free on 127.0.0.2, from where nothing else connects.
func securePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.2:0")
	must(t, err)
	_, port, err := net.SplitHostPort(l.Addr().String())
	must(t, err)
	must(t, l.Close())
	return port
}

// TestTLS talks to servers that demand certificates of their clients, through a connection
// that breaks.
func TestTLS(t *testing.T) {
	for _, kind := range mixtures(t, "apache", "apache-3.9", "pinfold") {
		t.Run(kind, func(t *testing.T) { testTLS(t, kind) })
	}
}

func testTLS(t *testing.T, kind string) {
	authority, user := certs.New(t, "authority"), certs.New(t, "user")
	server := authority.Issue(t, "server")
	port := securePort(t)
	s := startServers(t, kind,
		"serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
		"secureClientPortAddress=127.0.0.2", "secureClientPort="+port, "ssl.clientAuth=need", "ssl.hostnameVerification=false",
		"ssl.enabledProtocols=TLSv1.3,TLSv1.2", // zkCli.sh of 3.8 has TLS 1.2 alone, unless it is told otherwise
		"ssl.keyStore.type=PEM", "ssl.keyStore.location="+server.Store(t),
		"ssl.trustStore.type=PEM", "ssl.trustStore.location="+user.Trust(t),
		"authProvider.x509=org.apache.zookeeper.server.auth.X509AuthenticationProvider")
	e := &Env{t: t, s: s}
	roots := authority.Pool()
	addr := net.JoinHostPort("127.0.0.2", port)

	c := e.dialAt(addr, client.TLS(&tls.Config{RootCAs: roots, Certificates: []tls.Certificate{user.TLS}}))
	ctx := e.Context()
	_, err := c.Create(ctx, "/own", []byte("sealed"), zk.Persistent, []zk.ACL{{Perms: zk.PermAll, ID: zk.ID{Scheme: "auth"}}})
	must(t, err)
	session := c.SessionID()
	e.Cut(c)
	must(t, settle(e, c))
	data, _, err := c.Get(ctx, "/own")
	must(t, err)
	acl, _, err := c.GetACL(ctx, "/own")
	must(t, err)
	if string(data) != "sealed" || c.SessionID() != session || fmt.Sprint(acl[0].ID) != fmt.Sprint(zk.ID{Scheme: "x509", ID: "CN=user"}) {
		t.Errorf("data %q, ACL %v, session %v, before %v", data, acl, c.SessionID(), session)
	}

	for _, format := range []string{"PEM", "PKCS12", "JKS"} {
		testStores(t, addr, format, authority, user)
	}

	if kind == "pinfold" {
		testForeignClients(t, e, c, addr, authority, user)
	}

	for _, refused := range []struct {
		why    string
		config *tls.Config
	}{
		{"certificate", &tls.Config{RootCAs: roots}},
		{"unknown authority", &tls.Config{Certificates: []tls.Certificate{user.TLS}}},
	} {
		var err error
		for wait := 3 * time.Second; wait < patience; wait *= 2 { // a loaded machine may need longer
			short, cancel := context.WithTimeout(ctx, wait)
			_, err = client.Dial(short, addr, client.TLS(refused.config))
			cancel()
			if err == nil || strings.Contains(err.Error(), refused.why) {
				break
			}
		}
		if err == nil || !strings.Contains(err.Error(), refused.why) {
			t.Errorf("the connection fails by %v, want %q", err, refused.why)
		}
	}
}

// testStores has the command line connect with a file of zkCli.sh's properties, whose stores
// have a format.
func testStores(t *testing.T, addr, format string, server, user certs.Identity) {
	t.Helper()
	if *pinfold == "" {
		return
	}
	own, trust := stores(t, format, user, server)
	properties := filepath.Join(t.TempDir(), "client.properties")
	text := "zookeeper.client.secure=true\nzookeeper.clientCnxnSocket=org.apache.zookeeper.ClientCnxnSocketNetty\nzookeeper.ssl.hostnameVerification=false\n" +
		"zookeeper.ssl.enabledProtocols=TLSv1.3,TLSv1.2\n" +
		"zookeeper.ssl.ciphersuites=TLS_AES_128_GCM_SHA256,TLS_AES_256_GCM_SHA384,TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256\nzookeeper.ssl.clientAuth=need\n"
	for store, file := range map[string]string{"keyStore": own, "trustStore": trust} {
		text += fmt.Sprintf("zookeeper.ssl.%[1]s.location=%[2]s\nzookeeper.ssl.%[1]s.type=%[3]s\n", store, file, format)
		if format != "PEM" {
			text += fmt.Sprintf("zookeeper.ssl.%s.password=%s\n", store, storePassword)
		}
	}
	must(t, os.WriteFile(properties, []byte(text), 0o600))
	if out := program(t, *pinfold, "cli", "--client-configuration", properties, "--server", addr, "get", "/own"); strings.TrimSpace(out) != "sealed" {
		t.Errorf("%s: the command line prints %q", format, out)
	}
}

const storePassword = "changeit"

// stores makes a key store with own and a trust store with the certificate of trusted, in a format, by openssl and
// keytool. JKS and PKCS12 are encrypted with storePassword. It returns the names of the files.
func stores(t *testing.T, format string, own, trusted certs.Identity) (key, trust string) {
	t.Helper()
	if format == "PEM" {
		return own.Store(t), trusted.Trust(t)
	}
	dir := t.TempDir()
	p12 := filepath.Join(dir, "key.p12")
	program(t, "openssl", "pkcs12", "-export", "-in", own.Store(t), "-out", p12, "-passout", "pass:"+storePassword)
	if key = p12; format == "JKS" {
		key = filepath.Join(dir, "key.jks")
		program(t, "keytool", "-importkeystore", "-noprompt", "-srckeystore", p12, "-srcstorepass", storePassword, "-destkeystore", key,
			"-deststoretype", format, "-deststorepass", storePassword)
	}
	if trust = filepath.Join(dir, "trust.p12"); format == "JKS" {
		trust = filepath.Join(dir, "trust.jks")
	}
	program(t, "keytool", "-importcert", "-noprompt", "-alias", "trusted", "-file", trusted.Trust(t), "-keystore", trust, "-storetype", format,
		"-storepass", storePassword)
	return key, trust
}

// TestServerStores starts servers whose own stores are JKS or PKCS12, as Java's servers mostly have them, with the
// password in a file: from such a configuration people migrate.
func TestServerStores(t *testing.T) {
	for _, kind := range mixtures(t, "apache-3.9", "pinfold") {
		for _, format := range []string{"JKS", "PKCS12"} {
			t.Run(kind+" "+format, func(t *testing.T) { testServerStores(t, kind, format) })
		}
	}
}

func testServerStores(t *testing.T, kind, format string) {
	authority, user := certs.New(t, "authority"), certs.New(t, "user")
	key, trust := stores(t, format, authority.Issue(t, "server"), user)
	password := filepath.Join(t.TempDir(), "password")
	must(t, os.WriteFile(password, []byte(storePassword+"\n"), 0o600))
	port := securePort(t)
	s := startServers(t, kind,
		"serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
		"secureClientPortAddress=127.0.0.2", "secureClientPort="+port, "ssl.hostnameVerification=false",
		"ssl.keyStore.location="+key, "ssl.keyStore.passwordPath="+password, // the type follows from the suffix
		"ssl.trustStore.location="+trust, "ssl.trustStore.passwordPath="+password,
		"authProvider.x509=org.apache.zookeeper.server.auth.X509AuthenticationProvider")
	e := &Env{t: t, s: s}
	c := e.dialAt(net.JoinHostPort("127.0.0.2", port),
		client.TLS(&tls.Config{RootCAs: authority.Pool(), Certificates: []tls.Certificate{user.TLS}}))
	_, err := c.Create(e.Context(), "/own", nil, zk.Persistent, []zk.ACL{{Perms: zk.PermAll, ID: zk.ID{Scheme: "auth"}}})
	must(t, err)
	acl, _, err := c.GetACL(e.Context(), "/own")
	must(t, err)
	if got := fmt.Sprint(acl[0].ID); got != fmt.Sprint(zk.ID{Scheme: "x509", ID: "CN=user"}) {
		t.Errorf("the client is %s", got)
	}
}

// program runs a program and returns what it prints.
func program(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}
