package socket

import (
	"bufio"
	"fmt"
	"io"
	"sync"

	"github.com/pinfold-zk/pinfold/internal/spare"
)

// Sizes of an Output's writes.
const (
	pieceBytes  = 256 << 10 // the flusher writes this much at a time; Conn.Traffic grows by it
	streamBytes = 128 << 10 // size of the buffer for what a stream writes
)

// OutputPool is what the Outputs of many connections share. It keeps buffers for reuse, until
// a garbage collection finds them unused, and larger ones in a spare.Buffers. It counts the flushers.
type OutputPool struct {
	most     int
	large    *spare.Buffers
	pool     sync.Pool // of *[]byte, because a slice in a sync.Pool would be allocated
	flushers *sync.WaitGroup
}

// NewOutputPool returns a pool of buffers of at most size bytes. It puts larger ones into large. flushers counts the
// goroutines of the flushers.
func NewOutputPool(size int, large *spare.Buffers, flushers *sync.WaitGroup) *OutputPool {
	return &OutputPool{most: size, large: large, flushers: flushers}
}

// get returns an empty buffer and its place in the pool, for put; nil if there is none.
func (p *OutputPool) get() (b []byte, place *[]byte) {
	place, _ = p.pool.Get().(*[]byte)
	if place == nil {
		return nil, nil
	}
	b, *place = *place, nil
	return b, place
}

// put keeps b, which the caller does not use any more, in a place that get has returned and no put was given since. With
// nil it makes one. It reports whether it has kept b, and with it the place.
func (p *OutputPool) put(b []byte, place *[]byte) (kept bool) {
	if cap(b) == 0 || cap(b) > p.most {
		p.large.Put(b)
		return false
	}
	if place == nil {
		place = new([]byte)
	}
	*place = b[:0]
	p.pool.Put(place)
	return true
}

// Owner has an Output and is notified of its progress. The goroutine that writes makes
// the calls, with the owner's lock held; they must not block.
type Owner interface {
	// Sending reports that n bytes are about to be written.
	Sending(n int)
	// Sent reports that the connection has accepted n bytes, or that writing has
	// failed. After a failure the owner calls Output.Stop before it releases its
	// lock.
	Sent(n int, err error)
	// Drained reports that a flush has found nothing left to send.
	Drained()
}

// Output is the writing half of a Conn. It shares the lock of its owner: all methods
// REQUIRE it, and Flush releases it while it writes. One goroutine at a time writes, in
// order: the caller of Flush, as far as the connection accepts bytes without blocking;
// then the flusher, which runs while there is more.
type Output struct {
	// Buf is the pending output. The owner calls Need, appends to Buf, and flushes.
	// It is nil while nothing is pending: an idle connection holds no buffer.
	Buf []byte

	// Every flush uses these, so they are side by side: with many connections each cache
	// line is a load from memory.
	conn     *Conn // nil until Attach: output stays pending
	lock     *sync.Mutex
	owner    Owner
	pool     *OutputPool
	place    *[]byte  // of a buffer in the pool, for the next buffer that is returned; or nil
	account  *Account // nil: nothing is charged
	charged  int      // bytes that are charged to the account
	streams  []stream // to send before Buf
	before   int      // bytes in the streams' before
	inFlight int      // bytes that the writer holds and the connection has not accepted yet
	lent     int      // bytes of the buffer that the writer holds, until all of it is accepted
	writing  bool     // there is a writer
	sharing  bool     // the writer writes shared bytes, which do not go to the pool
	stopped  bool

	shared int        // of the bytes in before, those that other outputs have too
	idle   *sync.Cond // signalled when writing becomes false; made by AwaitIdle if it waits
}

// stream is a place in the output at which a function writes, or a buffer of its own.
type stream struct {
	before []byte                  // sent first
	shared bool                    // before is never changed, and other outputs may have it
	write  func(w io.Writer) error // nil: only before is sent
}

// Init prepares the zero Output. lock is the owner's.
func (o *Output) Init(lock *sync.Mutex, owner Owner, pool *OutputPool) {
	o.lock, o.owner, o.pool = lock, owner, pool
}

