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

// garbageBytes is how much garbage may gather before a collection, whatever the size of
// the live heap. Go's default allows as much garbage as live data: with little data it
// collects too often, and with much data it doubles the memory. The tree holds no
// pointers, so a collection is cheap however large the tree is.
const garbageBytes = 48 << 20

// spareBytes is how much memory the process may keep beyond its live heap and what is no
// heap, in addition to an eighth of the live heap: garbage, and memory that became free and
// was not returned to the system yet. While it would keep more, Go returns free memory
// before it takes more from the system. Below leastLimit bytes in all there is no limit.
const (
	spareBytes = 96 << 20
	leastLimit = 256 << 20
)

// leastGCPercent prevents the collector from running all the time if most of the heap
// is not the tree.
const leastGCPercent = 10

// Memory tunes the memory of the process for the nodes that it runs: it sets the goal
// of the garbage collector and the limit of memory after each collection, and returns memory
// to the system while the process is idle. Both affect the complete process, so a program has one
// Memory; or none, if its nodes are not its main work. A nil Memory does nothing. Any
// goroutine may call its methods.
type Memory struct {
	mu      sync.Mutex
	closed  bool
	before  int   // the collector's goal in percent, which Close restores
	limited int64 // the limit of memory, which Close restores
	percent int   // the goal that was set last, in percent
	limit   int64 // the limit that was set last
	live    []metrics.Sample
	next    int
	spare   map[int]func() // ReleaseSpare of the running replicas

	idle    trimmer
	use     []metrics.Sample
	trimmed *time.Timer
}

// TuneMemory starts to tune the memory of the process, until Close. It returns nil if
// the operator has set the collector's goal by GOGC or GOMEMLIMIT.
func TuneMemory() *Memory {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return nil
	}
	m := &Memory{
		spare: map[int]func(){},
		live:  limitSamples(),
		use:   heapSamples(),
	}
	m.limited = debug.SetMemoryLimit(-1)
	m.before = m.adjust()
	m.arm()
	m.mu.Lock() // the timer may fire before it is stored in its field
	m.trimmed = time.AfterFunc(trimEvery, m.trim)
	m.mu.Unlock()
	return m
}

// Close stops the tuning, and restores the collector's previous goal.
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
	debug.SetMemoryLimit(m.limited)
}

// join registers a replica: until leave is called, release is called before memory is
// returned to the system. release frees the buffers that the replica keeps for its next
// load.
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

// gcMark is an object that becomes garbage in the next collection; its finalizer
// reports that.
type gcMark struct{ _ [16]byte }

// arm adjusts the goal after the next collection, and after each following one.
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

// adjust sets the collector's goal and the limit of memory according to the live heap and
// what is no heap. If it has changed the goal, it returns the previous one.
func (m *Memory) adjust() (before int) {
	live, other := readLive(m.live)
	if limit := limit(live, other); limit-m.limit > m.limit/32 || m.limit-limit > m.limit/32 {
		m.limit = limit
		debug.SetMemoryLimit(limit)
	}
	percent := goal(live)
	if diff := percent - m.percent; diff > m.percent/8 || -diff > m.percent/8 {
		m.percent = percent
		return debug.SetGCPercent(percent)
	}
	return m.percent
}

// limitSamples are the metrics of the runtime that readLive reads.
func limitSamples() []metrics.Sample {
	return []metrics.Sample{
		{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"},
		{Name: "/memory/classes/heap/free:bytes"}, {Name: "/memory/classes/heap/released:bytes"},
	}
}

// readLive returns the bytes of the live heap, and those that the runtime's limit counts
// and no collection frees: above all the goroutines' stacks, of which each connection has
// one.
func readLive(samples []metrics.Sample) (live, other uint64) {
	metrics.Read(samples)
	other = samples[1].Value.Uint64()
	for _, s := range samples[2:] {
		other -= min(other, s.Value.Uint64())
	}
	return samples[0].Value.Uint64(), other
}

// limit returns the limit of memory for so many live bytes, and other ones. Were it less
// than what cannot be freed, the collector would run all the time.
func limit(live, other uint64) int64 {
	return max(int64(live+live/8+other)+spareBytes, leastLimit)
}

// goal returns the collector's goal, in percent of the live bytes.
func goal(live uint64) int {
	return max(int(garbageBytes*100/max(live, 1<<20)), leastGCPercent)
}

// trim returns memory to the system if that is due, and runs again later. The pages of the program's file go with it, and
// whenever the process has become quiet: the start uses many, and so does each load.
func (m *Memory) trim() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return
	}
	due, again := m.idle.due(readHeap(m.use))
	if due {
		for _, id := range slices.Sorted(maps.Keys(m.spare)) {
			m.spare[id]()
		}
		debug.FreeOSMemory()
	}
	if due || m.idle.becameQuiet() {
		forgetProgram()
	}
	m.trimmed.Reset(again)
}
