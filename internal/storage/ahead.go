package storage

import "io"

// A chunk is a piece of a stream in a buffer that has room in front of it, so
// that what was left over of the chunk before can be put there.
type chunk struct {
	buf []byte
	n   int    // the piece is buf[room:room+n], with room from chunks
	sum uint32 // Adler-32 of the stream up to the end of the piece
	err error  // why there is no further chunk
}

// chunkBytes is the length of a chunk; the room in front is as large as a part of
// it. Those of a small file are smaller.
const (
	chunkBytes    = 512 << 10
	minChunkBytes = 4 << 10
	chunkRoomPart = 8
)

// chunkSource cuts a stream into chunks and sums it up. It is owned by one
// goroutine at a time; ahead hands it to one of its own.
type chunkSource struct {
	src  io.Reader
	sum  uint32
	room int
}

// read reads what comes at once into buf.
func (s *chunkSource) read(buf []byte) chunk {
	c := chunk{buf: buf}
	for c.n == 0 && c.err == nil {
		c.n, c.err = s.src.Read(buf[s.room:])
	}
	s.sum = sumAdler(s.sum, buf[s.room:s.room+c.n])
	c.sum = s.sum
	return c
}

// chunks are read by their source when they are asked for, or ahead of that once
// ahead was called. They are owned by one goroutine.
type chunks struct {
	source *chunkSource // the goroutine's, if ready is not nil
	room   int          // bytes in front of a chunk
	bytes  int          // of a chunk's buffer, the room included
	spare  chan []byte
	ready  chan chunk    // nil unless read ahead
	stop   chan struct{} // closed by end
}

// chunksAhead is how many chunks wait to be taken.
const chunksAhead = 2

// newChunks cuts src, of which about so many bytes are expected.
func newChunks(src io.Reader, bytes int64) *chunks {
	n := int(min(max(bytes, minChunkBytes), chunkBytes))
	room := n / chunkRoomPart
	return &chunks{
		source: &chunkSource{src: src, sum: adlerInit, room: room},
		room:   room, bytes: room + n,
		spare: make(chan []byte, chunksAhead+2),
	}
}

// next returns the next chunk. It must not be called after one with an error.
func (c *chunks) next() chunk {
	if c.ready == nil {
		return c.source.read(c.buffer())
	}
	return <-c.ready
}

// buffer returns a spare buffer, or a new one.
func (c *chunks) buffer() []byte {
	select {
	case b := <-c.spare:
		return b
	default:
		return make([]byte, c.bytes)
	}
}

// recycle takes back a buffer that may, or may not, be a chunk's.
func (c *chunks) recycle(b []byte) {
	if len(b) != c.bytes {
		return
	}
	select {
	case c.spare <- b:
	default:
	}
}

// ahead starts the goroutine that reads from here on.
func (c *chunks) ahead() {
	c.ready, c.stop = make(chan chunk, chunksAhead), make(chan struct{})
	go func() {
		defer close(c.ready)
		for {
			next := c.source.read(c.buffer())
			select {
			case c.ready <- next:
			case <-c.stop:
				return
			}
			if next.err != nil {
				return
			}
		}
	}()
}

// end waits until nobody reads the stream any more.
func (c *chunks) end() {
	if c.stop == nil {
		return
	}
	close(c.stop)
	for range c.ready {
	}
	c.stop = nil
}
