// Package socket is a stream connection for servers with many of them: an idle
// connection holds no buffer, reading needs no hand-over between goroutines, and
// writing needs a goroutine only while the peer is slow.
//
// A Conn has two halves.
//
//   - Input, the reading half, belongs to one goroutine, the reader. It waits in the
//     runtime's poller, gets a buffer from a pool when bytes have arrived, and returns
//     it when they are consumed. Conn.Read is for readers that have their own buffers.
//   - Output, the writing half, is a buffer under its owner's lock. Any goroutine
//     appends to it and calls Output.Flush, which writes what the connection accepts
//     without blocking. If more is left, or if there is a stream to write, a goroutine,
//     the flusher, writes that and ends.
//
// Conn.CloseWrite ends a connection in order; then Lingering reads and discards the
// peer's further input. Without this, a close with unread input makes TCP reset the
// connection, and the peer may lose the last bytes sent to it.
//
// # Descriptors and layers
//
// On a connection with a descriptor both halves use it directly and never block in a
// system call. Options.Layer puts a layer such as TLS between the Conn and the
// descriptor. The layer reads and writes records through a net.Conn that reports "would
// block" as a temporary error and keeps what the descriptor does not accept, so the
// layer needs no goroutine and holds no buffer while it is idle. A connection without a
// descriptor, such as one in memory, can only block: its flusher writes everything that
// Flush must not wait for.
//
// # Invariants
//
// The tests have the same names as the invariants.
//
//	S1  bytes leave in the order in which they were appended
//	S2  at most one goroutine writes, and pending output always has a writer
//	S3  an idle connection holds no buffer
//	S4  the last bytes before CloseWrite arrive, whatever the peer still sends
package socket

import (
	"cmp"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/pinfold-zk/pinfold/internal/rawio"
)

// Options configures a Conn. The zero value is a plain connection.
type Options struct {
	// Layer wraps the connection in another one, for example func(nc net.Conn)
	// net.Conn { return tls.Server(nc, config) }. The layer must return temporary
	// errors of its connection unchanged and continue after them, as crypto/tls
	// does after its handshake. nil: no layer.
	Layer func(nc net.Conn) net.Conn
}

// Conn is a stream connection. One goroutine at a time reads. If an Output is attached,
// only the Output writes; Write is for a Conn without Output in use. Any goroutine may
// call the other methods.
//
// What every read and write of a connection without a layer uses comes before pollRead.
type Conn struct {
	raw     syscall.RawConn // of nc; nil if nc has no descriptor
	records *records        // below layer; nil if there is no layer or no descriptor
	traffic atomic.Uint64

	// Owned by the reader.
	await   func(fd uintptr) // awaitReadable
	waiting rawio.Poll       // nc's entry in the poller; 0 if it is not known, and with a layer
	in      *Input           // gets a buffer when bytes have arrived; nil: the caller has provided room
	gotErr  error
	got     int
	drained bool // the last read took all that had arrived
	missed  bool // a read has found nothing
	early   early

	// Owned by the writer: the holder of Output.writing, or the caller of Write.
	direct descriptorWriter

	pollRead func(fd uintptr) bool // readReady; owned by the reader
	room     []byte                // owned by the reader
	nc       net.Conn              // never changed
	layer    net.Conn              // reads and writes plain bytes; nc if there is no layer
}

// New returns a Conn that owns nc.
func New(nc net.Conn, o Options) *Conn {
	c := &Conn{nc: nc, layer: nc}
	if sc, ok := nc.(syscall.Conn); ok {
		if raw, err := sc.SyscallConn(); err == nil {
			c.raw, c.pollRead, c.await = raw, c.readReady, c.awaitReadable
			c.waiting = rawio.PollOf(nc)
			c.direct.init()
		}
	}
	if o.Layer != nil {
		c.AddLayer(o.Layer)
	}
	return c
}

// AddLayer puts a layer between the Conn and its connection, like Options.Layer. The
// reader calls it before anything is read or written.
func (c *Conn) AddLayer(layer func(nc net.Conn) net.Conn) {
	if c.raw == nil {
		c.layer = layer(c.nc)
		return
	}
	c.waiting = 0 // what the layer has read and keeps is not known
	c.records = newRecords(c.nc, c.raw)
	c.layer = layer(c.records)
	_, handshakes := c.layer.(handshaker)
	c.records.blocking.Store(handshakes)
}

// PeekByte waits until a byte has arrived and returns it; it is read again later. The
// reader calls it before there is a layer. The error is io.EOF if the peer has closed
// its side, and errors.ErrUnsupported if the connection has no descriptor.
func (c *Conn) PeekByte() (byte, error) {
	if c.raw == nil {
		return 0, errors.ErrUnsupported
	}
	var first [1]byte
	var n int
	var failed error
	err := c.raw.Read(func(fd uintptr) bool {
		n, failed = rawio.Peek(fd, first[:])
		return failed != syscall.EAGAIN && failed != syscall.EINTR
	})
	switch err = cmp.Or(err, failed); {
	case err != nil:
		return 0, err
	case n == 0:
		return 0, io.EOF
	}
	return first[0], nil
}

