//go:build linux && (amd64 || arm64) && !race

package rawio

import (
	"syscall"
	"unsafe"
)

// Commit writes all of p to a file at off, and syncs the file (fdatasync). The runtime knows
// that the goroutine is in a system call, so a disk that stalls delays neither a garbage
// collection nor another goroutine. If small is true the goroutine keeps its processor (P)
// until the runtime's monitor takes it, which is right for what takes less than a
// millisecond; otherwise it hands the processor over at once. The error is that of the system
// call; nothing is known then about what was written. The caller holds p meanwhile, in memory of the heap.
//
//go:nosplit
//go:norace
func Commit(fd uintptr, p []byte, off int64, small bool) error {
	data, size := unsafe.Pointer(unsafe.SliceData(p)), uintptr(len(p))
	if small {
		entersyscall()
	} else {
		entersyscallblock()
	}
	errno := commit(fd, data, size, uintptr(off))
	exitsyscall()
	if errno != 0 {
		return errno
	}
	return nil
}

// commit is Commit between entersyscall and exitsyscall: it must not grow the stack, allocate,
// or take a lock.
//
//go:nosplit
//go:norace
func commit(fd uintptr, p unsafe.Pointer, size, off uintptr) syscall.Errno {
	for done := uintptr(0); done < size; {
		n, _, errno := syscall.RawSyscall6(syscall.SYS_PWRITE64, fd, uintptr(p)+done, size-done, off+done, 0, 0)
		switch {
		case errno == syscall.EINTR:
			n = 0
		case errno != 0:
			return errno
		case n == 0:
			return syscall.EIO
		}
		done += n
	}
	for {
		_, _, errno := syscall.RawSyscall(syscall.SYS_FDATASYNC, fd, 0, 0)
		if errno != syscall.EINTR {
			return errno
		}
	}
}

// The Go project keeps these reachable for programs that need them.

//go:linkname entersyscall runtime.entersyscall
func entersyscall()

//go:linkname entersyscallblock runtime.entersyscallblock
func entersyscallblock()

//go:linkname exitsyscall runtime.exitsyscall
func exitsyscall()
