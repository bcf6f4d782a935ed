// Package memconn is a client's connection in memory, for tests. Unlike net.Pipe
// it has buffers, as a socket has; and it works in a synctest bubble.
package memconn

import (
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"
)

// Conn is one end of a connection.
type Conn struct {
	in, out       *stream
	local, remote net.Addr
}

// New returns the two ends of a connection. Each direction holds room bytes; from
// is what the server sees as the client's address.
func New(room int, from netip.AddrPort) (client, server *Conn) {
	up, down := newStream(room), newStream(room)
	here, there := net.TCPAddrFromAddrPort(netip.MustParseAddrPort("10.0.0.1:2181")), net.TCPAddrFromAddrPort(from)
	return &Conn{down, up, there, here}, &Conn{up, down, here, there}
}

// Read waits for something to read (io.Reader).
func (c *Conn) Read(p []byte) (int, error) { return c.in.read(p) }

// Write waits for room (io.Writer).
func (c *Conn) Write(p []byte) (int, error) { return c.out.write(p) }

// LocalAddr is this end's address.
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr is the other end's.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// Close ends both directions. What this end has written can still be read.
func (c *Conn) Close() error {
	c.in.close(true)
	c.out.close(false)
	return nil
}

// CloseWrite ends the direction that this end writes. What was written can still
// be read at the other end, which may go on writing.
func (c *Conn) CloseWrite() error {
	c.out.close(false)
	return nil
}

// Waiting is how many bytes there are to read.
func (c *Conn) Waiting() int {
	c.in.mu.Lock()
	defer c.in.mu.Unlock()
	return len(c.in.buf)
}

// SetDeadline bounds reading and writing (net.Conn).
func (c *Conn) SetDeadline(t time.Time) error {
	c.in.reading.set(c.in, t)
	c.out.writing.set(c.out, t)
	return nil
}

// SetReadDeadline bounds reading.
func (c *Conn) SetReadDeadline(t time.Time) error {
	c.in.reading.set(c.in, t)
	return nil
}

// SetWriteDeadline bounds writing.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	c.out.writing.set(c.out, t)
	return nil
}

// stream is one direction.
type stream struct {
	mu   sync.Mutex
	cond sync.Cond
	buf  []byte
	room int

	closed           bool // what is in buf can still be read
	reading, writing deadline
}

type deadline struct {
	timer   *time.Timer
	expired bool
}

func newStream(room int) *stream {
	s := &stream{room: room}
	s.cond.L = &s.mu
	return s
}

func (d *deadline) set(s *stream, t time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
	}
	d.timer, d.expired = nil, false
	if t.IsZero() {
		return
	}
	left := time.Until(t)
	if left <= 0 { // no timer: in a bubble of synctest, with -race, two without delay at once crash go1.26
		d.expired = true
		s.cond.Broadcast()
		return
	}
	var timer *time.Timer
	timer = time.AfterFunc(left, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if d.timer == timer {
			d.expired = true
			s.cond.Broadcast()
		}
	})
	d.timer = timer
}

func (s *stream) read(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.buf) == 0 && !s.closed && !s.reading.expired {
		s.cond.Wait()
	}
	switch {
	case s.reading.expired:
		return 0, os.ErrDeadlineExceeded
	case len(s.buf) == 0:
		return 0, io.EOF
	}
	n := copy(p, s.buf)
	s.buf = s.buf[n:]
	s.cond.Broadcast()
	return n, nil
}

func (s *stream) write(p []byte) (n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		switch {
		case s.closed:
			return n, net.ErrClosed
		case s.writing.expired:
			return n, os.ErrDeadlineExceeded
		}
		k := min(len(p), s.room-len(s.buf))
		s.buf = append(s.buf, p[:k]...)
		n, p = n+k, p[k:]
		if k > 0 {
			s.cond.Broadcast()
		}
		if len(p) == 0 {
			return n, nil
		}
		s.cond.Wait()
	}
}

// close ends the stream; drop says that what is in it is lost.
func (s *stream) close(drop bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if drop {
		s.buf = nil
	}
	if s.reading.timer != nil {
		s.reading.timer.Stop()
	}
	if s.writing.timer != nil {
		s.writing.timer.Stop()
	}
	s.cond.Broadcast()
}
