package pinfold

import "github.com/pinfold-zk/pinfold/internal/node"

// Memory tunes the Go runtime of the process for its servers, as `pinfold server`
// does for its one: the garbage collector runs whenever 48 MiB of garbage have
// gathered, however large the data is, and unused memory is given back to the
// system while the process is idle. It concerns the whole process: a program with
// other work than its servers is better off without it.
//
// A program needs one Memory for all its servers. A nil Memory does nothing.
type Memory struct{ m *node.Memory }

// TuneMemory begins to tune the process, until Close. It does nothing where the
// environment sets the collector's goal, by GOGC or GOMEMLIMIT.
func TuneMemory() *Memory { return &Memory{node.TuneMemory()} }

// Close ends the tuning, and gives the collector the goal that it had before.
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
