// Package pinfold runs ZooKeeper servers within a Go program, in production or in
// its tests. A Server is what the command `pinfold server` runs: it speaks
// ZooKeeper's protocols, takes ZooKeeper's settings and keeps ZooKeeper's data
// directory.
//
//	s, err := pinfold.New(pinfold.Config{}) // standalone, in memory, on a free port
//	if err != nil {
//		return err
//	}
//	if err := s.Start(ctx); err != nil {
//		return err
//	}
//	defer s.Stop()
//	c, err := client.Dial(ctx, s.Addr())
//
// A process may have any number of servers, whole ensembles among them. A server
// ends no process, handles no signal, prints nothing, and tunes nothing that the
// process has only once (but see Memory).
//
// docs/embedding.md is the guide.
package pinfold

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/pinfold-zk/pinfold/internal/config"
	"github.com/pinfold-zk/pinfold/internal/node"
	"github.com/pinfold-zk/pinfold/internal/vfs"
)

// Config says how a server runs. The zero value is a standalone server on a free
// port of 127.0.0.1, with its data in memory.
type Config struct {
	// File is the name of a zoo.cfg; "" is none.
	File string
	// Settings are keys of zoo.cfg ("tickTime", "server.1") and Java's properties by
	// their full names ("jute.maxbuffer"). They override File.
	Settings map[string]string
	// ID is the server's number in its ensemble. If it is 0, the file myid of the data
	// directory has the number.
	ID int64
	// Addr is where clients connect, host:port; port 0 takes a free port. It overrides
	// File and Settings. Without a File, and without a port in Settings, "" is
	// 127.0.0.1:0.
	Addr string
	// DataDir is the data directory, which is made if it is missing. It overrides File
	// and Settings. If it is "" and they name none, the data is kept in memory, and is
	// lost with the Server: that is for tests.
	DataDir string
	// Logger is given what an operator should know; nil discards it.
	Logger *slog.Logger
	// Memory tunes the process's memory for the server; nil leaves it alone.
	Memory *Memory
}

// Errors that a caller may want to tell apart.
var (
	// ErrRunning is returned by Start if the server runs.
	ErrRunning = errors.New("pinfold: the server runs already")
	// ErrStopped is returned by Ready if the server does not run.
	ErrStopped = errors.New("pinfold: the server does not run")
)

// Server is a server of ZooKeeper. New makes it, Start starts it, Stop stops it,
// and Start starts it again: at the same address, with the state that it had. Its
// methods may be called from any goroutine.
type Server struct {
	config *config.Config
	log    *slog.Logger
	fs     vfs.FS
	memory *node.Memory

	mu   sync.Mutex
	life *life                   // the last; nil before the first Start
	held map[string]net.Listener // ports that NewEnsemble has opened, by their addresses
}

// life is one life of a server, from Start to Stop or to its failure.
type life struct {
	node *node.Node
	end  context.CancelFunc
	done chan struct{} // closed when the node has ended
	err  error         // set before done is closed
}

// New reads the configuration. Its warnings go to the Logger. The error names each
// setting that is refused, and its place.
func New(c Config) (*Server, error) {
	s := &Server{log: c.Logger, fs: vfs.OS{}, memory: c.Memory.tuner()}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	source, err := c.source()
	if err != nil {
		return nil, err
	}
	if c.inMemory() {
		s.fs = vfs.NewMem()
	}
	conf, warnings, err := source.Load()
	for _, w := range warnings {
		s.log.Warn("configuration", "at", w.Where, "key", w.Key, "warning", w.Text)
	}
	if err != nil {
		return nil, fmt.Errorf("pinfold: %w", err)
	}
	switch own := conf.Quorum.Own(); {
	case c.Addr != "":
		conf.Client.Host, _, _ = net.SplitHostPort(c.Addr) // source has checked it
	case c.File == "" && c.Settings["clientPort"] == "" && (own == nil || !own.HasClient):
		conf.Client.Host, conf.Client.Port = "127.0.0.1", 0
	}
	s.config = conf
	return s, nil
}

// inMemory reports whether no place names a data directory.
func (c *Config) inMemory() bool {
	return c.DataDir == "" && c.File == "" && c.Settings["dataDir"] == ""
}

// source is the configuration as package config reads it.
func (c *Config) source() (*config.Source, error) {
	s := &config.Source{File: c.File, Settings: maps.Clone(c.Settings)}
	if s.Settings == nil {
		s.Settings = map[string]string{}
	}
	if c.ID != 0 {
		s.ID = &c.ID
	}
	switch {
	case c.DataDir != "":
		s.Settings["dataDir"] = c.DataDir
	case c.inMemory():
		s.Settings["dataDir"] = "/data"
		if s.Settings["preAllocSize"] == "" {
			s.Settings["preAllocSize"] = "64" // KiB, which take memory
		}
	}
	if c.Addr == "" {
		return s, nil
	}
	host, port, err := net.SplitHostPort(c.Addr)
	if err != nil {
		return nil, fmt.Errorf("pinfold: Addr: %w", err)
	}
	s.Settings["clientPort"] = port
	delete(s.Settings, "clientPortAddress")
	if host != "" {
		s.Settings["clientPortAddress"] = host
	}
	return s, nil
}

