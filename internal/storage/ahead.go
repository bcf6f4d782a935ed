package storage

import "io"

// A chunk is a piece of a stream. Its buffer has free room in front of the piece, for
// the bytes of the previous chunk that are not consumed yet.
type chunk struct {
	buf []byte
	n   int    // the piece is buf[room:room+n], with room from chunks
	sum uint32 // Adler-32 of the stream up to the end of the piece
	err error  // why there is no further chunk
}

// chunkBytes is the length of a chunk. The room in front of it is one chunkRoomPart-th
// of that. A small file has smaller chunks.
const (
	chunkBytes    = 512 << 10
	minChunkBytes = 4 << 10
	chunkRoomPart = 8
)

// chunkSource cuts a stream into chunks and computes their checksums. One goroutine
// owns it at a time: the caller, and after chunks.ahead the goroutine that this starts.
type chunkSource struct {
	src  io.Reader
	sum  uint32
	room int
}

// read fills buf with the result of one Read that returns any bytes.
func (s *chunkSource) read(buf []byte) chunk {
	c := chunk{buf: buf}
	for c.n == 0 && c.err == nil {
		c.n, c.err = s.src.Read(buf[s.room:])
	}
	s.sum = sumAdler(s.sum, buf[s.room:s.room+c.n])
	c.sum = s.sum
	return c
}

// chunks reads a stream in chunks: on demand, or, after ahead was called, in a
// goroutine that reads ahead of the caller. One goroutine owns it.
type chunks struct {
	source *chunkSource // owned by the reading goroutine if ready is not nil
	room   int          // bytes in front of a chunk
	bytes  int          // of a chunk's buffer, the room included
	spare  chan []byte
	ready  chan chunk    // nil unless a goroutine reads ahead
	stop   chan struct{} // closed by stopAhead
}

// chunksAhead is how many chunks are read ahead of the caller.
const chunksAhead = 2

// newChunks returns the chunks of src, which is expected to have that many bytes.
func newChunks(src io.Reader, bytes int64) *chunks {
	n := int(min(max(bytes, minChunkBytes), chunkBytes))
	room := n / chunkRoomPart
	return &chunks{
		source: &chunkSource{src: src, sum: adlerInit, room: room},
		room:   room, bytes: room + n,
		spare: make(chan []byte, chunksAhead+2),
	}
}

// next returns the next chunk. The caller must not call it after a chunk with an error.
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

// recycle keeps b for reuse if it has the size of a chunk's buffer.
func (c *chunks) recycle(b []byte) {
	if len(b) != c.bytes {
		return
	}
	select {
	case c.spare <- b:
	default:
	}
}

// ahead starts the goroutine that reads all further chunks.
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

// stopAhead stops the goroutine that reads ahead, and returns once it has ended.
func (c *chunks) stopAhead() {
	if c.stop == nil {
		return
	}
	close(c.stop)
	for range c.ready {
	}
	c.stop = nil
}
