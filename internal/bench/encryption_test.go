//go:build linux

package bench

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

func newEncryption(t *testing.T) *Encryption {
	t.Helper()
	e, err := OpenEncryption(filepath.Join(t.TempDir(), "tls"))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// listenTLS is listen with TLS.
func listenTLS(t *testing.T, serve func(ctx context.Context, ln net.Listener) error) Options {
	t.Helper()
	e := newEncryption(t)
	o := listen(t, func(ctx context.Context, ln net.Listener) error {
		ln, err := encrypted(ln, e.store, e.trust)
		if err != nil {
			return err
		}
		return serve(ctx, ln)
	})
	o.TLS = e
	return o
}

// The certificates are made once, and what is no directory of them is refused.
func TestOpenEncryption(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "here")
	first, err := OpenEncryption(dir)
	if err != nil {
		t.Fatal(err)
	}
	second, err := OpenEncryption(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.EqualFunc(first.client.Certificates[0].Certificate, second.client.Certificates[0].Certificate, slices.Equal[[]byte]) {
		t.Error("the second time there is another certificate")
	}
	if info, err := os.Stat(first.store); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v: others can read the key", info, err)
	}
	if err := os.WriteFile(first.trust, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{dir: "trust.pem has no certificate", t.TempDir(): "store.pem"} {
		if _, err := OpenEncryption(dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", dir, err, want)
		}
	}
}

func TestEncryptedIdle(t *testing.T) {
	r, err := Idle{Options: listenTLS(t, Floor{}.Serve), Sessions: 10}.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if r.PerCount != 10 {
		t.Errorf("%d sessions", r.PerCount)
	}
}

// A server that does not trust the client's authority, or has no TLS, is an error and no hang.
func TestEncryptionIsRefused(t *testing.T) {
	o := listenTLS(t, Floor{}.Serve)
	plain, stranger := o, o
	plain.TLS, stranger.TLS = nil, newEncryption(t)
	none := listen(t, Floor{}.Serve)
	none.TLS = o.TLS
	for name, o := range map[string]Options{"plain": plain, "stranger": stranger, "a server without TLS": none} {
		if _, err := (Idle{Options: o, Sessions: 3}).Run(t.Context()); err == nil || !strings.Contains(err.Error(), "bench: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// listening serves on a port, with or without TLS.
type listening func(t *testing.T, serve func(ctx context.Context, ln net.Listener) error) Options

// Connections and sessions are counted, with TLS and without. The load ends when the server has
// had enough of them.
func TestConnect(t *testing.T) {
	const enough = 20
	for _, on := range []listening{listen, listenTLS} {
		for _, sessions := range []bool{true, false} {
			ctx, cancel := context.WithCancel(t.Context())
			serve, op := words("imok"), "handshake"
			if sessions {
				serve, op = Floor{}.Serve, "session"
			}
			o := on(t, func(ctx context.Context, ln net.Listener) error {
				return serve(ctx, &countingListener{ln, enough, cancel})
			})
			o.Duration, o.Warmup = time.Minute, 0
			r, err := Connect{Options: o, Workers: 3, Sessions: sessions}.Run(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if n := r.Op(op).Count; n < enough-3 || len(r.Ops) != 1 || !r.Interrupted {
				t.Errorf("%d of %+v", n, r)
			}
		}
	}
}

// countingListener calls full when it has accepted so many connections.
type countingListener struct {
	net.Listener
	left int
	full func()
}

func (l *countingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if l.left--; l.left == 0 {
		l.full()
	}
	return c, err
}

// words answers every four-letter word.
func words(answer string) func(ctx context.Context, ln net.Listener) error {
	return func(ctx context.Context, ln net.Listener) error {
		defer context.AfterFunc(ctx, func() { ln.Close() })()
		var wg sync.WaitGroup
		defer wg.Wait()
		for {
			c, err := ln.Accept()
			if err != nil {
				return nil
			}
			wg.Go(func() {
				defer c.Close()
				if _, err := io.ReadFull(c, make([]byte, 4)); err == nil {
					_, _ = io.WriteString(c, answer)
				}
			})
		}
	}
}

// What is wrong with a connection ends the load with an error that says it.
func TestConnectFails(t *testing.T) {
	nobody := Options{Servers: []string{"127.0.0.1:1"}}
	for want, c := range map[string]Connect{
		"0 workers": {Options: nobody},
		"refused":   {Options: nobody, Workers: 2},
		`"no"`:      {Options: listen(t, words("no")), Workers: 2},
	} {
		c.Duration = time.Minute
		if _, err := c.Run(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