// handshaker is a layer whose handshake must be complete before it can read or write
// without blocking.
type handshaker interface{ Handshake() error }

// Handshake completes the layer's handshake. The reader calls it before anything is
// read or flushed; it blocks as long as the deadlines allow. Without a layer it does
// nothing. After an error the Conn has no layer any more: it can only be closed, by Close
// or in order.
func (c *Conn) Handshake() error {
	h, ok := c.layer.(handshaker)
	if !ok {
		return nil
	}
	if err := h.Handshake(); err != nil {
		c.layer, c.records = c.nc, nil
		return err
	}
	if c.records != nil {
		c.records.blocking.Store(false)
	}
	return nil
}

// Read waits until bytes have arrived and reads once into p; p is in use while it waits
// (io.Reader). The error is io.EOF if the peer has closed its side, and only if no byte
// was read.
func (c *Conn) Read(p []byte) (int, error) {
	if c.raw == nil {
		n, err := c.layer.Read(p)
		return c.countRead(n, err)
	}
	c.room = p
	n, err := c.poll()
	c.room = nil
	return n, err
}

// readInto is Read into a buffer that in gets when bytes have arrived. With next, after a read that took all that had
// arrived, it waits before it reads: see Input.FillNext.
func (c *Conn) readInto(in *Input, next bool) (int, error) {
	if c.raw == nil {
		in.Release() // what it waits with is not charged
		n, err := c.layer.Read(in.roomToRead())
		return c.countRead(n, err)
	}
	c.in = in
	n, err := 0, error(nil)
	switch next = next && c.drained && c.waiting != 0; {
	case next && !c.early.expected():
		n, err = c.pollNext()
	case next:
		c.missed = false
		n, err = c.poll()
		c.early.learn(!c.missed)
	default:
		n, err = c.poll()
	}
	c.in = nil
	return n, err
}

// early predicts whether the peer's next bytes have arrived before the reader asks for them, by whether they had before. A read
// that finds them saves a wait, which is several times as long as a read that finds nothing.
type early struct {
	score uint8 // bytes are expected while it is not 0
	skip  uint8 // so many times they are not expected
}

// expected reports whether to read before waiting. The caller of a read tells learn what it has found.
func (e *early) expected() bool {
	if e.score > 0 || e.skip == 0 {
		return true
	}
	e.skip--
	return false
}

// learn takes in whether bytes had arrived.
func (e *early) learn(arrived bool) {
	const most, worth, skips = 16, 4, 15
	switch {
	case arrived:
		e.score = min(e.score+worth, most)
		return
	case e.score > 0:
		e.score--
	}
	if e.score == 0 {
		e.skip = skips
	}
}

// countRead counts n bytes. An error that comes with bytes is dropped: the next read
// returns it again.
func (c *Conn) countRead(n int, err error) (int, error) {
	if n > 0 {
		c.traffic.Add(uint64(n))
		return n, nil
	}
	return 0, err
}

// poll waits until the descriptor is readable and reads.
func (c *Conn) poll() (int, error) {
	c.got, c.gotErr = 0, nil
	if err := c.raw.Read(c.pollRead); err != nil {
		return 0, err
	}
	return c.countRead(c.got, c.gotErr)
}

// pollNext is poll after a read that took all that had arrived, without the read that would find nothing: that is a tenth
// of the processor time of a request of a client that waits for each reply. The poller has kept what it reported since.
func (c *Conn) pollNext() (int, error) {
	c.got, c.gotErr = 0, nil
	c.in.park()
	if err := c.raw.Control(c.await); err != nil {
		return 0, err
	}
	if c.got == 0 && c.gotErr == nil {
		return c.poll() // returns what has ended the wait
	}
	return c.countRead(c.got, c.gotErr)
}

// awaitReadable waits, and then reads.
func (c *Conn) awaitReadable(fd uintptr) {
	for c.waiting.Await() && !c.readReady(fd) {
	}
}

// readReady reads if bytes have arrived. If not, it holds no buffer while the poller
// waits.
func (c *Conn) readReady(fd uintptr) bool {
	var p []byte
	if c.in != nil {
		p = c.in.roomToRead()
	} else {
		p = c.room
	}
	turn := c.in != nil && c.in.isLarge()
	if turn && !c.in.takeTurn() {
		c.got, c.gotErr = 0, net.ErrClosed
		return true
	}
	n, err := c.readOnce(fd, p)
	if turn {
		c.in.endTurn()
	}
	if err == errWouldBlock {
		c.missed = true
		if c.in != nil {
			c.in.park()
		}
		return false
	}
	c.got, c.gotErr = n, err
	c.drained = n < len(p)
	return true
}

