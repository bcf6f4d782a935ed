//go:build unix

package rawio

import "syscall"

// Peek returns the first bytes of the input of a socket, and leaves them there.
// REQUIRES: fd is non-blocking.
func Peek(fd uintptr, p []byte) (int, error) {
	n, _, err := syscall.Recvfrom(int(fd), p, syscall.MSG_PEEK)
	return n, err
}
