package clients

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/test/certs"
)

// secured starts a server whose port at the returned address has TLS.
func secured(t *testing.T, kind string, lines ...string) (addr string) {
	t.Helper()
	port := securePort(t)
	s := startServers(t, kind, append(lines, "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
		"secureClientPortAddress=127.0.0.2", "secureClientPort="+port)...)
	addr = net.JoinHostPort("127.0.0.2", port)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	must(t, s.e.Until(ctx, func() bool { // Apache opens this port after the other one
		nc, err := net.Dial("tcp", addr)
		if err == nil {
			nc.Close()
		}
		return err == nil
	}))
	return addr
}

// version returns the version of TLS in which a server answers a client, 0 if it refuses it.
func version(t *testing.T, addr string, config *tls.Config) uint16 {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	must(t, err)
	defer nc.Close()
	must(t, nc.SetDeadline(time.Now().Add(patience)))
	config.InsecureSkipVerify = true
	c := tls.Client(nc, config)
	_, _ = c.Write([]byte("srvr")) // it may be refused before
	if answer, _ := io.ReadAll(c); !strings.Contains(string(answer), "Mode") {
		return 0
	}
	return c.ConnectionState().Version
}

// TestProtocols has clients of TLS 1.2 and of TLS 1.3 connect to servers with lists of protocols
// and of cipher suites: the version is that at Apache.
func TestProtocols(t *testing.T) {
	if *pinfold == "" {
		t.Skip("-pinfold names the binary")
	}
	const (
		all   = "ssl.ciphersuites=TLS_AES_256_GCM_SHA384,TLS_AES_128_GCM_SHA256,TLS_CHACHA20_POLY1305_SHA256"
		old   = "ssl.ciphersuites=TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384"
		both  = "ssl.enabledProtocols=TLSv1.3,TLSv1.2"
		older = "apache" // whose defaults are TLS 1.2, and cipher suites of that
	)
	authority, client := certs.New(t, "authority"), certs.New(t, "client")
	stores := []string{"ssl.keyStore.location=" + authority.Issue(t, "server").Store(t), "ssl.trustStore.location=" + client.Trust(t)}
	for _, settings := range []string{"", all, both, all + " " + both, old + " " + both, old + " ssl.protocol=TLSv1.2"} {
		t.Run(settings, func(t *testing.T) {
			got := map[string][2]uint16{}
			for _, kind := range []string{older, "apache-3.9", "pinfold"} {
				if kind == older && (!strings.Contains(settings, "rotocol") || !strings.Contains(settings, "suites")) {
					continue
				}
				addr := secured(t, kind, append(strings.Fields(settings), stores...)...)
				for i, highest := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
					v := got[kind]
					v[i] = version(t, addr, &tls.Config{MaxVersion: highest, Certificates: []tls.Certificate{client.TLS}})
					got[kind] = v
				}
			}
			for kind, v := range got {
				if v != got["pinfold"] {
					t.Errorf("clients of TLS 1.2 and of TLS 1.3 get %x at %s, %x at Pinfold", v, kind, got["pinfold"])
				}
			}
			t.Logf("%#x", got["pinfold"])
		})
	}
}
