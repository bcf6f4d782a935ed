package main

import (
	"os"
	"strconv"
	"syscall"
)

// background is the nice value of a command that works beside a server: with both processors busy, the server has ten times
// its share.
const background = 10

// yieldToServers lowers the priority of this process, if it has a higher one than background. Linux has priorities of threads; new
// ones have that of the thread that starts them.
func yieldToServers() {
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return // the command is only less considerate
	}
	for _, t := range tasks {
		id, err := strconv.Atoi(t.Name())
		if err != nil {
			continue
		}
		// The system call returns 20 less the nice value.
		if p, err := syscall.Getpriority(syscall.PRIO_PROCESS, id); err == nil && p > 20-background {
			_ = syscall.Setpriority(syscall.PRIO_PROCESS, id, background) // likewise
		}
	}
}
