package rawio

import (
	"syscall"
	"unsafe"
)

// Populate has the system give the pages of b now, all at once: at the first access to each page that takes longer, twice as
// long where the tables of a virtual machine are shadowed. The content does not change. A system that cannot do it, as
// Linux before 5.14, does nothing.
func Populate(b []byte) {
	const populateWrite = 23 // MADV_POPULATE_WRITE
	page := uintptr(syscall.Getpagesize())
	begin, end := uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b))
	end += begin
	if begin = (begin + page - 1) &^ (page - 1); begin < end {
		_, _, _ = syscall.RawSyscall(syscall.SYS_MADVISE, begin, end-begin, populateWrite)
	}
}
