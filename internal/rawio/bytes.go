package rawio

import (
	"strings"
	"unsafe"
)

// Uncleared returns a slice of length 0 and a capacity of at least n, whose memory is
// not set to zero: the bytes after the length hold whatever was there before. It is for
// large buffers that are filled before they are read, where make would spend more time on
// zeros than the program on the content. The caller must neither read nor send a byte that
// it has not written.
func Uncleared(n int) []byte {
	var b strings.Builder // the only part of the standard library that allocates so
	b.Grow(n)
	return unsafe.Slice(unsafe.StringData(b.String()), b.Cap())[:0]
}
