//go:build linux && (amd64 || arm64)

package rawio

import (
	"syscall"
	"unsafe"
)

// Read is syscall.Read. REQUIRES: fd is non-blocking.
func Read(fd uintptr, p []byte) (int, error) {
	return result(syscall.RawSyscall(syscall.SYS_READ, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p))))
}

// Write is syscall.Write. REQUIRES: fd is non-blocking.
func Write(fd uintptr, p []byte) (int, error) {
	return result(syscall.RawSyscall(syscall.SYS_WRITE, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p))))
}

func result(n, _ uintptr, errno syscall.Errno) (int, error) {
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
