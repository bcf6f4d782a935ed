package server

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pinfold-zk/pinfold/internal/auth"
	"github.com/pinfold-zk/pinfold/internal/session"
	"github.com/pinfold-zk/pinfold/internal/socket"
	"github.com/pinfold-zk/pinfold/internal/tlsport"
	"github.com/pinfold-zk/pinfold/internal/watch"
	"github.com/pinfold-zk/pinfold/zk"
)

// conn is a client's connection. Its goroutine, serve, reads. Any goroutine that has
// output for the client appends it to mu.out and flushes that.
//
// What every request uses comes first, in conn and in mu, in eleven cache lines: with many connections each of them is
// a load from memory.
type conn struct {
	s     *Server
	sock  *socket.Conn
	heard atomic.Int64 // when the client last sent a complete frame, by Replica.Now
	id    watch.ID

	// Owned by serve.
	open    bool          // the handshake is complete
	leaving bool          // input is ignored from now on
	stepped bool          // there is no goroutine; see SteppedConn
	brought bool          // requests were submitted, for which work is to be called
	limited *limited      // nil if no limits are configured
	penalty time.Duration // that awaitPenalty waits
	granted int           // weight that is charged and entered for the request that waited; see flight
	in      socket.Input
	account socket.Account // of output and identities; part of the server's budget, like that of the input

	mu connState

	paused      atomic.Bool // serve does not read, for a reason that is the server's
	dirty       bool        // owned by the applier
	secure      bool        // its port accepts TLS only
	flight      flight      // the connection's requests in flight
	remote      netip.AddrPort
	serial      uint64 // never reused; identifies the owner of its session
	established int64  // Unix milliseconds
}

// connState is what conn.mu guards.
type connState struct {
	sync.Mutex
	closing   bool    // close when out is sent; see closeLocked
	closed    bool    // no more output: the socket is closed or shut down for writing
	ended     bool    // the client sends no more: it has ended its session, or its side of the connection
	more      bool    // there were bytes after the request that ended the session
	forced    bool    // replies are built even without room
	long      bool    // the reply is to be built in pieces; see long.go
	insist    bool    // the next long reply is built under one lock
	apart     bool    // out.Buf is only the reply that is being built, and aside is the output
	onlyReads bool    // there is no quorum: writes are refused
	local     bool    // the session exists on this server only
	upgrade   bool    // set until the next request is submitted; see upgradeFor
	readOnly  bool    // the handshake had the read-only byte
	shut      bool    // only the output is closed; end drains the input
	waiting   uint16  // goroutines in wait
	short     int     // room that a reply needs and did not get; 0: none
	work      int     // done under the present hold of the tree's lock, in units
	begin     int     // where in out.Buf the reply that is being built begins
	longBytes int     // bytes of long replies that are not sent
	reserved  int     // bytes of out.Buf, of shared, or of expected output, that room has charged to account
	shared    int     // bytes of events that out shares with other connections, since it was last sending
	events    int     // bytes of events in out.Buf
	ids       []zk.ID // replaced, never modified
	pending   pendingFIFO
	stats     connStats
	out       socket.Output // frames to send

	changed *sync.Cond // made by the first wait: few connections ever wait
	queued  int        // bytes of pending that are charged to account
	session zk.SessionID
	timeout int32 // milliseconds
	// handshake is not nil from the ConnectRequest to the answer. Only serve sets it, and therefore reads it without
	// the lock.
	handshake  *handshake
	aside      []byte
	identified int    // bytes of ids that are charged to account
	login      *login // by SASL; nil before the first token
}

// wait releases the lock until output was sent, pending requests were answered, or the connection was closed; or for no reason.
// REQUIRES: the lock.
func (m *connState) wait() {
	if m.changed == nil {
		m.changed = sync.NewCond(&m.Mutex)
	}
	m.waiting++
	m.changed.Wait()
	m.waiting--
}

// wake ends each wait. REQUIRES: the lock.
func (m *connState) wake() {
	if m.waiting > 0 { // the Cond is in a cache line that no read needs
		m.changed.Broadcast()
	}
}

// newConn returns the connection of a client at remote. It is not in any table yet.
func (s *Server) newConn(nc net.Conn, remote netip.AddrPort) *conn {
	c := &conn{s: s, sock: socket.New(nc, socket.Options{}), remote: remote}
	c.mu.ids = []zk.ID{auth.IPIdentity(remote.Addr())}
	c.mu.stats.reset()
	if s.limits != nil {
		c.limited = new(limited)
	}
	c.account.Init(s.budget, socket.FreeBytes)
	c.flight.account.Init(s.flight, socket.FreeBytes)
	c.in.Init(c.sock, s.inputs, s.budget)
	c.mu.out.Charge(&c.account)
	c.mu.out.Init(&c.mu.Mutex, c, s.outputs)
	c.mu.out.Attach(c.sock)
	return c
}

