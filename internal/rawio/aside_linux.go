//go:build linux && (amd64 || arm64) && !race

package rawio

import (
	"encoding/binary"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

// CommitAside is Commit, made by a thread of the system that the process keeps for it. The calling goroutine waits in the
// runtime's poller, as for a socket: it holds no processor (P), and it does not wake the runtime's monitor, as the first
// system call does of which the scheduler is told (Doze). That costs two wake-ups of threads more, and is right for a write
// after a pause, if no goroutine dozes. While another goroutine is in CommitAside, or if descriptors are used up, it is Commit.
func CommitAside(fd uintptr, p []byte, off int64) error {
	if !aside.TryLock() {
		return Commit(fd, p, off, false)
	}
	defer aside.Unlock()
	if aside.done == nil && aside.start() != nil {
		return Commit(fd, p, off, false)
	}
	return aside.commit(fd, p, off)
}

// aside is the thread of CommitAside. It is started once and does not end.
var aside thread

// thread is a thread of the system that writes to files. To the runtime it is a goroutine that never leaves a system call,
// so it has no processor. The lock is held during a write.
type thread struct {
	sync.Mutex
	order
	begin int             // an eventfd: the thread waits for it
	done  syscall.RawConn // an eventfd: the thread has written
	count [8]byte         // read from done
	read  syscall.Errno   // of that read
}

// order is a write, and what the thread needs for it. It is the caller's, except between a write to begin and a report of done.
type order struct {
	fd, size, off uintptr
	data          unsafe.Pointer
	errno         syscall.Errno
	waits, tells  uintptr // begin and done
	counter       [8]byte // read from begin, and written to done
}

// start starts the thread. An error is that of the system, for instance EMFILE.
func (t *thread) start() error {
	begin, _, errno := syscall.Syscall(syscall.SYS_EVENTFD2, 0, syscall.O_CLOEXEC, 0)
	if errno != 0 {
		return errno
	}
	done, _, errno := syscall.Syscall(syscall.SYS_EVENTFD2, 0, syscall.O_CLOEXEC|syscall.O_NONBLOCK, 0)
	if errno != 0 {
		syscall.Close(int(begin))
		return errno
	}
	f := os.NewFile(done, "eventfd") // the poller looks at it, as it does not block
	raw, err := f.SyscallConn()
	if err == nil {
		err = f.SetReadDeadline(time.Time{}) // an error if the poller has not taken it
	}
	if err != nil {
		syscall.Close(int(begin))
		f.Close()
		return err
	}
	t.begin, t.done, t.waits, t.tells = int(begin), raw, begin, done
	go t.order.serve()
	return nil
}

// one is what is added to an eventfd.
var one = binary.NativeEndian.AppendUint64(nil, 1)

// commit has the thread write. REQUIRES: the lock, and that the thread has started.
func (t *thread) commit(fd uintptr, p []byte, off int64) error {
	t.fd, t.data, t.size, t.off = fd, unsafe.Pointer(unsafe.SliceData(p)), uintptr(len(p)), uintptr(off)
	if _, errno := Write(uintptr(t.begin), one); errno != 0 {
		return errno
	}
	err := t.done.Read(func(fd uintptr) bool {
		_, t.read = Read(fd, t.count[:])
		return t.read != syscall.EAGAIN
	})
	if err == nil && t.read != 0 {
		err = t.read
	}
	if err != nil {
		panic("rawio: the thread that writes cannot be waited for: " + err.Error()) // it may still write p
	}
	runtime.KeepAlive(p)
	t.data = nil
	if t.errno != 0 {
		return t.errno
	}
	return nil
}

// serve is the thread. It must not grow the stack, allocate, or take a lock.
//
//go:nosplit
//go:norace
func (o *order) serve() {
	entersyscallblock()
	for {
		_, _, errno := syscall.RawSyscall(syscall.SYS_READ, o.waits, uintptr(unsafe.Pointer(&o.counter)), uintptr(len(o.counter)))
		if errno == syscall.EINTR {
			continue
		}
		if errno != 0 {
			break
		}
		o.errno = commit(o.fd, o.data, o.size, o.off)
		syscall.RawSyscall(syscall.SYS_WRITE, o.tells, uintptr(unsafe.Pointer(&o.counter)), uintptr(len(o.counter)))
	}
	exitsyscall()
	panic("rawio: the thread that writes cannot wait for its next write")
}
