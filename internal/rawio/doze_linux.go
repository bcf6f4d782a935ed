package rawio

import (
	"syscall"
	"time"
	"unsafe"
)

// maxDoze is the longest sleep of Doze. The runtime's monitor looks every 10 ms, and sends a signal to a goroutine that has
// not yielded since it looked last; when that goroutine yields then, the runtime wakes another thread.
const maxDoze = 9500 * time.Microsecond

// Doze sleeps for d or maxDoze, or less if a signal comes, and keeps its processor (P) of Go meanwhile; a garbage
// collection, which waits for all processors, sends such a signal. Then it yields.
//
// The runtime's monitor falls asleep when all processors are idle. The next system call that
// may block wakes it, and it then polls every 20 µs for a while: a server with one request at a
// time pays that for each write to its disk, and it is a quarter of the server's processor time.
// While a goroutine dozes, one processor is not idle, and the monitor polls every 10 ms at most.
func Doze(d time.Duration) {
	ts := syscall.NsecToTimespec(int64(min(d, maxDoze)))
	// An error is EINTR: a signal came.
	syscall.RawSyscall(syscall.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&ts)), 0, 0)
	goyield()
}

// goyield is runtime.Gosched, but wakes no other thread. The Go project keeps it reachable for programs that need it.
//
//go:linkname goyield runtime.goyield
func goyield()
