package vfs

import (
	"maps"
	"math/rand/v2"
	"slices"
)

// fate is what a power failure does to the changes that were not synced.
type fate int

const (
	fateLost     fate = iota // none survives
	fateKept                 // all survive, as if only the process had died
	fatePrefix               // those before some moment survive, and a part of the next one
	fateScramble             // each sector, length and name is decided independently
	fateCount
)

// CrashClone returns the disk as a machine finds it that starts after a power failure
// at this moment. It has everything that was synced. For the rest rng decides, file by
// file: nothing survives; everything does; the changes before some moment do, followed
// by a torn write; or an arbitrary choice of sectors, lengths and names, old versions
// included. The clone shares nothing with m, which may continue to be used; no lock is
// held in the clone. The same m and rng give the same clone.
func (m *Mem) CrashClone(rng *rand.Rand) *Mem {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := NewMem()
	for _, path := range slices.Sorted(maps.Keys(m.dirs)) {
		names := m.dirs[path].crash(rng)
		d := newMemDir()
		c.dirs[path] = d
		for _, name := range slices.Sorted(maps.Keys(names)) {
			n := names[name].crash(rng)
			d.live[name], d.durable[name] = n, n
		}
	}
	return c
}

// crash returns the names that survive.
func (d *memDir) crash(rng *rand.Rand) map[string]*memNode {
	names := maps.Clone(d.durable)
	prefix := rng.IntN(len(d.pending) + 1)
	f := fate(rng.IntN(int(fateCount)))
	for i, c := range d.pending {
		switch {
		case f == fateLost,
			f == fatePrefix && i >= prefix,
			f == fateScramble && rng.IntN(2) == 0:
			continue
		}
		c.apply(names)
	}
	return names
}

// crash returns what survives of the file, all of it durable.
func (n *memNode) crash(rng *rand.Rand) *memNode {
	c := newMemNode()
	c.size, c.sectors = n.durableSize, maps.Clone(n.durableSectors)
	f := fate(rng.IntN(int(fateCount)))
	switch f {
	case fateKept:
		c.size, c.sectors = n.size, maps.Clone(n.sectors)
	case fatePrefix, fateScramble:
		n.tear(rng, f, c)
	}
	c.trim()
	c.durableSize, c.durableSectors = c.size, maps.Clone(c.sectors)
	return c
}

// tear adds to c, which holds the durable state, some of the pending changes.
func (n *memNode) tear(rng *rand.Rand, f fate, c *memNode) {
	seqs := map[int64]bool{}
	for _, s := range n.pendingSizes {
		seqs[s.seq] = true
	}
	for _, changes := range n.pendingSectors {
		for _, s := range changes {
			seqs[s.seq] = true
		}
	}
	order := slices.Sorted(maps.Keys(seqs))
	if len(order) == 0 {
		return
	}
	torn := order[rng.IntN(len(order))] // for fatePrefix: the first change that does not survive completely
	survives := func(seq int64) bool {
		if f == fatePrefix && seq != torn {
			return seq < torn
		}
		return rng.IntN(2) == 0
	}
	for _, s := range n.pendingSizes {
		if survives(s.seq) {
			c.size = s.size
		}
	}
	for _, i := range slices.Sorted(maps.Keys(n.pendingSectors)) {
		for _, s := range n.pendingSectors[i] {
			if !survives(s.seq) {
				continue
			}
			if s.to == nil {
				delete(c.sectors, i)
			} else {
				c.sectors[i] = s.to
			}
		}
	}
}

// trim drops the sectors after the end of the file.
func (n *memNode) trim() {
	for i, s := range n.sectors {
		keep := n.size - i*SectorBytes
		switch {
		case keep <= 0:
			delete(n.sectors, i)
		case keep < SectorBytes:
			cut := new(sector)
			copy(cut[:keep], s[:keep])
			n.sectors[i] = cut
		}
	}
}
