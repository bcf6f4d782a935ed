// Package client is a ZooKeeper client for tests that break servers: a session
// that is spoken frame by frame, survives its connections, and knows what it was
// promised. Nothing is retried and nothing reconnects by itself.
package client

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/test/frames"
	"github.com/pinfold-zk/pinfold/zk"
)

// ErrLost says that the server knows the session no more.
var ErrLost = errors.New("client: the session is lost")

// A Violation is an answer that breaks what ZooKeeper promises to a session. No
// fault excuses it.
type Violation struct{ What string }

// Error says what was answered.
func (v *Violation) Error() string { return "violation: " + v.What }

// A Session is a client session. It is used by one goroutine at a time.
type Session struct {
	// Dial opens a connection. New sets net.DialTimeout.
	Dial func(addr string, patience time.Duration) (net.Conn, error)

	timeout  time.Duration // asked for
	patience time.Duration

	id         zk.SessionID
	password   []byte
	negotiated time.Duration
	seen       zk.Zxid
	heard      time.Time
	addr       string

	nc  *frames.Conn // nil without a connection
	xid int32
}

// New makes a session that exists on no server until Connect. timeout is asked
// of the server; patience is how long any answer may take before the
// connection counts as broken.
func New(timeout, patience time.Duration) *Session {
	return &Session{Dial: dialTCP, timeout: timeout, patience: patience}
}

// Resume makes a session that may exist on the servers: Connect takes it over if the
// password is right, and fails with ErrLost if it is not.
func Resume(id zk.SessionID, password []byte, timeout, patience time.Duration) *Session {
	s := New(timeout, patience)
	s.id, s.password = id, password
	return s
}

func dialTCP(addr string, patience time.Duration) (net.Conn, error) {
	return net.DialTimeout("tcp", addr, patience)
}

// Conn is the connection, nil without one. A caller that reads or writes on it must not
// call Do afterwards.
func (s *Session) Conn() net.Conn {
	if s.nc == nil {
		return nil
	}
	return s.nc
}

// Post sends requests and waits for no reply. After it Do is not possible any more.
func (s *Session) Post(reqs ...Request) error {
	if s.nc == nil {
		return errors.New("client: no connection")
	}
	var b []byte
	for _, r := range reqs {
		s.xid++
		b = frames.AppendRequest(b, s.xid, r.Op, r.Body)
	}
	err := s.nc.SetDeadline(time.Now().Add(s.patience))
	if err == nil {
		_, err = s.nc.Write(b)
	}
	if err != nil {
		s.Drop()
		return fmt.Errorf("client: %w", err)
	}
	return nil
}

// ID is the session's id, 0 before the first Connect.
func (s *Session) ID() zk.SessionID { return s.id }

// Timeout is what the server has granted.
func (s *Session) Timeout() time.Duration { return s.negotiated }

// Heard is a time at or before which a server had certainly heard of the
// session for the last time: when the last request that was answered was sent.
func (s *Session) Heard() time.Time { return s.heard }

// Connected reports whether there is a connection that is not known to be broken.
func (s *Session) Connected() bool { return s.nc != nil }

// Addr is the server of the last Connect that went well.
func (s *Session) Addr() string { return s.addr }

// Connect opens a connection for the session, which is a new one at first. The
// error is ErrLost if the server knows it no more, and another if the server
// does not take connections now.
func (s *Session) Connect(addr string) error {
	s.Drop()
	nc, err := s.Dial(addr, s.patience)
	if err != nil {
		return fmt.Errorf("client: %w", err)
	}
	s.nc = frames.New(nc)
	if err := s.handshake(); err != nil {
		s.Drop()
		return fmt.Errorf("client: handshake with %s: %w", addr, err)
	}
	s.addr = addr
	return nil
}

func (s *Session) handshake() error {
	began := time.Now()
	if err := s.nc.SetDeadline(began.Add(s.patience)); err != nil {
		return err
	}
	resp, err := s.nc.Connect(wire.ConnectRequest{
		LastZxidSeen: s.seen, TimeoutMillis: int32(s.timeout.Milliseconds()),
		SessionID: s.id, Password: s.password, HasReadOnly: true,
	})
	switch {
	case err != nil:
		return judged(err)
	case resp.SessionID == 0 || resp.TimeoutMillis <= 0:
		return ErrLost
	case s.id != 0 && resp.SessionID != s.id:
		return &Violation{fmt.Sprintf("session %v came back as %v", s.id, resp.SessionID)}
	}
	s.id, s.password, s.heard = resp.SessionID, resp.Password, began
	s.negotiated = time.Duration(resp.TimeoutMillis) * time.Millisecond
	return nil
}

// judged makes a Violation of the error of bytes that no server may send.
func judged(err error) error {
	if errors.As(err, new(frames.ErrLength)) || errors.Is(err, jute.ErrShort) {
		return &Violation{err.Error()}
	}
	return err
}

// Drop closes the connection and leaves the session to live on.
func (s *Session) Drop() {
	if s.nc != nil {
		_ = s.nc.Close() // broken or not, it is over
		s.nc = nil
	}
}

// A Request is an operation and its encoded body.
type Request struct {
	Op   wire.OpCode
	Body []byte
}

// A Reply is the answer to a request.
type Reply struct {
	Code zk.Code
	Zxid zk.Zxid
	Body []byte
	At   time.Time
}

// Do sends all requests at once and waits for the replies. With an error there
// are replies to the first requests only, what became of the others is not
// known, and the connection is closed. The error is a *Violation if the replies
// were wrong in a way that nothing excuses.
func (s *Session) Do(reqs ...Request) ([]Reply, error) {
	first := s.xid + 1
	began := time.Now()
	if err := s.Post(reqs...); err != nil {
		return nil, err
	}
	var replies []Reply
	for i := range reqs {
		r, err := s.reply(first + int32(i))
		if err != nil {
			s.Drop()
			return replies, fmt.Errorf("client: %s: %w", s.addr, err)
		}
		s.heard = began
		replies = append(replies, r)
	}
	return replies, nil
}

func (s *Session) reply(xid int32) (Reply, error) {
	r, err := s.nc.Reply()
	switch {
	case err != nil:
		return Reply{}, judged(err)
	case r.Xid != xid:
		return Reply{}, &Violation{fmt.Sprintf("session %v at %s: reply to request %d, want %d", s.id, s.addr, r.Xid, xid)}
	case r.Zxid < s.seen:
		return Reply{}, &Violation{fmt.Sprintf("session %v at %s: reply at zxid %v after one at %v", s.id, s.addr, r.Zxid, s.seen)}
	}
	s.seen = r.Zxid
	return Reply{Code: r.Err, Zxid: r.Zxid, Body: r.Body, At: time.Now()}, nil
}

// Close ends the session. With an error it is not known whether it has ended.
// The zxid is that of the end.
func (s *Session) Close() (zk.Zxid, error) {
	replies, err := s.Do(Request{Op: wire.OpCloseSession})
	s.Drop()
	switch {
	case err != nil:
		return 0, err
	case replies[0].Code != zk.OK:
		return 0, fmt.Errorf("client: close: %w", replies[0].Code)
	}
	return replies[0].Zxid, nil
}
