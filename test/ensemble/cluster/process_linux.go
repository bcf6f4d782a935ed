package cluster

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// dieWithUs has the system kill a member when the test program ends, however it
// ends.
func dieWithUs() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// untilStopped waits until every thread of a child that was sent SIGSTOP has stopped: kill(2) returns before, and on a
// busy machine the child can read and write for milliseconds afterwards. It leaves the child's state for others that
// wait for it. It fails if the child ends, or if a thread does not stop in time since it waits for a disk.
func untilStopped(pid int) error {
	ctx, cancel := context.WithTimeout(context.Background(), endPatience)
	defer cancel()
	return poll(ctx, func() error {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, pid, &info, unix.WSTOPPED|unix.WNOHANG|unix.WNOWAIT, nil)
		switch {
		case err != nil && !errors.Is(err, unix.EINTR):
			return stop{fmt.Errorf("cluster: wait until process %d has stopped: %w", pid, err)}
		case info.Signo != int32(unix.SIGCHLD):
			return fmt.Errorf("cluster: process %d has not stopped after SIGSTOP", pid)
		}
		return nil
	})
}
