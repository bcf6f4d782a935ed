package client

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"time"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// A link is a connection whose handshake is done.
type link struct {
	conn   net.Conn
	addr   string
	member string        // of the connect string
	wake   chan struct{} // has room for one: there is something to write
	gone   chan struct{} // closed when the reader has ended

	frames   frameReader // the reader's, as the next
	useful   bool        // a request was answered
	readOnly bool
	stage    stage // guarded by the Client's mu, as refused
	refused  bool  // the member is about to close it over a request that it does not know

	result result      // of an operation that waits, while its answer is read
	batch  completions // of asynchronous ones, whose answers have come together

	why error // the Client has closed conn for this reason; guarded by its mu
}

// poke wakes the writer: there is output.
func (l *link) poke() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// shrink gives back the reader's memory, as far as it holds nothing.
func (l *link) shrink() {
	l.frames.shrink()
	if len(l.batch) == 0 {
		l.batch = nil
	}
}

// The Client's wait after it has tried every member without success: the first
// and the longest. The wait doubles, and varies by half so that the clients of
// a member that died do not come back in step.
const (
	firstPause = 25 * time.Millisecond
	lastPause  = time.Second
)

// run keeps a connection until the Client ends.
func (c *Client) run() {
	defer c.finish()
	failures := 0 // since a member was of use
	for {
		l, err := c.connect(&failures)
		if err == nil {
			err = c.serve(l)
			c.opts.log.Info("connection lost", "server", l.addr, "error", err)
			if failures++; l.useful {
				failures = 0
			}
		}
		if c.stop.Err() != nil || !c.suspend(err) {
			return
		}
	}
}

// tell sends the result of the first connection attempt to Dial, once. c.mu is held.
func (c *Client) tell(err error) {
	if !c.told {
		c.told = true
		c.ready <- err
	}
}

// connect tries the members until one has accepted the session. The error is the
// Client's end, zk.ErrSessionExpired or zk.ErrAuthFailed.
func (c *Client) connect(failures *int) (*link, error) {
	for ; ; *failures++ {
		if members := max(c.hosts.Len(), 1); *failures > 0 && *failures%members == 0 {
			if err := c.pause(*failures/members - 1); err != nil {
				return nil, err
			}
		}
		l, err := c.try()
		switch {
		case err == nil:
			return l, nil
		case c.stop.Err() != nil, errors.Is(err, zk.ErrSessionExpired), errors.Is(err, zk.ErrAuthFailed):
			return nil, err
		}
		c.opts.log.Warn("connection failed", "error", err)
		c.mu.Lock()
		c.lastFailure = err
		c.mu.Unlock()
	}
}

// pause waits between the rounds over all members.
func (c *Client) pause(round int) error {
	d := min(firstPause<<min(round, 10), lastPause)
	t := time.NewTimer(d/2 + rand.N(d/2))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-c.stop.Done():
		return c.stop.Err()
	}
}

// try connects to the next member, and gives it up after c.patience.
func (c *Client) try() (*link, error) {
	limit := c.patience()
	ctx, cancel := context.WithTimeout(c.stop, limit)
	defer cancel()
	host, err := c.nextHost(ctx)
	if err != nil {
		return nil, err
	}
	conn, err := c.open(ctx, host)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", host.Addr, err)
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	l, err := c.greet(ctx, conn, host)
	if !stop() && c.stop.Err() == nil {
		err = fmt.Errorf("no session within %v", limit)
	}
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("%s: %w", host.Addr, err)
	}
	c.attach(l) // only now: an attached link stays attached, so the answer must have come in time
	c.opts.log.Info("connected", "server", l.addr, "session", c.SessionID(), "timeout", c.SessionTimeout(), "read_only", l.readOnly)
	return l, nil
}

