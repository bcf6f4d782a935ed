package server

import (
	"net"
	"net/netip"
	"time"
)

// A SteppedConn is a client's connection without goroutine and socket: its owner, the
// simulator, replaces both. Feed and Step do the work of conn.serve, with the same code up to
// three points: a turn that has to wait ends the call, and Step handles the rest of the input
// again (stepsAside); so does a handshake (connect); and output is written by whichever
// goroutine has it, because no flusher may run (flush).
//
// All other waits of a connection would block the owner for ever, so they must not occur.
// REQUIRES of the server's options: no bound on the number of requests in the pipeline, no
// audit log, no limits of identities, and no SASL. REQUIRES of the owner: no failed logins,
// no requests and replies for which the budgets of the server have no room, and no list of
// children with names of more than longReply bytes.
type SteppedConn struct {
	c      *conn
	socket *steppedSocket
	ended  bool
}

// Connect admits a connection; false means that the server refuses it.
func (s *Server) Connect(from netip.AddrPort) (*SteppedConn, bool) {
	socket := &steppedSocket{}
	c := s.newConn(socket, from)
	c.stepped = true
	if reason := s.admit(c, nil); reason != "" {
		return nil, false
	}
	return &SteppedConn{c: c, socket: socket}, true
}

// Feed copies what the client has sent, and handles as much as possible.
func (p *SteppedConn) Feed(b []byte) {
	if p.ended {
		return
	}
	c := p.c
	c.in.Append(b)
	p.Step()
}

// Step continues where Feed had to stop: after the handshake, and when the server has
// closed the connection. The owner calls it after each step of the replica.
func (p *SteppedConn) Step() {
	c := p.c
	if p.ended {
		return
	}
	if h := c.mu.handshake; h != nil && !p.socket.closed {
		select {
		case <-h.ready:
			c.answerHandshake()
		case <-h.admitted:
			if err := c.askSession(h.held, c.s.mode()); err != nil {
				c.noteEnd(err)
				p.Hangup()
			}
			return
		default:
			if c.s.replica.Now() < h.patience {
				return
			}
			if held, err := c.s.unhold(c); held {
				c.noteEnd(err)
				p.Hangup()
			}
			return
		}
	}
	p.pause(c.stuck())
	switch {
	case p.socket.closed:
		p.Hangup()
		return
	case c.in.Len() == 0 || c.full():
		return
	case c.leaving:
		c.in.Clear()
	default:
		err := c.consume()
		if c.brought {
			c.work()
		}
		if err != nil {
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

// stepsAside reports whether c is a stepped connection that has to wait before it handles more
// input: for the answers to the session's writes, for room for a reply, or for large requests
// of others.
func (c *conn) stepsAside(r *run) bool {
	if !c.stepped {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.short = 0 // the reply asks for its room again
	if r.mustWait {
		c.pauseReading() // until Step, as in awaitAnswered
	}
	return r.short || r.mustWait || r.blocked > 0 || c.mu.pending.full()
}

// pause notes whether the connection is not read because the session's writes wait, as awaitDrain does.
func (p *SteppedConn) pause(on bool) {
	switch c := p.c; {
	case on:
		c.pauseReading()
	case c.paused.Load():
		c.resumeReading()
	}
}

// stuck reports whether too many requests wait for the session's writes, and the first of these for the replica.
func (c *conn) stuck() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.pending.stuck()
}

// full reports whether too many requests wait for the session's writes.
func (c *conn) full() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.pending.full()
}

// Output returns what was sent to the client since the last call.
func (p *SteppedConn) Output() []byte {
	b := p.socket.out
	p.socket.out = nil
	return b
}

// Closed reports whether the server has closed the connection; the bytes that Output
// returns come before that.
func (p *SteppedConn) Closed() bool { return p.socket.closed }

// Hangup reports that the client has closed the connection.
func (p *SteppedConn) Hangup() {
	if !p.ended {
		p.ended = true
		p.pause(false)
		p.c.end()
	}
}

// steppedSocket is a socket whose other end is the owner of the SteppedConn. It accepts
// all output at once.
type steppedSocket struct {
	net.Conn // nil: only the methods below are used
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
