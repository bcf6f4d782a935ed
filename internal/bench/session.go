package bench

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/pinfold-zk/pinfold/internal/fifo"
	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// A kind is what a request is counted as.
type kind uint8

const (
	kindRead kind = iota
	kindWrite
	kindCreate
	kindDelete
	kindWatch // a request that registers a watch
	kindEvent // not a request: a watch event
	kindSync
	kindMulti
	kindClose
	kindHandshake // not a request: a connection that was opened and closed
	kindSession   // the same with a session
	kinds
)

func (k kind) String() string {
	return [...]string{"read", "write", "create", "delete", "watch", "event", "sync", "multi", "close", "handshake", "session"}[k]
}

// ErrProtocol marks an answer that no ZooKeeper server gives: a reply out of
// order, to nothing, or of an impossible length. A run ends with it, as nothing
// that was measured can be believed.
var ErrProtocol = errors.New("protocol violation")

// errClosed is the end of the stream while the run goes on.
var errClosed = errors.New("server closed the connection")

const (
	maxReply = 64 << 20 // a longer reply is taken for a broken stream
	anyBody  = -1       // a body whose length is not checked
)

// A script decides what one session sends, and is told what comes back. All
// calls come from the session's loop, one after the other. now is the loop's
// clock, in nanoseconds.
type script interface {
	// next queues requests with session.send, as many as the script wants to
	// have under way. It is called at the start and after every batch of
	// replies.
	next(s *session, now int64)
	// reply is told the answer to q, in request order. body is only valid
	// during the call. An error ends the run.
	reply(s *session, q request, code zk.Code, body []byte, now int64) error
	// event is told of a watch event.
	event(s *session, body []byte, now int64) error
}

// A request is what a session remembers of a request under way.
type request struct {
	at   int64 // when it was sent, or was due, by the loop's clock
	body int32 // bytes that the reply's body must have, or anyBody
	kind kind
}

// A session is the state of one connection after its handshake: what is
// written and not yet sent, what is sent and not yet answered. It does no I/O.
// Owned by its loop.
type session struct {
	script   script
	tally    *tally
	number   int // of the connection in its run
	id       zk.SessionID
	password []byte
	zxid     zk.Zxid       // the latest that a reply has shown
	timeout  time.Duration // negotiated
	xid      int32         // of the next request
	oldest   int32         // xid of the oldest request under way
	flight   fifo.Queue[request]
	out      []byte // encoded requests; those before sent are in the socket
	sent     int
	in       []byte // the front of a frame whose end has not come
	pings    int    // under way
	lastSend int64
	closing  bool
	down     bool // it has lost its connection and has no other yet

	// For the loop.
	socket
	index      int32
	loop       *loop
	wantsWrite bool
}

func newSession(sc script, t *tally) *session {
	return &session{script: sc, tally: t, xid: 1, oldest: 1, socket: socket{fd: -1}}
}

// granted notes what a server has answered to the handshake.
func (s *session) granted(r wire.ConnectResponse) {
	s.id, s.password = r.SessionID, bytes.Clone(r.Password)
	s.timeout = time.Duration(r.TimeoutMillis) * time.Millisecond
}

// disconnected drops the requests that were queued or under way, and returns their
// number. Whether the server executed them is unknown.
func (s *session) disconnected() (lost int) {
	lost = s.flight.Len()
	s.flight = fifo.Queue[request]{}
	s.oldest = s.xid
	s.out, s.sent, s.in, s.pings = nil, 0, nil, 0
	s.wantsWrite, s.down = false, true
	return lost
}

// send queues f. at is the time that its latency counts from, body the length
// that the body of its reply must have.
func (s *session) send(f frame, k kind, body int, at int64) {
	start := len(s.out)
	s.out = append(s.out, f.b...)
	jute.PutInt(s.out[start+frameXid:], s.xid)
	s.xid = nextXid(s.xid)
	s.flight.Push(request{at: at, body: int32(body), kind: k})
}

// ping queues a ping; its reply is checked and not counted.
func (s *session) ping() {
	s.out = append(s.out, bareFrame(wire.OpPing, xidPing).b...)
	s.pings++
}

// close queues the end of the session. Nothing may be queued after it.
func (s *session) close(now int64) {
	if !s.closing {
		s.closing = true
		s.send(bareFrame(wire.OpCloseSession, 0), kindClose, 0, now)
	}
}

// underWay returns how many requests are queued or sent and not answered.
func (s *session) underWay() int { return s.flight.Len() }

