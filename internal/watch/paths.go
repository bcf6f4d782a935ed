package watch

import (
	"hash/maphash"
	"slices"
)

// pathIndex finds the records of a table's paths. A map of Go's hashes hundreds of its keys again when it grows, which takes
// tens of milliseconds if they are long: long paths have a map of their hashes.
// The zero value is empty.
type pathIndex struct {
	short map[string]uint32
	long  map[uint64][]uint32 // by hash; mostly one record has it
	longs int                 // records in long
}

// seed is chosen by chance, so that a client cannot choose paths whose hashes collide.
var seed = maphash.MakeSeed()

// len returns how many paths there are.
func (x *pathIndex) len() int { return len(x.short) + x.longs }

// path returns the record of a path, 0 if it has no watcher.
func (b *table) path(name string) uint32 {
	if len(name) < LongPath {
		return b.index.short[name]
	}
	return b.longPath(name)
}

func (b *table) longPath(name string) uint32 {
	if b.index.longs == 0 {
		return 0
	}
	for _, p := range b.index.long[maphash.String(seed, name)] {
		if b.paths.at(p).name == name {
			return p
		}
	}
	return 0
}

// put adds the record of a path that has none.
func (x *pathIndex) put(name string, p uint32) {
	if len(name) < LongPath {
		if x.short == nil {
			x.short = make(map[string]uint32)
		}
		x.short[name] = p
		return
	}
	if x.long == nil {
		x.long = make(map[uint64][]uint32)
	}
	hash := maphash.String(seed, name)
	x.long[hash] = append(x.long[hash], p)
	x.longs++
}

// remove removes the record p of a path.
func (x *pathIndex) remove(name string, p uint32) {
	if len(name) < LongPath {
		delete(x.short, name)
		return
	}
	hash := maphash.String(seed, name)
	same := x.long[hash]
	i := slices.Index(same, p)
	if same = slices.Delete(same, i, i+1); len(same) > 0 {
		x.long[hash] = same
	} else {
		delete(x.long, hash)
	}
	x.longs--
}
