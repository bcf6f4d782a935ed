package server

import (
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

// handshake is what a connection needs only until its ConnectRequest is answered. Serve owns it.
type handshake struct {
	ready    chan struct{}        // closed, under conn.mu, when it is known whether there is a session
	patience time.Duration        // until when the handshake is held, by Replica.Now
	admitted chan struct{}        // receives a token when a held handshake may continue; nil if it was never held
	held     *wire.ConnectRequest // with which it then continues
}

// waits reports whether the session is not known yet; nil, which is no handshake, does not wait. REQUIRES: conn.mu.
func (h *handshake) waits() bool {
	if h == nil {
		return false
	}
	select {
	case <-h.ready:
		return false
	default:
		return true
	}
}

// handshake handles the first bytes of a connection: a four-letter word, or a
// ConnectRequest. It returns how many bytes it has consumed, 0 if it needs more.
func (c *conn) handshake(b []byte) (int, error) {
	if len(b) < 4 {
		return 0, nil
	}
	if done, err := c.command(b); done {
		return len(b), err
	}
	if b[0] == tlsHandshake && b[1] == tlsMajor {
		return 0, fmt.Errorf("%w: the client uses TLS, which this port does not have", errProtocol)
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
	if !c.spendHandshake(n, req.SessionID == 0) {
		return n, errEnd
	}
	return n, c.connect(&req)
}

// connect sets up the session that the client requests, and waits for the result.
// Nothing else is read before.
func (c *conn) connect(req *wire.ConnectRequest) error {
	c.s.stats.Connects.Add(1)
	if !c.s.throttle.admit(req.SessionID != 0) {
		c.s.stats.Rejected.Add(1)
		return fmt.Errorf("%w: too many connections at a time (connection throttle)", errEnd)
	}
	h := &handshake{ready: make(chan struct{})}
	c.mu.Lock()
	killed := c.mu.closed
	c.mu.readOnly = req.HasReadOnly
	c.mu.handshake = h
	c.mu.Unlock()
	if killed { // ready did not exist when kill ran, so kill could not close it
		return errEnd
	}
	if mode := c.s.mode(); mode != replica.Idle {
		h.patience = c.s.replica.Now() + c.s.holdFor() // in case the client is ahead of this server
		if err := c.askSession(req, mode); err != nil {
			return err
		}
	} else if !c.s.awaitQuorum(c, req) {
		return errNoQuorum
	}
	if !c.stepped {
		return c.awaitSession(h)
	}
	select {
	case <-h.ready:
		c.answerHandshake()
	default: // Step does
	}
	return nil
}

// askSession asks the replica for the session; Applied, Resumed, ResumedLocal or Leave
// answers. A client that has seen a later state than this server has to wait (P7), even
// on a leader: another server may have applied what the leader has committed but not
// applied yet. REQUIRES: serve's goroutine.
func (c *conn) askSession(req *wire.ConnectRequest, mode replica.Mode) error {
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
	case req.SessionID == 0 && !c.s.mayOpen(c.remote.Addr()):
		c.s.stats.Rejected.Add(1)
		c.s.stats.SessionsRefused.Add(1)
		c.s.refused.Warn("a new session was refused: all sessions take too much memory (sessionBytes)", "client", c.remote)
		return errEnd
	case req.SessionID == 0:
		c.newSession(timeout)
	case !c.s.passwords.Accepts(req.SessionID, req.Password):
		c.Resumed(false, req.SessionID, 0)
	default:
		c.s.stats.Resumes.Add(1)
		c.s.replica.Resume(req.SessionID, c.owner(), timeout, c)
	}
	return nil
}

// tooNew is the reason for refusing a client that has seen a later state than this
// server has.
func (c *conn) tooNew(seen zk.Zxid) error {
	return fmt.Errorf("%w: the client has seen %v, this server is at %v; the client must try another server",
		errProtocol, seen, c.s.replica.LastApplied())
}

// awaitSession waits until the handshake is answered, or must not be held any longer.
func (c *conn) awaitSession(h *handshake) error {
	var timer *time.Timer
	var expired <-chan time.Time
	if h.admitted != nil { // otherwise it has asked for its session, and is not held after that
		timer = time.NewTimer(h.patience - c.s.replica.Now())
		defer timer.Stop()
		expired = timer.C
	}
	for {
		select {
		case <-h.ready:
			c.answerHandshake()
			return nil
		case <-h.admitted:
			if err := c.askSession(h.held, c.s.mode()); err != nil {
				return err
			}
		case <-c.s.replica.Failed():
			return errEnd
		case <-expired:
			if held, err := c.s.unhold(c); held {
				return err
			}
			timer.Reset(c.s.holdFor()) // its goroutine answers it now; or it is woken and may be held again
		}
	}
}

// answerHandshake sends the answer: the session in mu.session, or that there is none.
// This ends the handshake, unless the connection is closed: then end still has to take it from the table of those
// that are held. REQUIRES: serve's goroutine; ready was closed.
func (c *conn) answerHandshake() {
	c.open = true
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.closed {
		return // its read deadline must end the next read
	}
	c.mu.handshake = nil
	_ = c.sock.SetReadDeadline(time.Time{}) // fails only if closed; then the next read fails too
	if c.mu.session != 0 {
		c.welcomeLocked()
	} else {
		c.refuseLocked()
	}
	c.mu.out.Flush(true)
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

// Resumed reports whether the client may continue its session (replica.Origin). The
// connection's own goroutine sends the answer. If two connections resume a session, the
// order of these calls decides; so bind is called here.
func (c *conn) Resumed(ok bool, id zk.SessionID, timeoutMillis int32) {
	if !ok {
		id = 0
	}
	c.establish(id, timeoutMillis, false)
}

// establish sets the connection's session, 0 if there is none, and wakes its goroutine.
// It returns false if the client has left; its session then expires.
func (c *conn) establish(id zk.SessionID, timeoutMillis int32, local bool) bool {
	if id != 0 {
		c.s.bind(id, c)
		c.setSession(id)
	}
	c.mu.Lock()
	waits := !c.mu.closed && c.mu.handshake.waits()
	if waits {
		c.mu.session, c.mu.timeout, c.mu.local = id, timeoutMillis, local
		close(c.mu.handshake.ready)
	}
	c.mu.Unlock()
	if !waits && id != 0 {
		c.s.unbind(id, c)
	}
	return waits
}

// welcomeLocked sends the session to the client. REQUIRES: c.mu.
func (c *conn) welcomeLocked() {
	password := c.s.passwords.Of(c.mu.session)
	c.answerConnectLocked(&wire.ConnectResponse{
		TimeoutMillis: c.mu.timeout, SessionID: c.mu.session, Password: password[:],
		ReadOnly: c.mu.onlyReads, HasReadOnly: c.mu.readOnly,
	})
}

// refuseLocked tells the client that its session has expired, and ends the connection.
// REQUIRES: c.mu.
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
	c.countSentLocked()
}

// endFrame writes the length of the frame that begins at b[at].
func endFrame(b []byte, at int) {
	binary.BigEndian.PutUint32(b[at:], uint32(len(b)-at-4))
}
