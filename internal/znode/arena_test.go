package znode

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// arenaModel holds a copy of every string of an arena.
type arenaModel struct {
	t     *testing.T
	rng   *rand.Rand
	arena arena
	refs  []ref
	want  map[ref][]byte
}

func (m *arenaModel) alloc(n int) {
	m.t.Helper()
	r := m.arena.alloc(n)
	if _, taken := m.want[r]; taken && n > 0 {
		m.t.Fatalf("alloc(%d) = %#x, which is in use", n, r)
	}
	if n == 0 {
		if r != noRef {
			m.t.Fatalf("alloc(0) = %#x", r)
		}
		return
	}
	b := m.arena.bytes(r, n)
	if len(b) != n || cap(b) != n {
		m.t.Fatalf("alloc(%d) has length %d, capacity %d", n, len(b), cap(b))
	}
	for i := range b {
		b[i] = byte(m.rng.Uint32())
	}
	m.want[r] = bytes.Clone(b)
	m.refs = append(m.refs, r)
}

func (m *arenaModel) release(i int) {
	r := m.refs[i]
	if got := m.arena.bytes(r, len(m.want[r])); !bytes.Equal(got, m.want[r]) {
		m.t.Fatalf("%#x holds %x, want %x", r, got, m.want[r])
	}
	m.arena.release(r)
	delete(m.want, r)
	m.refs[i] = m.refs[len(m.refs)-1]
	m.refs = m.refs[:len(m.refs)-1]
}

// check verifies the invariants of arena.
func (m *arenaModel) check() {
	m.t.Helper()
	var inUse int64
	for _, w := range m.want {
		if n := len(w); n > maxSlot {
			inUse += int64(n)
		} else {
			inUse += int64(classSizes[classOf[(n+slotGrain-1)/slotGrain]])
		}
	}
	if m.arena.inUse != inUse {
		m.t.Fatalf("inUse %d, want %d", m.arena.inUse, inUse)
	}
	for ci := range m.arena.classes {
		c := &m.arena.classes[ci]
		empty := 0
		for bi, b := range c.blocks {
			if b == nil {
				continue
			}
			slots := len(b.mem) / c.size
			free := slots - int(b.fresh)
			for s := b.freeHead; s >= 0; free++ {
				p := b.mem[int(s)*c.size:]
				s = int32(uint32(p[0]) | uint32(p[1])<<8 | uint32(p[2])<<16 | uint32(p[3])<<24)
			}
			if free+int(b.used) != slots {
				m.t.Fatalf("class %d block %d: %d slots in use, %d free, of %d", ci, bi, b.used, free, slots)
			}
			if b.used == 0 {
				empty++
			}
			at := int(b.partialAt)
			if (at >= 0) != (free > 0) || at >= 0 && (at >= len(c.partial) || c.partial[at] != uint32(bi)) {
				m.t.Fatalf("class %d block %d: %d slots free, place %d of the partial list", ci, bi, free, at)
			}
		}
		if empty != c.empty || empty > 1 {
			m.t.Fatalf("class %d has %d empty blocks, says %d", ci, empty, c.empty)
		}
	}
}

func TestArenaModel(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		m := &arenaModel{t: t, rng: rng, want: map[ref][]byte{}}
		sizes := []int{0, 1, 15, 16, 17, 100, 4096, maxSlot - 1, maxSlot, maxSlot + 1, 3 * maxSlot}
		for step := range 3000 {
			grow := step/500%2 == 0 // half a thousand steps up, then down
			if len(m.refs) == 0 || rng.IntN(10) < 3 != grow {
				n := sizes[rng.IntN(len(sizes))]
				if rng.IntN(2) == 0 {
					n = rng.IntN(300)
				}
				m.alloc(n)
			} else {
				m.release(rng.IntN(len(m.refs)))
			}
			if step%100 == 0 {
				m.check()
			}
		}
		for len(m.refs) > 0 {
			m.release(rng.IntN(len(m.refs)))
		}
		m.check()
		if t.Failed() {
			t.Fatalf("seed=%d", seed)
		}
	}
}

// TestArenaClasses: each size gets the smallest slot that holds it, and of a
// long string at most an eighth is wasted.
func TestArenaClasses(t *testing.T) {
	last := 0
	for ci, size := range classSizes {
		if size == 0 {
			continue
		}
		if size <= last || size%slotGrain != 0 || size > maxSlot {
			t.Errorf("class %d has slots of %d bytes after %d", ci, size, last)
		}
		last = size
	}
	if last != maxSlot {
		t.Errorf("the largest slot is %d", last)
	}
	for n := 1; n <= maxSlot; n++ {
		ci := classOf[(n+slotGrain-1)/slotGrain]
		size := classSizes[ci]
		if size < n || ci > 0 && classSizes[ci-1] >= n {
			t.Fatalf("%d bytes get a slot of %d", n, size)
		}
		if waste := size - n; waste >= slotGrain && waste > size/8+slotGrain {
			t.Fatalf("a slot of %d for %d bytes", size, n)
		}
	}
}

// TestArenaReturnsMemory: after a mass deletion no class keeps more than a block.
func TestArenaReturnsMemory(t *testing.T) {
	var a arena
	rng := rand.New(rand.NewPCG(1, 1))
	var refs []ref
	for range 200_000 {
		refs = append(refs, a.alloc(1+rng.IntN(600)))
	}
	rng.Shuffle(len(refs), func(i, j int) { refs[i], refs[j] = refs[j], refs[i] })
	for _, r := range refs {
		a.release(r)
	}
	blocks := 0
	for i := range a.classes {
		for _, b := range a.classes[i].blocks {
			if b != nil {
				blocks++
			}
		}
	}
	if blocks > numClasses || a.inUse != 0 {
		t.Errorf("%d blocks are left, %d bytes in use", blocks, a.inUse)
	}
}

// TestArenaDoesNotThrash: a string that comes and goes on the edge of a full
// block makes no block each time.
func TestArenaDoesNotThrash(t *testing.T) {
	var a arena
	first := a.alloc(maxSlot)
	for range blockSize/maxSlot - 2 {
		a.alloc(maxSlot)
	}
	n := testing.AllocsPerRun(100, func() {
		x, y := a.alloc(maxSlot), a.alloc(maxSlot)
		a.release(first)
		a.release(y)
		first = a.alloc(maxSlot)
		a.release(x)
	})
	if n > 0 {
		t.Errorf("%v allocations for a string on the edge", n)
	}
}
