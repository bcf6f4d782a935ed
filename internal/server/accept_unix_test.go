//go:build unix

package server

import (
	"net"
	"syscall"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/config"
)

// The system keeps little output of a client that does not read it: what it keeps for a
// thousand such clients together must leave memory for the others. It sends no keep-alive probes
// unless clientTcpKeepAlive is set.
func TestOptionsOfAConnection(t *testing.T) {
	for _, keepAlive := range []bool{false, true} {
		s := newTestServer(t, func(c *config.Config) { c.Client.TCPKeepAlive = keepAlive })
		l, err := Listen(t.Context(), "127.0.0.1:0")
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
		option := func(name int) (value int) {
			if failed := raw.Control(func(fd uintptr) { value, err = syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, name) }); failed != nil || err != nil {
				t.Fatal(failed, err)
			}
			return value
		}
		if size := option(syscall.SO_SNDBUF); size == 0 || size > 2*kernelOutBytes { // Linux doubles what it is told
			t.Errorf("the system keeps up to %d bytes; want %d", size, kernelOutBytes)
		}
		if got := option(syscall.SO_KEEPALIVE) != 0; got != keepAlive {
			t.Errorf("clientTcpKeepAlive=%v: keep-alive probes are %v", keepAlive, got)
		}
	}
}
