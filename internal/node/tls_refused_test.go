package node

import (
	"bytes"
	"crypto/x509"
	"log/slog"
	"net"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/test/handshakes"
)

// lines is a log that is read while it is written.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{} // a token: something was written
}

func newLines() *lines { return &lines{more: make(chan struct{}, 1)} }

func (l *lines) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// Write implements io.Writer.
func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case l.more <- struct{}{}:
	default:
	}
	return l.text.Write(b)
}

// String returns what was written.
func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Reset forgets what was written.
func (l *lines) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Reset()
}

// await returns the first line that contains all parts.
func (l *lines) await(t *testing.T, parts ...string) {
	t.Helper()
	for end := time.After(90 * time.Second); ; {
		text := l.String()
		for line := range strings.Lines(text) {
			found := true
			for _, part := range parts {
				found = found && strings.Contains(line, part)
			}
			if found {
				return
			}
		}
		select {
		case <-l.more:
		case <-end:
			t.Fatalf("no line of the log has %q:\n%s", parts, text)
		}
	}
}

// A handshake that must not succeed is refused, and a line says whose it was and why. This
// server answers nothing on such a connection.
func TestHandshakesAreRefused(t *testing.T) {
	for protocols, old := range map[string]bool{"TLSv1.3": false, "TLSv1.3,TLSv1.2": true} {
		t.Run(protocols, func(t *testing.T) {
			log := newLines()
			s := startSecured(t, map[string]string{"ssl.enabledProtocols": protocols, "ssl.clientHostnameVerification": "true"}, log.logger())
			list := handshakes.Clients(t, s.user, old)
			elsewhere := handshakes.Wrong(t, s.user, "elsewhere", "certificate is valid for 10.0.0.1, not 127.0.0.1", func(c *x509.Certificate) {
				c.IPAddresses = []net.IP{net.IPv4(10, 0, 0, 1)}
			})
			for _, r := range append(list, elsewhere) {
				nc, err := net.Dial("tcp", s.SecureAddr().String())
				if err != nil {
					t.Fatal(err)
				}
				defer nc.Close()
				if answer := r.Try(nc, []byte("ruok")); len(answer) > 0 {
					t.Errorf("%s: it is answered %q", r.Name, answer)
				}
				log.await(t, "TLS handshake failed", "client="+nc.LocalAddr().String(), r.Why, r.Certificate)
			}
		})
	}
}

// A client that uses TLS on a port without it is refused, and the line says so.
func TestTLSOnPlainPort(t *testing.T) {
	log := newLines()
	s := startSecured(t, map[string]string{"client.portUnification": ""}, log.logger())
	nc, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if _, err := nc.Write(handshakes.Hello()); err != nil {
		t.Fatal(err)
	}
	log.await(t, "client="+nc.LocalAddr().String(), "uses TLS, which this port does not have")
}

// A client that asks for a renegotiation loses its connection, and a line says so.
func TestRenegotiation(t *testing.T) {
	openssl, err := exec.LookPath("openssl")
	if err != nil {
		t.Skipf("SKIPPED: %v", err)
	}
	log := newLines()
	s := startSecured(t, map[string]string{"ssl.enabledProtocols": "TLSv1.3,TLSv1.2"}, log.logger())
	cmd := exec.CommandContext(t.Context(), openssl, "s_client", "-connect", s.SecureAddr().String(), "-tls1_2", "-cert", s.user.Store(t), "-key", s.user.Store(t))
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := in.Write([]byte("R\n")); err != nil {
		t.Error(err)
	}
	log.await(t, "client=127.0.0.1:", "clientHelloMsg")
	if err := cmd.Wait(); err == nil || !strings.Contains(out.String(), "RENEGOTIATING") {
		t.Errorf("%v: %s", err, out.String())
	}
}
