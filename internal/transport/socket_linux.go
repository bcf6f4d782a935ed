package transport

import (
	"net"
	"syscall"
	"time"
)

// tcpUserTimeout is TCP_USER_TIMEOUT, which package syscall does not have.
const tcpUserTimeout = 0x12

// limitUnsent ends a connection whose peer has not acknowledged sent bytes for this
// long. Without it TCP retries, with pauses of up to two minutes, so that a vote may
// still not arrive long after the network works again.
func limitUnsent(nc net.Conn, d time.Duration) {
	if secure, ok := nc.(secureConn); ok {
		nc = secure.NetConn()
	}
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return // closed
	}
	_ = raw.Control(func(fd uintptr) {
		// A system without this option keeps TCP's own limit.
		_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(d.Milliseconds()))
	})
}
