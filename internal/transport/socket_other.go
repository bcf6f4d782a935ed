//go:build !linux

package transport

import (
	"net"
	"time"
)

// limitUnsent does nothing here: TCP's own patience counts.
func limitUnsent(net.Conn, time.Duration) {}
