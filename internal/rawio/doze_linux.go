package rawio

import (
	"syscall"
	"time"
	"unsafe"
)

// Doze sleeps for d, or less if a signal comes, and keeps its processor (P) of Go. A garbage
// collection, which waits for all processors, sends such a signal.
//
// The runtime's monitor falls asleep when all processors are idle. The next system call that
// may block wakes it, and it then polls every 20 µs for a while: a server with one request at a
// time pays that for each write to its disk, and it is a quarter of the server's processor time.
// While a goroutine dozes, one processor is not idle, and the monitor polls every 10 ms at most.
func Doze(d time.Duration) {
	ts := syscall.NsecToTimespec(int64(d))
	// An error is EINTR: a signal came.
	syscall.RawSyscall(syscall.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&ts)), 0, 0)
}
