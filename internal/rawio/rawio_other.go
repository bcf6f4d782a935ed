//go:build unix && !(linux && (amd64 || arm64))

package rawio

import "syscall"

// Read is syscall.Read. REQUIRES: fd does not block.
func Read(fd uintptr, p []byte) (int, error) { return syscall.Read(int(fd), p) }

// Write is syscall.Write. REQUIRES: fd does not block.
func Write(fd uintptr, p []byte) (int, error) { return syscall.Write(int(fd), p) }
