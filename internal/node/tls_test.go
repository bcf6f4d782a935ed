package node

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/internal/config"
	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/test/certs"
	"github.com/pinfold-zk/pinfold/zk"
)

// secured is a running node with TLS, and what its clients need.
type secured struct {
	*Node
	user, server certs.Identity
}

// startSecured runs a node with a TLS port, and with TLS on the plain port.
func startSecured(t *testing.T, settings map[string]string, log ...*slog.Logger) secured {
	t.Helper()
	var s secured
	s.server, s.user = certs.New(t, "server"), certs.New(t, "user")
	all := map[string]string{
		"dataDir": "/data", "preAllocSize": "64", "clientPort": "0", "clientPortAddress": "127.0.0.1",
		"secureClientPort": "0", "secureClientPortAddress": "127.0.0.1", "client.portUnification": "true",
		"ssl.keyStore.location": s.server.Store(t), "ssl.trustStore.location": s.user.Store(t),
	}
	for k, v := range settings {
		all[k] = v
		if v == "" {
			delete(all, k)
		}
	}
	cfg, _, err := (&config.Source{Settings: all}).Load()
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Config: cfg, FS: vfs.NewMem()}
	if len(log) > 0 {
		o.Logger = log[0]
	}
	if s.Node, err = Open(o); err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		end()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s
}

// config is that of a client, with the user's certificate or without.
func (s *secured) config(certified bool) *tls.Config {
	c := &tls.Config{RootCAs: s.server.Pool()}
	if certified {
		c.Certificates = []tls.Certificate{s.user.TLS}
	}
	return c
}

// A client with a certificate is who the certificate says, on either port; znodes of its
// own are closed to others. The plain port still serves clients without TLS.
func TestSecureClients(t *testing.T) {
	s := startSecured(t, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	own := []zk.ACL{{Perms: zk.PermAll, ID: zk.ID{Scheme: "auth"}}}
	for path, addr := range map[string]net.Addr{"/secure": s.SecureAddr(), "/unified": s.Addr()} {
		c, err := client.Dial(ctx, addr.String(), client.TLS(s.config(true)))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Create(ctx, path, make([]byte, 100<<10), zk.Persistent, own); err != nil {
			t.Fatal(err)
		}
		acl, _, err := c.GetACL(ctx, path)
		if err != nil || acl[0].ID != (zk.ID{Scheme: "x509", ID: "CN=user"}) {
			t.Errorf("%v, %v", acl, err)
		}
		if data, _, err := c.Get(ctx, path); err != nil || len(data) != 100<<10 {
			t.Errorf("%d bytes, %v", len(data), err)
		}
		plain, err := client.Dial(ctx, s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := plain.Get(ctx, path); err == nil {
			t.Error("a client without a certificate reads a znode of another's")
		}
		c.Close()
		plain.Close()
	}
}

// What is not a handshake, or one without a certificate, is refused on the TLS port.
func TestSecurePortRefuses(t *testing.T) {
	s := startSecured(t, nil)
	address := s.SecureAddr().String()
	c, err := tls.Dial("tcp", address, s.config(false))
	if err == nil { // with TLS 1.3 the client learns it by its first read
		_, err = c.Read(make([]byte, 1))
	}
	if err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("without a certificate: %v", err)
	}
	nc, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if _, err := nc.Write([]byte("ruok")); err != nil {
		t.Fatal(err)
	}
	if answer, _ := io.ReadAll(nc); strings.Contains(string(answer), "imok") {
		t.Errorf("a word without TLS is answered %q", answer)
	}
}

// Four-letter words are answered over TLS, and without it on the port for both.
func TestWordsOverTLS(t *testing.T) {
	s := startSecured(t, map[string]string{"4lw.commands.whitelist": "*"})
	ask := func(nc net.Conn, err error) string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		if _, err := nc.Write([]byte("conf")); err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(nc)
		if err != nil {
			t.Error(err)
		}
		return string(answer)
	}
	secure, err := tls.Dial("tcp", s.SecureAddr().String(), s.config(true))
	for _, got := range []string{ask(secure, err), ask(net.Dial("tcp", s.Addr().String()))} {
		if !strings.Contains(got, "secureClientPort=") || strings.Contains(got, "secureClientPort=-1") {
			t.Errorf("conf: %q", got)
		}
	}
}

