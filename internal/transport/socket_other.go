//go:build !linux

package transport

import (
	"net"
	"time"
)

// limitUnsent does nothing on this system: TCP's own limit applies.
func limitUnsent(net.Conn, time.Duration) {}
