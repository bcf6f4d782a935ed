package socket

import (
	"bufio"
	"fmt"
	"io"
	"sync"
)

// Sizes of an Output's writes.
const (
	pieceBytes  = 256 << 10 // the flusher writes so much at a time; Conn.Traffic grows by it
	streamBytes = 128 << 10 // gathered of what a stream writes
)

// OutputPool keeps output buffers for reuse. A channel of slices takes them
// without an allocation, unlike a sync.Pool.
type OutputPool struct {
	free chan []byte
	most int
}

// NewOutputPool returns a pool of at most count buffers of at most size bytes.
func NewOutputPool(count, size int) *OutputPool {
	return &OutputPool{make(chan []byte, count), size}
}

func (p *OutputPool) get() []byte {
	select {
	case b := <-p.free:
		return b
	default:
		return nil
	}
}

func (p *OutputPool) put(b []byte) {
	if cap(b) == 0 || cap(b) > p.most {
		return
	}
	select {
	case p.free <- b[:0]:
	default:
	}
}

// Owner has an Output and is told what becomes of it. The calls come from the
// goroutine that writes, with the owner's lock held; they must not block.
type Owner interface {
	// Sending says that n bytes are about to be written.
	Sending(n int)
	// Sent says that the connection has taken n bytes, or that writing has failed;
	// then the owner calls Output.Stop, now or before it gives up its lock.
	Sent(n int, err error)
	// Drained says that a flush has found nothing left to send.
	Drained()
}

// Output is the writing half of a Conn. It shares the lock of its owner, which all
// methods REQUIRE; Flush gives it up while it writes. Output is written by one
// goroutine at a time, in order: the caller of Flush, as far as the connection
// takes it without blocking, or the flusher, which runs while there is more.
type Output struct {
	// Buf is what the owner appends to, after Need, and then flushes. It is nil while
	// nothing waits: an idle connection holds no buffer.
	Buf []byte

	conn  *Conn // nil until Attach: what is appended waits
	lock  *sync.Mutex
	owner Owner
	group *sync.WaitGroup // counts the flusher
	pool  *OutputPool

	account *Account // nil: nothing is charged
	charged int      // bytes that the account was charged

	streams []stream // to be sent before Buf
	before  int      // bytes in the streams' before
	inHand  int      // bytes that the writer has and the connection has not taken
	writing bool     // there is a writer
	stopped bool
	idle    sync.Cond // writing became false after Stop
}

// stream is a place in the output where a function writes.
type stream struct {
	before []byte // is sent first
	write  func(w io.Writer) error
}

// Init prepares the zero Output. lock is the owner's; group counts the goroutine
// of the flusher.
func (o *Output) Init(lock *sync.Mutex, owner Owner, group *sync.WaitGroup, pool *OutputPool) {
	o.lock, o.owner, o.group, o.pool = lock, owner, group, pool
	o.idle.L = lock
}

// Charge has the account charged for output that the connection has not taken: at
// once if it is more than freeBytes, else when a writer has to wait for the peer.
func (o *Output) Charge(a *Account) { o.account = a }

// settle charges the account for what waits, or releases what has left.
func (o *Output) settle(waits bool) {
	if o.account == nil {
		return
	}
	n := o.Unsent()
	if n <= freeBytes && !waits {
		n = 0
	}
	if n != o.charged {
		o.account.Charge(n - o.charged)
		o.charged = n
	}
}

// Attach gives the Output its connection. From now on Flush sends.
func (o *Output) Attach(c *Conn) { o.conn = c }

// Need gives Buf a buffer if it has none. The owner calls it before it appends.
func (o *Output) Need() {
	if o.Buf == nil {
		o.Buf = o.pool.get()
	}
}

// Unsent is how many bytes wait or are being written. Bytes that the system holds
// for the peer are not among them.
func (o *Output) Unsent() int { return len(o.Buf) + o.before + o.inHand }

// Writing reports whether a goroutine is writing.
func (o *Output) Writing() bool { return o.writing }

// Attached reports whether Flush can send.
func (o *Output) Attached() bool { return o.conn != nil }

// Stream queues a function that writes to the connection: what is in Buf is sent
// first, what is appended later follows. write runs on the flusher's goroutine and
// blocks there for as long as the peer does. Its error, or one of its writer, ends
// the output by Owner.Sent. It runs once, or never if the output stops before its
// turn.
func (o *Output) Stream(write func(w io.Writer) error) {
	o.streams = append(o.streams, stream{o.Buf, write})
	o.before += len(o.Buf)
	o.Buf = nil
}

// Stop drops what waits. Nothing is sent after it, but a write that is under way
// goes on until the connection is closed.
func (o *Output) Stop() {
	o.stopped = true
	o.Buf, o.streams, o.before, o.inHand = nil, nil, 0, 0
	o.settle(false)
}

// AwaitIdle returns when no goroutine writes. REQUIRES: the output is stopped, and
// its connection closed.
func (o *Output) AwaitIdle() {
	for o.writing {
		o.idle.Wait()
	}
}