// A server may have the TLS port alone.
func TestOnlySecurePort(t *testing.T) {
	s := startSecured(t, map[string]string{"clientPort": "", "clientPortAddress": "", "client.portUnification": "", "ssl.clientAuth": "none"})
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	c, err := client.Dial(ctx, s.Addr().String(), client.TLS(s.config(false)))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Create(ctx, "/a", nil, zk.Persistent, zk.OpenACLUnsafe()); err != nil {
		t.Error(err)
	}
}

// The administration server has HTTPS, alone or beside HTTP, and asks for a certificate if
// that is configured.
func TestHTTPS(t *testing.T) {
	file := certs.New(t, "admin").Store(t)
	for _, c := range []struct {
		name, key, need    string
		http, https, known bool // which requests are answered: HTTP, HTTPS, HTTPS with a certificate
	}{
		{"https alone", "admin.forceHttps", "false", false, true, true},
		{"both", "admin.portUnification", "false", true, true, true},
		{"with a certificate", "admin.forceHttps", "true", false, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			reader := certs.New(t, "reader")
			s := startSecured(t, map[string]string{
				"admin.enableServer": "true", "admin.serverAddress": "127.0.0.1", "admin.serverPort": "0", c.key: "true", "admin.needClientAuth": c.need, "4lw.commands.whitelist": "mntr",
				"ssl.quorum.keyStore.location": file, "ssl.quorum.trustStore.location": reader.Store(t),
			})
			for _, try := range []struct {
				scheme string
				config *tls.Config
				want   bool
			}{
				{"http", nil, c.http},
				{"https", &tls.Config{InsecureSkipVerify: true}, c.https},
				{"https", &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{reader.TLS}}, c.known},
			} {
				transport := &http.Transport{TLSClientConfig: try.config, DisableKeepAlives: true}
				answer, err := (&http.Client{Transport: transport}).Get(try.scheme + "://" + s.AdminAddr().String() + "/commands/ruok")
				if (err == nil) != try.want {
					t.Errorf("%s, with a configuration %v: %v", try.scheme, try.config != nil, err)
				}
				if err != nil {
					continue
				}
				answer.Body.Close()
				if hsts := answer.Header.Get("Strict-Transport-Security"); (hsts != "") != (try.scheme == "https") || answer.StatusCode != 200 {
					t.Errorf("%s: %s, %q", try.scheme, answer.Status, hsts)
				}
			}
			if want := map[bool]string{true: "\t1\n", false: "\t0\n"}[c.http]; !strings.Contains(asked(t, s.Node), "insecure_admin_count"+want) {
				t.Errorf("connections without TLS are not counted, or others are: mntr does not have %q", want)
			}
		})
	}
}

// asked returns the answer of a node to mntr.
func asked(t *testing.T, n *Node) string {
	t.Helper()
	answer, err := client.FourLetter(t.Context(), n.Addr().String(), "mntr")
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

// The administration server lists connections by their port: those of the port with TLS only
// apart from the others, which may have TLS too.
func TestSecureConnectionsAreListed(t *testing.T) {
	s := startSecured(t, map[string]string{"admin.enableServer": "true", "admin.serverAddress": "127.0.0.1", "admin.serverPort": "0"})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, addr := range []string{s.SecureAddr().String(), s.Addr().String()} {
		c, err := client.Dial(ctx, addr, client.TLS(s.config(true)))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	answer, err := http.Get("http://" + s.AdminAddr().String() + "/commands/connections")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	plain, secure, ok := strings.Cut(string(body), `"secure_connections"`)
	if !ok || strings.Count(plain, "remote_socket_address") != 1 || strings.Count(secure, "remote_socket_address") != 1 {
		t.Errorf("%s", body)
	}
}
