//go:build linux && (amd64 || arm64) && !race && go1.26 && !go1.27

package rawio

import (
	"net"
	"reflect"
	"unsafe"
)

// Poll is the entry of a descriptor in the runtime's poller. 0: it is not known.
type Poll uintptr

// PollOf returns the entry of a TCP connection, 0 if nc is none. It is valid until nc is closed.
func PollOf(nc net.Conn) Poll {
	c, ok := nc.(*net.TCPConn)
	if !ok || !layoutKnown {
		return 0
	}
	fd := *(*unsafe.Pointer)(unsafe.Pointer(c)) // its first field, see layoutKnown
	if fd == nil {
		return 0
	}
	return *(*Poll)(unsafe.Add(fd, pollOffset))
}

// Await waits until the poller reports that the descriptor is readable, or has reported it since the last wait on this entry
// ended. To wait by RawConn.Read instead forgets what was reported before, so it has to read first. False means that there is
// a deadline, an error or an end, which RawConn.Read returns.
//
// REQUIRES: the connection cannot be closed completely meanwhile, as within RawConn.Control; no other goroutine waits to read.
func (p Poll) Await() (readable bool) { return pollWait(p, 'r') == 0 }

// pollOffset is where the net package's descriptor of a connection has its entry in the poller.
var pollOffset, layoutKnown = findPoll()

// findPoll looks for the fields net.TCPConn.conn.fd, of the type *netFD, and netFD.pfd.pd.runtimeCtx.
func findPoll() (offset uintptr, known bool) {
	conn := reflect.TypeFor[net.TCPConn]()
	ptr, ok := conn.FieldByName("fd")
	if !ok || ptr.Type.Kind() != reflect.Pointer || len(ptr.Index) != 2 || conn.Field(0).Offset+ptr.Offset != 0 || ptr.Index[0] != 0 {
		return 0, false
	}
	in := ptr.Type.Elem()
	for _, name := range []string{"pfd", "pd", "runtimeCtx"} {
		if in.Kind() != reflect.Struct {
			return 0, false
		}
		f, ok := in.FieldByName(name)
		if !ok || len(f.Index) != 1 {
			return 0, false
		}
		offset += f.Offset
		in = f.Type
	}
	return offset, in.Kind() == reflect.Uintptr
}

// pollWait returns 0 if the descriptor is ready for the mode, 'r' or 'w'.
//
//go:linkname pollWait internal/poll.runtime_pollWait
func pollWait(p Poll, mode int) int
