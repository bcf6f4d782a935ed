// Package admin is the administration server: Apache ZooKeeper's commands over HTTP, with
// its JSON, and pages for probes.
//
//	GET /commands                  the list of commands, as links
//	GET /commands/NAME?KEY=VALUE   a command
//	GET /healthz, /readyz          for probes
//	GET /metrics                   the metrics, for Prometheus
//	GET /openapi.json              a description of all this
//	GET /debug/pprof/              profiles of the process, if admin.pprof.enabled
//
//	admin.go        the server: its port and its life
//	https.go        TLS on the port
//	route.go        from a request to a page or a command
//	command.go      the table of commands
//	state.go        commands about the server
//	clients.go      commands about connections, sessions and watches
//	member.go       commands about the ensemble
//	backup.go       the commands snapshot and restore
//	shed.go         the command shed_connections
//	handover.go     the command hand_over
//	authorize.go    the rights that some of them need
//	json.go         the layout of the answers
//	health.go       probes
//	openapi.go      the description
//	profile.go      profiles
//
// The package owns no state of the server that it shows. It reads copies, in bounded
// pieces; no lock is held while an answer is written, so a slow reader delays no other. What
// a stranger can make it hold is bounded: connections (maxConnections), headers
// (maxHeaderBytes), bodies, one piece of output for each connection, and two answers that
// need a copy of much (Server.listings). A connection that accepts no piece within
// pieceTimeout is closed.
package admin

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/pinfold-zk/pinfold/internal/auth"
	"github.com/pinfold-zk/pinfold/internal/config"
	"github.com/pinfold-zk/pinfold/internal/httpconn"
	"github.com/pinfold-zk/pinfold/internal/refusal"
	"github.com/pinfold-zk/pinfold/internal/replica"
	"github.com/pinfold-zk/pinfold/internal/server"
	"github.com/pinfold-zk/pinfold/internal/storage"
	"github.com/pinfold-zk/pinfold/internal/transport"
	"github.com/pinfold-zk/pinfold/internal/zab"
)

// Options says what the administration server shows. Only Links, Logger and Now may be
// missing.
type Options struct {
	Config  *config.Config
	Server  *server.Server
	Replica *replica.Replica
	Dir     *storage.Dir
	Auth    *auth.Authority
	// Links returns the state of a link between members. It may be called at any time; nil
	// on a standalone server.
	Links func(zab.LinkID) (transport.LinkStatus, bool)
	// ResetLink resets the counts of a link; as Links.
	ResetLink func(zab.LinkID)
	Metrics   http.Handler // the page /metrics
	Logger    *slog.Logger
	Now       func() time.Time // nil: the wall clock
}

// Limits of a connection.
const (
	maxConnections = 64
	maxHeaderBytes = 16 << 10
	// headerTimeout is the time for the header of a request.
	headerTimeout = 10 * time.Second
	// pieceTimeout is the time for a client to accept a piece of an answer, or to send a
	// piece of a body.
	pieceTimeout = 5 * time.Second
	// metricsTimeout is the time for a client to accept the metrics.
	metricsTimeout = 10 * time.Second
	// maxListings is how many answers at once may hold a copy of sessions or ephemerals.
	maxListings = 2
)

// Server is the administration server of one node. Create one with Listen, then call
// Serve once.
type Server struct {
	cfg     *config.Config
	server  *server.Server
	replica *replica.Replica
	dir     *storage.Dir
	auth    *auth.Authority
	links   func(zab.LinkID) (transport.LinkStatus, bool)
	reset   func(zab.LinkID)
	metrics http.Handler
	log     *slog.Logger
	refused *refusal.Log
	now     func() time.Time

	commands map[string]*command // by name and by alias
	listener net.Listener
	http     http.Server
	conns    httpconn.Limit
	closing  struct {
		sync.Mutex
		done bool // no request is taken any more
	}
	handlers  sync.WaitGroup     // one for each request that was taken
	end       context.CancelFunc // ends the contexts of all requests
	listings  chan struct{}      // holds one for each answer with a copy of much
	snapshots limiter
	restores  limiter
}

// Listen opens the port of the administration server, at the address of the
// configuration. Requests are answered once Serve is called.
func Listen(o Options) (*Server, error) {
	s := newServer(o)
	cfg := &o.Config.Admin
	var err error
	if s.listener, err = net.Listen("tcp", net.JoinHostPort(cfg.Host, strconv.Itoa(cfg.Port))); err != nil {
		return nil, fmt.Errorf("server: administration port: %w", err)
	}
	if err := s.encrypt(); err != nil {
		return nil, fmt.Errorf("server: administration port: %w", errors.Join(err, s.listener.Close()))
	}
	return s, nil
}

func newServer(o Options) *Server {
	s := &Server{
		cfg: o.Config, server: o.Server, replica: o.Replica, dir: o.Dir, auth: o.Auth, links: o.Links, reset: o.ResetLink, metrics: o.Metrics,
		log: o.Logger, now: o.Now, commands: byName(),
		conns:     httpconn.Limit{Most: maxConnections},
		listings:  make(chan struct{}, maxListings),
		snapshots: limiter{interval: o.Config.Admin.RateInterval},
		restores:  limiter{interval: o.Config.Admin.RateInterval},
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.now == nil {
		s.now = time.Now
	}
	s.refused = refusal.New(s.log)
	ctx, end := context.WithCancel(context.Background())
	s.end = end
	idle := o.Config.Admin.IdleTimeout
	s.http = http.Server{
		Handler:           http.HandlerFunc(s.serve),
		ReadHeaderTimeout: headerTimeout,
		WriteTimeout:      pieceTimeout, // of the first piece; see reply.send
		IdleTimeout:       max(idle, 0),
		MaxHeaderBytes:    maxHeaderBytes,
		ConnState:         s.conns.Note,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ErrorLog:          log.New(httpLog{s.refused}, "", 0),
	}
	return s
}

// httpLog makes the lines that net/http logs, about panics and broken requests, lines of
// the server's log. Strangers can cause them.
type httpLog struct{ refused *refusal.Log }

// Write implements io.Writer.
func (l httpLog) Write(line []byte) (int, error) {
	l.refused.Warn("a request to the administration server failed", "err", refusal.Cut(string(line)))
	return len(line), nil
}

// Addr returns the address of the port.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Serve answers requests until Close is called; then it returns nil. Another error says
// why no connection is accepted any more.
func (s *Server) Serve() error {
	err := s.http.Serve(s.listener)
	if errors.Is(err, http.ErrServerClosed) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return fmt.Errorf("server: administration port: %w", err)
}

// take begins a request, unless the server is being closed. The caller then calls handlers.Done.
func (s *Server) take() bool {
	s.closing.Lock()
	defer s.closing.Unlock()
	if s.closing.done {
		return false
	}
	s.handlers.Add(1)
	return true
}

// Close closes the port and all connections, and waits until no request is being
// answered. The caller closes replica and directory afterwards.
func (s *Server) Close() error {
	s.closing.Lock()
	s.closing.done = true
	s.closing.Unlock()
	s.end()
	err := errors.Join(s.listener.Close(), s.http.Close())
	s.handlers.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
