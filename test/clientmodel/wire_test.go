package clientmodel

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/test/frames"
	"github.com/pinfold-zk/pinfold/zk"
)

// member is one of the two addresses of the server, and what is wrong with it.
type member int

const (
	well     member = iota
	down            // refuses connections
	deaf            // accepts connections, and closes them instead of an answer
	mute            // accepts connections, and is silent
	readOnly        // has no quorum
)

// plan is what happens to a connection. Bytes count from its beginning.
type plan struct {
	cutUp, cutDown int           // the connection breaks there; 0: it does not
	silent         int           // nothing of what the server sends is received from there on; 0: all is
	latency        time.Duration // of each thing that is received
	greeting       time.Duration // of the answer to the handshake
	late           time.Duration // of the return of the read that has the answer
}

func newPlan(rng *rand.Rand) (p plan) {
	switch n := rng.IntN(100); {
	case n < 12:
		p.cutUp = 1 + rng.IntN(3000)
	case n < 30:
		p.cutDown = 1 + rng.IntN(6000)
	case n < 34:
		p.silent = 1 + rng.IntN(6000)
	}
	switch n := rng.IntN(100); {
	case n < 40:
		p.latency = time.Duration(1+rng.IntN(5)) * time.Millisecond
	case n < 45:
		p.latency = time.Duration(rng.IntN(700)) * time.Millisecond
	}
	switch patience := time.Second; rng.IntN(20) { // that of the Clients, when they have a session
	case 0:
		p.greeting = patience
	case 1:
		p.late = patience + time.Millisecond
	}
	return p
}

// span is what a connection has shown to its client.
type span struct {
	era    int     // how many sessions had ended before
	retold zk.Zxid // the answer to setWatches; 0 if there was none
	last   zk.Zxid // the newest that an answer or event has shown
}

func (s *span) String() string { return fmt.Sprintf("%v to %v", s.retold, s.last) }

// conn is a client's end of a connection: it does what the plan says, and notes what
// passes.
type conn struct {
	net.Conn
	a  *actor
	as member
	plan

	mu       sync.Mutex // guards what follows
	up, down frames.Splitter
	asked    bool // the client's handshake has passed
	answered bool // the server's, too
	sent     int  // bytes
	got      int
	ready    []byte
	shown    []sight        // of ready, and what follows
	refused  map[int32]bool // writes at a member without a quorum
	isro     bool           // it is a question for the state, and no session
	silenced bool
	span     *span
}

// sight is a frame whose last byte is the end-th that the client gets.
type sight struct {
	end  int
	body []byte
}

// dial is the actor's Dialer.
func (a *actor) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	r := a.run
	r.mu.Lock()
	as := r.members[0]
	if addr == secondAddr {
		as = r.members[1]
	}
	a.dials++
	rng := rand.New(rand.NewPCG(r.seed, uint64(a.index)<<32|uint64(a.dials)))
	r.mu.Unlock()
	if as == down {
		return nil, &net.OpError{Op: "dial", Net: network, Err: errors.New("refused")}
	}
	base, err := r.server.Dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: base, a: a, as: as, refused: map[int32]bool{}}
	switch {
	case r.calm.Load():
	case as == mute:
		c.silent = 1
	default:
		c.plan = newPlan(rng)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.conns = append(a.conns[max(0, len(a.conns)-2):], c)
	return c, nil
}

// Write notes the requests, also those of a connection that is broken, as the client
// believes that it has sent them.
func (c *conn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.asked && string(p) == "isro" {
		c.isro = true
		return len(p), nil
	}
	if c.as == deaf {
		c.Conn.Close()
	}
	var out []byte
	c.up.Add(p)
	for b, ok := c.up.Next(); ok; b, ok = c.up.Next() {
		out = frames.Append(out, c.request(b))
	}
	if c.cutUp > 0 && c.sent+len(out) >= c.cutUp && !c.a.run.calm.Load() {
		out = out[:max(c.cutUp-c.sent, 0)]
		c.Conn.Write(out) // whether it arrives is the question
		c.Conn.Close()
		return 0, io.ErrClosedPipe
	}
	c.sent += len(out)
	if _, err := c.Conn.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}

// request looks at what the client sends, and returns what is sent instead.
func (c *conn) request(b []byte) []byte {
	if !c.asked {
		c.asked = true
		var ask wire.ConnectRequest
		d := jute.NewDecoder(b)
		ask.Decode(&d)
		c.a.handshake(&ask)
		return b
	}
	var head wire.RequestHeader
	d := jute.NewDecoder(b)
	head.Decode(&d)
	if head.Xid == wire.XidSetWatches {
		c.a.retells(c.span)
	}
	if head.Op.IsWrite() && head.Op != wire.OpCloseSession {
		c.a.handedOver(b)
		if c.as == readOnly {
			c.refused[head.Xid] = true
			body := wire.PathWatch{Path: "/"}
			return body.Append(wire.RequestHeader{Xid: head.Xid, Op: wire.OpExists}.Append(nil))
		}
	}
	return b
}