// Charge sets the account that is charged for pending output: at once for more than
// the account's free bytes, otherwise when a writer has to wait for the peer.
func (o *Output) Charge(a *Account) { o.account = a }

// settle adjusts the charge to the pending output; pending reports whether a writer has
// to wait for the peer. The buffer of a writer that waits counts completely until all of
// it is sent, because it is in memory as long, and so do the records that the layer has made of it.
func (o *Output) settle(pending bool) {
	if o.account == nil {
		return
	}
	n := o.Unsent()
	if pending {
		n += o.lent - o.inFlight + o.conn.ahead()
	}
	if n <= int(o.account.free) && !pending {
		n = 0
	}
	if n != o.charged {
		o.account.Charge(n - o.charged)
		o.charged = n
	}
}

// Attach sets the connection. From now on Flush sends.
func (o *Output) Attach(c *Conn) { o.conn = c }

// Need makes sure that Buf is a buffer. The owner calls it before it appends.
func (o *Output) Need() {
	if o.Buf == nil {
		var place *[]byte
		if o.Buf, place = o.pool.get(); place != nil {
			o.place = place
		}
	}
}

// Unsent returns how many bytes are pending or being written. It does not count bytes
// in the system's send buffer.
func (o *Output) Unsent() int { return len(o.Buf) + o.before + o.inFlight }

// Writing reports whether a goroutine is writing.
func (o *Output) Writing() bool { return o.writing }

// Attached reports whether Flush can send.
func (o *Output) Attached() bool { return o.conn != nil }

// Stream queues a function that writes to the connection: the bytes in Buf are sent
// first, later bytes follow it. write runs on the flusher's goroutine and blocks there
// as long as the peer does not read. Its error, or an error of its writer, ends the
// output by Owner.Sent. It runs once, or never if the output stops before its turn.
func (o *Output) Stream(write func(w io.Writer) error) {
	o.streams = append(o.streams, stream{before: o.Buf, write: write})
	o.before += len(o.Buf)
	o.Buf = nil
}

// Split has the bytes that follow begin in a new Buf, so that what is in Buf is not copied when they are many.
func (o *Output) Split() {
	if len(o.Buf) > 0 {
		o.Stream(nil)
	}
}

// Share queues b after the bytes in Buf, without a copy. Other outputs may have b too: the caller must not change it any more.
// It counts as if it was this output's alone. REQUIRES: b is not empty.
func (o *Output) Share(b []byte) {
	o.Split()
	o.streams = append(o.streams, stream{before: b, shared: true})
	o.before += len(b)
	o.shared += len(b)
}

// Shared returns how many bytes of Share wait until the writer begins with them.
func (o *Output) Shared() int { return o.shared }

// Stop drops the pending output. Nothing more is sent, but a write in progress
// continues until the connection is closed.
func (o *Output) Stop() {
	o.stopped = true
	o.Buf, o.streams, o.before, o.shared, o.inFlight, o.lent = nil, nil, 0, 0, 0, 0
	o.settle(false)
}

// AwaitIdle returns when no goroutine writes. REQUIRES: the output is stopped, and its
// connection closed.
func (o *Output) AwaitIdle() {
	for o.writing {
		if o.idle == nil {
			o.idle = sync.NewCond(o.lock)
		}
		o.idle.Wait()
	}
}

// Flush sends the pending output, unless another goroutine is writing: that one sends
// it too. With wait false, it never blocks, and leaves to the flusher what the
// connection does not accept at once. With wait true, it returns when everything is
// sent or another goroutine writes.
func (o *Output) Flush(wait bool) {
	for o.conn != nil && !o.writing && !o.stopped {
		if len(o.Buf)+len(o.streams) == 0 {
			o.owner.Drained()
			return
		}
		o.writing = true
		if len(o.streams) > 0 || !wait && !o.conn.canPush() {
			o.pool.flushers.Go(o.runQueued)
			return
		}
		buf := o.detach()
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
				o.pool.flushers.Go(func() { o.run(buf, n) })
				return
			}
			o.lock.Unlock()
			o.finish(buf, n)
			o.lock.Lock()
		} else {
			o.recycle(buf)
		}
		o.endWriting()
	}
}

