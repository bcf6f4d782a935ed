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
	"syscall"
	"time"

	"github.com/pinfold-zk/pinfold/internal/rawio"
	"github.com/pinfold-zk/pinfold/internal/sasl"
	"github.com/pinfold-zk/pinfold/internal/session"
	"github.com/pinfold-zk/pinfold/internal/watch"
	"github.com/pinfold-zk/pinfold/zk"
)

// conn is a client's connection. Its goroutine, serve, reads; whoever has
// output for it appends to mu.out, and one at a time writes that out. An idle
// connection holds no buffer.
type conn struct {
	s           *Server
	nc          net.Conn
	raw         syscall.RawConn // nil if nc is no socket
	remote      netip.AddrPort
	id          watch.ID
	serial      uint64 // never reused: the owner of its session
	established time.Time
	heard       atomic.Int64 // when the client last sent a complete frame, by Replica.Now

	// Owned by serve.
	in      *[]byte // nil while nothing is buffered
	filled  int     // bytes in *in
	open    bool    // the handshake is over
	leaving bool    // what is read from now on is ignored
	stepped bool    // there is no goroutine, see SteppedConn
	// patience is when a handshake that is held is given up, by Replica.Now; 0 if
	// it was not held.
	patience time.Duration
	// unanswered is mu.ready of a stepped connection that waits for its session.
	unanswered chan struct{}
	pollRead   func(fd uintptr) bool
	polled     ioResult

	dirty     bool // owned by who applies
	pollWrite func(fd uintptr) bool
	pushed    ioResult
	pushing   []byte

	mu struct {
		sync.Mutex
		sync.Cond         // output was sent, pending requests were answered, or closed
		out       []byte  // frames to be sent
		events    int     // bytes of events in out
		flushing  bool    // somebody is writing
		closing   bool    // close when out is sent, see closeLocked
		closed    bool    // the socket is closed
		ids       []zk.ID // replaced, never changed
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

// ioResult is what a call on the raw socket returned.
type ioResult struct {
	n   int
	err error
}

func (c *conn) init() {
	c.mu.L = &c.mu.Mutex
	c.mu.stats.reset()
	if sc, ok := c.nc.(syscall.Conn); ok {
		if raw, err := sc.SyscallConn(); err == nil {
			c.raw = raw
			c.pollRead, c.pollWrite = c.readReady, c.writeReady
		}
	}
}

// owner is how the session tracker knows this connection.
func (c *conn) owner() session.Owner { return session.Owner(c.serial) }

// LastHeard is when the client last sent a complete frame, by Replica.Now
// (replica.Origin). A part of a frame is no sign of life.
func (c *conn) LastHeard() time.Duration { return time.Duration(c.heard.Load()) }

// serve reads requests until the connection ends.
func (c *conn) serve() {
	defer c.end()
	if d := c.s.cfg.Client.SessionlessTimeout; d > 0 {
		_ = c.nc.SetReadDeadline(time.Now().Add(d)) // fails only if closed, as the read will
	}
	for {
		if err := c.fill(); err != nil {
			c.countDrop(err)
			c.noteEnd(err)
			return
		}
		if c.leaving {
			c.filled = 0
			c.releaseInput()
			continue
		}
		if err := c.consume(); err != nil {
			c.noteEnd(err)
			return
		}
		c.releaseInput()
	}
}

// consume handles all whole frames in the input.
func (c *conn) consume() error {
	used := 0
	for !c.open {
		n, err := c.handshake((*c.in)[used:c.filled])
		used += n
		if n == 0 || err != nil || c.unanswered != nil {
			c.drop(used)
			return err
		}
	}
	n, err := c.process((*c.in)[used:c.filled])
	c.drop(used + n)
	return err
}

// drop removes the first n bytes of the input.
func (c *conn) drop(n int) {
	copy(*c.in, (*c.in)[n:c.filled])
	c.filled -= n
}

// fill waits for more input. It returns io.EOF when the client has closed.
func (c *conn) fill() error {
	if c.in != nil && c.filled == len(*c.in) {
		c.growInput()
	}
	if c.raw == nil {
		c.takeInput()
		n, err := c.nc.Read((*c.in)[c.filled:])
		c.filled += n
		if n > 0 {
			return nil
		}
		return err
	}
	if err := c.raw.Read(c.pollRead); err != nil {
		return err
	}
	if c.polled.err != nil {
		return c.polled.err
	}
	if c.polled.n == 0 {
		return io.EOF
	}
	c.filled += c.polled.n
	return nil
}

// readReady reads if there is something to read; it takes a buffer only then.
func (c *conn) readReady(fd uintptr) bool {
	c.takeInput()
	for {
		n, err := rawio.Read(fd, (*c.in)[c.filled:])
		switch {
		case err == syscall.EINTR:
			continue
		case err == syscall.EAGAIN:
			c.releaseInput()
			return false
		}
		c.polled = ioResult{max(n, 0), err}
		return true
	}
}

func (c *conn) takeInput() {
	if c.in == nil {
		c.in = c.s.buffers.Get().(*[]byte)
	}
}

// releaseInput gives an empty buffer back.
func (c *conn) releaseInput() {
	if c.in == nil || c.filled > 0 {
		return
	}
	if len(*c.in) == readBufferBytes {
		c.s.buffers.Put(c.in)
	}
	c.in = nil
}

// growInput doubles the buffer for a frame that is larger. The frame's length
// was checked; the memory is taken as its bytes arrive.
func (c *conn) growInput() {
	b := make([]byte, 2*len(*c.in))
	copy(b, (*c.in)[:c.filled])
	c.in = &b
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
		c.s.log.Warn("connection closed", "client", c.remote, "err", err)
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
		_ = c.nc.SetWriteDeadline(time.Now().Add(lastWords)) // fails only if closed
	}
}

// end cleans up after serve. Output that is ready is still sent.
func (c *conn) end() {
	c.mu.Lock()
	c.closeLocked()
	c.s.stats.fold(&c.mu.stats)
	c.mu.Unlock()
	if c.patience > 0 {
		c.s.unhold(c)
	}
	if !c.open {
		// Who has read the answer to a word must not find its connection in
		// the answer to the next.
		c.s.dismiss(c)
	}
	c.drain()
	c.kill("end")
	c.filled = 0
	c.releaseInput()
	if c.open {
		c.s.dismiss(c)
	}
	c.mu.Lock()
	id := c.mu.session
	c.mu.Unlock()
	if id != 0 {
		c.s.unbind(id, c)
	}
}

// kill closes the socket; serve ends by that. It may be called by anybody, with
// the connection's mu not held, any number of times.
func (c *conn) kill(reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.killLocked(reason)
}

// killLocked is kill. REQUIRES: c.mu.
func (c *conn) killLocked(reason string) {
	if c.mu.closed {
		return
	}
	c.mu.closed = true
	c.mu.out, c.mu.events = nil, 0
	c.dropHeld()
	c.mu.pending = pendingFIFO{}
	c.nc.Close() // an error changes nothing: it is closed
	if c.mu.ready != nil {
		close(c.mu.ready) // serve waits for a session that nobody wants now
		c.mu.ready = nil
	}
	c.mu.Broadcast()
	c.s.log.Debug("socket closed", "client", c.remote, "reason", reason)
}

// drain sends the output and returns when there is none, whoever sends it.
func (c *conn) drain() {
	c.mu.Lock()
	for !c.mu.closed && (c.mu.flushing || len(c.mu.out) > 0) {
		if c.mu.flushing {
			c.mu.Wait()
			continue
		}
		c.mu.Unlock()
		c.flush(true)
		c.mu.Lock()
	}
	c.mu.Unlock()
}

// flush sends the output, unless somebody is at it, who then goes on with it.
// With wait it returns when everything is sent; without it never blocks, and
// leaves what the socket does not take to a goroutine.
func (c *conn) flush(wait bool) {
	c.mu.Lock()
	for {
		if c.mu.flushing || c.mu.closed {
			break
		}
		if len(c.mu.out) == 0 {
			if c.mu.closing {
				c.killLocked("done")
			}
			break
		}
		c.mu.flushing = true
		buf := c.mu.out
		c.countFlushLocked(len(buf))
		c.mu.out, c.mu.events = nil, 0
		c.mu.Unlock()
		rest, err := c.write(buf, wait)
		if len(rest) > 0 && err == nil {
			go c.finishFlush(buf, rest)
			return
		}
		c.s.outs.put(buf)
		c.mu.Lock()
		c.flushedLocked(err)
	}
	c.mu.Unlock()
}

// finishFlush writes what flush could not, and what came meanwhile.
func (c *conn) finishFlush(buf, rest []byte) {
	_, err := c.nc.Write(rest)
	c.s.outs.put(buf)
	c.mu.Lock()
	c.flushedLocked(err)
	c.mu.Unlock()
	c.flush(true)
}

// flushedLocked ends a write. REQUIRES: c.mu.
func (c *conn) flushedLocked(err error) {
	c.mu.flushing = false
	if err != nil {
		c.killLocked("write failed")
	}
	c.mu.Broadcast()
}

// write sends buf; without wait it stops when the socket is full, and returns
// what is left.
func (c *conn) write(buf []byte, wait bool) (rest []byte, err error) {
	if c.raw == nil {
		if !wait && !c.stepped {
			return buf, nil
		}
		_, err := c.nc.Write(buf)
		return nil, err
	}
	c.pushing = buf
	err = c.raw.Write(c.pollWrite)
	c.pushing = nil
	if err != nil {
		return nil, err
	}
	if c.pushed.err != nil || c.pushed.n == len(buf) {
		return nil, c.pushed.err
	}
	if wait {
		_, err := c.nc.Write(buf[c.pushed.n:])
		return nil, err
	}
	return buf[c.pushed.n:], nil
}

// writeReady writes once, as much as the socket takes.
func (c *conn) writeReady(fd uintptr) bool {
	for {
		n, err := rawio.Write(fd, c.pushing)
		switch err {
		case syscall.EINTR:
			continue
		case syscall.EAGAIN:
			n, err = 0, nil
		}
		c.pushed = ioResult{max(n, 0), err}
		return true
	}
}

// needOutLocked makes room in out for what is appended next. A connection that
// has nothing to send holds no buffer. REQUIRES: c.mu.
func (c *conn) needOutLocked() {
	if c.mu.out == nil {
		c.mu.out = c.s.outs.get()
	}
}

// awaitDrain blocks while there is more output than a client may leave unread
// before it is read from again, or too many requests wait behind its writes.
func (c *conn) awaitDrain() {
	c.mu.Lock()
	for !c.mu.closed && (len(c.mu.out) > softOutBytes && c.mu.flushing || c.mu.pending.full()) {
		c.mu.Wait()
	}
	c.mu.Unlock()
}
