//go:build unix

package cli

import (
	"os/exec"
	"syscall"
)

// ownGroup makes the command, and all that it starts, a group of processes.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// askToEnd and killCommand signal the command, or its whole group. That it has
// ended already is no error.
func askToEnd(cmd *exec.Cmd, group bool) { signalCommand(cmd, group, syscall.SIGTERM) }

func killCommand(cmd *exec.Cmd, group bool) { signalCommand(cmd, group, syscall.SIGKILL) }

func signalCommand(cmd *exec.Cmd, group bool, signal syscall.Signal) {
	pid := cmd.Process.Pid
	if group {
		pid = -pid
	}
	_ = syscall.Kill(pid, signal) // it may have ended
}

// endedBy is the number of the signal that ended the command.
func endedBy(exit *exec.ExitError) int {
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return int(status.Signal())
	}
	return 0
}
