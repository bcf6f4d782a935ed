//go:build !linux

package transport

import (
	"net"
	"testing"
)

// unsentLimit has nothing to look at here.
func unsentLimit(*testing.T, net.Conn) (ms int, ok bool) { return 0, false }
