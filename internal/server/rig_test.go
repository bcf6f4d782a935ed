package server

import (
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/internal/auth"
	"github.com/pinfold-zk/pinfold/internal/config"
	"github.com/pinfold-zk/pinfold/internal/prep"
	"github.com/pinfold-zk/pinfold/internal/replica"
	"github.com/pinfold-zk/pinfold/internal/server/memconn"
	"github.com/pinfold-zk/pinfold/internal/storage"
	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/internal/znode"
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
	fs      vfs.FS
	dataDir string
	cfg     *config.Config
	auth    auth.Config
	replica replica.Options

	serverID uint8 // in session ids
}

// rigTick is the tick of session expiry; sessions have 2 to 20 of them.
const rigTick = time.Second

// newRig starts a server on an empty file system in memory. It is stopped at the
// end of the test. It works within a synctest bubble and outside of one.
func newRig(t testing.TB, options ...func(*rigSetup)) *rig {
	t.Helper()
	cfg := config.Default()
	cfg.Session = config.Session{Tick: rigTick, MinTimeout: 2 * rigTick, MaxTimeout: 20 * rigTick}
	cfg.Tree.ExtendedTypes = true
	setup := &rigSetup{fs: vfs.NewMem(), dataDir: "/data", cfg: cfg, serverID: 1}
	setup.replica = replica.Options{
		SnapCount: 1 << 30, DBAutoCreate: true, MaxRecordBytes: 4 << 20,
		SweepInterval: time.Minute, SweepPerMinute: 10000, LastZxidBlock: true,
	}
	for _, o := range options {
		o(setup)
	}
	authority, err := auth.New(setup.auth)
	if err != nil {
		t.Fatal(err)
	}
	s := &rig{t: t, cfg: cfg, fs: setup.fs, srv: New(Options{Config: cfg, Auth: authority})}
	s.dir, err = storage.Open(setup.fs, storage.Options{
		DataDir: setup.dataDir, AutoCreate: true, Log: storage.LogOptions{PreallocBytes: 64 << 10},
	})
	if err != nil {
		t.Fatal(err)
	}
	o := setup.replica
	o.Dir, o.Auth, o.Clients, o.Tick, o.ServerID = s.dir, authority, s.srv, cfg.Session.Tick, setup.serverID
	o.Tree = znode.Options{ExtendedTypes: cfg.Tree.ExtendedTypes}
	o.Prep = prep.Config{
		ExtendedTypes: cfg.Tree.ExtendedTypes, EnforceQuota: cfg.Tree.EnforceQuota, ListClosedPaths: true, DigestEnabled: true,
	}
	s.rep, _, err = replica.Start(o, time.Now().UnixMilli())
	if err != nil {
		s.dir.Close()
		t.Fatal(err)
	}
	s.srv.Attach(s.rep)
	t.Cleanup(s.stop)
	return s
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
	s.srv.accept(server)
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
	go func() { done <- s.srv.Serve(l) }()
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
