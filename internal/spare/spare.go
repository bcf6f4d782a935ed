// Package spare keeps large buffers for reuse.
//
// A sync.Pool is emptied by the garbage collector, and large buffers make collections
// frequent. New memory is dear: the system clears it and maps it page by page at the first access, which
// takes up to 18 µs a page where the tables of a virtual machine are shadowed.
package spare

import (
	"slices"
	"sync"
)

// Least is the size from which buffers are kept, in bytes. Smaller ones are cheap, or have a pool of one size.
const Least = 96 << 10

// Buffers keeps buffers of Least bytes and more, up to Most bytes in all. What was put first is dropped
// first when there are more. Its zero value keeps nothing. Any goroutine may call its methods at any time.
type Buffers struct {
	Most int // does not change after the first use

	mu    sync.Mutex
	free  [][]byte // in the order in which they were put
	bytes int
}

// Get returns an empty buffer with room for n bytes, or nil. It is the smallest that is kept and has this room, and
// not twice as much: a large one is not held for little. What lies in it is of whatever it was used for before.
func (b *Buffers) Get(n int) []byte {
	if n < Least/2 {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	best := -1
	for i, buf := range b.free {
		if c := cap(buf); c >= n && c <= 2*n && (best < 0 || c < cap(b.free[best])) {
			best = i
		}
	}
	if best < 0 {
		return nil
	}
	buf := b.free[best]
	b.remove(best, best+1)
	return buf
}

// Put keeps buf if it has the size. The caller, and whatever it was given to, must not use it any more.
func (b *Buffers) Put(buf []byte) {
	if cap(buf) < Least || cap(buf) > b.Most {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	drop, bytes := 0, b.bytes+cap(buf)
	for ; bytes > b.Most; drop++ {
		bytes -= cap(b.free[drop])
	}
	b.remove(0, drop)
	b.free = append(b.free, buf[:0])
	b.bytes += cap(buf)
}

// remove removes the buffers from place i up to place j. REQUIRES: b.mu.
func (b *Buffers) remove(i, j int) {
	for _, buf := range b.free[i:j] {
		b.bytes -= cap(buf)
	}
	b.free = slices.Delete(b.free, i, j)
}

// Release drops all buffers.
func (b *Buffers) Release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free, b.bytes = nil, 0
}

// Bytes returns how many bytes are kept.
func (b *Buffers) Bytes() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.bytes
}
