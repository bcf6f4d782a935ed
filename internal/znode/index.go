package znode

import "hash/maphash"

// An index finds nodes by the hash of their path. It uses open addressing with linear
// probing, in 256 parts that grow separately: adding the millionth node moves four
// thousand entries, not a million.
//
// An entry has the low 32 bits of the hash next to the node, so that probing and
// growing do not read nodes. The caller distinguishes nodes with equal hashes;
// Tree.Lookup does this in its own loop. The seed is random for each process, so that
// no client can choose paths that collide; only the time of operations depends on it.
type index struct {
	seed  maphash.Seed
	parts [256]indexPart
}

type indexPart struct {
	entries []indexEntry // a power of two, or empty
	used    int
	next    []indexEntry // nil, or twice as many as entries, empty: see Tree.needs. Owned by the caller of Apply
}

type indexEntry struct {
	hash uint32
	id   ID // 0 marks an empty entry
}

func newIndex() index { return index{seed: maphash.MakeSeed()} }

func (x *index) hash(path string) uint64 { return maphash.String(x.seed, path) }

// add adds id, which must not be in the index.
func (x *index) add(h uint64, id ID) {
	p := x.part(h)
	p.insert(indexEntry{uint32(h), id})
	p.used++
}

// part returns the part of h, with room for one more entry.
func (x *index) part(h uint64) *indexPart {
	p := &x.parts[h>>56]
	if 5*(p.used+1) > 4*len(p.entries) {
		p.grow()
	}
	return p
}

// peek reads the entry of h, which loads it into the processor's cache.
func (x *index) peek(h uint64) uint32 {
	p := x.parts[h>>56].entries
	if len(p) == 0 {
		return 0
	}
	return p[int(uint32(h))&(len(p)-1)].hash
}

// remove removes id, which must be in the index, and closes the gap that it leaves.
func (x *index) remove(h uint64, id ID) {
	p := &x.parts[h>>56]
	mask := uint32(len(p.entries) - 1)
	i := uint32(h) & mask
	for p.entries[i].id != id {
		i = (i + 1) & mask
	}
	p.used--
	for j := i; ; {
		j = (j + 1) & mask
		e := p.entries[j]
		if e.id == 0 {
			break
		}
		// e may move to the gap at i unless its own place is after i.
		if (j-e.hash)&mask >= (j-i)&mask {
			p.entries[i] = e
			i = j
		}
	}
	p.entries[i] = indexEntry{}
}

// size returns the number of entries, of which some are empty.
func (x *index) size() (n int) {
	for i := range x.parts {
		n += len(x.parts[i].entries)
	}
	return n
}

// sweep removes the entries of all IDs of a set, which has a bit for each ID, and returns the work done.
func (p *indexPart) sweep(dead []uint64) (work int) {
	var kept []indexEntry
	for _, e := range p.entries {
		if e.id != 0 && dead[e.id/wordBits]>>(e.id%wordBits)&1 == 0 {
			kept = append(kept, e)
		}
	}
	if len(kept) < p.used {
		clear(p.entries)
		p.used = len(kept)
		for _, e := range kept {
			p.insert(e)
		}
	}
	return 1 + len(p.entries)/sweepFactor + len(kept)/deleteWork
}

func (p *indexPart) insert(e indexEntry) {
	mask := uint32(len(p.entries) - 1)
	i := e.hash & mask
	for p.entries[i].id != 0 {
		i = (i + 1) & mask
	}
	p.entries[i] = e
}

// grow doubles the part.
func (p *indexPart) grow() {
	old := p.entries
	if p.entries, p.next = p.next, nil; p.entries == nil {
		p.entries = make([]indexEntry, max(8, 2*len(old)))
	}
	for _, e := range old {
		if e.id != 0 {
			p.insert(e)
		}
	}
}