// greet makes a connection a link that can be attached: the session, authentication.
func (c *Client) greet(ctx context.Context, conn net.Conn, host Host) (*link, error) {
	l := &link{conn: conn, addr: host.Addr, member: host.member, wake: make(chan struct{}, 1), gone: make(chan struct{})}
	l.frames.init(conn, c.opts.maxReply)
	if err := c.openSession(l); err != nil {
		return nil, err
	}
	if m := c.opts.mechanism; m != nil {
		if err := m.Authenticate(ctx, host.Name, l.exchangeToken); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// openSession asks for the session, or for a new one.
func (c *Client) openSession(l *link) error {
	c.mu.Lock()
	ask := wire.ConnectRequest{
		LastZxidSeen: c.lastZxid, TimeoutMillis: int32(c.opts.timeout.Milliseconds()),
		SessionID: c.session.id, Password: bytes.Clone(c.session.password[:]),
		ReadOnly: c.opts.readOnly, HasReadOnly: true,
	}
	if c.session.local {
		ask.SessionID = 0
	}
	c.mu.Unlock()
	sent := time.Now()
	if _, err := l.conn.Write(frame(ask.Append)); err != nil {
		return err
	}
	b, err := l.frames.next()
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("the server closed the connection instead of answering the handshake: it may not serve yet, or lag what this client has seen")
		}
		return err
	}
	var answer wire.ConnectResponse
	d := jute.NewDecoder(b)
	answer.Decode(&d)
	switch {
	case d.Err() != nil:
		return fmt.Errorf("handshake: %w", d.Err())
	case answer.TimeoutMillis <= 0 && ask.SessionID == 0:
		return errors.New("the server refuses a new session")
	case answer.TimeoutMillis <= 0:
		return zk.ErrSessionExpired
	case answer.SessionID == 0:
		return errors.New("handshake: a session without an id")
	case ask.SessionID != 0 && answer.SessionID != ask.SessionID:
		return fmt.Errorf("handshake: the server answers for session %v, not %v", answer.SessionID, ask.SessionID)
	case len(answer.Password) != wire.PasswordLen:
		return fmt.Errorf("handshake: a password of %d bytes", len(answer.Password))
	case answer.ReadOnly && !c.opts.readOnly:
		return errors.New("the server is read-only")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.session = session{
		id: answer.SessionID, password: [wire.PasswordLen]byte(answer.Password),
		timeout: millis(answer.TimeoutMillis),
		local:   answer.ReadOnly && ask.SessionID == 0,
	}
	c.heard = sent
	l.readOnly = answer.ReadOnly
	return nil
}

func millis(n int32) time.Duration { return time.Duration(n) * time.Millisecond }

// exchangeToken carries a SASL token to the server and returns its answer.
func (l *link) exchangeToken(token []byte) ([]byte, error) {
	out := frame(func(b []byte) []byte {
		return jute.AppendBuffer(wire.RequestHeader{Op: wire.OpSASL}.Append(b), token)
	})
	if _, err := l.conn.Write(out); err != nil {
		return nil, err
	}
	b, err := l.frames.next()
	if err != nil {
		return nil, err
	}
	var head wire.ReplyHeader
	d := jute.NewDecoder(b)
	head.Decode(&d)
	if d.Err() == nil && head.Err != zk.OK {
		return nil, head.Err
	}
	answer := append([]byte(nil), d.Buffer()...)
	return answer, d.Err()
}

// attach makes l the Client's link. What must reach the server before any
// operation is put in front of them: credentials, then watches.
func (c *Client) attach(l *link) {
	leave := false
	defer func() {
		if leave {
			l.conn.Close()
		}
	}()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lastFailure = nil
	c.shareAgain()
	first := c.appendAuth(nil)
	first = c.watches.appendSetWatches(first, c.lastZxid)
	c.out = append(first, c.out...)
	c.link, c.taken, c.probe = l, 0, probe{}
	if list, ours := c.hosts.(*serverList); ours && !list.connected(l.member) {
		l.why, leave = errRebalanced, true // the list has changed since the member was chosen
	}
	state := Connected
	if l.readOnly {
		state = ConnectedReadOnly
	}
	c.setState(state)
	if len(c.sentAuth) == 0 {
		c.tell(nil)
	}
}

// suspend fails what was under way when a connection ended, and says whether
// there is a session to go on with. c.mu is not held.
func (c *Client) suspend(err error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.link != nil && !c.link.refused {
		c.refused = 0
	}
	c.link = nil
	switch {
	case c.closing:
		c.fail(zk.ErrConnectionLoss, err)
		return false
	case errors.Is(err, zk.ErrAuthFailed):
		c.die(AuthFailed, zk.ErrAuthFailed)
		return false
	case errors.Is(err, zk.ErrSessionExpired) && c.unknown():
		c.session = session{}
	case errors.Is(err, zk.ErrSessionExpired) && !c.opts.newSession:
		c.die(Expired, zk.ErrSessionExpired)
		return false
	case errors.Is(err, zk.ErrSessionExpired):
		c.fail(zk.ErrSessionExpired, nil)
		c.watches.end(zk.StateExpired)
		c.setState(Expired)
		c.session, c.lastZxid = session{}, 0
		c.setState(Connecting)
	default:
		c.lastFailure = err
		c.fail(zk.ErrConnectionLoss, err)
		c.setState(Suspended)
	}
	return true
}

// unknown reports whether no caller knows the session yet: Dial has not
// returned it, or no connection of it was in time. c.mu is held.
func (c *Client) unknown() bool {
	if !c.told {
		return c.opts.session.id == 0
	}
	return c.state == Connecting
}

// die makes the Client useless; c.mu is held.
func (c *Client) die(s State, err error) {
	c.dead = err
	c.fail(err, nil)
	c.setState(s)
}

// fail completes all calls with an error; c.mu is held.
func (c *Client) fail(err, reason error) {
	var list completions
	var waiting result
	for i := 0; c.pending.n > 0; i++ {
		k := c.pending.first()
		r := &waiting
		if k.async {
			r = list.add(k.done)
		}
		r.err = &Error{Op: k.name, Path: k.path, Err: err, Reason: reason, Maybe: i < c.taken && k.op.IsWrite()}
		if k.refused {
			r.err = k.unimplemented()
		}
		if k.watch != nil {
			k.watch.finish()
		}
		c.complete(k, r)
		c.pending.pop()
	}
	c.pending.forget()
	c.out, c.taken = c.out[:0], 0
	c.sentAuth = c.sentAuth[:0]
	c.done.put(list)
}

// finish ends everything that a Client's users may wait for.
func (c *Client) finish() {
	c.mu.Lock()
	defer c.mu.Unlock()
	state := zk.StateExpired
	switch {
	case c.dead == nil:
		state = zk.StateClosed
		c.die(Closed, ErrClosed)
	case c.dead == zk.ErrAuthFailed:
		state = zk.StateAuthFailed
	}
	c.link = nil
	c.tell(c.dead)
	c.failAuth(c.dead)
	c.watches.end(state)
	for p := range c.listeners {
		p.finish()
	}
	clear(c.listeners)
}

// frame puts the length in front of what body appends.
func frame(body func(b []byte) []byte) []byte {
	return appendFrame(nil, body)
}

func appendFrame(b []byte, body func(b []byte) []byte) []byte {
	start := len(b)
	b = body(append(b, 0, 0, 0, 0))
	binary.BigEndian.PutUint32(b[start:], uint32(len(b)-start-4))
	return b
}
