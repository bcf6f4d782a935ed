//go:build unix && !(linux && (amd64 || arm64))

package rawio

import "syscall"

// Read is syscall.Read. REQUIRES: fd is non-blocking.
func Read(fd uintptr, p []byte) (int, error) { return syscall.Read(int(fd), p) }

// Write is syscall.Write. REQUIRES: fd is non-blocking.
func Write(fd uintptr, p []byte) (int, error) { return syscall.Write(int(fd), p) }
