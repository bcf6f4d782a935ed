package keeper

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/dchest/siphash"
	"github.com/klauspost/compress/zstd"
)

// maxBytes is the longest string, value or log entry that is read; Keeper reads none that is longer.
const maxBytes = 1 << 28

// maxWindow bounds the memory of the decompression. Keeper writes windows of 2 MiB.
const maxWindow = 32 << 20

// Checksum is the hash of Keeper's records and digests: SipHash-2-4 with a key of zeros.
func Checksum(b []byte) uint64 { return siphash.Hash(0, 0, b) }

// A reader reads the integers and strings of Keeper's files: little-endian, the length of a string as a varint. Its
// error sticks, and everything read after it is zero. An end within a value is io.ErrUnexpectedEOF.
type reader struct {
	in    *bufio.Reader
	bytes int64 // read so far, after decompression
	err   error
	fixed [8]byte
}

// open opens a file of Keeper's.
func open(dir fs.FS, name string, compressed bool) (*reader, func() error, error) {
	f, err := dir.Open(name)
	if err != nil {
		return nil, nil, err
	}
	if !compressed {
		return &reader{in: bufio.NewReaderSize(f, 1<<16)}, f.Close, nil
	}
	z, err := decompress(f)
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return &reader{in: bufio.NewReaderSize(z, 1<<16)}, func() error { z.Close(); return f.Close() }, nil
}

func decompress(r io.Reader) (*zstd.Decoder, error) {
	return zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderLowmem(true))
}

// ended reports whether nothing is left.
func (r *reader) ended() bool {
	if r.err != nil {
		return false
	}
	_, err := r.in.Peek(1)
	if err != nil && err != io.EOF {
		r.fail(err)
	}
	return err == io.EOF
}

// fail keeps the first error.
func (r *reader) fail(err error) {
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if r.err == nil {
		r.err = err
	}
}

func (r *reader) integer(n int) uint64 {
	b := r.fixed[:]
	clear(b)
	if r.err == nil {
		if _, err := io.ReadFull(r.in, b[:n]); err != nil {
			r.fail(err)
			return 0
		}
		r.bytes += int64(n)
	}
	return binary.LittleEndian.Uint64(b)
}

func (r *reader) u8() uint8   { return uint8(r.integer(1)) }
func (r *reader) u64() uint64 { return r.integer(8) }
func (r *reader) i32() int32  { return int32(r.integer(4)) }
func (r *reader) i64() int64  { return int64(r.integer(8)) }

// buffer reads n bytes. Its memory grows with what is there, not with what n says.
func (r *reader) buffer(n uint64) []byte {
	if n > maxBytes {
		r.fail(fmt.Errorf("a length of %d bytes", n))
	}
	if r.err != nil || n == 0 {
		return nil
	}
	r.bytes += int64(n)
	if n < 1<<16 {
		b := make([]byte, n)
		_, err := io.ReadFull(r.in, b)
		r.fail(err)
		return b
	}
	var b bytes.Buffer
	_, err := io.CopyN(&b, r.in, int64(n))
	r.fail(err)
	return b.Bytes()
}

// varBytes reads a length as a varint, and as many bytes.
func (r *reader) varBytes() []byte {
	if r.err != nil {
		return nil
	}
	n, err := binary.ReadUvarint(r.in)
	if err != nil {
		r.fail(err)
		return nil
	}
	return r.buffer(n)
}

func (r *reader) text() string { return string(r.varBytes()) }
