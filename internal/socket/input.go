package socket

import (
	"errors"
	"net"
	"runtime"
	"sync"
	"time"

	"github.com/pinfold-zk/pinfold/internal/rawio"
	"github.com/pinfold-zk/pinfold/internal/spare"
)

// ErrBudget ends the input of a connection if the budget has no room for its unfinished
// frame for budgetPatience.
var ErrBudget = errors.New("socket: no room for a larger frame in the budget of all connections")

// budgetPatience is how long an unfinished frame waits for room.
const budgetPatience = 10 * time.Second

// InputPool lends buffers of one size to Inputs, and lets those that need larger ones make and fill them in turns, or take them from
// a spare.Buffers. Use NewInputPool.
//
// The system gives the memory of a large buffer page by page, which takes a millisecond or more. If thousands of unfinished
// frames grow at the same time, all other goroutines would wait for as many of them in the queues of the scheduler. The same is
// true of the reads that fill these buffers. An Input that waits for its turn is in none of these queues. Half of the processors make
// buffers or fill them, and one at least. No Input has a turn while it waits for its peer.
type InputPool struct {
	size  int
	pool  sync.Pool // of *[]byte, size long
	large *spare.Buffers
	turns chan struct{}
}

// NewInputPool returns a pool of buffers of size bytes, and of large ones.
func NewInputPool(size int, large *spare.Buffers) *InputPool {
	p := &InputPool{size: size, large: large, turns: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))}
	p.pool.New = func() any { b := make([]byte, size); return &b }
	return p
}

// Input is the reading half of a Conn for a protocol of frames: the bytes that have
// arrived and are not consumed. The reader owns it. It holds a buffer of the pool only
// while it holds bytes, and during a read; while it waits for the rest of a short frame
// it holds these bytes alone.
//
// What every read uses comes first, in one cache line.
type Input struct {
	conn    *Conn
	buf     *[]byte // nil while nothing is buffered, or it is in kept
	filled  int
	most    int     // up to how many bytes are read now
	charged int     // to the account
	usual   int32   // the length of the pool's buffers
	short   int32   // up to how many bytes of an unfinished frame wait without a buffer of the pool
	account Account // of the buffers
	pool    *InputPool
	kept    *[]byte // memory for the bytes of an unfinished frame while no more arrive; nil: none, see parked
}

// Init makes the Input the reading half of c, which may be nil if only Append is used.
// The budget is charged for the memory of bytes that have arrived and are not consumed, as charge says.
func (in *Input) Init(c *Conn, pool *InputPool, b *Budget) {
	in.conn, in.pool = c, pool
	in.usual, in.short = int32(pool.size), int32(pool.size/4)
	in.account.Init(b, int(in.short))
}

// Fill waits until more bytes have arrived and appends what one read returns. A full
// buffer is doubled: memory grows as bytes arrive, not by the length that a frame
// announces, and only if the budget has room, in turns with other Inputs. The error is io.EOF if the peer has
// closed its side, ErrBudget if there was no room, and net.ErrClosed if the Input was closed while it waited for its turn.
func (in *Input) Fill() error { return in.fill(false) }

// FillNext is Fill for a caller that has consumed everything and has sent, or will send, an answer to it. If all that had
// arrived was read it waits without another read, unless the next bytes are expected to have arrived. If the peer has closed
// its side together with these bytes, FillNext may return io.EOF only after the peer has refused the answer, and may not notice
// the end of a peer that reads on.
func (in *Input) FillNext() error { return in.fill(in.filled == 0) }

// fill is Fill, or FillNext of an Input without bytes.
func (in *Input) fill(next bool) error {
	if !in.reserve() {
		return ErrBudget
	}
	if in.filled == in.size() {
		if !in.grow() {
			return net.ErrClosed
		}
	}
	n, err := in.conn.readInto(in, next)
	in.filled += n
	in.most = 0
	if in.charge(); err != nil {
		in.Release()
	}
	return err
}

// reserve makes sure that there is room in the budget for what is to be read, unless that
// can wait without a buffer. It blocks until there is: the connections that hold most wait
// longest.
func (in *Input) reserve() bool {
	if in.filled < int(in.short) {
		return true
	}
	size := in.size()
	if in.filled == size {
		size *= 2
	}
	in.park()
	more := max(0, size-in.charged)
	if !in.account.AwaitGrow(more, budgetPatience) {
		return false
	}
	in.charged += more
	in.most = size
	return true
}

// grow doubles the buffer, which is full, when the Input has its turn, into one that is kept if there is such a one. False
// means that the Input was closed before.
func (in *Input) grow() bool {
	if !in.takeTurn() {
		return false
	}
	in.double(in.pool.large.Get(2 * in.filled))
	in.endTurn()
	return true
}

