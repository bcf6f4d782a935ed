//go:build !linux

package bench

import (
	"errors"
	"fmt"
	"net"
	"time"
)

// errPlatform says why there is no load here: the loops are built on epoll, and
// what a server costs is read from the kernel.
var errPlatform = fmt.Errorf("bench: the load generator runs on Linux only: %w", errors.ErrUnsupported)

type poller struct{}

func newPoller() (*poller, error)                     { return nil, errPlatform }
func (*poller) close()                                {}
func (*poller) add(int, int32) error                  { return errPlatform }
func (*poller) want(int, int32, bool) error           { return errPlatform }
func (*poller) wait(time.Duration) (int, error)       { return 0, errPlatform }
func (*poller) ready(int) (index int32, in, out bool) { return 0, false, false }
func readSocket(int, []byte) (int, bool, error)       { return 0, false, errPlatform }
func writeSocket(int, []byte) (int, error)            { return 0, errPlatform }
func closeSocket(int)                                 {}
func takeSocket(*net.TCPConn) (int, error)            { return -1, errPlatform }
func processCPU(int) (time.Duration, error)           { return 0, errPlatform }
func ownCPU() time.Duration                           { return 0 }
func allowFiles(n int) int                            { return n }
