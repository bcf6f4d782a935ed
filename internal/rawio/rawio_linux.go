//go:build linux && (amd64 || arm64)

package rawio

import (
	"syscall"
	"unsafe"
)

// Read is syscall.Read. The error number is 0 if there was no error. REQUIRES: fd is non-blocking.
func Read(fd uintptr, p []byte) (n int, errno syscall.Errno) {
	return result(syscall.RawSyscall(syscall.SYS_READ, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p))))
}

// Write is syscall.Write. The error number is 0 if there was no error. REQUIRES: fd is non-blocking.
func Write(fd uintptr, p []byte) (n int, errno syscall.Errno) {
	return result(syscall.RawSyscall(syscall.SYS_WRITE, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p))))
}

func result(n, _ uintptr, errno syscall.Errno) (int, syscall.Errno) {
	if errno != 0 {
		return 0, errno
	}
	return int(n), 0
}