// Flush sends what waits, unless another goroutine is writing: that one will go on
// with it. Without wait it never blocks, and leaves to the flusher what the
// connection does not take at once. With wait it returns when everything is sent
// or another goroutine writes.
func (o *Output) Flush(wait bool) {
	for o.conn != nil && !o.writing && !o.stopped {
		if len(o.Buf)+len(o.streams) == 0 {
			o.owner.Drained()
			return
		}
		o.writing = true
		if len(o.streams) > 0 || !wait && !o.conn.canPush() {
			o.group.Go(o.runQueued)
			return
		}
		buf := o.take()
		n, more, err := 0, true, error(nil)
		if o.conn.canPush() {
			o.lock.Unlock()
			n, more, err = o.conn.push(buf)
			o.lock.Lock()
			o.sent(n, err)
		}
		if more && err == nil && !o.stopped {
			o.settle(true)
			if !wait {
				o.group.Go(func() { o.run(buf, n) })
				return
			}
			o.lock.Unlock()
			o.finish(buf, n)
			o.lock.Lock()
		} else {
			o.pool.put(buf)
		}
		o.endWriting()
	}
}

// take removes Buf for writing.
func (o *Output) take() []byte {
	buf := o.Buf
	o.Buf = nil
	o.inHand += len(buf)
	o.settle(false)
	o.owner.Sending(len(buf))
	return buf
}

// sent counts what the connection has taken.
func (o *Output) sent(n int, err error) {
	if o.stopped {
		return
	}
	o.inHand -= n
	if o.charged > 0 {
		o.settle(true)
	}
	if err != nil {
		err = fmt.Errorf("write: %w", err)
	}
	o.owner.Sent(n, err)
}

// endWriting ends the caller's being the writer.
func (o *Output) endWriting() {
	o.writing = false
	if o.stopped {
		o.idle.Broadcast()
	}
}

// run is the flusher that goes on with a write: it sends what the layer has
// encoded, buf[sent:], and then all that waits. The lock is not held.
func (o *Output) run(buf []byte, sent int) {
	o.finish(buf, sent)
	o.runQueued()
}

// finish writes what the layer has encoded, and buf[sent:], and blocks meanwhile.
// REQUIRES: the caller is the writer, without the lock.
func (o *Output) finish(buf []byte, sent int) {
	err := o.conn.settle()
	if err == nil {
		err = o.writePieces(buf, sent)
	}
	o.fail(err)
}

// runQueued is the flusher that sends all that waits. The lock is not held.
func (o *Output) runQueued() {
	for {
		buf, write := o.next()
		switch {
		case write != nil:
			o.fail(o.writeStream(write))
		case buf != nil:
			o.fail(o.writePieces(buf, 0))
		default:
			return
		}
	}
}

// fail ends the output if err is not nil: next then finds nothing.
func (o *Output) fail(err error) {
	if err != nil {
		o.lock.Lock()
		o.sent(0, err)
		o.lock.Unlock()
	}
}

// next returns what the flusher writes next. If there is nothing the flusher has
// ended.
func (o *Output) next() (buf []byte, write func(w io.Writer) error) {
	o.lock.Lock()
	defer o.lock.Unlock()
	switch {
	case o.stopped:
	case len(o.streams) > 0:
		s := &o.streams[0]
		if buf = s.before; len(buf) > 0 {
			s.before = nil
			o.before -= len(buf)
			o.inHand += len(buf)
			o.settle(true)
			o.owner.Sending(len(buf))
			return buf, nil
		}
		write = s.write
		*s = stream{}
		if o.streams = o.streams[1:]; len(o.streams) == 0 {
			o.streams = nil
		}
		return nil, write
	case len(o.Buf) > 0:
		return o.take(), nil
	}
	o.endWriting()
	if !o.stopped {
		o.owner.Drained()
	}
	return nil, nil
}

// writePieces writes buf[sent:] and blocks until the connection has taken it.
func (o *Output) writePieces(buf []byte, sent int) error {
	for sent < len(buf) {
		n, err := o.conn.Write(buf[sent:min(len(buf), sent+pieceBytes)])
		sent += n
		if err != nil {
			return err
		}
		o.lock.Lock()
		o.sent(n, nil)
		o.lock.Unlock()
	}
	o.pool.put(buf)
	return nil
}

// writeStream runs write.
func (o *Output) writeStream(write func(w io.Writer) error) error {
	w := bufio.NewWriterSize(pieceWriter{o.conn}, streamBytes)
	err := write(w)
	if err == nil {
		err = w.Flush()
	}
	if err != nil {
		return fmt.Errorf("stream: %w", err)
	}
	return nil
}

// pieceWriter writes in pieces, so that Conn.Traffic shows that they move.
type pieceWriter struct{ c *Conn }

// Write blocks until the connection has taken b (io.Writer).
func (w pieceWriter) Write(b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		var k int
		k, err = w.c.Write(b[n:min(len(b), n+pieceBytes)])
		n += k
	}
	return n, err
}
