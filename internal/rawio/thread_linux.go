//go:build linux && (amd64 || arm64) && !race

package rawio

import (
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// Thread is a thread of the operating system that writes and syncs files, and does
// nothing else. It holds no processor (P) of Go, so a disk that stalls delays neither a
// garbage collection nor another goroutine. A goroutine in the runtime's poller reports
// that a call has ended, as it would report that a socket can be read.
//
// One goroutine at a time may use it: it calls Begin, then Await until that returns
// done.
type Thread struct {
	posted   atomic.Uint32 // counts the calls of Begin; the thread sleeps on it
	finished atomic.Uint32 // number of the last completed call; Await sleeps on it
	awaited  atomic.Bool   // Await sleeps, or is about to

	// The call: written before posted is raised, read after.
	data, note       unsafe.Pointer // data nil stops the thread
	fd, size, off    uintptr
	noteFD, noteSize uintptr

	// The result: written before finished is raised, read after.
	errno syscall.Errno

	event   *os.File // an eventfd, in the runtime's poller
	eventFD uintptr
	one     uint64 // what is written to it

	ended chan struct{}
}

// Start starts the thread. done is called on a goroutine of its own when a call has
// ended and Await does not sleep: Await may then return done. It may be called once too
// often. Start returns nil if the system has no descriptor left.
func Start(done func()) *Thread {
	fd, _, errno := syscall.RawSyscall(syscall.SYS_EVENTFD2, 0, syscall.O_CLOEXEC|syscall.O_NONBLOCK, 0)
	if errno != 0 {
		return nil
	}
	t := &Thread{event: os.NewFile(fd, "eventfd"), eventFD: fd, one: 1, ended: make(chan struct{})}
	conn, err := t.event.SyscallConn()
	if err != nil {
		t.event.Close() // nothing was written
		return nil
	}
	go t.run()
	go t.report(conn, done)
	return t
}

// report calls done after each call that ends while Await does not sleep, until the
// thread is stopped. It never reads the descriptor: each write to it is an event for the
// poller.
func (t *Thread) report(conn syscall.RawConn, done func()) {
	seen := uint32(0)
	ended := func(uintptr) bool {
		before := seen
		seen = t.finished.Load()
		return seen != before
	}
	for conn.Read(ended) == nil {
		done()
	}
}

// Begin makes the thread write p to a file at off, sync that, and then write note,
// which may be nil, at the start of another file, without syncing it. The caller must
// not change either slice until Await has returned done.
func (t *Thread) Begin(fd uintptr, p []byte, off int64, noteFD uintptr, note []byte) {
	t.fd, t.data, t.size, t.off = fd, unsafe.Pointer(unsafe.SliceData(p)), uintptr(len(p)), uintptr(off)
	t.noteFD, t.note, t.noteSize = noteFD, unsafe.Pointer(unsafe.SliceData(note)), uintptr(len(note))
	t.posted.Add(1)
	futexWake(&t.posted)
}

// Await reports whether the call of Begin has ended, and its error, a syscall.Errno. If
// wait is true it waits for that, without the processor (P). After an error, nothing is
// known about what was written.
func (t *Thread) Await(wait bool) (done bool, err error) {
	seq := t.posted.Load()
	if wait {
		t.awaited.Store(true)
		for t.finished.Load() != seq {
			t.block(seq - 1)
		}
		t.awaited.Store(false)
	}
	return t.finished.Load() == seq, t.result(seq)
}

// block waits until finished is no longer seq. It hands the processor (P) over at once: in
// an ordinary system call the runtime's monitor would take it, and would poll every 20 µs.
//
//go:nosplit
//go:norace
func (t *Thread) block(seq uint32) {
	entersyscallblock()
	futexWait(&t.finished, seq)
	exitsyscall()
}

// result returns the error of a call that is finished.
func (t *Thread) result(seq uint32) error {
	if t.finished.Load() != seq || t.errno == 0 {
		return nil
	}
	return t.errno
}

// Stop stops the thread, which done may do. REQUIRES: no call of Begin is in progress.
func (t *Thread) Stop() {
	t.data = nil
	t.posted.Add(1)
	futexWake(&t.posted)
	<-t.ended       // the thread uses the descriptor no more
	t.event.Close() // nothing was written
}

// run is the thread's main function. From entersyscallblock to exitsyscall the runtime
// treats it as a goroutine in a blocking system call: it has no processor (P), and must
// not grow its stack, allocate, or take a lock.
func (t *Thread) run() {
	runtime.LockOSThread()
	t.loop()
	close(t.ended)
}

//go:nosplit
//go:norace
func (t *Thread) loop() {
	entersyscallblock()
	for seq := uint32(0); ; {
		for t.posted.Load() == seq {
			futexWait(&t.posted, seq)
		}
		seq++
		if t.data == nil {
			break
		}
		t.work()
		t.finished.Store(seq)
		if t.awaited.Load() {
			futexWake(&t.finished)
		} else {
			syscall.RawSyscall(syscall.SYS_WRITE, t.eventFD, uintptr(unsafe.Pointer(&t.one)), unsafe.Sizeof(t.one))
		}
	}
	exitsyscall()
}

// work does a call.
//
//go:nosplit
//go:norace
func (t *Thread) work() {
	if t.errno = write(t.fd, t.data, t.size, t.off); t.errno != 0 {
		return
	}
	for {
		if _, _, t.errno = syscall.RawSyscall(syscall.SYS_FDATASYNC, t.fd, 0, 0); t.errno != syscall.EINTR {
			break
		}
	}
	if t.errno == 0 && t.noteSize > 0 {
		t.errno = write(t.noteFD, t.note, t.noteSize, 0)
	}
}

// write writes all of p.
//
//go:nosplit
//go:norace
func write(fd uintptr, p unsafe.Pointer, size, off uintptr) syscall.Errno {
	for done := uintptr(0); done < size; {
		n, _, errno := syscall.RawSyscall6(syscall.SYS_PWRITE64, fd, uintptr(p)+done, size-done, off+done, 0, 0)
		switch {
		case errno == syscall.EINTR:
			n = 0
		case errno != 0:
			return errno
		case n == 0:
			return syscall.EIO
		}
		done += n
	}
	return 0
}

const (
	futexWaitPrivate = 0 | 128 // FUTEX_WAIT | FUTEX_PRIVATE_FLAG
	futexWakePrivate = 1 | 128 // FUTEX_WAKE | FUTEX_PRIVATE_FLAG
)

//go:nosplit
//go:norace
func futexWait(addr *atomic.Uint32, value uint32) {
	syscall.RawSyscall6(syscall.SYS_FUTEX, uintptr(unsafe.Pointer(addr)), futexWaitPrivate, uintptr(value), 0, 0, 0)
}

//go:nosplit
//go:norace
func futexWake(addr *atomic.Uint32) {
	syscall.RawSyscall6(syscall.SYS_FUTEX, uintptr(unsafe.Pointer(addr)), futexWakePrivate, 1, 0, 0, 0)
}

//go:linkname entersyscallblock runtime.entersyscallblock
func entersyscallblock()

//go:linkname exitsyscall runtime.exitsyscall
func exitsyscall()
