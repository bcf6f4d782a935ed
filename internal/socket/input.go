package socket

import (
	"errors"
	"sync"
	"time"
)

// ErrBudget ends the input of a connection if the budget has no room for its unfinished
// frame for budgetPatience.
var ErrBudget = errors.New("socket: no room for a larger frame in the budget of all connections")

// budgetPatience is how long an unfinished frame waits for room.
const budgetPatience = 10 * time.Second

// InputPool lends buffers of one size to Inputs. Use NewInputPool.
type InputPool struct {
	size int
	pool sync.Pool // of *[]byte, size long
}

// NewInputPool returns a pool of buffers of size bytes.
func NewInputPool(size int) *InputPool {
	p := &InputPool{size: size}
	p.pool.New = func() any { b := make([]byte, size); return &b }
	return p
}

// Input is the reading half of a Conn for a protocol of frames: the bytes that have
// arrived and are not consumed. The reader owns it. It holds a buffer only while it
// holds bytes, and during a read.
type Input struct {
	conn    *Conn
	pool    *InputPool
	account *Account // nil: nothing is charged
	buf     *[]byte  // nil while nothing is buffered
	filled  int
	charged int // bytes of buf that are charged to the account
}

// Init makes the Input the reading half of c, which may be nil if only Append is used.
// If account is not nil, it is charged for the buffer while that holds an unfinished
// frame.
func (in *Input) Init(c *Conn, pool *InputPool, account *Account) {
	in.conn, in.pool, in.account = c, pool, account
}

// Fill waits until more bytes have arrived and appends what one read returns. A full
// buffer is doubled: memory grows as bytes arrive, not by the length that a frame
// announces, and only if the account has room. The error is io.EOF if the peer has
// closed its side, and ErrBudget if there was no room.
func (in *Input) Fill() error {
	if in.filled > 0 && !in.reserve() {
		return ErrBudget
	}
	n, err := in.conn.readInto(in)
	in.filled += n
	if err != nil {
		in.Release()
	}
	return err
}

// reserve charges the account for the buffer of the next bytes. It blocks until there
// is room: the connections that hold most wait longest.
func (in *Input) reserve() bool {
	want := len(*in.buf)
	if in.filled == want {
		want *= 2
	}
	if in.account == nil || want <= in.charged {
		return true
	}
	if !in.account.AwaitGrow(want-in.charged, budgetPatience) {
		return false
	}
	in.charged = want
	return true
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
	case in.filled == len(*in.buf):
		grown := make([]byte, 2*len(*in.buf))
		copy(grown, *in.buf)
		in.recycle()
		in.buf = &grown
	}
	return (*in.buf)[in.filled:]
}

// Bytes returns the bytes that are not consumed. They are valid until the next
// call of another method.
func (in *Input) Bytes() []byte {
	if in.buf == nil {
		return nil
	}
	return (*in.buf)[:in.filled]
}

// Len returns the number of bytes that are not consumed.
func (in *Input) Len() int { return in.filled }

// Consume removes the first n bytes. It may keep the buffer: the caller must call
// Release before it waits for anything but Fill.
func (in *Input) Consume(n int) {
	if n > 0 {
		in.filled = copy(*in.buf, (*in.buf)[n:in.filled])
	}
}

// Clear removes all bytes and releases the buffer.
func (in *Input) Clear() {
	in.filled = 0
	in.Release()
}

// Release returns the buffer to the pool if it holds no bytes.
func (in *Input) Release() {
	if in.buf != nil && in.filled == 0 {
		in.recycle()
		in.buf = nil
		if in.charged > 0 {
			in.account.Charge(-in.charged)
			in.charged = 0
		}
	}
}

// recycle returns a buffer of the pool's size to the pool.
func (in *Input) recycle() {
	if len(*in.buf) == in.pool.size {
		in.pool.pool.Put(in.buf)
	}
}
