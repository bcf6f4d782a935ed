package server

import (
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"
)

// memConn is one end of a connection in memory. Unlike net.Pipe it has buffers,
// as a socket has, and works within a synctest bubble.
type memConn struct {
	in, out       *stream
	local, remote net.Addr
}

// newMemConn returns the two ends. Each direction holds room bytes; from is what
// the server sees as the client's address.
func newMemConn(room int, from netip.AddrPort) (client, server net.Conn) {
	up, down := newStream(room), newStream(room)
	here, there := net.TCPAddrFromAddrPort(netip.MustParseAddrPort("10.0.0.1:2181")), net.TCPAddrFromAddrPort(from)
	return &memConn{down, up, there, here}, &memConn{up, down, here, there}
}

func (c *memConn) Read(p []byte) (int, error)  { return c.in.read(p) }
func (c *memConn) Write(p []byte) (int, error) { return c.out.write(p) }
func (c *memConn) LocalAddr() net.Addr         { return c.local }
func (c *memConn) RemoteAddr() net.Addr        { return c.remote }

func (c *memConn) Close() error {
	c.in.close(true)
	c.out.close(false)
	return nil
}

func (c *memConn) SetDeadline(t time.Time) error {
	c.in.reading.set(c.in, t)
	c.out.writing.set(c.out, t)
	return nil
}

func (c *memConn) SetReadDeadline(t time.Time) error {
	c.in.reading.set(c.in, t)
	return nil
}

func (c *memConn) SetWriteDeadline(t time.Time) error {
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
	var timer *time.Timer
	timer = time.AfterFunc(time.Until(t), func() {
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