// Start opens the ports and the data directory, recovers the state, and begins to
// serve. A standalone server serves when Start returns; for one of an ensemble see
// Ready. ctx limits Start only: the server runs until Stop. The error says what
// could not be opened or recovered; then nothing runs.
func (s *Server) Start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life != nil && !s.life.ended() {
		return ErrRunning
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", s.config.Client.Addr())
	if err != nil {
		return fmt.Errorf("pinfold: client port: %w", err)
	}
	if a, ok := listener.Addr().(*net.TCPAddr); ok {
		s.config.Client.Port = a.Port // the next Start takes the same
	}
	o := node.Options{Config: s.config, Logger: s.log, FS: s.fs, Listener: listener, Memory: s.memory}
	if len(s.held) > 0 {
		o.Listen = s.takeHeld
	}
	n, err := node.Open(o)
	if err != nil {
		return fmt.Errorf("pinfold: %w", err)
	}
	if err := n.Join(ctx); err != nil {
		return fmt.Errorf("pinfold: %w", errors.Join(err, n.Close()))
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("pinfold: %w", errors.Join(err, n.Close()))
	}
	run, end := context.WithCancel(context.Background())
	l := &life{node: n, end: end, done: make(chan struct{})}
	s.life = l
	go func() {
		l.err = n.Run(run)
		close(l.done)
	}()
	return nil
}

// takeHeld returns the port at the address that NewEnsemble has opened, or opens it
// if Start was called before and failed. REQUIRES: s.mu.
func (s *Server) takeHeld(address string) (net.Listener, error) {
	if l := s.held[address]; l != nil {
		delete(s.held, address)
		return l, nil
	}
	return net.Listen("tcp", address)
}

// Stop stops the server and waits until nothing of it is left. Connections are
// closed; sessions live on until their timeouts and are resumed after the next
// Start. The error is the failure of the server, or what could not be closed. To
// stop a server that does not run does nothing, and returns the same error again.
func (s *Server) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for address, l := range s.held {
		errs = append(errs, l.Close())
		delete(s.held, address)
	}
	if s.life != nil {
		s.life.end()
		<-s.life.done
		errs = append(errs, s.life.err)
	}
	return errors.Join(errs...)
}

// Run starts the server and stops it when ctx ends. The error is the failure to
// start, or the failure of the server, or what could not be closed; it is nil if
// ctx has ended and the server was stopped in order.
func (s *Server) Run(ctx context.Context) error {
	if err := s.Start(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	select {
	case <-ctx.Done():
	case <-s.Done():
	}
	return s.Stop()
}

// Ready waits until the server serves clients: at once if it is standalone; in an
// ensemble once there is a leader that a quorum follows, and the server is up to
// date with it. The error is that of ctx, the failure of the server, or ErrStopped.
func (s *Server) Ready(ctx context.Context) error {
	l := s.current()
	if l == nil {
		return ErrStopped
	}
	look := time.NewTicker(readyInterval)
	defer look.Stop()
	for !l.node.Replica().Serving() || l.ended() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("pinfold: the server does not serve yet: %w", ctx.Err())
		case <-l.done:
			if l.err != nil {
				return l.err
			}
			return ErrStopped
		case <-look.C:
		}
	}
	return nil
}

// readyInterval is how often Ready looks.
const readyInterval = 5 * time.Millisecond

// Done is closed when the server has ended, by Stop or by its failure; Err says
// why. It is closed before the first Start. Each Start begins with another one.
func (s *Server) Done() <-chan struct{} {
	if l := s.current(); l != nil {
		return l.done
	}
	closed := make(chan struct{})
	close(closed)
	return closed
}

// Err is why the server has failed: nil while it runs, and after Stop. A server
// fails when it can no longer write its data; nothing that was acknowledged is lost.
func (s *Server) Err() error {
	if l := s.current(); l != nil && l.ended() {
		return l.err
	}
	return nil
}

// Addr is where clients connect, host:port, as client.Dial takes it. It is "" before
// the first Start.
func (s *Server) Addr() string {
	l := s.current()
	if l == nil {
		return ""
	}
	a, ok := l.node.Addr().(*net.TCPAddr)
	if ok && a.IP.IsUnspecified() { // it listens at every address
		return net.JoinHostPort("localhost", strconv.Itoa(a.Port))
	}
	return l.node.Addr().String()
}

// Role is what the server is to its clients, as the four-letter word srvr has it:
// "standalone", "leader", "follower", "observer", "read-only"; or "idle", without a
// quorum; or "stopped".
func (s *Server) Role() string {
	l := s.current()
	if l == nil || l.ended() {
		return "stopped"
	}
	return l.node.Replica().Mode().String()
}

func (s *Server) current() *life {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.life
}

func (l *life) ended() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}
