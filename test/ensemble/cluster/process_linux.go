package cluster

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// dieWithUs has the system kill a member when the test program ends, however it
// ends.
func dieWithUs() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// untilStopped waits until every thread of a child that was sent SIGSTOP has stopped: kill(2) returns before, and on a
// busy machine the child can read and write for milliseconds afterwards. It leaves the child's state for others that
// wait for it. It fails if the child ends, or if a thread does not stop in time since it waits for a disk.
func untilStopped(pid int) error {
	for end := time.Now().Add(stopPatience); ; time.Sleep(time.Millisecond) {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, pid, &info, unix.WSTOPPED|unix.WNOHANG|unix.WNOWAIT, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return fmt.Errorf("cluster: wait until process %d has stopped: %w", pid, err)
		case info.Signo == int32(unix.SIGCHLD):
			return nil
		case time.Now().After(end):
			return fmt.Errorf("cluster: process %d has not stopped within %v of SIGSTOP", pid, stopPatience)
		}
	}
}

// stopPatience is how long a process may take to stop.
const stopPatience = 20 * time.Second
