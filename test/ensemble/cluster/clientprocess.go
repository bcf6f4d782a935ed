package cluster

import (
	"os/exec"
	"syscall"
)

// A ClientProcess is a program that uses an ensemble. It is killed with the test
// program.
type ClientProcess struct{ p *process }

// StartClient starts a program with its output in the file out.
func StartClient(cmd *exec.Cmd, out string) (*ClientProcess, error) {
	p, err := run(cmd, out)
	if err != nil {
		return nil, err
	}
	return &ClientProcess{p}, nil
}

// Pause stops the program with SIGSTOP: when Pause returns, it reads nothing any more, and keeps its connections.
func (c *ClientProcess) Pause() error { return c.p.pause() }

// Kill ends the program with SIGKILL, if it runs, and waits for its end.
func (c *ClientProcess) Kill() { _ = c.p.end(syscall.SIGKILL) }
