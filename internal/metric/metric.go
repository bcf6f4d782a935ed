// Package metric counts what a server does, and has the registry of these metrics.
//
// A component holds its counters, gauges, summaries and histograms by value and updates
// them itself: a few atomic operations, without an allocation or a lock. The server's
// registry knows the name, type, unit, owner and help text of each metric
// (catalogue.go), and where its owner keeps the value (Registry.Bind). Renderers, such
// as the four-letter word mntr, take a Snapshot and print it.
//
// Many goroutines may update and read values at the same time. A reader that runs
// during an update may see a part of it, for example the new count of a summary with
// the old sum. The zero value of each type is empty.
package metric

import "sync/atomic"

// A Counter counts events. It only grows, until it is reset.
type Counter struct{ v atomic.Int64 }

// Add counts n events and returns the new count.
func (c *Counter) Add(n int64) int64 { return c.v.Add(n) }

// Load returns the count.
func (c *Counter) Load() int64 { return c.v.Load() }

// A Gauge is a number that rises and falls.
type Gauge struct{ v atomic.Int64 }

// Store sets the number.
func (g *Gauge) Store(n int64) { g.v.Store(n) }

// Load returns the number.
func (g *Gauge) Load() int64 { return g.v.Load() }

// minMax keeps the smallest and the largest of some numbers that are not negative.
type minMax struct {
	min atomic.Int64 // plus one; 0: there is no number
	max atomic.Int64
}

// add includes numbers, of which lo is the smallest and hi the largest. It costs
// two loads if neither changes the result.
func (m *minMax) add(lo, hi int64) {
	for old := m.min.Load(); old == 0 || lo+1 < old; old = m.min.Load() {
		if m.min.CompareAndSwap(old, lo+1) {
			break
		}
	}
	for old := m.max.Load(); hi > old; old = m.max.Load() {
		if m.max.CompareAndSwap(old, hi) {
			break
		}
	}
}

// get returns both, 0 if there is no number.
func (m *minMax) get() (lo, hi int64) { return max(m.min.Load()-1, 0), m.max.Load() }

func (m *minMax) reset() {
	m.min.Store(0)
	m.max.Store(0)
}

// Sizes keeps the last, the smallest and the largest of some sizes in bytes.
type Sizes struct {
	last atomic.Int64 // plus one; 0: there is no size
	all  minMax
}

// Add includes a size.
func (s *Sizes) Add(bytes int64) { s.Merge(bytes, bytes, bytes) }

// Merge includes sizes of which the last, the smallest and the largest are given.
func (s *Sizes) Merge(last, lo, hi int64) {
	s.last.Store(last + 1)
	s.all.add(lo, hi)
}

// Get returns the last, the smallest and the largest size, -1 for all three if there
// is none, as Apache ZooKeeper shows them.
func (s *Sizes) Get() (last, lo, hi int64) {
	if last = s.last.Load() - 1; last < 0 {
		return -1, -1, -1
	}
	lo, hi = s.all.get()
	return last, lo, hi
}

// Reset removes all sizes.
func (s *Sizes) Reset() {
	s.last.Store(0)
	s.all.reset()
}