// readOnce reads from the descriptor, through the layer if there is one.
func (c *Conn) readOnce(fd uintptr, p []byte) (int, error) {
	if c.records == nil {
		return readDescriptor(fd, p)
	}
	c.records.fd = fd
	return c.layer.Read(p)
}

// readDescriptor reads once. The error is errWouldBlock if nothing has arrived, io.EOF
// if the peer has closed its side.
func readDescriptor(fd uintptr, p []byte) (int, error) {
	for {
		n, errno := rawio.Read(fd, p)
		switch {
		case errno == syscall.EINTR:
			continue
		case errno == syscall.EAGAIN:
			return 0, errWouldBlock
		case errno != 0:
			return 0, errno
		case n == 0 && len(p) > 0:
			return 0, io.EOF
		}
		return n, nil
	}
}

// Write writes all of p and blocks until the connection has accepted it (io.Writer). It
// must not be called while an Output may write.
func (c *Conn) Write(p []byte) (int, error) {
	if c.records == nil {
		n, err := c.layer.Write(p)
		c.traffic.Add(uint64(n))
		return n, err
	}
	written := 0
	for written < len(p) {
		n, err := c.encode(p[written:])
		written += n
		if err != nil {
			return written, err
		}
		if err := c.settle(); err != nil {
			return written, err
		}
	}
	return written, c.settle()
}

// encode has the layer encode the first bytes of b, and returns how many. If they are more
// than one record, nothing is written before flush. REQUIRES: c.records is not nil and has no
// backlog.
func (c *Conn) encode(b []byte) (int, error) {
	if len(b) > recordBytes {
		c.records.beginGroup()
	}
	n, err := c.layer.Write(b[:min(len(b), groupBytes)])
	c.traffic.Add(uint64(n))
	return n, err
}

// ahead returns how many bytes of records wait for the descriptor.
func (c *Conn) ahead() int {
	if c.records == nil {
		return 0
	}
	return int(c.records.ahead.Load())
}

// settle writes what the layer has encoded and the descriptor has not accepted; it
// blocks meanwhile.
func (c *Conn) settle() error {
	if c.records == nil {
		return nil
	}
	_, err := c.records.flush(true)
	return err
}

// push writes what the connection accepts without blocking. more reports whether
// something is left to write: b[n:], or records that the layer has made of b[:n].
// REQUIRES: canPush.
func (c *Conn) push(b []byte) (n int, more bool, err error) {
	if c.records == nil {
		n, err = c.direct.write(c.raw, b, false)
		c.traffic.Add(uint64(n))
		return n, n < len(b), err
	}
	for {
		empty, err := c.records.flush(false)
		if err != nil || !empty || n == len(b) {
			return n, !empty || n < len(b), err
		}
		k, err := c.encode(b[n:])
		n += k
		if err != nil {
			return n, true, err
		}
	}
}

// canPush reports whether the connection can write without blocking.
func (c *Conn) canPush() bool { return c.raw != nil }

// Traffic returns the number of bytes read and written so far, before the layer encodes
// them. It grows as long as anything moves.
func (c *Conn) Traffic() uint64 { return c.traffic.Load() }

// closeWriter is a connection whose writing side can be closed.
type closeWriter interface{ CloseWrite() error }

// CloseWrite tells the peer that no more bytes will come; reading continues. The error
// is errors.ErrUnsupported if the connection cannot do this. The Output must be drained
// or stopped.
func (c *Conn) CloseWrite() error {
	var layerErr error
	if cw, ok := c.layer.(closeWriter); ok && c.layer != c.nc {
		layerErr = cw.CloseWrite()
		if c.records != nil && layerErr == nil {
			_, layerErr = c.records.flush(false)
		}
	}
	cw, ok := c.nc.(closeWriter)
	if !ok {
		return errors.ErrUnsupported
	}
	return errors.Join(layerErr, cw.CloseWrite())
}

// AllRead reports whether nothing that the peer has sent is unread: to close the connection then resets it only if
// the peer sends more. It is false if that is not known, as with a layer, whose end is to be sent too (CloseWrite).
func (c *Conn) AllRead() bool {
	if c.raw == nil || c.records != nil {
		return false
	}
	unread, err := 0, error(nil)
	if failed := c.raw.Control(func(fd uintptr) { unread, err = rawio.Unread(fd) }); failed != nil {
		return false
	}
	return err == nil && unread == 0
}

// Close closes the connection at once; waiting calls return an error. Unread input
// makes TCP reset the connection: see Lingering.
func (c *Conn) Close() error { return c.nc.Close() }

// SetReadDeadline bounds reading, like that of net.Conn.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.nc.SetReadDeadline(t) }

// SetWriteDeadline bounds writing, like that of net.Conn.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.nc.SetWriteDeadline(t) }

// RemoteAddr returns the peer's address, nil if the connection has none.
func (c *Conn) RemoteAddr() net.Addr { return c.nc.RemoteAddr() }
