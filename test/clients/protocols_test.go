package clients

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"os/exec"
	"regexp"
	"slices"
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

// suiteOf returns the cipher suite with which a server answers openssl's client, which offers suites
// of TLS 1.3 and groups; "" if it refuses the client.
func suiteOf(t *testing.T, addr, store string, offer ...string) string {
	t.Helper()
	args := append([]string{"s_client", "-connect", addr, "-ign_eof", "-cert", store, "-key", store, "-ciphersuites"}, offer...)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "openssl", args...)
	cmd.Stdin = strings.NewReader("srvr")
	out, _ := cmd.CombinedOutput() // it fails if it is refused
	suite := regexp.MustCompile(`Cipher is (TLS_\w+)`).FindSubmatch(out)
	if suite == nil || !strings.Contains(string(out), "Mode: ") {
		return ""
	}
	return string(suite[1])
}

// TestSuites has clients offer suites of TLS 1.3 to servers that list some: a client is let in where
// Apache lets it in, with a suite that the server lists. Of several, Apache chooses the first that its
// own list has, and Pinfold by the speed of the machine.
func TestSuites(t *testing.T) {
	if *pinfold == "" {
		t.Skip("-pinfold names the binary")
	}
	const fast, strong, mobile = "TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"
	offers := [][]string{
		{fast}, {strong}, {mobile}, {fast + ":" + strong + ":" + mobile}, {mobile + ":" + fast}, {strong + ":" + mobile},
		{strong, "-groups", "X448:X25519"}, // Pinfold has no X448, and asks for another hello
	}
	authority, client := certs.New(t, "authority"), certs.New(t, "client").Store(t)
	stores := []string{"ssl.keyStore.location=" + authority.Issue(t, "server").Store(t), "ssl.trustStore.location=" + client}
	for _, listed := range [][]string{{strong}, {fast}, {strong, mobile}} {
		t.Run(strings.Join(listed, ","), func(t *testing.T) {
			apache := secured(t, "apache-3.9", append(stores, "ssl.ciphersuites="+strings.Join(listed, ","))...)
			ours := secured(t, "pinfold", append(stores, "ssl.ciphersuites="+strings.Join(listed, ","))...)
			for _, offer := range offers {
				want, got := suiteOf(t, apache, client, offer...), suiteOf(t, ours, client, offer...)
				if (want == "") != (got == "") || got != "" && !slices.Contains(listed, got) {
					t.Errorf("who offers %v gets %q at Apache, %q at Pinfold", offer, want, got)
				}
				t.Logf("%v: %q at Apache, %q at Pinfold", offer, want, got)
			}
			// What was hidden from the first hello of a client is not in its second.
			if got := suiteOf(t, ours, client, offers[3][0], "-groups", "X448:X25519"); got != "" {
				t.Errorf("a client that offers all, and needs a second hello, gets %s", got)
			}
		})
	}
}