// unsent returns the bytes that wait for the socket, aliasing s; taken reports
// that the socket has taken n of them.
func (s *session) unsent() []byte { return s.out[s.sent:] }

func (s *session) taken(n int) {
	if s.sent += n; s.sent == len(s.out) {
		s.out, s.sent = s.out[:0], 0
	}
}

// write hands b, which is unsent, to the socket. It returns how much is left for the next call.
func (s *session) write(b []byte) (left int, err error) {
	if s.records != nil {
		left, err = s.records.write(b)
		s.taken(len(b))
		return left, err
	}
	if len(b) == 0 {
		return 0, nil
	}
	n, err := writeSocket(s.fd, b)
	s.taken(n)
	return len(b) - n, err
}

func nextXid(x int32) int32 {
	if x == math.MaxInt32 {
		return 1
	}
	return x + 1
}

// receive handles every whole frame of b and returns the rest. An error wraps
// ErrProtocol or comes from the script.
func (s *session) receive(b []byte, now int64) (rest []byte, err error) {
	for len(b) >= 4 {
		n := binary.BigEndian.Uint32(b)
		if n < replyHead-4 || n > maxReply {
			return nil, fmt.Errorf("%w: reply of %d bytes", ErrProtocol, int32(n))
		}
		if uint64(len(b)) < 4+uint64(n) {
			break
		}
		f := b[:4+n]
		b = b[4+n:]
		xid := int32(binary.BigEndian.Uint32(f[4:]))
		if zxid := zk.Zxid(binary.BigEndian.Uint64(f[8:])); int64(zxid) > int64(s.zxid) {
			s.zxid = zxid
		}
		code := zk.Code(int32(binary.BigEndian.Uint32(f[16:])))
		if xid != s.oldest || s.flight.Len() == 0 {
			if err := s.unasked(xid, code, f[replyHead:], now); err != nil {
				return nil, err
			}
			continue
		}
		if err := s.answer(code, f[replyHead:], now); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// answer handles the reply to the oldest request under way.
func (s *session) answer(code zk.Code, body []byte, now int64) error {
	q := *s.flight.At(0)
	s.flight.Drop(1)
	xid := s.oldest
	s.oldest = nextXid(s.oldest)
	if code == zk.OK && q.body != anyBody && int(q.body) != len(body) {
		return fmt.Errorf("%w: reply to the %v with xid %d has a body of %d bytes, not %d",
			ErrProtocol, q.kind, xid, len(body), q.body)
	}
	if q.kind == kindClose {
		return nil // the run's own, not the script's
	}
	s.tally.add(q.kind, code, time.Duration(now-q.at))
	return s.script.reply(s, q, code, body, now)
}

// unasked handles a frame that does not answer the oldest request: an event, the
// answer to a ping, or a violation.
func (s *session) unasked(xid int32, code zk.Code, body []byte, now int64) error {
	switch {
	case xid == xidEvent:
		return s.script.event(s, body, now)
	case xid == xidPing && s.pings > 0:
		s.pings--
		if code != zk.OK {
			return fmt.Errorf("ping: %w", code)
		}
		return nil
	case s.flight.Len() == 0:
		return fmt.Errorf("%w: reply with xid %d (%v) and no request under way",
			ErrProtocol, xid, code)
	}
	return fmt.Errorf("%w: reply with xid %d, and the oldest request has %d",
		ErrProtocol, xid, s.oldest)
}

// A tally is what one loop has counted since the measurement began. Owned by
// the loop; others read it after the loop has ended.
type tally struct {
	total  uint64 // all that was counted since the start, never reset
	frozen bool   // nothing is counted any more: the measurement is over
	hist   [kinds]Histogram
	errors [kinds]map[zk.Code]uint64
	lost   uint64 // requests whose answer never came
}

// add counts an answer. NoNode is no error where a watch is registered: it is
// how a watch on an absent znode is confirmed.
func (t *tally) add(k kind, code zk.Code, d time.Duration) {
	if t.frozen {
		return
	}
	t.total++
	if code != zk.OK && !(k == kindWatch && code == zk.ErrNoNode) {
		if t.errors[k] == nil {
			t.errors[k] = make(map[zk.Code]uint64)
		}
		t.errors[k][code]++
		return
	}
	t.hist[k].Record(d)
}

// lose counts requests that a connection has taken with it.
func (t *tally) lose(n int) {
	if !t.frozen {
		t.lost += uint64(n)
	}
}

// reset sets all counts to zero, except the total.
func (t *tally) reset() {
	total := t.total
	*t = tally{}
	t.total = total
}