// isLarge reports whether the buffer is larger than those of the pool: then it is filled in turns, too.
func (in *Input) isLarge() bool { return in.size() > int(in.usual) }

// takeTurn waits for the turn of the Input, see InputPool. False means that the Input was closed before.
func (in *Input) takeTurn() bool {
	select {
	case in.pool.turns <- struct{}{}:
		return true
	case <-in.account.Closed():
		return false
	}
}

func (in *Input) endTurn() { <-in.pool.turns }

// double replaces the buffer by one of twice the size, in the memory that is given if it is not nil.
func (in *Input) double(memory []byte) {
	size := 2 * len(*in.buf)
	if memory == nil {
		memory = rawio.Populated(size)
	}
	grown := memory[:size]
	copy(grown, *in.buf)
	in.recycle()
	in.buf = &grown
}

// size is the length of the buffer, or of the one to come.
func (in *Input) size() int {
	if in.buf != nil {
		return len(*in.buf)
	}
	return int(in.usual)
}

// roomToRead is room for bytes that have arrived. While the budget has no room for a buffer it is
// for as many as can wait without one. This is decided when they are there: a connection that has
// been idle since the budget had room must not rely on that.
func (in *Input) roomToRead() []byte {
	if in.filled < int(in.short) {
		if in.most = in.size(); !in.account.CanGrow(max(0, in.most-in.charged)) {
			in.most = int(in.short)
		}
	}
	return in.room()
}

// charge charges the account for the memory of what has arrived. A buffer of the pool with no more than a short frame is
// not charged: mostly that is consumed at once, and two changes of the budget for each would have the processors wait for one
// another.
func (in *Input) charge() {
	n := 0
	if in.filled > 0 {
		if n = cap(in.parked()); in.buf != nil && in.filled > int(in.short) {
			n += cap(*in.buf) // one that was kept may be larger than it has to be
		}
	}
	if n != in.charged {
		in.account.Charge(n - in.charged)
		in.charged = n
	}
}

// park releases the buffer if what has arrived is short or nothing: more bytes may be a
// long time coming.
func (in *Input) park() {
	if in.filled > 0 && in.filled <= int(in.short) && in.buf != nil {
		if in.kept == nil {
			in.kept = new([]byte)
		}
		*in.kept = append((*in.kept)[:0], (*in.buf)[:in.filled]...)
		in.recycle()
		in.buf = nil
		in.charge()
	}
	in.Release()
}

// parked returns the memory that kept has.
func (in *Input) parked() []byte {
	if in.kept == nil {
		return nil
	}
	return *in.kept
}

// Append appends b as if it had been read.
func (in *Input) Append(b []byte) {
	for len(b) > 0 {
		n := copy(in.room(), b)
		in.filled += n
		b = b[n:]
	}
}

// room returns the free part of the buffer; it is never empty.
func (in *Input) room() []byte {
	switch {
	case in.buf == nil:
		in.buf = in.pool.pool.Get().(*[]byte)
		copy(*in.buf, in.parked()[:in.filled])
	case in.filled == len(*in.buf):
		in.double(nil)
	}
	b := (*in.buf)[in.filled:]
	if in.most > 0 {
		b = b[:min(len(b), in.most-in.filled)]
	}
	return b
}

// Bytes returns the bytes that are not consumed. They are valid until the next
// call of another method.
func (in *Input) Bytes() []byte {
	if in.buf == nil {
		return in.parked()[:in.filled]
	}
	return (*in.buf)[:in.filled]
}

// Len returns the number of bytes that are not consumed.
func (in *Input) Len() int { return in.filled }

// Consume removes the first n bytes. It may keep the buffer: the caller must call
// Release before it waits for anything but Fill.
func (in *Input) Consume(n int) {
	switch {
	case n == 0:
	case in.buf != nil:
		in.filled = copy(*in.buf, (*in.buf)[n:in.filled])
	default: // Fill has given the buffer back, and no more bytes have come
		kept := *in.kept
		if in.filled = copy(kept, kept[n:in.filled]); in.filled == 0 {
			in.Clear()
		}
	}
}

// Clear removes all bytes and releases the buffer.
func (in *Input) Clear() {
	if in.filled = 0; in.buf == nil {
		in.kept = nil
		in.charge()
	}
	in.Release()
}

// Release returns the buffer to the pool if it holds no bytes.
func (in *Input) Release() {
	if in.buf != nil && in.filled == 0 {
		in.recycle()
		in.buf, in.kept = nil, nil
		in.charge()
	}
}

// Close ends a wait of Fill for room.
func (in *Input) Close() { in.account.Close() }

// recycle returns the buffer to the pool.
func (in *Input) recycle() {
	if len(*in.buf) == int(in.usual) {
		in.pool.pool.Put(in.buf)
	} else {
		in.pool.large.Put(*in.buf)
	}
}
