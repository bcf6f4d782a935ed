package inproc

import (
	"encoding/binary"
	"net"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/test/frames"
)

// loss is an answer that is to be lost; the Server's mu guards it.
type loss struct {
	armed bool
	op    wire.OpCode
	skip  int // requests that come first
	lost  int // answers lost so far
}

// LoseAnswer loses an answer: of the requests with op that clients send from now
// on, skip pass; the next is carried out, and the connection breaks instead of
// its answer. It replaces one that has not happened.
func (s *Server) LoseAnswer(op wire.OpCode, skip int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loss.armed, s.loss.op, s.loss.skip = true, op, skip
}

// Lost is how many answers LoseAnswer has lost.
func (s *Server) Lost() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.loss.lost
}

// tap is a client's end of a connection, whose frames it looks at.
type tap struct {
	net.Conn
	server *Server

	up, down frames.Splitter
	greeted  bool // the client's handshake has passed
	answered bool // the server's, too
	ready    []byte
	doomed   map[int32]bool // requests whose answers are lost
}

// Write notes which request's answer is to be lost, before the request is sent.
func (t *tap) Write(p []byte) (int, error) {
	t.up.Add(p)
	for b, ok := t.up.Next(); ok; b, ok = t.up.Next() {
		if !t.greeted {
			t.greeted = true
			if t.takesBack(b) {
				t.Conn.Close()
			}
		} else if len(b) >= 8 {
			t.request(int32(binary.BigEndian.Uint32(b)), wire.OpCode(binary.BigEndian.Uint32(b[4:])))
		}
	}
	return t.Conn.Write(p)
}

// takesBack reports whether a handshake is for the session that is being ended.
func (t *tap) takesBack(b []byte) bool {
	var ask wire.ConnectRequest
	d := jute.NewDecoder(b)
	ask.Decode(&d)
	t.server.mu.Lock()
	defer t.server.mu.Unlock()
	return ask.SessionID != 0 && ask.SessionID == t.server.expiring
}

func (t *tap) request(xid int32, op wire.OpCode) {
	s := t.server
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.loss.armed || s.loss.op != op:
	case s.loss.skip > 0:
		s.loss.skip--
	default:
		s.loss.armed = false
		if t.doomed == nil {
			t.doomed = map[int32]bool{}
		}
		t.doomed[xid] = true
	}
}

// Read returns whole frames, up to the one that is lost.
func (t *tap) Read(p []byte) (int, error) {
	for len(t.ready) == 0 {
		b := make([]byte, 4096)
		n, err := t.Conn.Read(b)
		if n == 0 {
			return 0, err
		}
		t.down.Add(b[:n])
		for b, ok := t.down.Next(); ok; b, ok = t.down.Next() {
			if t.answered && len(b) >= 4 && t.lose(int32(binary.BigEndian.Uint32(b))) {
				t.Conn.Close()
				break
			}
			t.answered = true
			t.ready = frames.Append(t.ready, b)
		}
	}
	n := copy(p, t.ready)
	t.ready = t.ready[n:]
	return n, nil
}

func (t *tap) lose(xid int32) bool {
	s := t.server
	s.mu.Lock()
	defer s.mu.Unlock()
	if !t.doomed[xid] {
		return false
	}
	s.loss.lost++
	return true
}

// Close breaks the connection.
func (t *tap) Close() error {
	t.server.mu.Lock()
	delete(t.server.taps, t)
	t.server.mu.Unlock()
	return t.Conn.Close()
}
