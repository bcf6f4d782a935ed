package pinfold

import "github.com/pinfold-zk/pinfold/internal/node"

// Memory tunes the Go runtime of the process for its servers, as `pinfold server` does:
// the garbage collector runs whenever 48 MiB of garbage have gathered, however large
// the data is, and unused memory is returned to the system while the process is idle.
// This affects the complete process: do not use it in a program whose main work is not
// its servers.
//
// A program needs one Memory for all its servers. A nil Memory does nothing.
type Memory struct{ m *node.Memory }

// TuneMemory starts to tune the process, until Close. It does nothing if the
// environment sets the collector's goal, by GOGC or GOMEMLIMIT.
func TuneMemory() *Memory { return &Memory{node.TuneMemory()} }

// Close stops the tuning, and restores the collector's previous goal.
func (m *Memory) Close() {
	if m != nil {
		m.m.Close()
	}
}

func (m *Memory) tuner() *node.Memory {
	if m == nil {
		return nil
	}
	return m.m
}
