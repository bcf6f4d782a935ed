package clients

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
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
	for _, kind := range mixtures(t, "apache", "pinfold") {
		t.Run(kind, func(t *testing.T) { testTLS(t, kind) })
	}
}

func testTLS(t *testing.T, kind string) {
	server, user := certs.New(t, "server"), certs.New(t, "user")
	port := securePort(t)
	s := startServers(t, kind,
		"serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
		"secureClientPortAddress=127.0.0.2", "secureClientPort="+port, "ssl.clientAuth=need", "ssl.hostnameVerification=false",
		"ssl.keyStore.type=PEM", "ssl.keyStore.location="+server.Store(t),
		"ssl.trustStore.type=PEM", "ssl.trustStore.location="+user.Trust(t),
		"authProvider.x509=org.apache.zookeeper.server.auth.X509AuthenticationProvider")
	e := &Env{t: t, s: s}
	roots := server.Pool()
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

	for _, refused := range []struct {
		why    string
		config *tls.Config
	}{
		{"certificate", &tls.Config{RootCAs: roots}},
		{"unknown authority", &tls.Config{Certificates: []tls.Certificate{user.TLS}}},
	} {
		short, cancel := context.WithTimeout(ctx, 5*time.Second)
		_, err := client.Dial(short, addr, client.TLS(refused.config))
		cancel()
		if err == nil || !strings.Contains(err.Error(), refused.why) {
			t.Errorf("the connection fails by %v, want %q", err, refused.why)
		}
	}
}
