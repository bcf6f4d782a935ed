package bench

import (
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"
	"unsafe"

	"github.com/pinfold-zk/pinfold/internal/rawio"
)

// A poller tells which sockets are ready (epoll, level-triggered).
type poller struct {
	fd     int
	events [256]syscall.EpollEvent
}

func newPoller() (*poller, error) {
	fd, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("bench: epoll_create: %w", err)
	}
	return &poller{fd: fd}, nil
}

func (p *poller) close() { syscall.Close(p.fd) }

// add watches a socket for input; ready reports it as index.
func (p *poller) add(fd int, index int32) error {
	return p.control(syscall.EPOLL_CTL_ADD, fd, index, syscall.EPOLLIN)
}

// want switches between input alone and input or room for output.
func (p *poller) want(fd int, index int32, output bool) error {
	events := uint32(syscall.EPOLLIN)
	if output {
		events |= syscall.EPOLLOUT
	}
	return p.control(syscall.EPOLL_CTL_MOD, fd, index, events)
}

func (p *poller) control(op, fd int, index int32, events uint32) error {
	ev := syscall.EpollEvent{Events: events, Fd: index}
	if err := syscall.EpollCtl(p.fd, op, fd, &ev); err != nil {
		return fmt.Errorf("bench: epoll_ctl: %w", err)
	}
	return nil
}

// wait returns how many sockets are ready; none when timeout has passed. The
// timeout has the resolution of the kernel's timers, tens of microseconds.
func (p *poller) wait(timeout time.Duration) (int, error) {
	millis := int(timeout / time.Millisecond)
	if timeout%time.Millisecond != 0 {
		// epoll_wait counts milliseconds; the epoll descriptor is itself one
		// that ppoll can wait for, and ppoll counts nanoseconds.
		if err := p.sleep(timeout); err != nil {
			return 0, err
		}
		millis = 0
	}
	n, err := syscall.EpollWait(p.fd, p.events[:], millis)
	if errors.Is(err, syscall.EINTR) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("bench: epoll_wait: %w", err)
	}
	return n, nil
}

func (p *poller) sleep(timeout time.Duration) error {
	const pollIn = 1
	fd := struct {
		fd              int32
		events, revents int16
	}{fd: int32(p.fd), events: pollIn}
	ts := syscall.NsecToTimespec(int64(timeout))
	_, _, errno := syscall.Syscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&fd)), 1,
		uintptr(unsafe.Pointer(&ts)), 0, 0, 0)
	if errno != 0 && errno != syscall.EINTR {
		return fmt.Errorf("bench: ppoll: %w", errno)
	}
	return nil
}

// ready returns the i-th socket that the last wait found ready.
func (p *poller) ready(i int) (index int32, input, output bool) {
	ev := &p.events[i]
	return ev.Fd, ev.Events&^syscall.EPOLLOUT != 0, ev.Events&syscall.EPOLLOUT != 0
}

// readSocket reads what is there. again means that nothing is; n is 0 without
// error at the end of the stream.
func readSocket(fd int, b []byte) (n int, again bool, err error) {
	n, errno := rawio.Read(uintptr(fd), b)
	switch errno {
	case 0:
		return n, false, nil
	case syscall.EAGAIN, syscall.EINTR:
		return 0, true, nil
	}
	return 0, false, errno
}

// writeSocket writes as much as the socket takes without waiting.
func writeSocket(fd int, b []byte) (int, error) {
	n, errno := rawio.Write(uintptr(fd), b)
	switch errno {
	case 0, syscall.EAGAIN, syscall.EINTR:
		return n, nil
	}
	return 0, errno
}

func closeSocket(fd int) { syscall.Close(fd) }

// takeSocket takes the non-blocking socket out of c, which is closed: the
// runtime's own poller must not be woken for it as well.
func takeSocket(c *net.TCPConn) (int, error) {
	defer c.Close()
	raw, err := c.SyscallConn()
	if err != nil {
		return -1, fmt.Errorf("bench: socket: %w", err)
	}
	fd := -1
	var dupErr error
	if err := raw.Control(func(f uintptr) { fd, dupErr = syscall.Dup(int(f)) }); err != nil {
		return -1, fmt.Errorf("bench: socket: %w", err)
	}
	if dupErr != nil {
		return -1, fmt.Errorf("bench: dup: %w", dupErr)
	}
	syscall.CloseOnExec(fd)
	return fd, nil
}

// processCPU returns the processor time that a process has used, with the threads that have ended. It reads the scheduler's
// clock of the process (clock_getcpuclockid(3)), which counts nanoseconds: a tick of /proc/PID/stat, 10 ms, is as much as a
// server uses in a second if it has little to do.
func processCPU(pid int) (time.Duration, error) {
	const ofProcess = 2 // CPUCLOCK_SCHED of a thread group, in the lowest three bits
	var ts syscall.Timespec
	clock := ^pid<<3 | ofProcess
	if _, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, uintptr(clock), uintptr(unsafe.Pointer(&ts)), 0); errno != 0 {
		return 0, fmt.Errorf("clock_gettime: %w", errno)
	}
	return time.Duration(ts.Nano()), nil
}

// ownCPU returns the processor time that this process has used.
func ownCPU() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// allowFiles has this process, and those that it starts from now on, open as many
// files at once as n, or as many as are allowed if that is less. It returns how many.
func allowFiles(n int) int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return n // what is opened too much will tell
	}
	want := uint64(n)
	if limit.Cur >= want {
		return n
	}
	// Only a privileged process can raise the hard limit.
	err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: want, Max: max(limit.Max, want)})
	if err == nil {
		return n
	}
	if syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: limit.Max, Max: limit.Max}) != nil {
		return int(limit.Cur)
	}
	return int(limit.Max)
}