// recycle returns a buffer that the writer has sent to the pool, unless it is shared.
func (o *Output) recycle(buf []byte) {
	if !o.sharing && o.pool.put(buf, o.place) {
		o.place = nil
	}
	if o.lent = 0; o.charged > 0 {
		o.settle(false)
	}
}

// detach removes Buf in order to write it.
func (o *Output) detach() []byte {
	buf := o.Buf
	o.Buf = nil
	o.inFlight += len(buf)
	o.lent = cap(buf)
	o.settle(false)
	o.owner.Sending(len(buf))
	return buf
}

// sent accounts for bytes that the connection has accepted.
func (o *Output) sent(n int, err error) {
	if o.stopped {
		return
	}
	o.inFlight -= n
	if o.charged > 0 {
		o.settle(true)
	}
	if err != nil {
		err = fmt.Errorf("write: %w", err)
	}
	o.owner.Sent(n, err)
}

// endWriting releases the writer role.
func (o *Output) endWriting() {
	o.writing = false
	if o.idle != nil {
		o.idle.Broadcast()
	}
}

// run is the flusher that continues a write: it sends what the layer has encoded and
// buf[sent:], and then all pending output. The caller does not hold the lock.
func (o *Output) run(buf []byte, sent int) {
	o.finish(buf, sent)
	o.runQueued()
}

// finish writes what the layer has encoded, and buf[sent:]; it blocks meanwhile.
// REQUIRES: the caller is the writer and does not hold the lock.
func (o *Output) finish(buf []byte, sent int) {
	err := o.conn.settle()
	if err == nil {
		err = o.writePieces(buf, sent)
	}
	o.fail(err)
}

// runQueued is the flusher that sends all pending output. The caller does not hold the
// lock.
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

// fail ends the output if err is not nil; next then returns nothing.
func (o *Output) fail(err error) {
	if err != nil {
		o.lock.Lock()
		o.sent(0, err)
		o.lock.Unlock()
	}
}

// next returns what the flusher writes next. If there is nothing, it releases the
// writer role.
func (o *Output) next() (buf []byte, write func(w io.Writer) error) {
	o.lock.Lock()
	defer o.lock.Unlock()
	o.sharing = false
	switch {
	case o.stopped:
	case len(o.streams) > 0:
		return o.nextStream()
	case len(o.Buf) > 0:
		return o.detach(), nil
	}
	o.lent = 0
	o.settle(false)
	o.endWriting()
	if !o.stopped {
		o.owner.Drained()
	}
	return nil, nil
}

// nextStream returns what is before the first stream, or, when that is sent, its function.
func (o *Output) nextStream() (buf []byte, write func(w io.Writer) error) {
	s := &o.streams[0]
	buf, write = s.before, s.write
	if len(buf) > 0 {
		s.before = nil
		o.before -= len(buf)
		o.inFlight += len(buf)
		o.lent = cap(buf)
		if o.sharing = s.shared; s.shared {
			o.shared -= len(buf)
		}
		if write == nil {
			o.dropStream()
		}
		o.settle(true)
		o.owner.Sending(len(buf))
		return buf, nil
	}
	o.dropStream()
	o.lent = streamBytes
	o.settle(true)
	return nil, write
}

// dropStream removes the first stream.
func (o *Output) dropStream() {
	o.streams[0] = stream{}
	if o.streams = o.streams[1:]; len(o.streams) == 0 {
		o.streams = nil
	}
}

// writePieces writes buf[sent:] and blocks until the connection has accepted it.
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
	o.lock.Lock()
	o.recycle(buf)
	o.lock.Unlock()
	return nil
}

// writeStream runs write with a buffered writer to the connection.
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

// pieceWriter writes in pieces, so that Conn.Traffic shows progress.
type pieceWriter struct{ c *Conn }

// Write blocks until the connection has accepted b (io.Writer).
func (w pieceWriter) Write(b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		var k int
		k, err = w.c.Write(b[n:min(len(b), n+pieceBytes)])
		n += k
	}
	return n, err
}
