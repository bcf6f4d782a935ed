package server

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/internal/config"
	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/replica"
	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// testServer is a server with a replica, on a file system in memory.
type testServer struct {
	*Server
	t    testing.TB
	rep  *replica.Replica
	disk *vfs.Mem
	addr string // of the listener on loopback, "" before listen
}

// newTestServer starts a server that the test's end stops. change may alter its
// configuration, which allows all four-letter words. It may run in a synctest
// bubble, if clients come by pipe.
func newTestServer(t testing.TB, change func(*config.Config)) *testServer {
	t.Helper()
	cfg := config.Default()
	cfg.Data.Dir = "/data"
	cfg.Client.MaxPerIP = 0
	cfg.Session.Tick = 2 * time.Second
	cfg.Session.MinTimeout, cfg.Session.MaxTimeout = 4*time.Second, 40*time.Second
	cfg.Commands.Allowed = []string{"*"}
	if change != nil {
		change(cfg)
	}
	s := &testServer{t: t, disk: vfs.NewMem()}
	srv, rep, dir := assemble(t, cfg, s.disk)
	s.Server, s.rep = srv, rep
	t.Cleanup(func() {
		s.Stop()
		if err := rep.Close(); err != nil && !errors.Is(err, replica.ErrClosed) {
			t.Error("replica:", err)
		}
		if err := dir.Close(); err != nil {
			t.Error("directory:", err)
		}
	})
	return s
}

// listen makes the server accept on loopback, and returns the address.
func (s *testServer) listen() string {
	s.t.Helper()
	if s.addr == "" {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			s.t.Fatal(err)
		}
		s.addr = l.Addr().String()
		served := make(chan error, 1)
		go func() { served <- s.Serve(l) }()
		s.t.Cleanup(func() { // runs before the server's own
			s.Stop()
			if err := <-served; err != nil {
				s.t.Error("serve:", err)
			}
		})
	}
	return s.addr
}

// dial connects over loopback; the test's end closes the connection.
func (s *testServer) dial() net.Conn {
	s.t.Helper()
	return dial(s.t, s.listen())
}

// pipe connects without a socket: writes wait for reads.
func (s *testServer) pipe() net.Conn {
	client, server := net.Pipe()
	s.accept(server)
	s.t.Cleanup(func() { client.Close() })
	return client
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

// testClient is a session, spoken by hand.
type testClient struct {
	t       testing.TB
	c       net.Conn
	xid     int32
	session wire.ConnectResponse
	events  []wire.WatcherEvent // that came before replies
}

// connect makes a session of the given timeout over c.
func connect(t testing.TB, c net.Conn, timeoutMillis int32) *testClient {
	t.Helper()
	k := &testClient{t: t, c: c}
	req := wire.ConnectRequest{TimeoutMillis: timeoutMillis, Password: make([]byte, wire.PasswordLen), HasReadOnly: true}
	k.write(req.Append(nil))
	d := jute.NewDecoder(k.frame())
	k.session.Decode(&d)
	if d.Err() != nil || k.session.SessionID == 0 {
		t.Fatalf("no session: %+v, %v", k.session, d.Err())
	}
	return k
}

func (k *testClient) write(body []byte) {
	k.t.Helper()
	if _, err := k.c.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)); err != nil {
		k.t.Fatal(err)
	}
}

// frame reads the next frame.
func (k *testClient) frame() []byte {
	k.t.Helper()
	var size [4]byte
	if _, err := io.ReadFull(k.c, size[:]); err != nil {
		k.t.Fatal(err)
	}
	b := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(k.c, b); err != nil {
		k.t.Fatal(err)
	}
	return b
}

// do sends a request and returns the reply's code and body. Events that come
// before it are kept.
func (k *testClient) do(op wire.OpCode, body []byte) (zk.Code, []byte) {
	k.t.Helper()
	k.xid++
	k.write(append(wire.RequestHeader{Xid: k.xid, Op: op}.Append(nil), body...))
	for {
		var h wire.ReplyHeader
		d := jute.NewDecoder(k.frame())
		h.Decode(&d)
		if h.Xid == wire.XidNotification {
			var e wire.WatcherEvent
			e.Decode(&d)
			k.events = append(k.events, e)
			continue
		}
		if d.Err() != nil || h.Xid != k.xid && op != wire.OpPing {
			k.t.Fatalf("%v: reply to %d, want %d; %v", op, h.Xid, k.xid, d.Err())
		}
		return h.Err, d.Rest()
	}
}

// must is do where an error fails the test.
func (k *testClient) must(op wire.OpCode, body []byte) []byte {
	k.t.Helper()
	code, b := k.do(op, body)
	if code != zk.OK {
		k.t.Fatalf("%v: %v", op, code)
	}
	return b
}

func (k *testClient) create(path string, data []byte, mode zk.CreateMode) {
	k.t.Helper()
	r := wire.CreateRequest{Path: path, Data: data, ACL: zk.OpenACLUnsafe(), Flags: mode, TTL: -1}
	k.must(wire.OpCreate, r.Append(nil, wire.OpCreate))
}

func (k *testClient) set(path string, data []byte) {
	k.t.Helper()
	r := wire.SetDataRequest{Path: path, Data: data, Version: -1}
	k.must(wire.OpSetData, r.Append(nil))
}

// read sends a request of a path and a watch.
func (k *testClient) read(op wire.OpCode, path string, watch bool) (zk.Code, []byte) {
	k.t.Helper()
	return k.do(op, (&wire.PathWatch{Path: path, Watch: watch}).Append(nil))
}
