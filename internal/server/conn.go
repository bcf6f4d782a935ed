package server

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pinfold-zk/pinfold/internal/auth"
	"github.com/pinfold-zk/pinfold/internal/sasl"
	"github.com/pinfold-zk/pinfold/internal/session"
	"github.com/pinfold-zk/pinfold/internal/socket"
	"github.com/pinfold-zk/pinfold/internal/watch"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// conn is a client's connection. Its goroutine, serve, reads. Any goroutine that
// has output for the client appends it to mu.out and flushes that.
type conn struct {
	s           *Server
	sock        *socket.Conn
	remote      netip.AddrPort
	id          watch.ID
	serial      uint64 // never reused: the owner of its session
	established time.Time
	heard       atomic.Int64 // when the client last sent a complete frame, by Replica.Now
	paused      atomic.Bool  // serve does not read, for a reason that is the server's

	// Owned by serve.
	in      socket.Input
	account socket.Account // of the buffers; of the server's budget
	open    bool           // the handshake is over
	leaving bool           // what is read from now on is ignored
	stepped bool           // there is no goroutine, see SteppedConn
	// patience is when a handshake that is held is given up, by Replica.Now; 0 if
	// it was not held.
	patience time.Duration
	// admitted holds a token once a handshake that was held may go on, with heldRequest;
	// nil if it was never held.
	admitted    chan struct{}
	heldRequest wire.ConnectRequest
	// unanswered is mu.ready of a stepped connection that waits for its session.
	unanswered chan struct{}

	dirty bool // owned by the applier

	mu struct {
		sync.Mutex
		sync.Cond               // output was sent, pending requests were answered, or closed
		out       socket.Output // frames to be sent
		events    int           // bytes of events in out.Buf
		reserved  int           // bytes of out.Buf, or to come, that account was charged by room
		short     int           // what a reply needs for which there was no room; 0: none
		forced    bool          // replies are built whether there is room or not
		closing   bool          // close when out is sent, see closeLocked
		closed    bool          // nothing more is sent: the socket is closed, or shut
		shut      bool          // closed, but only for output: end reads what still comes
		ids       []zk.ID       // replaced, never changed
		pending   pendingFIFO
		ready     chan struct{} // closed when the handshake is answered; nil when not waiting
		session   zk.SessionID
		timeout   int32 // milliseconds
		readOnly  bool  // the handshake had the byte
		onlyReads bool  // there is no quorum: what writes is refused
		local     bool  // the session lives on this server alone
		upgrade   bool  // until the next request is submitted, see upgradeFor
		stats     connStats

		login *sasl.Exchange // nil before the first token of SASL
	}
}

// newConn returns the connection of a client at remote, which is in no table yet.
func (s *Server) newConn(nc net.Conn, remote netip.AddrPort) *conn {
	c := &conn{s: s, sock: socket.New(nc, socket.Options{}), remote: remote}
	c.mu.L = &c.mu.Mutex
	c.mu.ids = []zk.ID{auth.IPIdentity(remote.Addr())}
	c.mu.stats.reset()
	c.account.Init(s.budget)
	c.in.Init(c.sock, s.inputs, &c.account)
	c.mu.out.Charge(&c.account)
	c.mu.out.Init(&c.mu.Mutex, c, &s.wg, s.outputs)
	c.mu.out.Attach(c.sock)
	return c
}

// owner is how the session tracker knows this connection.
func (c *conn) owner() session.Owner { return session.Owner(c.serial) }

// LastHeard is when the client last sent a complete frame, by Replica.Now
// (replica.Origin). A part of a frame is no sign of life. While the server does not read
// from the connection, as serve waits for the disk or for room, it is now: the client's
// pings may lie in the socket.
func (c *conn) LastHeard() time.Duration {
	if c.paused.Load() {
		return c.s.replica.Now()
	}
	return time.Duration(c.heard.Load())
}

// serve reads requests until the connection ends.
func (c *conn) serve() {
	defer c.end()
	if d := c.s.cfg.Client.SessionlessTimeout; d > 0 {
		_ = c.sock.SetReadDeadline(time.Now().Add(d)) // fails only if closed, as the read will
	}
	for {
		if err := c.in.Fill(); err != nil {
			c.countDrop(err)
			c.noteEnd(err)
			return
		}
		if c.leaving {
			c.in.Clear()
			continue
		}
		if err := c.consume(); err != nil {
			c.noteEnd(err)
			return
		}
		c.in.Release()
	}
}

// pauseReading notes that serve does not read until resumeReading, because it waits for
// the replica.
func (c *conn) pauseReading() { c.paused.Store(true) }

// resumeReading ends pauseReading. The time in between is not the client's silence.
func (c *conn) resumeReading() {
	c.heard.Store(int64(c.s.replica.Now()))
	c.paused.Store(false)
}

// consume handles all whole frames in the input.
func (c *conn) consume() error {
	used := 0
	for !c.open {
		n, err := c.handshake(c.in.Bytes()[used:])
		used += n
		if n == 0 || err != nil || c.unanswered != nil {
			c.in.Consume(used)
			return err
		}
	}
	n, err := c.process(c.in.Bytes()[used:])
	c.in.Consume(used + n)
	return err
}

