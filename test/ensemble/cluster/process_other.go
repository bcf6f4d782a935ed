//go:build !linux

package cluster

import "syscall"

// dieWithUs has no counterpart here: a test program that is killed leaves its
// members behind.
func dieWithUs() *syscall.SysProcAttr { return nil }

// untilStopped has no counterpart here: a process may run on for some time after SIGSTOP.
func untilStopped(int) error { return nil }
