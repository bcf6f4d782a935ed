package storage

import "io"

// windowBytes is how much a window reads at once.
const windowBytes = 256 << 10

// window reads a stream through a buffer that its owner sees. It allocates no more than
// twice what it has read.
type window struct {
	src  io.Reader
	buf  []byte
	r, w int   // buf[r:w] is read and not consumed
	off  int64 // of buf[r] in the stream
	err  error // of src; it sticks
}

func newWindow(src io.Reader) *window {
	return &window{src: src, buf: make([]byte, windowBytes)}
}

// reset starts again with a new stream, which is expected to have size bytes.
func (w *window) reset(src io.Reader, size int64) {
	buf := w.buf
	if n := min(windowBytes, size+1); int64(len(buf)) < n {
		buf = make([]byte, n)
	}
	*w = window{src: src, buf: buf}
}

// fill returns the buffered bytes, at least n of them. If the stream ends before, it
// returns the rest, and io.EOF or the stream's error. The result is valid until the
// next call.
func (w *window) fill(n int) ([]byte, error) {
	for w.w-w.r < n {
		if w.err != nil {
			return w.buf[w.r:w.w], w.err
		}
		if w.r > 0 && (w.w == len(w.buf) || len(w.buf)-w.r < n) {
			w.w = copy(w.buf, w.buf[w.r:w.w])
			w.r = 0
		}
		if w.w == len(w.buf) {
			grown := make([]byte, 2*len(w.buf))
			copy(grown, w.buf[:w.w])
			w.buf = grown
		}
		var k int
		k, w.err = w.src.Read(w.buf[w.w:])
		w.w += k
	}
	return w.buf[w.r:w.w], nil
}

// discard consumes n of the buffered bytes.
func (w *window) discard(n int) {
	w.r += n
	w.off += int64(n)
}
