//go:build !(linux && (amd64 || arm64) && !race && go1.26 && !go1.27)

package rawio

import "net"

// Poll is the entry of a descriptor in the runtime's poller. It is not known here.
type Poll uintptr

// PollOf returns 0.
func PollOf(net.Conn) Poll { return 0 }

// Await must not be called.
func (Poll) Await() (readable bool) { panic("rawio: an entry of the poller that is not known") }