// owner returns the identity of this connection for the session tracker.
func (c *conn) owner() session.Owner { return session.Owner(c.serial) }

// LastHeard returns when the client last sent a complete frame, by Replica.Now
// (replica.Origin). A part of a frame does not count. While the server does not read from
// the connection, because its goroutine waits for the replica or for room, it returns the present
// time: the client's pings may wait in the socket.
func (c *conn) LastHeard() time.Duration {
	if c.paused.Load() {
		return c.s.replica.Now()
	}
	return time.Duration(c.heard.Load())
}

// serve serves the connection until it ends, with one goroutine after the other.
func (c *conn) serve() {
	if d := c.s.cfg.Client.SessionlessTimeout; d > 0 {
		_ = c.sock.SetReadDeadline(time.Now().Add(d)) // fails only if closed; then the read fails too
	}
	c.readOn()
}

// readOn reads requests until the connection ends, or until another goroutine does so (StandIn).
func (c *conn) readOn() {
	for {
		if err := c.fill(); err != nil {
			c.countDrop(err)
			c.noteEnd(err)
			c.noteEOF(err)
			break
		}
		if c.leaving {
			c.in.Clear()
			continue
		}
		err := c.consume()
		if c.brought && !c.work() {
			return
		}
		if err != nil {
			c.noteEnd(err)
			break
		}
		c.awaitTokens() // Fill reads before it waits, so it gives the buffer back itself
	}
	c.end()
}

// fill reads more input. The client of an open connection gets an answer to all that it sends.
func (c *conn) fill() error {
	if c.open && !c.leaving {
		return c.in.FillNext()
	}
	return c.in.Fill()
}

// pauseReading records that serve does not read until resumeReading, because it waits for
// the replica.
func (c *conn) pauseReading() { c.paused.Store(true) }

// resumeReading ends pauseReading. The client was not silent in between.
func (c *conn) resumeReading() {
	c.heard.Store(int64(c.s.replica.Now()))
	c.paused.Store(false)
}

// consume handles all complete frames in the input.
func (c *conn) consume() error {
	used := 0
	for !c.open {
		n, err := c.handshake(c.in.Bytes()[used:])
		used += n
		if n == 0 || err != nil || c.mu.handshake != nil {
			c.in.Consume(used)
			return err
		}
	}
	n, err := c.process(c.in.Bytes()[used:])
	c.in.Consume(used + n)
	return err
}

// nextFrame splits the first frame off b; ok is false if the frame is incomplete.
func (c *conn) nextFrame(b []byte) (frame []byte, n int, ok bool, err error) {
	if len(b) < 4 {
		return nil, 0, false, nil
	}
	size := int(int32(binary.BigEndian.Uint32(b)))
	if size < 0 || size > c.s.cfg.Client.MaxFrameBytes {
		what := ""
		if c.open {
			what = tooLong(b)
		}
		return nil, 0, false, fmt.Errorf("%w: frame of %d bytes%s, jute.maxbuffer is %d", errProtocol, size, what, c.s.cfg.Client.MaxFrameBytes)
	}
	if len(b) < 4+size {
		return nil, 0, false, nil
	}
	return b[4 : 4+size : 4+size], 4 + size, true, nil
}

// errProtocol ends a connection whose client violates the protocol.
var errProtocol = errors.New("server: protocol error")

// errEnd ends a connection for a reason that is already logged, or without one.
var errEnd = errors.New("server: connection ended")

// noteEnd logs why the connection ends, if that is worth a line.
func (c *conn) noteEnd(err error) {
	if errors.Is(err, errProtocol) || !errors.Is(err, errEnd) && tlsport.Violates(err) {
		c.s.refused.Warn("a client's connection was closed because of an error", "client", c.remote, "err", err)
		return
	}
	c.s.log.Debug("connection closed", "client", c.remote, "err", err)
}

// noteEOF notes that the client has closed its side, if that is why reading has ended.
func (c *conn) noteEOF(err error) {
	if errors.Is(err, io.EOF) {
		c.mu.Lock()
		c.mu.ended = true
		c.mu.Unlock()
	}
}

// lastWords is how long a client has to read its last replies.
const lastWords = 5 * time.Second

// closeLocked ends the connection once its output is sent, or after lastWords:
// otherwise a client that does not read would keep it open. REQUIRES: c.mu.
func (c *conn) closeLocked() {
	if !c.mu.closing {
		c.mu.closing = true
		_ = c.sock.SetWriteDeadline(time.Now().Add(lastWords)) // fails only if closed
	}
}

