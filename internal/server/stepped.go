package server

import (
	"net"
	"net/netip"
	"time"
)

// A SteppedConn is a client's connection that has neither goroutine nor socket:
// its owner, the simulator, is both. What conn.serve does, Feed and Step do, and
// never wait. The server must have no
// limit of what is in the pipeline: nothing would wait for it.
type SteppedConn struct {
	c      *conn
	socket *steppedSocket
	ended  bool
}

// Connect takes a connection in; false means that the server refuses it.
func (s *Server) Connect(from netip.AddrPort) (*SteppedConn, bool) {
	socket := &steppedSocket{}
	c := s.newConn(socket, from)
	c.stepped = true
	if reason := s.admit(c, nil); reason != "" {
		return nil, false
	}
	return &SteppedConn{c: c, socket: socket}, true
}

// Feed takes what the client has sent, copies it, and handles what can be
// handled.
func (p *SteppedConn) Feed(b []byte) {
	if p.ended {
		return
	}
	c := p.c
	c.in.Append(b)
	p.Step()
}

// Step goes on where Feed had to stop: behind the handshake, and when the server
// has closed the connection. It is to be called after each step of the replica.
func (p *SteppedConn) Step() {
	c := p.c
	if p.ended {
		return
	}
	if c.unanswered != nil && !p.socket.closed {
		select {
		case <-c.unanswered:
			c.unanswered = nil
			c.answerHandshake()
		case <-c.admitted:
			if err := c.askSession(&c.heldRequest, c.s.mode()); err != nil {
				c.noteEnd(err)
				p.Hangup()
			}
			return
		default:
			if c.s.replica.Now() < c.patience {
				return
			}
			if held, err := c.s.unhold(c); held {
				c.noteEnd(err)
				p.Hangup()
			}
			return
		}
	}
	switch {
	case p.socket.closed:
		p.Hangup()
		return
	case c.in.Len() == 0 || c.full():
		return
	case c.leaving:
		c.in.Clear()
	default:
		if err := c.consume(); err != nil {
			c.noteEnd(err)
			p.Hangup()
			return
		}
	}
	c.in.Release()
	if p.socket.closed {
		p.Hangup()
	}
}

// full reports whether too many requests wait behind the session's writes.
func (c *conn) full() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.pending.full()
}

// Output returns what is sent to the client since the last call.
func (p *SteppedConn) Output() []byte {
	b := p.socket.out
	p.socket.out = nil
	return b
}

// Closed reports whether the server has closed the connection, behind what
// Output returns.
func (p *SteppedConn) Closed() bool { return p.socket.closed }

// Hangup tells that the client has closed the connection.
func (p *SteppedConn) Hangup() {
	if !p.ended {
		p.ended = true
		p.c.end()
	}
}

// steppedSocket is a socket whose other end is the owner of the SteppedConn. It
// takes everything at once.
type steppedSocket struct {
	net.Conn // nil: a connection that is stepped uses nothing but the methods below
	out      []byte
	closed   bool
}

func (s *steppedSocket) Write(p []byte) (int, error) {
	if s.closed {
		return 0, net.ErrClosed
	}
	s.out = append(s.out, p...)
	return len(p), nil
}

func (s *steppedSocket) Close() error {
	s.closed = true
	return nil
}

func (s *steppedSocket) SetReadDeadline(time.Time) error  { return nil }
func (s *steppedSocket) SetWriteDeadline(time.Time) error { return nil }
