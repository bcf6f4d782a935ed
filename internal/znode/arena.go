package znode

// An arena keeps byte strings in large blocks without pointers, so that a million
// strings are a few hundred objects for the garbage collector. A ref identifies a
// string. A string is in a slot of the smallest class that fits; slots are reused
// within their class. Of its blocks without a used slot, each class keeps one, so that
// a string that is repeatedly allocated and freed does not allocate a block each time;
// it frees the others. Strings longer than maxSlot are ordinary allocations. Every
// operation takes constant time, except allocating a block.
//
// The tree owns the arena: it is written under the tree's write lock and read under its
// read lock. A slice returned by bytes is valid until the ref is released.
//
// Invariants: every slot of a block is used, on the block's free list, or fresh;
// block.used counts the used ones. A class's partial list holds each of its blocks with
// room once, at index block.partialAt, and at most one of them is empty.
type arena struct {
	classes [numClasses]slotClass
	large   [][]byte
	free    []uint32 // indices of large that are nil
	inUse   int64    // bytes of slots and large strings in use
	ready   [][]byte // memory of the next blocks, blockSize each, see Tree.makeReady

	populate func(b []byte) // Options.Populate
}

// A ref identifies a string of an arena: the class in the top byte; for a slot also the
// block (32 bits) and the slot in the block (24 bits). The zero ref is the empty
// string.
type ref uint64

// noRef is the empty string, which needs no slot.
const noRef ref = 0

const (
	slotGrain  = 16
	maxSlot    = 16 << 10
	blockSize  = 128 << 10
	numClasses = 60
	largeClass = 255
)

// slotClass is the blocks of one slot size.
type slotClass struct {
	size    int
	blocks  []*block // nil if the block was freed
	partial []uint32 // indices of blocks with room; the last one is used first
	vacant  []uint32 // indices of freed blocks
	empty   int      // blocks without a slot in use: 0 or 1
}

// block is an array of slots. The free slots form a list through their first bytes.
type block struct {
	mem       []byte
	used      int32
	fresh     int32 // slots from here on were never used
	freeHead  int32 // first freed slot, -1 if none
	partialAt int32 // position in the partial list, -1 if the block is full
}

// classSizes are multiples of slotGrain, at most an eighth apart: a string of more than
// 128 bytes wastes at most an eighth of its slot.
var classSizes, classOf = func() (sizes [numClasses]int, of [maxSlot/slotGrain + 1]uint8) {
	n, size := 0, slotGrain
	for ; size <= maxSlot; n++ {
		sizes[n] = size
		step := size / 8 / slotGrain * slotGrain
		size += max(step, slotGrain)
		if sizes[n] < maxSlot && size > maxSlot {
			size = maxSlot
		}
	}
	class := 0
	for i := range of {
		for sizes[class] < i*slotGrain {
			class++
		}
		of[i] = uint8(class)
	}
	return sizes, of
}()

// alloc returns a slot for n bytes. The caller fills bytes(ref, n).
func (a *arena) alloc(n int) ref {
	if n == 0 {
		return noRef
	}
	if n > maxSlot {
		return a.allocLarge(n)
	}
	ci := classOf[(n+slotGrain-1)/slotGrain]
	c := &a.classes[ci]
	c.size = classSizes[ci]
	bi, b := c.blockWithRoom(a)
	if b.used == 0 {
		c.empty--
	}
	slot := b.alloc(c.size)
	if b.full(c.size) {
		c.leavePartial(b)
	}
	a.inUse += int64(c.size)
	return ref(ci+1)<<56 | ref(bi)<<24 | ref(slot)
}

func (a *arena) allocLarge(n int) ref {
	var i uint32
	if k := len(a.free); k > 0 {
		i = a.free[k-1]
		a.free = a.free[:k-1]
		a.large[i] = make([]byte, n)
	} else {
		i = uint32(len(a.large))
		a.large = append(a.large, make([]byte, n))
	}
	a.inUse += int64(n)
	return ref(largeClass)<<56 | ref(i)
}

