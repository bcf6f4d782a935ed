package client

import (
	"encoding/binary"
	"fmt"
	"io"
)

// frameReader reads frames, several at a time, into one buffer that grows with
// what comes, not with what is announced.
type frameReader struct {
	conn  io.Reader
	limit int
	buf   []byte
	r, w  int  // buf[r:w] has been read and not been returned
	full  bool // the last read has filled buf: there may be more
	cut   int  // the length of the frame returned last, if that was its beginning only; or 0
	skip  int  // bytes of that frame that have not been passed over
}

const (
	firstBuffer = 4 << 10
	usualBuffer = 128 << 10
)

// cutFrame is how much is returned of a frame beyond the limit: the header of a
// reply, so that it is known whose it is.
const cutFrame = 16

func (f *frameReader) init(conn io.Reader, limit int) {
	f.conn, f.limit, f.buf = conn, limit, make([]byte, firstBuffer)
}

// pass passes over what has come of a frame that was cut.
func (f *frameReader) pass() {
	n := min(f.skip, f.w-f.r)
	f.r += n
	f.skip -= n
}

// announced is the length of the frame at the front, and how much of it next will
// return; ok is false while less than a length has come.
func (f *frameReader) announced() (n, most int, ok bool) {
	if f.pass(); f.skip > 0 || f.w-f.r < 4 {
		return 0, 0, false
	}
	n = int(int32(binary.BigEndian.Uint32(f.buf[f.r:])))
	if most = n; n > f.limit {
		most = min(n, cutFrame)
	}
	return n, most, true
}

// buffered reports whether next returns without reading.
func (f *frameReader) buffered() bool {
	n, most, ok := f.announced()
	return ok && (n < 0 || f.w-f.r-4 >= most)
}

// next returns the body of the next frame, which is valid until the call after. Of
// one beyond the limit it returns cutFrame bytes and sets cut; the rest is passed
// over as it comes, and takes no memory.
func (f *frameReader) next() ([]byte, error) {
	for {
		n, most, ok := f.announced()
		if n < 0 {
			return nil, fmt.Errorf("a frame of %d bytes", n)
		}
		if ok && f.w-f.r-4 >= most {
			b := f.buf[f.r+4 : f.r+4+most : f.r+4+most]
			f.r += 4 + most
			if f.cut, f.skip = 0, n-most; f.skip > 0 {
				f.cut = n
			}
			return b, nil
		}
		if err := f.fill(4 + most); err != nil {
			return nil, err
		}
	}
}

// fill reads once. want is the length of the frame that is being read. The buffer
// doubles when that frame has filled it, and up to usualBuffer when a read has.
func (f *frameReader) fill(want int) error {
	begun, size := f.buf[f.r:f.w], len(f.buf)
	switch {
	case len(begun) == size, f.full && size < usualBuffer:
		size *= 2
	case len(begun) == 0 && size > usualBuffer && want <= usualBuffer:
		size = usualBuffer
	}
	if size != len(f.buf) {
		f.buf = make([]byte, size)
	}
	f.r, f.w = 0, copy(f.buf, begun)
	n, err := f.conn.Read(f.buf[f.w:])
	f.w += n
	f.full = f.w == len(f.buf)
	if n > 0 {
		return nil
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	if err == io.EOF && f.w > f.r {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// shrink gives back the memory of answers, if none has begun to come.
func (f *frameReader) shrink() {
	if f.r == f.w && len(f.buf) > firstBuffer {
		f.buf, f.r, f.w = make([]byte, firstBuffer), 0, 0
	}
}
