package rawio

import (
	"syscall"
	"unsafe"
)

// populate has the system give the pages from p on, at the beginning of one, that have so many bytes. Linux can do it since
// 5.14.
func populate(p unsafe.Pointer, bytes uintptr) bool {
	const populateWrite = 23 // MADV_POPULATE_WRITE
	_, _, err := syscall.RawSyscall(syscall.SYS_MADVISE, uintptr(p), bytes, populateWrite)
	return err == 0
}
