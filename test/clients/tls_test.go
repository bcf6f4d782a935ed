package clients

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/zk"
)

// credentials are a certificate that signs itself, in the files that Apache reads
// and as a client has it.
type credentials struct {
	cert         tls.Certificate
	store, trust string // PEM: key and certificate, certificate
}

// selfSigned makes the certificate of name, for 127.0.0.2.
func selfSigned(t *testing.T, dir, name string) credentials {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 2)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	leaf, err := x509.ParseCertificate(der)
	must(t, err)
	c := credentials{
		cert:  tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf},
		store: filepath.Join(dir, name+"-store.pem"), trust: filepath.Join(dir, name+"-trust.pem"),
	}
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	must(t, os.WriteFile(c.trust, cert, 0o600))
	must(t, os.WriteFile(c.store, append(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), cert...), 0o600))
	return c
}

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
	dir := t.TempDir()
	server, user := selfSigned(t, dir, "server"), selfSigned(t, dir, "user")
	port := securePort(t)
	s := startServers(t, kind,
		"serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
		"secureClientPortAddress=127.0.0.2", "secureClientPort="+port, "ssl.clientAuth=need", "ssl.hostnameVerification=false",
		"ssl.keyStore.type=PEM", "ssl.keyStore.location="+server.store,
		"ssl.trustStore.type=PEM", "ssl.trustStore.location="+user.trust,
		"authProvider.x509=org.apache.zookeeper.server.auth.X509AuthenticationProvider")
	e := &Env{t: t, s: s}
	roots := x509.NewCertPool()
	roots.AddCert(server.cert.Leaf)
	addr := net.JoinHostPort("127.0.0.2", port)

	c := e.dialAt(addr, client.TLS(&tls.Config{RootCAs: roots, Certificates: []tls.Certificate{user.cert}}))
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
		{"unknown authority", &tls.Config{Certificates: []tls.Certificate{user.cert}}},
	} {
		short, cancel := context.WithTimeout(ctx, 5*time.Second)
		_, err := client.Dial(short, addr, client.TLS(refused.config))
		cancel()
		if err == nil || !strings.Contains(err.Error(), refused.why) {
			t.Errorf("the connection fails by %v, want %q", err, refused.why)
		}
	}
}
