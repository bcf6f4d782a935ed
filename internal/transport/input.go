package transport

import (
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pinfold-zk/pinfold/internal/rawio"
	"github.com/pinfold-zk/pinfold/internal/socket"
	"github.com/pinfold-zk/pinfold/internal/zab"
)

// Sizes of input buffers. A link that has not received anything yet has a small one.
const (
	chunkBytes      = 256 << 10
	firstChunkBytes = 4 << 10
)

// chunk is a buffer that packets alias. It is used again when all references to it are
// released; otherwise the garbage collector frees it.
type chunk struct {
	buf  []byte
	refs atomic.Int32
}

// chunks keeps chunks for reuse: of chunkBytes, of twice as much, three times, and so on to 2 MiB, in which any packet of a request of
// 1 MiB ends.
var chunks [8]sync.Pool

// poolOf returns the pool of the chunks of size bytes, or nil if they are not kept.
func poolOf(size int) *sync.Pool {
	if i := size/chunkBytes - 1; size%chunkBytes == 0 && 0 <= i && i < len(chunks) {
		return &chunks[i]
	}
	return nil
}

// newChunk returns a chunk of size bytes, or more if there is no pool for them, with one reference.
func newChunk(size int) *chunk {
	var c *chunk
	if p := poolOf(size); p != nil {
		c, _ = p.Get().(*chunk)
	}
	if c == nil {
		room := rawio.Uncleared
		if size > chunkBytes { // a packet fills it
			room = rawio.Populated
		}
		buf := room(size)
		c = &chunk{buf: buf[:cap(buf)]}
	}
	c.refs.Store(1)
	return c
}

// Release gives back a reference (Lease).
func (c *chunk) Release() {
	switch n := c.refs.Add(-1); {
	case n < 0:
		panic("transport: a buffer was released twice")
	case n == 0:
		if p := poolOf(len(c.buf)); p != nil {
			p.Put(c)
		}
	}
}

// lend adds a reference, for a handler.
func (c *chunk) lend() Lease {
	c.refs.Add(1)
	return c
}

// input reads packets into chunks. It fills each chunk to its end before it takes
// another, and writes no byte twice while packets alias the chunk.
type input struct {
	src     io.Reader
	account socket.Account // of the buffers; of Transport.buffers
	charged int            // to it

	chunk *chunk
	buf   []byte // the chunk's
	r, w  int    // buf[r:w] is read but not decoded
	need  int    // a lower bound of the length of the packet at r
}

// fill reads once. It takes a buffer of more than a chunk only for a packet that
// has filled one, and then two to four times as large as what has arrived.
func (in *input) fill() error {
	if in.w == len(in.buf) {
		if err := in.renew(); err != nil {
			return err
		}
	}
	n, err := in.src.Read(in.buf[in.w:])
	in.w += n
	if n > 0 {
		return nil // the next read returns the error again
	}
	return err
}

// Peek returns the next n bytes without consuming them, valid until the next call. It is,
// like Read, for what comes before the first packet.
func (in *input) Peek(n int) ([]byte, error) {
	for in.w-in.r < n {
		if err := in.fill(); err != nil {
			return nil, err
		}
	}
	return in.buf[in.r : in.r+n], nil
}

// Read consumes bytes (io.Reader).
func (in *input) Read(p []byte) (int, error) {
	if _, err := in.Peek(1); err != nil {
		return 0, err
	}
	n := copy(p, in.buf[in.r:in.w])
	in.r += n
	return n, nil
}

// renew continues in a new buffer, with the bytes that are not decoded. A large one ends where the packet does that it begins
// with: packets that wait for one another, as those of many large requests do, keep little more than they have.
func (in *input) renew() error {
	size := chunkBytes
	if in.buf == nil {
		size = firstChunkBytes
	}
	rest := in.w - in.r
	for size < 2*rest {
		size *= 2
	}
	if in.need > rest {
		size = min(size, (in.need+chunkBytes-1)/chunkBytes*chunkBytes)
	}
	if err := in.hold(size); err != nil {
		return err
	}
	in.moveTo(newChunk(size), in.buf[in.r:in.w])
	return nil
}

// bufferPatience is how long a link waits for room in Options.BufferBytes.
const bufferPatience = 10 * time.Second