// bytes returns the first n bytes of r, which was allocated with at least n bytes.
func (a *arena) bytes(r ref, n int) []byte {
	if r == noRef {
		return nil
	}
	if r>>56 == largeClass {
		return a.large[uint32(r)][:n:n]
	}
	c := &a.classes[r>>56-1]
	off := int(r&(1<<24-1)) * c.size
	return c.blocks[uint32(r>>24)].mem[off : off+n : off+n]
}

// release frees r. Its bytes must not be used any more.
func (a *arena) release(r ref) {
	if r == noRef {
		return
	}
	if r>>56 == largeClass {
		i := uint32(r)
		a.inUse -= int64(len(a.large[i]))
		a.large[i] = nil
		a.free = append(a.free, i)
		return
	}
	c := &a.classes[r>>56-1]
	bi := uint32(r >> 24)
	b := c.blocks[bi]
	b.release(int32(r&(1<<24-1)), c.size)
	a.inUse -= int64(c.size)
	if b.partialAt < 0 {
		c.joinPartial(bi, b)
	}
	if b.used == 0 {
		c.nowEmpty(bi, b)
	}
}

// blockWithRoom returns the last block of the partial list; if the list is empty, a new
// one of a.
func (c *slotClass) blockWithRoom(a *arena) (uint32, *block) {
	if k := len(c.partial); k > 0 {
		bi := c.partial[k-1]
		return bi, c.blocks[bi]
	}
	b := &block{mem: a.block(c), freeHead: -1}
	var bi uint32
	if k := len(c.vacant); k > 0 {
		bi = c.vacant[k-1]
		c.vacant = c.vacant[:k-1]
		c.blocks[bi] = b
	} else {
		bi = uint32(len(c.blocks))
		c.blocks = append(c.blocks, b)
	}
	c.empty++
	c.joinPartial(bi, b)
	return bi, b
}

func (c *slotClass) joinPartial(bi uint32, b *block) {
	b.partialAt = int32(len(c.partial))
	c.partial = append(c.partial, bi)
}

// leavePartial removes b from the partial list and moves the last one to its place.
func (c *slotClass) leavePartial(b *block) {
	last := len(c.partial) - 1
	c.swapPartial(int(b.partialAt), last)
	c.partial = c.partial[:last]
	b.partialAt = -1
}

func (c *slotClass) swapPartial(i, j int) {
	p := c.partial
	p[i], p[j] = p[j], p[i]
	c.blocks[p[i]].partialAt, c.blocks[p[j]].partialAt = int32(i), int32(j)
}

// nowEmpty frees b, or keeps it if it is the only empty block; then it is used after
// all others.
func (c *slotClass) nowEmpty(bi uint32, b *block) {
	if c.empty == 0 {
		c.empty = 1
		c.swapPartial(0, int(b.partialAt))
		return
	}
	c.leavePartial(b)
	c.blocks[bi] = nil
	c.vacant = append(c.vacant, bi)
}

func (b *block) full(size int) bool {
	return b.freeHead < 0 && int(b.fresh)*size == len(b.mem)
}

// alloc returns a free slot of b, which must not be full.
func (b *block) alloc(size int) int32 {
	b.used++
	if b.freeHead < 0 {
		b.fresh++
		return b.fresh - 1
	}
	slot := b.freeHead
	p := b.mem[int(slot)*size:]
	b.freeHead = int32(uint32(p[0]) | uint32(p[1])<<8 | uint32(p[2])<<16 | uint32(p[3])<<24)
	return slot
}

// release adds slot to the free list.
func (b *block) release(slot int32, size int) {
	b.used--
	p, next := b.mem[int(slot)*size:], uint32(b.freeHead)
	p[0], p[1], p[2], p[3] = byte(next), byte(next>>8), byte(next>>16), byte(next>>24)
	b.freeHead = slot
}
