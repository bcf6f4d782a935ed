package server

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/internal/config"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// A client that closes its sending side with its last request gets the reply, and the connection ends: at once,
// or when its session expires if the end came in one report with the request (ADR 31).
func TestEndWithTheLastRequest(t *testing.T) {
	s := newTestServer(t, func(c *config.Config) {
		c.Session = config.Session{Tick: 50 * time.Millisecond, MinTimeout: 100 * time.Millisecond, MaxTimeout: time.Minute}
	})
	for range 5 {
		nc := s.dial()
		c := connect(t, nc, 200)
		if _, err := c.send(wire.OpExists, readBody("/", false)); err != nil {
			t.Fatal(err)
		}
		if err := nc.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		_ = nc.SetReadDeadline(time.Now().Add(20 * time.Second))
		if r, err := c.next(); err != nil || r.Err != zk.OK {
			t.Fatalf("%+v, %v", r, err)
		}
		if rest, err := io.ReadAll(nc); err != nil || len(rest) > 0 {
			t.Fatalf("%d bytes and %v, want the end of the connection", len(rest), err)
		}
	}
}
