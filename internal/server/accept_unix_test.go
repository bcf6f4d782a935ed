//go:build unix

package server

import (
	"net"
	"syscall"
	"testing"
)

// The system keeps little output of a client that does not read it: what it keeps for a
// thousand such clients together must leave memory for the others.
func TestKernelBufferOfAConnection(t *testing.T) {
	s := newTestServer(t, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dial(t, l.Addr().String())
	nc, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := nc.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	s.accept(nc, nil)
	size := 0
	if err := raw.Control(func(fd uintptr) { size, err = syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_SNDBUF) }); err != nil {
		t.Fatal(err)
	}
	if err != nil || size == 0 || size > 2*kernelOutBytes { // Linux doubles what it is told
		t.Errorf("the system keeps up to %d bytes, %v; want %d", size, err, kernelOutBytes)
	}
}