// hold charges the budget for buffers of size bytes, instead of the present ones. It blocks
// until there is room: the links that hold most wait longest.
func (in *input) hold(size int) error {
	if more := size - in.charged; more < 0 {
		in.account.Charge(more)
	} else if !in.account.AwaitGrow(more, bufferPatience) {
		return fmt.Errorf("%w: the buffers of all links have no room for one of %d bytes", ErrCrowded, size)
	}
	in.charged = size
	return nil
}

// moveTo continues in another chunk, which begins with rest, and releases the present one.
func (in *input) moveTo(c *chunk, rest []byte) {
	old := in.chunk
	in.chunk, in.buf = c, c.buf
	in.r, in.w = 0, copy(in.buf, rest)
	if old != nil {
		old.Release()
	}
}

// close releases the chunk. Nothing is read afterwards.
func (in *input) close() {
	if in.chunk != nil {
		in.chunk.Release()
	}
	in.chunk, in.buf, in.r, in.w = nil, nil, 0, 0
	in.account.Charge(-in.charged)
	in.charged = 0
}

// packets appends the complete packets in the buffer to ps. It stops after a SNAP,
// which is then the last one: the bytes after it are not a packet. The error is
// ErrPacket; the packets before the bad one are returned with it.
func (in *input) packets(ps []zab.Packet, limit int) ([]zab.Packet, error) {
	for in.w-in.r >= max(in.need, 1) {
		p, n, err := DecodePacket(in.buf[in.r:in.w], limit)
		if err != nil {
			return ps, err
		}
		if n > in.w-in.r {
			in.need = n
			break
		}
		in.need = 0
		in.r += n
		ps = append(ps, zab.Packet{})
		to := &ps[len(ps)-1] // field by field, see znode.Tree.Stat
		to.Type, to.Zxid, to.Data, to.Auth = p.Type, p.Zxid, p.Data, p.Auth
		if p.Type == zab.Snap {
			break
		}
	}
	return ps, nil
}

// signature ends the stream of a snapshot: the string BenWasHere.
const signature = "\x00\x00\x00\x0aBenWasHere"

// stream is the snapshot within an input. It reads into a buffer of its own, because
// the bytes of an input's buffer must not be written twice.
type stream struct {
	in   *input
	buf  []byte
	r, w int // buf[r:w] is read but not consumed
}

// beginStream moves the buffered bytes to a stream.
func (in *input) beginStream() (*stream, error) {
	rest := in.buf[in.r:in.w]
	size := max(chunkBytes, len(rest))
	if err := in.hold(in.charged + size); err != nil {
		return nil, err
	}
	s := &stream{in: in, buf: make([]byte, size)}
	s.w = copy(s.buf, rest)
	in.r = in.w
	return s, nil
}

// end checks the signature and returns the bytes after it to the input.
func (s *stream) end() error {
	b, err := s.Fill(len(signature))
	if err != nil {
		return fmt.Errorf("transport: read the end of a snapshot: %w", err)
	}
	if string(b[:len(signature)]) != signature {
		return fmt.Errorf("%w: %q where a snapshot must end with %q", ErrPacket, b[:len(signature)], signature)
	}
	s.Discard(len(signature))
	rest := s.Buffered()
	size := max(chunkBytes, 2*len(rest))
	s.in.moveTo(newChunk(size), rest)
	s.in.need = 0
	return s.in.hold(size)
}

// Buffered returns the bytes that are available without reading, valid until the next
// Fill.
func (s *stream) Buffered() []byte { return s.buf[s.r:s.w] }

// Discard consumes n of the buffered bytes.
func (s *stream) Discard(n int) { s.r += n }

// Fill returns the buffered bytes, at least n of them (SnapshotSource). It allocates no
// more than a chunk, or twice what has arrived.
func (s *stream) Fill(n int) ([]byte, error) {
	for s.w-s.r < n {
		if s.r > 0 && (s.w == len(s.buf) || len(s.buf)-s.r < n) {
			s.w = copy(s.buf, s.buf[s.r:s.w])
			s.r = 0
		}
		if s.w == len(s.buf) {
			if err := s.in.hold(s.in.charged + len(s.buf)); err != nil {
				return s.Buffered(), err
			}
			grown := make([]byte, 2*len(s.buf))
			copy(grown, s.buf)
			s.buf = grown
		}
		k, err := s.in.src.Read(s.buf[s.w:])
		s.w += k
		if k == 0 && err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return s.Buffered(), err
		}
	}
	return s.Buffered(), nil
}
