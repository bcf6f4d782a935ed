package exporter

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/pinfold-zk/pinfold/internal/httpconn"
)

// What one client may make the listener wait for.
const (
	readTimeout  = 5 * time.Second
	writeTimeout = 10 * time.Second
	idleTimeout  = 2 * time.Minute
	maxHeader    = 16 << 10
	maxConns     = 64
)

// Listener serves scrapes of one exporter at /metrics, on a port of its own. It does so
// without a quorum, too.
type Listener struct {
	listener net.Listener
	server   *http.Server
}

// Listen opens the port. The caller then calls Serve once, or Close.
func Listen(address string, e *Exporter, log *slog.Logger) (*Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("metrics port: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", e)
	mux.Handle("POST /metrics", e)
	conns := &httpconn.Limit{Most: maxConns}
	return &Listener{listener: l, server: &http.Server{
		Handler: mux, ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader, ConnState: conns.Note,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}}, nil
}

// Addr returns the address of the port.
func (l *Listener) Addr() net.Addr { return l.listener.Addr() }

// Serve answers scrapes until Close is called.
func (l *Listener) Serve() error {
	if err := l.server.Serve(l.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("metrics port: %w", err)
	}
	return nil
}

// Close closes the port and all its connections.
func (l *Listener) Close() error {
	err := l.server.Close()
	if e := l.listener.Close(); !errors.Is(e, net.ErrClosed) { // Serve was not called
		err = errors.Join(err, e)
	}
	return err
}
