package transport

import (
	"net"
	"syscall"
	"testing"
)

// unsentLimit returns what limitUnsent has set, in milliseconds.
func unsentLimit(t *testing.T, nc net.Conn) (ms int, ok bool) {
	t.Helper()
	raw, err := nc.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var inner error
	if err := raw.Control(func(fd uintptr) {
		ms, inner = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout)
	}); err != nil || inner != nil {
		t.Fatal(err, inner)
	}
	return ms, true
}
