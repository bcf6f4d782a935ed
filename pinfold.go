// Package pinfold runs ZooKeeper servers within a Go program, in production or in its
// tests. A Server is what the command `pinfold server` runs: it has ZooKeeper's
// protocols, settings and data directory.
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
// A process may run any number of servers, including complete ensembles. A server does
// not end the process, handle signals, print, or tune anything that affects the
// complete process (but see Memory).
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
	"github.com/pinfold-zk/pinfold/internal/server"
	"github.com/pinfold-zk/pinfold/internal/vfs"
)

// Config says how to run a server. The zero value is a standalone server on a free port
// of 127.0.0.1, with its data in memory.
type Config struct {
	// File is the name of a zoo.cfg; "" means none.
	File string
	// Settings are keys of zoo.cfg ("tickTime", "server.1") and Java properties by
	// their full names ("jute.maxbuffer"). They override File.
	Settings map[string]string
	// ID is the server's number in its ensemble. If it is 0, the number is read
	// from the file myid in the data directory.
	ID int64
	// Addr is the address for clients, host:port; port 0 means a free port. It
	// overrides File and Settings. Without a File, and without a port in Settings,
	// "" means 127.0.0.1:0.
	Addr string
	// DataDir is the data directory, which is created if it is missing. It
	// overrides File and Settings. If it is "" and they do not name one, the data
	// is kept in memory and is lost with the Server: this is for tests.
	DataDir string
	// Logger receives what an operator should know; nil discards it.
	Logger *slog.Logger
	// Memory tunes the process's memory for the server; nil does not.
	Memory *Memory
}

// Errors that a caller may want to distinguish.
var (
	// ErrRunning is the error of Start if the server already runs.
	ErrRunning = errors.New("pinfold: the server is already running")
	// ErrStopped is the error of Ready if the server does not run.
	ErrStopped = errors.New("pinfold: the server is not running")
)

// Server is a ZooKeeper server. New creates it, Start starts it, Stop stops it. A
// further Start starts it again, at the same address, with the state that it had. Any
// goroutine may call its methods.
type Server struct {
	config *config.Config
	log    *slog.Logger
	fs     vfs.FS
	memory *node.Memory

	mu   sync.Mutex
	life *life                   // the current or last one; nil before the first Start
	held map[string]net.Listener // ports that NewEnsemble has opened, by their addresses
}

// life is the time from a Start of the server to its Stop or failure.
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
		s.log.Warn("a setting in the configuration needs attention", "place", w.Where, "key", w.Key, "warning", w.Text)
	}
	if err != nil {
		return nil, fmt.Errorf("pinfold: %w", err)
	}
	switch own := conf.Quorum.Own(); {
	case c.Addr != "":
		conf.Client.Host, _, _ = net.SplitHostPort(c.Addr) // source has checked it
	case c.File == "" && c.Settings["clientPort"] == "" && c.Settings["secureClientPort"] == "" && (own == nil || !own.HasClient):
		conf.Client.Host, conf.Client.Port = "127.0.0.1", 0
	}
	s.config = conf
	return s, nil
}

// inMemory reports whether neither field of the Config names a data directory.
func (c *Config) inMemory() bool {
	return c.DataDir == "" && c.File == "" && c.Settings["dataDir"] == ""
}

// source returns the configuration in the form that package config reads.
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
			s.Settings["preAllocSize"] = "64" // KiB, which are in memory
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

// Start opens the ports and the data directory, recovers the state, and starts to
// serve. A standalone server serves when Start returns; for a member of an ensemble see
// Ready. ctx limits Start only: the server runs until Stop. If Start fails, nothing
// keeps running; the error says what could not be opened or recovered.
func (s *Server) Start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life != nil && !s.life.ended() {
		return ErrRunning
	}
	listener, err := s.listen(ctx)
	if err != nil {
		return fmt.Errorf("pinfold: client port: %w", err)
	}
	o := node.Options{Config: s.config, Logger: s.log, FS: s.fs, Listener: listener, Memory: s.memory}
	if len(s.held) > 0 {
		o.Listen = s.listenHeld
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

// listen opens the client port, if there is one without TLS. The next Start uses the same
// port.
func (s *Server) listen(ctx context.Context) (net.Listener, error) {
	if s.config.Client.OnlySecure {
		return nil, nil
	}
	l, err := server.Listen(ctx, s.config.Client.Addr())
	if err != nil {
		return nil, err
	}
	if a, ok := l.Addr().(*net.TCPAddr); ok {
		s.config.Client.Port = a.Port
	}
	return l, nil
}

// listenHeld returns the port at the address that NewEnsemble has opened, or opens it
// again if an earlier Start has used it. REQUIRES: s.mu.
func (s *Server) listenHeld(address string) (net.Listener, error) {
	if l := s.held[address]; l != nil {
		delete(s.held, address)
		return l, nil
	}
	return net.Listen("tcp", address)
}

// Stop stops the server and waits until it has released everything. It closes
// connections; sessions survive until their timeouts, and clients resume them after the
// next Start. The error is the failure of the server, or what could not be closed. If
// the server does not run, Stop has no effect and returns the same error again.
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

// Run starts the server and stops it when ctx ends. The error is the failure to start,
// the failure of the server, or what could not be closed; it is nil if ctx has ended
// and the server has stopped without error.
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

// Ready waits until the server serves clients. A standalone server does so at once; a
// member of an ensemble once a quorum follows a leader and the server is up to date
// with it. The error is that of ctx, the failure of the server, or ErrStopped.
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

// readyInterval is how often Ready checks.
const readyInterval = 5 * time.Millisecond

// Done returns a channel that is closed when the server has ended, by Stop or by a
// failure; Err says which. Before the first Start the channel is closed. Each Start
// creates a new one.
func (s *Server) Done() <-chan struct{} {
	if l := s.current(); l != nil {
		return l.done
	}
	closed := make(chan struct{})
	close(closed)
	return closed
}

// Err returns why the server has failed; nil while it runs, and after Stop. A server
// fails when it can no longer write its data; nothing that was acknowledged is lost.
func (s *Server) Err() error {
	if l := s.current(); l != nil && l.ended() {
		return l.err
	}
	return nil
}

// Addr returns the address for clients, host:port, as client.Dial expects it; "" before
// the first Start.
func (s *Server) Addr() string {
	l := s.current()
	if l == nil {
		return ""
	}
	a, ok := l.node.Addr().(*net.TCPAddr)
	if ok && a.IP.IsUnspecified() { // it listens on every address
		return net.JoinHostPort("localhost", strconv.Itoa(a.Port))
	}
	return l.node.Addr().String()
}

// SecureAddr returns the address of the port with TLS only (secureClientPort), host:port; ""
// before the first Start, and if there is none.
func (s *Server) SecureAddr() string {
	l := s.current()
	if l == nil || l.node.SecureAddr() == nil {
		return ""
	}
	return l.node.SecureAddr().String()
}

// AdminAddr returns the address of the administration server, host:port; "" before the
// first Start, and if admin.enableServer is not true.
func (s *Server) AdminAddr() string {
	l := s.current()
	if l == nil || l.node.AdminAddr() == nil {
		return ""
	}
	return l.node.AdminAddr().String()
}

// Role returns the role of the server as the four-letter word srvr shows it:
// "standalone", "leader", "follower", "observer" or "read-only"; "idle" without a
// quorum; "stopped" if it does not run.
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
