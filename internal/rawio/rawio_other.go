//go:build unix && !(linux && (amd64 || arm64))

package rawio

import "syscall"

// Read is syscall.Read. The error number is 0 if there was no error. REQUIRES: fd is non-blocking.
func Read(fd uintptr, p []byte) (n int, errno syscall.Errno) { return result(syscall.Read(int(fd), p)) }

// Write is syscall.Write. The error number is 0 if there was no error. REQUIRES: fd is non-blocking.
func Write(fd uintptr, p []byte) (n int, errno syscall.Errno) {
	return result(syscall.Write(int(fd), p))
}

func result(n int, err error) (int, syscall.Errno) {
	errno, _ := err.(syscall.Errno) // package syscall returns no other errors from these
	return max(n, 0), errno
}
