package storage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"

	"github.com/pinfold-zk/pinfold/internal/vfs"
)

// SnapshotReader reads the stream of a snapshot, which begins after the file header.
// One goroutine owns it.
//
// The caller decodes in place: Fill returns the buffered bytes, Discard consumes them.
// A decoder of small records decodes as many complete records as Buffered holds,
// discards them, and calls Fill for one byte more than is left over.
//
//	b := r.Buffered()
//	for {
//		n := decode(b)              // bytes of complete records
//		r.Discard(n)
//		b, err = r.Fill(len(b)-n+1) // io.EOF: no more, b is the rest
//	}
//
// The bytes are not checked before CheckSeal has returned nil: a flipped bit may be
// among them, and the caller has to check lengths.
type SnapshotReader struct {
	name   string   // with directory
	file   vfs.File // nil: a stream
	size   int64    // of the file
	chunks *chunks
	buf    []byte
	r, w   int    // buf[r:w] is read and not consumed
	off    int64  // of buf[r] in the stream
	sum    uint32 // Adler-32 of the stream up to buf[w]
	err    error  // no data follows buf[w]: io.EOF, or the error of the source
}

// openSnapshot opens a snapshot and checks its magic number, its header and, if it is
// not compressed, its end; nothing else can be checked without reading all of it. A
// file that fails is an *Error of ErrCorrupt.
func openSnapshot(fsys vfs.FS, dir string, s Snapshot) (*SnapshotReader, error) {
	r := &SnapshotReader{name: path.Join(dir, s.Name)}
	f, err := fsys.Open(r.name)
	if err != nil {
		return nil, fmt.Errorf("storage: open snapshot: %w", err)
	}
	r.file = f
	if err := r.open(s.Compression); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return r, nil
}

func (r *SnapshotReader) open(c Compression) error {
	size, err := r.file.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = r.file.Seek(0, io.SeekStart)
	}
	if err != nil {
		return fmt.Errorf("storage: open snapshot %s: %w", r.name, err)
	}
	r.size = size
	if size < 10 {
		return r.corrupt(0, fmt.Sprintf("a snapshot cannot have %d bytes", size))
	}
	var src io.Reader = r.file
	switch c {
	case Plain:
		end := make([]byte, len(sealEnd))
		if _, err := r.file.ReadAt(end, size-int64(len(end))); err != nil && err != io.EOF {
			return fmt.Errorf("storage: read snapshot %s: %w", r.name, err)
		}
		if string(end) != sealEnd {
			return r.corrupt(size-int64(len(end)), "it does not end with a seal")
		}
	case Gzip:
		src, err = gzip.NewReader(r.file)
	case Snappy:
		src, err = newSnappyReader(r.file)
	}
	if err != nil {
		return r.readError(0, err)
	}
	r.chunks = newChunks(src, size)
	return r.header()
}

// header consumes the header of the stream.
func (r *SnapshotReader) header() error {
	b, err := r.Fill(headerBytes)
	if err == io.EOF {
		return r.corrupt(0, "the snapshot ends within its header")
	}
	if err != nil {
		return err
	}
	if want := appendFileHeader(nil, snapshotMagic, -1)[:8]; string(b[:8]) != string(want) {
		return r.corrupt(0, "this is not the header of a snapshot of version 2")
	}
	r.Discard(headerBytes)
	return nil
}

// ReadAhead starts a goroutine that reads, decompresses and sums up the rest of the
// stream, until Close. The caller calls it once.
func (r *SnapshotReader) ReadAhead() {
	if r.err == nil {
		r.chunks.ahead()
	}
}

// Fill returns the buffered bytes, at least n of them, valid until the next call. If
// the stream ends before, it returns the rest and io.EOF. Other errors come from the
// file system, or are an *Error of ErrCorrupt for a compressed file. It allocates no
// more than a few times what it has read.
func (r *SnapshotReader) Fill(n int) ([]byte, error) {
	for r.w-r.r < n {
		switch {
		case r.err == io.EOF:
			return r.Buffered(), io.EOF
		case r.err != nil:
			return r.Buffered(), r.readError(r.off+int64(r.w-r.r), r.err)
		}
		r.more()
	}
	return r.Buffered(), nil
}

