package cluster

import "syscall"

// dieWithUs has the system kill a member when the test program ends, however it
// ends.
func dieWithUs() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
