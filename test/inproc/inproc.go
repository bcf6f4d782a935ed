// Package inproc runs a whole standalone server inside of a test: in memory, and
// within a synctest bubble if the test is in one. A test can cut connections, lose
// answers, end sessions and restart the server.
package inproc

import (
	"context"
	"io"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/internal/config"
	"github.com/pinfold-zk/pinfold/internal/node"
	"github.com/pinfold-zk/pinfold/internal/replica"
	"github.com/pinfold-zk/pinfold/internal/session"
	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/test/frames"
	"github.com/pinfold-zk/pinfold/test/memconn"
	"github.com/pinfold-zk/pinfold/zk"
)

// Sessions have timeouts of 2 to 20 ticks.
const tick = time.Second

// Server is a server and its network. Its methods may be called from any
// goroutine.
type Server struct {
	t  testing.TB
	fs vfs.FS

	mu     sync.Mutex // guards what follows
	run    *run       // nil while the server is stopped
	loaded replica.Report
	taps   map[*tap]struct{}
	host   uint16 // of the last client's address
	loss   loss
	// expiring is a session that its client must not resume.
	expiring zk.SessionID
}

// run is a server from a start to a stop.
type run struct {
	in   *listener
	end  context.CancelFunc
	done chan error // what Run returned
}

// Loaded returns what the last start has recovered from the data directory.
func (s *Server) Loaded() replica.Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.loaded
}

// Start starts a server with an empty tree. It is stopped when the test ends;
// clients of Client are closed before that.
func Start(t testing.TB) *Server {
	t.Helper()
	return StartOn(t, vfs.NewMem())
}

// DataDir is the data directory of every server.
const DataDir = "/data"

// StartOn is Start with a file system, which may have a data directory already.
func StartOn(t testing.TB, fs vfs.FS) *Server {
	t.Helper()
	s := &Server{t: t, fs: fs, taps: map[*tap]struct{}{}}
	s.Start()
	t.Cleanup(s.Stop)
	return s
}

// Start starts the server again after Stop, with the tree that it had.
func (s *Server) Start() {
	s.t.Helper()
	in := newListener()
	n, err := node.Open(node.Options{Config: s.config(), FS: s.fs, Listener: in})
	if err != nil {
		s.t.Fatal("inproc:", err)
	}
	ctx, end := context.WithCancel(context.Background())
	r := &run{in: in, end: end, done: make(chan error, 1)}
	go func() { r.done <- n.Run(ctx) }()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.run, s.loaded = r, *n.Report()
}

// config is a standalone server that writes no snapshot, except at its start, and
// sweeps every tick.
func (s *Server) config() *config.Config {
	cfg := config.Default()
	cfg.Data.Dir, cfg.Data.LogDir = DataDir, DataDir
	cfg.Log.PreAllocBytes = 64 << 10
	cfg.Snapshot.Count = 1 << 30
	cfg.Session = config.Session{Tick: tick, MinTimeout: 2 * tick, MaxTimeout: 20 * tick}
	cfg.Tree.ExtendedTypes = true
	cfg.Reaper.Interval, cfg.Reaper.MaxPerMinute = tick, 10000
	return cfg
}

// Stop stops the server. Connections break, and none can be made.
func (s *Server) Stop() {
	s.mu.Lock()
	r := s.run
	s.run = nil
	s.mu.Unlock()
	if r == nil {
		return
	}
	r.end()
	if err := <-r.done; err != nil {
		s.t.Errorf("inproc: %v", err)
	}
}

// Restart is Stop and Start.
func (s *Server) Restart() {
	s.t.Helper()
	s.Stop()
	s.Start()
}

// Dial connects to the server; it is made for client.Dialer.
func (s *Server) Dial(context.Context, string, string) (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run == nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: io.ErrClosedPipe}
	}
	s.host++
	from := netip.AddrFrom4([4]byte{10, 1, byte(s.host >> 8), byte(s.host)})
	near, far := memconn.New(32<<10, netip.AddrPortFrom(from, 40000))
	t := &tap{Conn: near, server: s}
	s.taps[t] = struct{}{}
	return t, s.run.in.hand(far)
}

// Client returns a client whose session is established. It is closed when the
// test ends.
func (s *Server) Client(t testing.TB, opts ...client.Option) *client.Client {
	t.Helper()
	return s.ClientAt(t, "", opts...)
}

// ClientAt is Client with a chroot.
func (s *Server) ClientAt(t testing.TB, chroot string, opts ...client.Option) *client.Client {
	t.Helper()
	c, err := client.Dial(context.Background(), "10.0.0.1:2181"+chroot, append([]client.Option{client.Dialer(s.Dial)}, opts...)...)
	if err != nil {
		t.Fatal("inproc:", err)
	}
	t.Cleanup(func() { c.Close() }) // a test may have closed it, or ended its session
	return c
}

// Cut breaks all connections. Clients may connect again.
func (s *Server) Cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for t := range s.taps {
		t.Conn.Close()
	}
	clear(s.taps)
}

// Expire ends a session, as its timeout does: its client hears of it when it
// connects again, which it must, as its connection breaks.
func (s *Server) Expire(id zk.SessionID) {
	s.t.Helper()
	s.setExpiring(id)
	defer s.setExpiring(0)
	var err error
	for range 3 { // a handshake of the client may have been on its way
		if err = s.endSession(id); err == nil {
			return
		}
	}
	s.t.Fatalf("inproc: end session %v: %v", id, err)
}

// endSession takes a session over, and closes it. It returns nil when the session
// is over.
func (s *Server) endSession(id zk.SessionID) error {
	nc, err := s.Dial(context.Background(), "", "")
	if err != nil {
		return err
	}
	defer nc.Close()
	nc.(*tap).greeted = true // its handshake is let through
	password := session.Password(id)
	c := frames.New(nc)
	answer, err := c.Connect(wire.ConnectRequest{TimeoutMillis: int32(tick.Milliseconds()), SessionID: id, Password: password[:], HasReadOnly: true})
	if err != nil || answer.TimeoutMillis <= 0 {
		return err
	}
	_, err = c.Call(1, wire.OpCloseSession, nil)
	return err
}

func (s *Server) setExpiring(id zk.SessionID) {
	s.mu.Lock()
	s.expiring = id
	s.mu.Unlock()
}

// listener hands connections over to Serve.
type listener struct {
	conns chan net.Conn
	gone  chan struct{}
	once  sync.Once
}

func newListener() *listener { return &listener{conns: make(chan net.Conn), gone: make(chan struct{})} }

func (l *listener) hand(c net.Conn) error {
	select {
	case l.conns <- c:
		return nil
	case <-l.gone:
		return net.ErrClosed
	}
}

// Accept returns the next connection (net.Listener).
func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.gone:
		return nil, net.ErrClosed
	}
}

// Close ends Accept.
func (l *listener) Close() error {
	l.once.Do(func() { close(l.gone) })
	return nil
}

// Addr is where clients believe the server to be.
func (l *listener) Addr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort("10.0.0.1:2181"))
}
