package server

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/prep"
	"github.com/pinfold-zk/pinfold/internal/replica"
	"github.com/pinfold-zk/pinfold/internal/session"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// handshake handles the first bytes of a connection: a four-letter word, or a
// ConnectRequest. It returns how many it took, 0 if it needs more.
func (c *conn) handshake(b []byte) (int, error) {
	if len(b) < 4 {
		return 0, nil
	}
	if done, err := c.command(b); done {
		return len(b), err
	}
	frame, n, ok, err := c.nextFrame(b)
	if !ok || err != nil {
		return 0, err
	}
	var req wire.ConnectRequest
	d := jute.NewDecoder(frame)
	req.Decode(&d)
	if d.Err() != nil {
		return n, fmt.Errorf("%w: first frame: %w", errProtocol, d.Err())
	}
	c.mu.Lock()
	c.countReceivedLocked(1, n)
	c.mu.Unlock()
	return n, c.connect(&req)
}

// connect sets up the session that the client asks for and waits until it has
// its answer: nothing else is read before.
func (c *conn) connect(req *wire.ConnectRequest) error {
	c.s.stats.Connects.Add(1)
	if !c.s.throttle.take(req.SessionID != 0) {
		c.s.stats.Rejected.Add(1)
		return fmt.Errorf("%w: too many connections at a time (connection throttle)", errEnd)
	}
	ready := make(chan struct{})
	c.mu.Lock()
	killed := c.mu.closed
	c.mu.readOnly = req.HasReadOnly
	c.mu.ready = ready
	c.mu.Unlock()
	if killed { // before ready was there for kill to close
		return errEnd
	}
	if mode := c.s.mode(); mode != replica.Idle {
		c.patience = c.s.replica.Now() + c.s.holdFor() // should it be ahead of us
		if err := c.begin(req, mode); err != nil {
			return err
		}
	} else if !c.s.awaitQuorum(c, req) {
		return errNoQuorum
	}
	if c.stepped {
		c.unanswered = ready
		return nil
	}
	return c.awaitSession(ready)
}

// begin asks for the session, which Applied, Resumed or ResumedLocal will tell. A
// client that has seen a later state than this server has to wait (P7), on a leader
// too: another server may have applied what the leader has committed and not applied
// yet. Called from a connection's goroutine, the replica's loop or the applier.
func (c *conn) begin(req *wire.ConnectRequest, mode replica.Mode) error {
	last := c.s.replica.LastApplied()
	switch {
	case mode == replica.Idle, mode == replica.ReadOnly && !req.ReadOnly:
		return errNoQuorum
	case req.LastZxidSeen > last && (mode == replica.Standalone || mode == replica.ReadOnly): // no later state will come
		return c.tooNew(req.LastZxidSeen)
	case req.LastZxidSeen > last:
		c.s.awaitZxid(c, req)
		return nil
	}
	cfg := &c.s.cfg.Session
	timeout := session.Clamp(req.TimeoutMillis, int32(cfg.MinTimeout.Milliseconds()), int32(cfg.MaxTimeout.Milliseconds()))
	c.mu.Lock()
	c.mu.onlyReads = mode == replica.ReadOnly
	c.mu.Unlock()
	c.heard.Store(int64(c.s.replica.Now()))
	switch {
	case req.SessionID == 0:
		c.newSession(timeout)
	case !validPassword(req):
		c.Resumed(false, req.SessionID, 0)
	default:
		c.s.stats.Resumes.Add(1)
		c.s.replica.Resume(req.SessionID, c.owner(), timeout, c)
	}
	return nil
}

// tooNew is why a client is refused that has seen a later state than we have.
func (c *conn) tooNew(seen zk.Zxid) error {
	return fmt.Errorf("%w: the client has seen %v, we are at %v; it must try another server",
		errProtocol, seen, c.s.replica.LastApplied())
}

// awaitSession waits until the handshake is answered, or is held no more.
func (c *conn) awaitSession(ready <-chan struct{}) error {
	var patience <-chan time.Time
	if c.patience > 0 {
		t := time.NewTimer(c.patience - c.s.replica.Now())
		defer t.Stop()
		patience = t.C
	}
	for {
		select {
		case <-ready:
			c.open = true
			c.mu.Lock()
			if !c.mu.closed { // else its deadline is to end the next read
				_ = c.sock.SetReadDeadline(time.Time{}) // fails only if closed, as the next read will
			}
			c.mu.Unlock()
			return nil
		case <-c.s.replica.Failed():
			return errEnd
		case <-patience:
			if held, err := c.s.unhold(c); held {
				return err
			}
			patience = nil // it is being answered
		}
	}
}

func validPassword(req *wire.ConnectRequest) bool {
	want := session.Password(req.SessionID)
	return bytes.Equal(req.Password, want[:])
}

func (c *conn) newSession(timeoutMillis int32) {
	c.s.replica.Submit([]replica.Request{{
		Request: prep.Request{
			Op: wire.OpCreateSession, Body: jute.AppendInt(nil, timeoutMillis), Owner: c.owner(),
		},
		Origin:   c,
		Received: c.s.replica.Now(),
	}})
}

// Resumed answers the client that came back to a session (replica.Origin).
func (c *conn) Resumed(ok bool, id zk.SessionID, timeoutMillis int32) {
	if ok {
		c.s.bind(id, c)
	}
	c.mu.Lock()
	left := c.mu.closed || c.mu.ready == nil
	switch {
	case left:
	case ok:
		c.welcomeLocked(id, timeoutMillis)
	default:
		c.refuseLocked()
	}
	c.mu.Unlock()
	if left {
		c.s.unbind(id, c)
	}
	c.flush(false)
}

// welcomeLocked tells the client of its session. REQUIRES: c.mu.
func (c *conn) welcomeLocked(id zk.SessionID, timeoutMillis int32) {
	c.mu.session, c.mu.timeout = id, timeoutMillis
	password := session.Password(id)
	c.answerConnectLocked(&wire.ConnectResponse{
		TimeoutMillis: timeoutMillis, SessionID: id, Password: password[:],
		ReadOnly: c.mu.onlyReads, HasReadOnly: c.mu.readOnly,
	})
}

// refuseLocked tells the client that its session is over, and ends the
// connection. REQUIRES: c.mu.
func (c *conn) refuseLocked() {
	c.answerConnectLocked(&wire.ConnectResponse{
		Password: make([]byte, wire.PasswordLen), ReadOnly: c.mu.onlyReads, HasReadOnly: c.mu.readOnly,
	})
	c.closeLocked()
}

func (c *conn) answerConnectLocked(resp *wire.ConnectResponse) {
	c.mu.out.Need()
	at := len(c.mu.out.Buf)
	c.mu.out.Buf = resp.Append(append(c.mu.out.Buf, 0, 0, 0, 0))
	endFrame(c.mu.out.Buf, at)
	c.countSentLocked(1)
	close(c.mu.ready)
	c.mu.ready = nil
}

// endFrame writes the length of the frame that begins at b[at].
func endFrame(b []byte, at int) {
	binary.BigEndian.PutUint32(b[at:], uint32(len(b)-at-4))
}
