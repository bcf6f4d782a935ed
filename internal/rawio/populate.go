package rawio

import (
	"sync/atomic"
	"syscall"
	"unsafe"
)

// populatePiece is how many bytes get their pages by one system call, which the scheduler cannot interrupt: half a millisecond
// where a page takes 7 µs.
const populatePiece = 256 << 10

// Populate has the system give the pages of b now, which is new memory that will be used soon, and accesses each. Without this the first
// access to a page takes longer, twice as long where the tables of a virtual machine are shadowed, and it may be under a lock. The
// content does not change. Nothing else may use b meanwhile.
func Populate(b []byte) {
	page := uintptr(syscall.Getpagesize())
	first, size := unsafe.Pointer(unsafe.SliceData(b)), uintptr(len(b))
	start := -uintptr(first) & (page - 1) // the part of a page in front is mostly in use
	for from := start; from < size && populate(unsafe.Add(first, from), min(size-from, populatePiece)); from += populatePiece {
	}
	for from := start; from+4 <= size; from += page { // the first access takes long also if the page is there
		atomic.OrUint32((*uint32)(unsafe.Add(first, from)), 0)
	}
}

// Populated is Uncleared for a buffer that is filled soon: the system gives its pages now. Small memory mostly has them.
func Populated(n int) []byte {
	b := Uncleared(n)
	if n >= populatePiece/4 {
		Populate(b[:n])
	}
	return b
}
