package server

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/internal/config"
	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/internal/wire"
)

// testServer is a rig that allows all four-letter words.
type testServer struct {
	*Server
	*rig
	disk *vfs.Mem
	addr string // of the listener on loopback, "" before listen
}

// newTestServer starts a server that the test's end stops. change may alter its
// configuration. It may run in a synctest bubble, if clients come by pipe.
func newTestServer(t testing.TB, change func(*config.Config)) *testServer {
	t.Helper()
	disk := vfs.NewMem()
	r := newRig(t, func(s *rigSetup) {
		s.fs = disk
		s.cfg.Client.MaxPerIP = 0
		s.cfg.Session = config.Session{Tick: 2 * time.Second, MinTimeout: 4 * time.Second, MaxTimeout: 40 * time.Second}
		s.cfg.Commands.Allowed = []string{"*"}
		if change != nil {
			change(s.cfg)
		}
	})
	return &testServer{Server: r.srv, rig: r, disk: disk}
}

// listen makes the server accept on loopback, and returns the address.
func (s *testServer) listen() string {
	s.t.Helper()
	if s.addr == "" {
		s.addr = s.rig.listen()
	}
	return s.addr
}

// dial connects over loopback; the test's end closes the connection.
func (s *testServer) dial() net.Conn {
	s.t.Helper()
	return dial(s.t, s.listen())
}

// pipe connects in memory.
func (s *testServer) pipe() net.Conn {
	c := s.rig.pipe()
	s.t.Cleanup(func() { c.Close() })
	return c
}

func dial(t testing.TB, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// ask sends a four-letter word, or any bytes, and returns all that comes back.
func ask(t testing.TB, c net.Conn, word string) string {
	t.Helper()
	if _, err := io.WriteString(c, word); err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(c)
	if err != nil {
		t.Fatalf("%q: %v after %q", word, err, b)
	}
	return string(b)
}

// connect makes a session of the given timeout over c.
func connect(t testing.TB, c net.Conn, timeoutMillis int) *wireClient {
	t.Helper()
	k := newWireClient(t, c)
	k.mustConnect(time.Duration(timeoutMillis) * time.Millisecond)
	return k
}

// read sends a request of a path and a watch.
func (c *wireClient) read(op wire.OpCode, path string, watch bool) reply {
	c.t.Helper()
	return c.call(op, readBody(path, watch))
}

func (c *wireClient) set(path string, data []byte) {
	c.t.Helper()
	c.mustCall(wire.OpSetData, setBody(path, data))
}
