package server

import (
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/internal/wire"
)

// A connection that is killed while its ConnectRequest is read asks for no session:
// nobody would tell it of the answer, and Stop would wait for it for ever.
func TestHandshakeOfAKilledConnection(t *testing.T) {
	s := newTestServer(t, nil)
	client, nc := net.Pipe()
	defer client.Close()
	c := s.newConn(nc, netip.MustParseAddrPort("127.0.0.1:1"))
	if reason := s.admit(c, nil); reason != "" {
		t.Fatal(reason)
	}
	c.kill("server shutdown")
	over := make(chan error, 1)
	go func() { over <- c.connect(&wire.ConnectRequest{TimeoutMillis: 10000}) }()
	select {
	case err := <-over:
		if !errors.Is(err, errEnd) {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("it waits for its session")
	}
	c.end()
}
