package admin

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync/atomic"

	"github.com/pinfold-zk/pinfold/internal/refusal"
	"github.com/pinfold-zk/pinfold/internal/tlsport"
)

// encrypt makes the listener one of HTTPS, or of both HTTP and HTTPS, if the configuration
// asks for it.
func (s *Server) encrypt() error {
	if !s.cfg.Admin.HTTPS() {
		return nil
	}
	p, err := tlsport.Open(*s.cfg.AdminTLS(), s.log)
	if err != nil {
		return err
	}
	s.listener = &secureListener{Listener: s.listener, config: p.Config(), refused: s.refused, optional: !s.cfg.Admin.ForceHTTPS, insecure: s.server.CountInsecureAdmin}
	s.http.ConnContext = func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) }
	return nil
}

// connKey is the key of a request's connection in its context.
type connKey struct{}

// overTLS reports whether the request came over TLS.
func overTLS(r *http.Request) bool {
	c, ok := r.Context().Value(connKey{}).(*secureConn)
	if !ok {
		return false
	}
	l := c.layer.Load()
	if l == nil {
		return false
	}
	_, ok = (*l).(*tls.Conn)
	return ok
}

// secureListener accepts connections with TLS; with optional, also those whose first byte
// is not that of a TLS handshake.
type secureListener struct {
	net.Listener
	config   *tls.Config
	optional bool
	refused  *refusal.Log
	insecure func() // counts a connection without TLS
}

// Accept implements net.Listener.
func (l *secureListener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &secureConn{Conn: nc, l: l}, nil
}

// secureConn is a connection that decides about TLS at its first Read. HTTP reads first,
// from one goroutine.
type secureConn struct {
	net.Conn
	l     *secureListener
	layer atomic.Pointer[net.Conn] // set by the first Read
}

// tlsHandshake is the first byte of a connection with TLS.
const tlsHandshake = 0x16

// begin reads the first byte, and shakes hands.
func (c *secureConn) begin() (net.Conn, error) {
	first := make([]byte, 1)
	if _, err := c.Conn.Read(first); err != nil {
		return nil, err
	}
	var layer net.Conn = &prefixed{Conn: c.Conn, first: first}
	if first[0] == tlsHandshake || !c.l.optional {
		secure := tls.Server(layer, c.l.config)
		if err := secure.Handshake(); err != nil {
			c.l.refused.Warn("a TLS handshake with the administration server failed", "client", c.RemoteAddr(), "err", refusal.Cut(err.Error()))
			return nil, err
		}
		layer = secure
	} else {
		c.l.insecure()
	}
	c.layer.Store(&layer)
	return layer, nil
}

// Read implements io.Reader.
func (c *secureConn) Read(p []byte) (int, error) {
	if l := c.layer.Load(); l != nil {
		return (*l).Read(p)
	}
	l, err := c.begin()
	if err != nil {
		return 0, err
	}
	return l.Read(p)
}

// Write implements io.Writer. Nothing is written before the first Read has succeeded: it
// would not be encrypted.
func (c *secureConn) Write(p []byte) (int, error) {
	if l := c.layer.Load(); l != nil {
		return (*l).Write(p)
	}
	return 0, net.ErrClosed
}

// Close implements io.Closer.
func (c *secureConn) Close() error {
	if l := c.layer.Load(); l != nil {
		return (*l).Close()
	}
	return c.Conn.Close()
}

// prefixed is a connection whose first byte was read before.
type prefixed struct {
	net.Conn
	first []byte
}

// Read implements io.Reader.
func (c *prefixed) Read(p []byte) (int, error) {
	if len(c.first) > 0 && len(p) > 0 {
		n := copy(p, c.first)
		c.first = c.first[n:]
		return n, nil
	}
	return c.Conn.Read(p)
}
