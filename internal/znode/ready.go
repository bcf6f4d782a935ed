package znode

import (
	"math"
	"unsafe"
)

// The system gives new memory page by page at the first access, which can take forty times as long as to fill the
// page. A long multi makes thousands of znodes, under the tree's lock. So BeginMulti, which needs no lock, makes the
// blocks that these may need, and the next sizes of the parts of the index, and has the system give their pages.
//
// A long list of children grows by a quarter, which is megabytes. So the next list is made between two calls of Apply, as soon
// as the present one is almost full.

// makeReady makes ready what so many new znodes take at most, with so many bytes of slots. What they do not use is for
// the next ones. REQUIRES: the caller is the caller of Apply.
func (t *Tree) makeReady(nodes, bytes int) {
	t.made = newMemory{nodes, bytes}
	t.Accept(NewSpare(t.needs(1, math.MaxInt), t.opts.Populate))
}

// newEntries makes the entries of a part of the index.
func newEntries(n int, populate func(b []byte)) []indexEntry {
	entries := make([]indexEntry, n)
	if populate != nil {
		populate(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(entries))), uintptr(n)*unsafe.Sizeof(indexEntry{})))
	}
	return entries
}

// share is how many of so many new entries a part gets at most: they do not fill evenly.
func (x *index) share(entries int) int { return entries/len(x.parts) + manyEntries/32 }

// growsWith reports whether a part with many entries would grow if there were so many more, and has no memory for that.
func (p *indexPart) growsWith(more int) bool {
	return len(p.entries) >= manyEntries && p.next == nil && 5*(p.used+more) > 4*len(p.entries)
}

// manyEntries is from how many entries a part of the index grows into memory that was made ready.
const manyEntries = 1 << 10

// populate gives new memory to Options.Populate.
func (t *Tree) populate(p unsafe.Pointer, bytes uintptr) {
	if t.opts.Populate != nil {
		t.opts.Populate(unsafe.Slice((*byte)(p), bytes))
	}
}

// manyKids is from how many children a list grows into memory that was made ready.
const manyKids = 4 << 10

// withRoom returns the list of a znode's children with room for one more, if it is long and memory is ready, and otherwise as it
// is. It notes when the next list should be made.
func (t *Tree) withRoom(kids []ID) []ID {
	n := len(kids)
	if n < manyKids {
		return kids
	}
	if n == cap(kids) && cap(t.nextKids) > n && cap(t.nextKids) <= 2*n {
		kids, t.nextKids, t.wantKids = append(t.nextKids, kids...), nil, 0
	}
	if next := cap(kids) + cap(kids)/4; cap(kids)-n <= n/32 && next > cap(t.nextKids) {
		t.wantKids = max(t.wantKids, next)
	}
	return kids
}

// readyKids makes the next list of children, if one is almost full. REQUIRES: the caller is the caller of Apply.
func (t *Tree) readyKids() {
	if t.wantKids > cap(t.nextKids) {
		t.nextKids = make([]ID, 0, t.wantKids)
		t.populate(unsafe.Pointer(unsafe.SliceData(t.nextKids)), uintptr(t.wantKids)*unsafe.Sizeof(ID(0)))
	}
	t.wantKids = 0
}

// missing returns for how many of n new nodes there is no memory.
func (t *nodeTable) missing(n int) int {
	return n - t.freed - nodesPerBlock*(len(t.blocks)+len(t.ready)) + int(t.fresh)
}

// manyBlocks is from how many blocks on the next one will probably be filled.
const manyBlocks = 4

// block returns a zeroed block.
func (t *nodeTable) block() *[nodesPerBlock]node {
	last := len(t.ready) - 1
	if last < 0 {
		return t.newBlock(len(t.blocks) >= manyBlocks)
	}
	b := t.ready[last]
	t.ready[last] = nil
	t.ready = t.ready[:last]
	return b
}

// newBlock makes a block. full is whether it will be filled.
func (t *nodeTable) newBlock(full bool) *[nodesPerBlock]node {
	b := new([nodesPerBlock]node)
	if full && t.populate != nil {
		t.populate(unsafe.Slice((*byte)(unsafe.Pointer(b)), unsafe.Sizeof(*b)))
	}
	return b
}

// block returns the memory of a block for slots of class c.
func (a *arena) block(c *slotClass) []byte {
	n := blockSize / c.size * c.size
	last := len(a.ready) - 1
	if last < 0 {
		return a.newBlock(n, len(c.blocks) >= manyBlocks)
	}
	b := a.ready[last]
	a.ready[last] = nil
	a.ready = a.ready[:last]
	return b[:n:n]
}

// newBlock makes a block of n bytes. full is whether it will be filled.
func (a *arena) newBlock(n int, full bool) []byte {
	b := make([]byte, n)
	if full && a.populate != nil {
		a.populate(b)
	}
	return b
}

// slotBytes is how many bytes of a block a string of n bytes takes: none if it is empty, or no string of a block.
func slotBytes(n int) int {
	if n > maxSlot {
		return 0
	}
	return classSizes[classOf[(n+slotGrain-1)/slotGrain]] * min(n, 1)
}
