package vfs

import (
	"io/fs"
	"syscall"
	"unsafe"
)

// AlignedBytes returns zeroed memory for direct I/O: n bytes rounded up to a multiple
// of DirectBytes, at an address that is a multiple of it, without further capacity.
//
// It is never inlined, so that the memory is on the heap: a stack may move.
//
//go:noinline
func AlignedBytes(n int) []byte {
	n = int(alignUp(int64(n)))
	b := make([]byte, n+DirectBytes-1)
	skip := int(-address(b) & (DirectBytes - 1))
	return b[skip : skip+n : skip+n]
}

func alignUp(n int64) int64 { return (n + DirectBytes - 1) &^ (DirectBytes - 1) }

// address returns the address of b. The garbage collector does not move memory that
// AlignedBytes has allocated.
func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// checkAligned returns the error of direct I/O of p at off if any of it is not aligned.
func checkAligned(op, name string, p []byte, off int64) error {
	if off%DirectBytes != 0 || len(p)%DirectBytes != 0 || len(p) > 0 && address(p)%DirectBytes != 0 {
		return &fs.PathError{Op: op, Path: name, Err: syscall.EINVAL}
	}
	return nil
}
