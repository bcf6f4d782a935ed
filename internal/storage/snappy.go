package storage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/snappy"
)

// snappyMagic begins a stream as snappy-java writes it: the magic number (8 bytes), the
// version (4), the oldest version that can read it (4). Chunks follow: length (4), and
// a raw snappy block of that length.
const snappyMagic = "\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"

const (
	// snappyBlockBytes is how many bytes a chunk holds; snappy-java's default.
	snappyBlockBytes = 32 << 10
	// snappyMaxBytes bounds a block that is read, compressed or not.
	snappyMaxBytes = 32 << 20
)

// snappyWriter writes snappy-java's framing.
type snappyWriter struct {
	out    io.Writer
	block  []byte // not compressed yet
	packed []byte
	begun  bool
}

func newSnappyWriter(out io.Writer) *snappyWriter {
	return &snappyWriter{
		out:    out,
		block:  make([]byte, 0, snappyBlockBytes),
		packed: make([]byte, snappy.MaxEncodedLen(snappyBlockBytes)),
	}
}

func (w *snappyWriter) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		k := min(len(p), snappyBlockBytes-len(w.block))
		w.block = append(w.block, p[:k]...)
		p = p[k:]
		if len(w.block) == snappyBlockBytes {
			if err := w.flush(); err != nil {
				return n - len(p), err
			}
		}
	}
	return n, nil
}

// Close writes the rest of the data. It does not close the underlying writer.
func (w *snappyWriter) Close() error { return w.flush() }

func (w *snappyWriter) flush() error {
	if !w.begun {
		w.begun = true
		if _, err := io.WriteString(w.out, snappyMagic); err != nil {
			return err
		}
	}
	if len(w.block) == 0 {
		return nil
	}
	packed := snappy.Encode(w.packed, w.block)
	w.block = w.block[:0]
	var length [4]byte
	binary.BigEndian.PutUint32(length[:], uint32(len(packed)))
	if _, err := w.out.Write(length[:]); err != nil {
		return err
	}
	_, err := w.out.Write(packed)
	return err
}

// errSnappy reports a stream that snappy-java would not write.
var errSnappy = errors.New("bad snappy stream")

// snappyReader reads snappy-java's framing.
type snappyReader struct {
	in    *window
	block []byte
	rest  []byte // of block, not returned yet
}

// newSnappyReader checks the magic.
func newSnappyReader(in io.Reader) (*snappyReader, error) {
	r := &snappyReader{in: newWindow(in)}
	b, err := r.in.fill(len(snappyMagic))
	if err != nil {
		return nil, fmt.Errorf("%w: no header: %w", errSnappy, err)
	}
	if string(b[:len(snappyMagic)]) != snappyMagic {
		return nil, fmt.Errorf("%w: wrong magic or version", errSnappy)
	}
	r.in.discard(len(snappyMagic))
	return r, nil
}

func (r *snappyReader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		if err := r.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// next decodes a chunk; io.EOF if the stream ends before it.
func (r *snappyReader) next() error {
	b, err := r.in.fill(4)
	if len(b) == 0 && err == io.EOF {
		return io.EOF
	}
	if err != nil {
		return fmt.Errorf("%w: cut in a chunk's length: %w", errSnappy, err)
	}
	n := binary.BigEndian.Uint32(b)
	if n > snappyMaxBytes {
		return fmt.Errorf("%w: chunk of %d bytes", errSnappy, n)
	}
	r.in.discard(4)
	b, err = r.in.fill(int(n))
	if err != nil {
		return fmt.Errorf("%w: cut in a chunk: %w", errSnappy, err)
	}
	size, err := snappy.DecodedLen(b[:n])
	// A block expands at most about 21 times; a header that claims more is refused
	// early.
	if err != nil || size > snappyMaxBytes || size > 64*int(n) {
		return fmt.Errorf("%w: impossible length of a block", errSnappy)
	}
	r.block, err = snappy.Decode(r.block[:cap(r.block)], b[:n])
	if err != nil {
		return fmt.Errorf("%w: %w", errSnappy, err)
	}
	r.in.discard(int(n))
	r.rest = r.block
	return nil
}