// end cleans up after serve. It still sends pending output, and discards what the
// client sends meanwhile, so that the output arrives (socket.Lingering). Connections end in turns, except while they wait
// for their clients: thousands may end at once.
func (c *conn) end() {
	place := c.s.endings.begin()
	defer place.end()
	c.mu.Lock()
	c.closeLocked()
	c.s.stats.fold(&c.mu.stats)
	c.mu.Unlock()
	if c.mu.handshake != nil {
		c.s.unhold(c)
	}
	if !c.open {
		// A client that has read the answer to a word must not see that
		// connection in the answer to the next word.
		c.s.dismiss(c, &place)
	}
	shut := c.drain(&place)
	c.in.Clear()
	if c.open {
		c.s.dismiss(c, &place)
	}
	c.mu.Lock()
	id := c.mu.session
	c.mu.Unlock()
	if id != 0 {
		c.s.unbind(id, c)
	}
	place.end()
	if shut {
		c.s.lingering.Drain(c.sock, &c.in)
	}
}

// kill closes the socket at once, which ends serve. Any goroutine that does not hold
// the connection's mu may call it, any number of times.
func (c *conn) kill(reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.killLocked(reason)
}

// killLocked is kill with the lock held. REQUIRES: c.mu.
func (c *conn) killLocked(reason string) {
	if !c.mu.closed {
		c.sock.Close() // an error changes nothing: it is closed
		c.endOutputLocked(reason)
	}
}

// shutLocked ends the output, which is sent completely, and makes serve continue with
// end. It closes the connection at once if that cannot be closed in one direction, or if the client sends no more and
// nothing that it has sent is unread. REQUIRES: c.mu.
func (c *conn) shutLocked() {
	if c.mu.ended && !c.mu.more && c.sock.AllRead() || c.sock.CloseWrite() != nil {
		c.killLocked("done")
		return
	}
	c.mu.shut = true
	_ = c.sock.SetReadDeadline(time.Unix(1, 0)) // wakes serve; fails only if closed
	c.endOutputLocked("done")
}

// endOutputLocked drops output and requests that no client will receive. REQUIRES:
// c.mu.
func (c *conn) endOutputLocked(reason string) {
	c.mu.closed = true
	c.mu.out.Stop()
	c.mu.events, c.mu.shared = 0, 0
	c.releaseRoom()
	c.account.Charge(-c.mu.identified)
	c.releaseLong(c.mu.longBytes)
	c.account.Close()
	c.in.Close()
	c.flight.account.Close()
	c.dropHeld()
	c.mu.pending = pendingFIFO{}
	c.releasePending()
	if c.mu.handshake.waits() {
		close(c.mu.handshake.ready) // serve waits for a session that no client needs now
	}
	c.mu.wake()
	c.s.log.Debug("socket closed", "client", c.remote, "reason", reason)
}

// drain sends the output and returns when nothing is left and no goroutine writes. It
// reports whether the socket is open for reading. It ends place if it may wait for the client.
// REQUIRES: the connection is closing.
func (c *conn) drain(place *place) (shut bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for !c.mu.closed {
		if c.mu.out.Writing() || c.mu.out.Unsent() > 0 {
			place.end()
		}
		if c.mu.out.Writing() {
			c.mu.wait()
		} else {
			c.mu.out.Flush(true)
		}
	}
	c.mu.out.AwaitIdle()
	return c.mu.shut
}

// flush sends the output, unless another goroutine is writing: that one sends it too.
// With wait false it never blocks. It reports whether awaitDrain would not wait.
func (c *conn) flush(wait bool) (drained bool) {
	c.mu.Lock()
	c.mu.out.Flush(wait || c.stepped)
	drained = !c.holdsTooMuch()
	c.mu.Unlock()
	return drained
}

// holdsTooMuch reports whether the client has more unread output than allowed, or too many requests wait for the
// session's writes. REQUIRES: c.mu.
func (c *conn) holdsTooMuch() bool {
	return c.mu.pending.full() || c.mu.out.Writing() && len(c.mu.out.Buf)+c.mu.out.Shared()+c.mu.longBytes > softOutBytes
}

// Sending counts n bytes of output (socket.Owner).
func (c *conn) Sending(n int) {
	c.countFlushLocked(n)
	c.mu.events, c.mu.shared = 0, 0
	c.releaseRoom() // the output is now charged itself
}

// Sent ends the connection if writing has failed (socket.Owner).
func (c *conn) Sent(_ int, err error) {
	if err != nil {
		c.killLocked("write failed")
	}
	c.mu.wake()
}

// Drained ends a connection that is closing (socket.Owner).
func (c *conn) Drained() {
	if c.mu.closing && !c.mu.closed {
		c.shutLocked()
	}
	c.mu.wake()
}

// awaitDrain blocks while holdsTooMuch. If that is because of the session's writes it is not the client that
// is silent.
func (c *conn) awaitDrain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for !c.mu.closed {
		switch {
		case c.mu.pending.stuck():
			c.pauseReading()
			c.mu.wait()
			c.resumeReading()
		case c.holdsTooMuch():
			c.mu.wait()
		default:
			return
		}
	}
}