// more appends the next chunk to the buffered bytes. If the room in front of the chunk
// suffices, it copies the buffered bytes there, and the chunk's buffer becomes the
// buffer. It suffices unless a record is large.
func (r *SnapshotReader) more() {
	c, room := r.chunks.next(), r.chunks.room
	left, piece := r.Buffered(), c.buf[room:room+c.n]
	r.sum, r.err = c.sum, c.err
	if len(left) <= room {
		r.r, r.w = room-len(left), room+c.n
		copy(c.buf[r.r:], left)
		r.chunks.recycle(r.buf)
		r.buf = c.buf
		return
	}
	if len(r.buf)-r.w < len(piece) {
		grown := make([]byte, 2*(len(left)+len(piece)))
		copy(grown, left)
		r.chunks.recycle(r.buf)
		r.buf, r.r, r.w = grown, 0, len(left)
	}
	r.w += copy(r.buf[r.w:], piece)
	r.chunks.recycle(c.buf)
}

// Buffered returns the bytes that are available without reading, valid until the next
// Fill.
func (r *SnapshotReader) Buffered() []byte { return r.buf[r.r:r.w] }

// Discard consumes n of the buffered bytes.
func (r *SnapshotReader) Discard(n int) {
	r.r += n
	r.off += int64(n)
}

// Offset returns how many bytes of the stream are consumed, the file header included.
func (r *SnapshotReader) Offset() int64 { return r.off }

// SizeBytes returns the length of the file on the disk (compressed, if it is
// compressed).
func (r *SnapshotReader) SizeBytes() int64 { return r.size }

// CheckSeal consumes a seal and compares its checksum with that of all bytes consumed
// before it. It returns io.EOF if the stream ends here: the optional part that would
// end with the seal is absent. It returns an *Error of ErrCorrupt if the seal is wrong.
func (r *SnapshotReader) CheckSeal() error {
	offset := r.off
	b, err := r.Fill(sealBytes)
	if err == io.EOF && len(b) > 0 {
		return r.corrupt(offset, "the snapshot ends within a seal")
	}
	if err != nil {
		return err
	}
	sum := cutAdler(r.sum, b)
	if got := binary.BigEndian.Uint64(b); got != uint64(sum) {
		return r.corrupt(offset, fmt.Sprintf("the checksum is %#x, should be %#x", sum, got))
	}
	if string(b[8:sealBytes]) != sealEnd {
		return r.corrupt(offset+8, "a seal does not end with \"/\"")
	}
	r.Discard(sealBytes)
	return nil
}

// CheckEnd returns nil if the stream ends here and is complete; for a gzip file this
// includes its checksum. More data is an *Error of ErrCorrupt.
func (r *SnapshotReader) CheckEnd() error {
	b, err := r.Fill(1)
	if err == io.EOF {
		return nil
	}
	if err != nil {
		return err
	}
	return r.corrupt(r.off, fmt.Sprintf("%d bytes or more follow the end", len(b)))
}

// CheckSums reads the rest of the stream, and compares the checksum at its end, which is that of all bytes before. It
// does not look at the records.
func (r *SnapshotReader) CheckSums() error {
	for {
		b, err := r.Fill(sealBytes + 1)
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		r.Discard(len(b) - sealBytes)
	}
	if err := r.CheckSeal(); err != nil {
		if err == io.EOF {
			err = r.Corrupt("the snapshot has no checksum")
		}
		return err
	}
	return r.CheckEnd()
}

// Corrupt returns the error for a record at the current offset that the caller cannot
// decode.
func (r *SnapshotReader) Corrupt(reason string) error { return r.corrupt(r.off, reason) }

func (r *SnapshotReader) corrupt(offset int64, reason string) error {
	return &Error{r.name, offset, reason, ErrCorrupt}
}

// readError distinguishes errors of a decompressor from errors of the disk.
func (r *SnapshotReader) readError(offset int64, err error) error {
	if _, ok := errors.AsType[flate.CorruptInputError](err); ok {
		return r.corrupt(offset, err.Error())
	}
	for _, e := range []error{io.EOF, io.ErrUnexpectedEOF, errSnappy, gzip.ErrChecksum, gzip.ErrHeader} {
		if errors.Is(err, e) {
			return r.corrupt(offset, err.Error())
		}
	}
	return fmt.Errorf("storage: read snapshot %s: %w", r.name, err)
}

// Close releases the file; a stream is its owner's to close.
func (r *SnapshotReader) Close() error {
	r.chunks.stopAhead()
	if r.file == nil {
		return nil
	}
	return r.file.Close()
}
