//go:build linux && (amd64 || arm64) && !race

package rawio

import (
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// Thread is a thread of the system that writes and syncs files, and does nothing
// else. It holds no processor of Go, so a disk that stalls stalls neither a garbage
// collection nor another goroutine; and to wait for it wakes nothing in the runtime
// while the disk is quick.
//
// One goroutine at a time may use it: Begin, then Await until that says done.
type Thread struct {
	posted   atomic.Uint32 // counts the calls of Begin; the thread sleeps on it
	finished atomic.Uint32 // the call that was finished last; Await sleeps on it

	// The call: written before posted, read after it.
	data, note       unsafe.Pointer // data nil ends the thread
	fd, size, off    uintptr
	noteFD, noteSize uintptr

	// The result: written before finished, read after it.
	errno syscall.Errno

	ended chan struct{}
}

// Quick is how long Await waits if it is bounded: longer than a healthy disk takes.
const Quick = 2 * time.Millisecond

// Start starts the thread.
func Start() *Thread {
	t := &Thread{ended: make(chan struct{})}
	go t.run()
	return t
}

// Begin has the thread write p to a file at off, make it durable, and then write note,
// which may be nil, at the start of another file, without syncing that. Neither slice
// may change until Await has said that it is done.
func (t *Thread) Begin(fd uintptr, p []byte, off int64, noteFD uintptr, note []byte) {
	t.fd, t.data, t.size, t.off = fd, unsafe.Pointer(unsafe.SliceData(p)), uintptr(len(p)), uintptr(off)
	t.noteFD, t.note, t.noteSize = noteFD, unsafe.Pointer(unsafe.SliceData(note)), uintptr(len(note))
	t.posted.Add(1)
	futexWake(&t.posted)
}

// Await waits for what Begin began and returns its error, a syscall.Errno; nothing is
// known then of what was written. If bounded it waits for Quick at most, with a
// processor of Go in hand, and may report that it is not done: Await is to be called
// again.
func (t *Thread) Await(bounded bool) (done bool, err error) {
	seq := t.posted.Load()
	timeout := syscall.NsecToTimespec(int64(Quick))
	for t.finished.Load() != seq {
		if bounded {
			if futexWait(&t.finished, seq-1, &timeout) == syscall.ETIMEDOUT {
				return t.finished.Load() == seq, t.result(seq)
			}
			continue
		}
		// It may last, so the scheduler is told.
		syscall.Syscall6(syscall.SYS_FUTEX, uintptr(unsafe.Pointer(&t.finished)), futexWaitPrivate, uintptr(seq-1), 0, 0, 0)
	}
	return true, t.result(seq)
}

// result is the error of a call, if that is finished.
func (t *Thread) result(seq uint32) error {
	if t.finished.Load() != seq || t.errno == 0 {
		return nil
	}
	return t.errno
}

// Stop ends the thread. REQUIRES: nothing that Begin began is under way.
func (t *Thread) Stop() {
	t.data = nil
	t.posted.Add(1)
	futexWake(&t.posted)
	<-t.ended
}

// run is the thread. From entersyscallblock to exitsyscall it is, to the runtime, a
// goroutine in a system call that blocks: it has no processor, and must neither grow
// its stack nor allocate nor take a lock.
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
			futexWait(&t.posted, seq, nil)
		}
		seq++
		if t.data == nil {
			break
		}
		t.work()
		t.finished.Store(seq)
		futexWake(&t.finished)
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
func futexWait(addr *atomic.Uint32, value uint32, timeout *syscall.Timespec) syscall.Errno {
	_, _, errno := syscall.RawSyscall6(syscall.SYS_FUTEX, uintptr(unsafe.Pointer(addr)), futexWaitPrivate, uintptr(value), uintptr(unsafe.Pointer(timeout)), 0, 0)
	return errno
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
