package server

import (
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/internal/audit"
	"github.com/pinfold-zk/pinfold/internal/auth"
	"github.com/pinfold-zk/pinfold/internal/config"
	"github.com/pinfold-zk/pinfold/internal/node/options"
	"github.com/pinfold-zk/pinfold/internal/replica"
	"github.com/pinfold-zk/pinfold/internal/session"
	"github.com/pinfold-zk/pinfold/internal/storage"
	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/test/memconn"
	"github.com/pinfold-zk/pinfold/zk"
)

// rig is a server whose file system, replica and clients' addresses a test
// chooses, and that can be stopped and started again.
type rig struct {
	t    testing.TB
	srv  *Server
	rep  *replica.Replica
	dir  *storage.Dir
	cfg  *config.Config
	fs   vfs.FS
	once sync.Once
	host byte // of the last client address
}

// rigSetup is what a test may change before the server starts.
type rigSetup struct {
	fs        vfs.FS
	cfg       *config.Config
	passwords session.Passwords
	audit     *audit.Log
	limits    string // the content of limitsFile; "": there is none
	onFlush   func() // called by the applier before each Flush, without a lock; nil is allowed
}

// flushed is a server whose Flush calls f first.
type flushed struct {
	*Server
	f func()
}

func (s flushed) Flush() {
	s.f()
	s.Server.Flush()
}

// rigTick is the tick of session expiry; sessions have 2 to 20 of them.
const rigTick = time.Second

// newRig starts a server on an empty file system in memory. It is stopped at the
// end of the test. It works within a synctest bubble and outside of one.
func newRig(t testing.TB, change ...func(*rigSetup)) *rig {
	t.Helper()
	setup := &rigSetup{fs: vfs.NewMem(), cfg: config.Default()}
	setup.cfg.Data.Dir = "/data"
	setup.cfg.Session = config.Session{Tick: rigTick, MinTimeout: 2 * rigTick, MaxTimeout: 20 * rigTick}
	setup.cfg.Tree.ExtendedTypes = true
	setup.cfg.Snapshot.Count = 1 << 30
	for _, f := range change {
		f(setup)
	}
	s := &rig{t: t, cfg: setup.cfg, fs: setup.fs}
	s.srv, s.rep, s.dir = assemble(t, setup.cfg, setup.fs, setup.onFlush)
	s.srv.passwords, s.srv.audit = setup.passwords, setup.audit
	if setup.limits != "" {
		s.srv.limits = newLimits(parseLimits(t, setup.limits), s.rep.Now)
	}
	t.Cleanup(s.stop)
	return s
}

// assemble makes a server that does not listen from its configuration, as package
// node does. The caller closes the three.
func assemble(t testing.TB, cfg *config.Config, fs vfs.FS, onFlush func()) (*Server, *replica.Replica, *storage.Dir) {
	t.Helper()
	cfg.Data.LogDir = cfg.Data.Dir
	cfg.Log.PreAllocBytes = 64 << 10
	authority, err := auth.New(options.Auth(cfg))
	if err != nil {
		t.Fatal(err)
	}
	dir, err := storage.Open(fs, options.Storage(cfg))
	if err != nil {
		t.Fatal(err)
	}
	o, err := options.Replica(cfg)
	if err != nil {
		t.Fatal(err)
	}
	srv := New(Options{Config: cfg, Auth: authority})
	o.Dir, o.Auth, o.Clients = dir, authority, srv
	if onFlush != nil {
		o.Clients = flushed{srv, onFlush}
	}
	rep, _, err := replica.Start(o, time.Now().UnixMilli())
	if err != nil {
		dir.Close()
		t.Fatal(err)
	}
	srv.Attach(rep)
	return srv, rep, dir
}

// stop ends the server in order; a replica that has failed may say so.
func (s *rig) stop() {
	s.once.Do(func() {
		s.srv.Stop()
		failed := s.failed()
		if err := s.rep.Close(); err != nil && !failed {
			s.t.Errorf("close: %v", err)
		}
		if err := s.dir.Close(); err != nil {
			s.t.Errorf("close the directory: %v", err)
		}
	})
}

// failed reports whether the replica has given up.
func (s *rig) failed() bool {
	select {
	case <-s.rep.Failed():
		return true
	default:
		return false
	}
}

// restart stops the server and starts another one over the same files.
func (s *rig) restart(options ...func(*rigSetup)) *rig {
	s.t.Helper()
	s.stop()
	same := func(setup *rigSetup) { setup.fs = s.fs }
	return newRig(s.t, append([]func(*rigSetup){same}, options...)...)
}

// rigBuffer is what a connection in memory holds in each direction.
const rigBuffer = 32 << 10

// pipe connects in memory; each call has another address.
func (s *rig) pipe() net.Conn {
	s.host++
	return s.pipeFrom(netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 1, s.host}), 40000))
}

func (s *rig) pipeFrom(from netip.AddrPort) net.Conn {
	client, server := memconn.New(rigBuffer, from)
	s.srv.accept(server, nil)
	return client
}

// listen serves on the loopback interface and returns the address.
func (s *rig) listen() string {
	s.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.srv.Serve(l, nil) }()
	s.t.Cleanup(func() {
		s.stop()
		if err := <-done; err != nil {
			s.t.Errorf("serve: %v", err)
		}
	})
	return l.Addr().String()
}

// open makes a client with a new session of ten ticks, in memory.
func (s *rig) open() *wireClient {
	s.t.Helper()
	return s.openWith(s.pipe())
}

func (s *rig) openWith(nc net.Conn) *wireClient {
	s.t.Helper()
	c := newWireClient(s.t, nc)
	c.mustConnect(10 * rigTick)
	return c
}

// conns is the number of connections that the server has.
func (s *rig) conns() int {
	s.srv.mu.Lock()
	defer s.srv.mu.Unlock()
	return s.srv.mu.open
}

// sessions returns the number of sessions in the server's tree.
func (s *rig) sessions() (n int) {
	s.rep.View(func(tree replica.View) { n = tree.SessionCount() })
	return n
}

// knows reports whether the server's tree has a session.
func (s *rig) knows(id zk.SessionID) (ok bool) {
	s.rep.View(func(tree replica.View) { ok = tree.HasSession(id) })
	return ok
}
