package transport

import (
	"net"
	"syscall"
	"time"
)

// tcpUserTimeout is TCP_USER_TIMEOUT, which package syscall does not have.
const tcpUserTimeout = 0x12

// limitUnsent ends a connection whose peer has not acknowledged what it was sent
// for so long. Without it TCP goes on, with pauses of up to two minutes, and a
// vote is still under way when the network has long been whole again.
func limitUnsent(nc net.Conn, d time.Duration) {
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return // closed
	}
	_ = raw.Control(func(fd uintptr) {
		// A system without it keeps TCP's own patience.
		_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(d.Milliseconds()))
	})
}
