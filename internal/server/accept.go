package server

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/netip"
	"syscall"
	"time"

	"github.com/pinfold-zk/pinfold/internal/replica"
	"github.com/pinfold-zk/pinfold/internal/watch"
	"github.com/pinfold-zk/pinfold/internal/znode"
)

// Serve accepts connections of a port that Listen has opened until Stop; then the listener is closed, and it returns nil.
// The listener's owner may close it at any time after Stop was called. With e, the
// connections have TLS. Serve may be called for several listeners.
func (s *Server) Serve(l net.Listener, e *Encryption) error {
	s.mu.Lock()
	s.listeners = append(s.listeners, l)
	closed := s.mu.closed
	s.mu.Unlock()
	if closed {
		if err := l.Close(); !errors.Is(err, net.ErrClosed) {
			return err
		}
		return nil
	}
	for {
		nc, err := l.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return nil
			}
			// The process has no file descriptors or memory left; existing
			// connections continue.
			s.refused.Error("cannot accept a client; trying again: are there enough file descriptors?", "err", err)
			time.Sleep(100 * time.Millisecond)
			continue
		}
		s.accept(nc, e)
	}
}

// kernelOutBytes bounds what the system keeps of the output of one connection that its
// client does not read. Linux would keep up to 4 MiB, and a thousand such clients fill
// the memory that it has for all connections, so that no client gets an answer.
const kernelOutBytes = 256 << 10

// Listen opens a port for Serve. Its connections inherit the bound of kernelOutBytes, and send no keep-alive probes: a
// session without pings expires, and its connection ends.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	options := net.ListenConfig{KeepAlive: -1, Control: func(_, _ string, raw syscall.RawConn) (err error) {
		failed := raw.Control(func(fd uintptr) {
			err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_SNDBUF, kernelOutBytes)
		})
		return cmp.Or(failed, err)
	}}
	return options.Listen(ctx, "tcp", address)
}

// accept admits a connection or, if there are too many, closes it.
func (s *Server) accept(nc net.Conn, e *Encryption) {
	addr := remoteAddr(nc)
	if s.cfg.Client.TCPKeepAlive {
		if t, ok := nc.(*net.TCPConn); ok {
			_ = t.SetKeepAlive(true) // optional
		}
	}
	c := s.newConn(nc, addr)
	c.established = time.Now().UnixMilli()
	serve := c.serve
	if e != nil {
		c.secure = !e.Optional
		serve = func() { c.serveTLS(e) }
	}
	if reason := s.admit(c, serve); reason != "" {
		s.stats.Rejected.Add(1)
		s.refused.Warn("a client was refused", "client", addr, "reason", reason)
		nc.Close()
	}
}

// admit enters c into the tables and, if serve is not nil, runs it in a goroutine of
// its own. If it refuses c, it returns the reason. Stop, which ends admission under the
// same lock, waits for all admitted connections.
func (s *Server) admit(c *conn, serve func()) (reason string) {
	if c.limited == nil {
		return s.enter(c, serve)
	}
	if !s.limits.join(c, true) {
		s.stats.LimitConns.Add(1)
		return "too many connections of this identity (limitsFile)"
	}
	if reason = s.enter(c, serve); reason != "" {
		s.limits.leave(c)
	}
	return reason
}

// enter is admit without the limits of identities.
func (s *Server) enter(c *conn, serve func()) (reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ip := c.remote.Addr()
	switch {
	case s.mu.closed:
		return "the server is stopping"
	case s.cfg.Client.MaxTotal > 0 && s.mu.open >= s.cfg.Client.MaxTotal:
		return "too many connections (maxCnxns)"
	case s.cfg.Client.MaxPerIP > 0 && s.mu.perIP[ip] >= s.cfg.Client.MaxPerIP:
		return "too many connections from this address (maxClientCnxns)"
	}
	s.mu.open++
	s.mu.perIP[ip]++
	s.mu.serial++
	c.serial = s.mu.serial
	if n := len(s.mu.free); n > 0 {
		c.id = s.mu.free[n-1]
		s.mu.free = s.mu.free[:n-1]
		s.mu.conns[c.id] = c
	} else {
		c.id = watch.ID(len(s.mu.conns))
		s.mu.conns = append(s.mu.conns, c)
	}
	if serve != nil {
		s.wg.Go(serve)
	}
	return ""
}

// dropPiece is how much work watch.Tables.Drop does under one hold of the tree's lock. A unit of it
// takes as long as eight of the tree's.
const dropPiece = znode.PieceUnits / 8

// dismiss removes c, whose socket is closed, and its watches from the tables. It does
// both within one View, but for watches beyond a piece: no transaction may be applied
// in between, as its events would reach the next connection with the same id. Events of a
// watch that is left after a piece reach c, which drops them. A connection that never had a session has no watches, and
// waits for no lock of the tree: thousands of them may end at once. dismiss ends place after the first piece.
func (s *Server) dismiss(c *conn, place *place) {
	if c.limited != nil {
		s.limits.leave(c)
	}
	c.mu.Lock()
	session := c.mu.session
	c.mu.Unlock()
	if session == 0 {
		s.forget(c)
		return
	}
	var hold replica.Hold
	for done, again := false, false; !done; again = true {
		if again {
			place.end()
		}
		s.replica.ViewAt(&hold, s.replica.Now(), again, func(replica.View) {
			work := 0
			s.replica.Watches(func(t *watch.Tables) { work, done = t.Drop(c.id, dropPiece) })
			if s.pieceDone != nil {
				s.pieceDone(8 * work)
			}
			if done {
				s.forget(c)
			}
		})
	}
}

// forget removes a connection without watches from the tables.
func (s *Server) forget(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.conns[c.id] = nil
	s.mu.free = append(s.mu.free, c.id)
	s.mu.open--
	ip := c.remote.Addr()
	if s.mu.perIP[ip]--; s.mu.perIP[ip] == 0 {
		delete(s.mu.perIP, ip)
	}
}

// remoteAddr returns the peer's address; the zero value if the connection has none.
func remoteAddr(nc net.Conn) netip.AddrPort {
	t, ok := nc.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	ap := t.AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
}