// Read gives whole frames, or what the plan leaves of them.
func (c *conn) Read(p []byte) (int, error) {
	for {
		if n, done := c.give(p); done {
			if n == 0 {
				return 0, io.EOF
			}
			return n, nil
		}
		wait, late := c.latency, time.Duration(0)
		if !c.answered {
			wait, late = c.greeting, c.late
		}
		if wait > 0 && !c.a.run.calm.Load() {
			<-time.After(wait)
		}
		b := make([]byte, 4096)
		n, err := c.Conn.Read(b)
		if n == 0 {
			return 0, err
		}
		c.take(b[:n])
		if late > 0 && !c.a.run.calm.Load() {
			<-time.After(late)
		}
	}
}

// give hands over what is ready; done with nothing is the end.
func (c *conn) give(p []byte) (n int, done bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isro {
		c.isro = false
		if c.as == readOnly {
			return copy(p, "ro"), true
		}
		return copy(p, "rw"), true
	}
	if len(c.ready) == 0 {
		return 0, false
	}
	n = min(len(p), len(c.ready))
	if calm := c.a.run.calm.Load(); c.cutDown > 0 && !calm && c.got+n >= c.cutDown {
		n = max(c.cutDown-c.got, 0)
		c.Conn.Close()
	} else if c.silenced || c.silent > 0 && !calm && c.got+n >= c.silent {
		c.silenced = true
		c.ready, c.shown = nil, nil
		return 0, false
	}
	copy(p, c.ready[:n])
	c.ready = c.ready[n:]
	c.got += n
	for len(c.shown) > 0 && c.shown[0].end <= c.got {
		c.see(c.shown[0].body)
		c.shown = c.shown[1:]
	}
	return n, true
}

// take takes what the server has sent.
func (c *conn) take(b []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.down.Add(b)
	for b, ok := c.down.Next(); ok; b, ok = c.down.Next() {
		b = bytes.Clone(b)
		switch {
		case !c.answered && c.as == readOnly:
			b[len(b)-1] = 1 // the last field of the answer
		case c.answered && c.refused[int32(binary.BigEndian.Uint32(b))]:
			b = wire.ReplyHeader{Xid: int32(binary.BigEndian.Uint32(b)), Zxid: zk.Zxid(binary.BigEndian.Uint64(b[4:])), Err: zk.ErrNotReadOnly}.Append(nil)
		}
		c.answered = true
		c.ready = frames.Append(c.ready, b)
		c.shown = append(c.shown, sight{c.got + len(c.ready), b})
	}
}

// see notes a frame that the client has got whole.
func (c *conn) see(b []byte) {
	if c.span == nil {
		var answer wire.ConnectResponse
		d := jute.NewDecoder(b)
		answer.Decode(&d)
		c.span = c.a.greeted(&answer)
		return
	}
	var head wire.ReplyHeader
	d := jute.NewDecoder(b)
	head.Decode(&d)
	c.a.mu.Lock()
	defer c.a.mu.Unlock()
	switch {
	case head.Xid == wire.XidNotification:
		c.span.last = max(c.span.last, head.Zxid-1) // the transaction may have more
		return
	case head.Xid == wire.XidPing, head.Xid == wire.XidAuth:
		return
	case head.Xid == wire.XidSetWatches:
		c.span.retold = head.Zxid
	case head.Xid > 0:
		c.a.shown = max(c.a.shown, head.Zxid)
	}
	c.span.last = max(c.span.last, head.Zxid)
}

// handshake checks what the client says of itself.
func (a *actor) handshake(ask *wire.ConnectRequest) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if ask.LastZxidSeen < a.shown {
		a.fail("a handshake says that %v is the newest zxid seen, after an answer of %v", ask.LastZxidSeen, a.shown)
	}
}

// retells notes that the client has told a connection of its watches. It is not told of
// changes until that has been answered.
func (a *actor) retells(s *span) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s.retold = math.MaxInt64
}

// greeted notes the answer to a handshake.
func (a *actor) greeted(answer *wire.ConnectResponse) *span {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := &span{era: a.era}
	if answer.TimeoutMillis <= 0 {
		a.shown, a.era = 0, a.era+1 // a new session begins anew
		return s
	}
	a.sessions[answer.SessionID] = true
	a.spans = append(a.spans, s)
	return s
}

// handedOver notes the marks in a request that changes something.
func (a *actor) handedOver(b []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, id := range marks(b) {
		if a.sent[id] {
			a.fail("the request of operation %d is sent again", id)
		}
		a.sent[id] = true
	}
}

// marks finds the marks of operations, #17#, in data.
func marks(b []byte) (ids []int) {
	for part := range bytes.SplitSeq(b, []byte("#")) {
		if id, err := strconv.Atoi(string(part)); err == nil && id >= firstID {
			ids = append(ids, id)
		}
	}
	return ids
}