// nextFrame splits the first frame off b; ok is false if it is not whole yet.
func (c *conn) nextFrame(b []byte) (frame []byte, n int, ok bool, err error) {
	if len(b) < 4 {
		return nil, 0, false, nil
	}
	size := int(int32(binary.BigEndian.Uint32(b)))
	if size < 0 || size > c.s.cfg.Client.MaxFrameBytes {
		return nil, 0, false, fmt.Errorf("%w: frame of %d bytes, jute.maxbuffer is %d", errProtocol, size, c.s.cfg.Client.MaxFrameBytes)
	}
	if len(b) < 4+size {
		return nil, 0, false, nil
	}
	return b[4 : 4+size : 4+size], 4 + size, true, nil
}

// errProtocol ends a connection whose client breaks the protocol.
var errProtocol = errors.New("server: protocol error")

// errEnd ends a connection for a reason that is logged already, or none.
var errEnd = errors.New("server: connection ended")

// noteEnd logs why the connection ends, where that is worth a line.
func (c *conn) noteEnd(err error) {
	if errors.Is(err, errProtocol) {
		c.s.refused.Warn("connection closed", "client", c.remote, "err", err)
		return
	}
	c.s.log.Debug("connection closed", "client", c.remote, "err", err)
}

// lastWords is how long a client has to take the last replies.
const lastWords = 5 * time.Second

// closeLocked ends the connection once its output is sent, or after lastWords:
// a client that does not read would keep it for ever. REQUIRES: c.mu.
func (c *conn) closeLocked() {
	if !c.mu.closing {
		c.mu.closing = true
		_ = c.sock.SetWriteDeadline(time.Now().Add(lastWords)) // fails only if closed
	}
}

// end cleans up after serve. Output that is ready is still sent, and what the
// client sends meanwhile is read and dropped, so that it reaches the client
// (socket.Lingering).
func (c *conn) end() {
	c.mu.Lock()
	c.closeLocked()
	c.s.stats.fold(&c.mu.stats)
	c.mu.Unlock()
	if c.patience > 0 {
		c.s.unhold(c)
	}
	if !c.open {
		// A client that has read the answer to a word must not find its connection
		// in the answer to the next.
		c.s.dismiss(c)
	}
	shut := c.drain()
	c.in.Clear()
	if c.open {
		c.s.dismiss(c)
	}
	c.mu.Lock()
	id := c.mu.session
	c.mu.Unlock()
	if id != 0 {
		c.s.unbind(id, c)
	}
	if shut {
		c.s.lingering.Drain(c.sock, &c.in)
	}
}

// kill closes the socket at once; serve ends by that. It may be called by any
// goroutine that does not hold the connection's mu, any number of times.
func (c *conn) kill(reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.killLocked(reason)
}

// killLocked is kill. REQUIRES: c.mu.
func (c *conn) killLocked(reason string) {
	if !c.mu.closed {
		c.sock.Close() // an error changes nothing: it is closed
		c.endOutputLocked(reason)
	}
}

// shutLocked ends the output, which is sent, and has serve go on to end. A
// connection that cannot be closed in one direction is closed. REQUIRES: c.mu.
func (c *conn) shutLocked() {
	if c.sock.CloseWrite() != nil {
		c.killLocked("done")
		return
	}
	c.mu.shut = true
	_ = c.sock.SetReadDeadline(time.Unix(1, 0)) // wakes serve; fails only if closed
	c.endOutputLocked("done")
}

// endOutputLocked drops what nobody will receive. REQUIRES: c.mu.
func (c *conn) endOutputLocked(reason string) {
	c.mu.closed = true
	c.mu.out.Stop()
	c.mu.events = 0
	c.releaseRoom()
	c.account.Close()
	c.dropHeld()
	c.mu.pending = pendingFIFO{}
	if c.mu.ready != nil {
		close(c.mu.ready) // serve waits for a session that has no client now
		c.mu.ready = nil
	}
	c.mu.Broadcast()
	c.s.log.Debug("socket closed", "client", c.remote, "reason", reason)
}

// drain sends the output and returns when there is none and no goroutine writes.
// It reports whether the socket is open for reading. REQUIRES: the connection is
// closing.
func (c *conn) drain() (shut bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for !c.mu.closed {
		if c.mu.out.Writing() {
			c.mu.Wait()
		} else {
			c.mu.out.Flush(true)
		}
	}
	c.mu.out.AwaitIdle()
	return c.mu.shut
}

// flush sends the output, unless another goroutine is writing: that one goes on
// with it. Without wait it never blocks.
func (c *conn) flush(wait bool) {
	c.mu.Lock()
	c.mu.out.Flush(wait || c.stepped)
	c.mu.Unlock()
}

// Sending counts n bytes of output (socket.Owner).
func (c *conn) Sending(n int) {
	c.countFlushLocked(n)
	c.mu.events = 0
	c.releaseRoom() // the output is charged by itself now
}

// Sent ends the connection if writing has failed (socket.Owner).
func (c *conn) Sent(_ int, err error) {
	if err != nil {
		c.killLocked("write failed")
	}
	c.mu.Broadcast()
}

// Drained ends a connection that is closing (socket.Owner).
func (c *conn) Drained() {
	if c.mu.closing && !c.mu.closed {
		c.shutLocked()
	}
	c.mu.Broadcast()
}

// awaitDrain blocks while there is more output than a client may leave unread
// before it is read from again, or too many requests wait behind its writes.
func (c *conn) awaitDrain() {
	c.mu.Lock()
	for !c.mu.closed && (len(c.mu.out.Buf) > softOutBytes && c.mu.out.Writing() || c.mu.pending.full()) {
		c.mu.Wait()
	}
	c.mu.Unlock()
}
