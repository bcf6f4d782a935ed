package node

import (
	"maps"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"sync"
	"time"
)

// garbageBytes is how much garbage may gather before it is collected, however
// small or large the live heap is. Go's own rule, as much garbage as there is live
// data, collects too often with little data, and doubles the memory with much. The
// tree holds no pointers, so that a collection is cheap however large the tree is.
const garbageBytes = 48 << 20

// leastGCPercent keeps the collector from running all the time where most of
// the heap is something else than the tree.
const leastGCPercent = 10

// Memory tunes the memory of the process for the nodes that it runs: it sets the
// garbage collector's goal after each collection, and gives memory back to the
// system while the process is idle. Both are settings of the whole process, so
// that a program has one Memory, or none if it has other work than its nodes. A
// nil Memory does nothing. Its methods may be called from any goroutine.
type Memory struct {
	mu      sync.Mutex
	closed  bool
	before  int // the collector's goal in percent, which Close restores
	percent int // the goal that was set last
	live    []metrics.Sample
	next    int
	spare   map[int]func() // ReleaseSpare of the replicas that run

	idle    trimmer
	use     []metrics.Sample
	trimmed *time.Timer
}

// TuneMemory begins to tune the memory of the process, until Close. It returns nil
// where the operator has set the collector's goal, by GOGC or GOMEMLIMIT.
func TuneMemory() *Memory {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return nil
	}
	m := &Memory{
		spare: map[int]func(){},
		live:  []metrics.Sample{{Name: "/gc/heap/live:bytes"}},
		use:   heapSamples(),
	}
	m.before = m.adjust()
	m.arm()
	m.mu.Lock() // the timer may fire before it is in its field
	m.trimmed = time.AfterFunc(trimEvery, m.trim)
	m.mu.Unlock()
	return m
}

// Close ends the tuning, and gives the collector the goal that it had.
func (m *Memory) Close() {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return
	}
	m.closed = true
	m.trimmed.Stop()
	debug.SetGCPercent(m.before)
}

// join has release called before memory is given back, until leave is called.
// release lets go of what a replica keeps for its next load.
func (m *Memory) join(release func()) (leave func()) {
	if m == nil {
		return func() {}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	id := m.next
	m.next++
	m.spare[id] = release
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.spare, id)
	}
}

// gcMark is an object that dies in the next collection; its finalizer tells of it.
type gcMark struct{ _ [16]byte }

// arm has the goal adjusted after the next collection, and after each that follows.
func (m *Memory) arm() {
	runtime.SetFinalizer(new(gcMark), func(*gcMark) {
		m.mu.Lock()
		defer m.mu.Unlock()
		if !m.closed {
			m.adjust()
			m.arm()
		}
	})
}

// adjust sets the collector's goal to what is live now, and returns the goal
// before if it has changed it.
func (m *Memory) adjust() (before int) {
	metrics.Read(m.live)
	percent := goal(m.live[0].Value.Uint64())
	if diff := percent - m.percent; diff > m.percent/8 || -diff > m.percent/8 {
		m.percent = percent
		return debug.SetGCPercent(percent)
	}
	return m.percent
}

// goal is the collector's goal, in percent of the live bytes.
func goal(live uint64) int {
	return max(int(garbageBytes*100/max(live, 1<<20)), leastGCPercent)
}

// trim gives memory back if it is time, and looks again trimEvery later.
func (m *Memory) trim() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return
	}
	if m.idle.due(readHeap(m.use)) {
		for _, id := range slices.Sorted(maps.Keys(m.spare)) {
			m.spare[id]()
		}
		debug.FreeOSMemory()
	}
	m.trimmed.Reset(trimEvery)
}
