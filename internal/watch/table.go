package watch

import "strings"

// kinds is the set of ways in which a watcher watches a path in one table.
type kinds uint8

const (
	standard   kinds = 1 << iota // fires once
	persistent                   // stays
	recursive                    // stays, and fires for descendants
	all        = standard | persistent | recursive
)

// A path with more than crowdAt watchers gets a map from watcher to watch when a watcher
// of more than crowdAt paths is looked for, and loses it when it falls to crowdOver.
// Otherwise walking the shorter ring costs less time and memory than a map: most paths
// have one watcher, and most watchers of a path with many have few.
const (
	crowdAt   = 8
	crowdOver = 4
)

// table is one of the two tables of Tables. Methods that need the records of watchers
// get the Tables as an argument.
type table struct {
	index    pathIndex
	paths    slab[watched]
	entries  slab[entry]
	crowds   map[uint32]map[uint32]uint32 // path -> watcher -> entry
	count    int                          // entries in use
	watchers int                          // watchers with an entry
	which    uint8                        // 0 data, 1 child: index of watcher.lists
}

// watched is a path that has watchers.
//
// Invariant: in its ring, starting with head, entries with the kind recursive come
// before all others, so that finding them does not touch the others.
type watched struct {
	name  string
	head  uint32 // an entry
	count uint32
}

// entry is one watch: a member of two rings, that of its path and that of its watcher.
type entry struct {
	path, watcher uint32

	nextOnPath, prevOnPath       uint32
	nextOfWatcher, prevOfWatcher uint32

	kinds kinds // not empty
}

// find returns the entry of a watcher on a path, 0 if there is none.
func (b *table) find(t *Tables, wi, p uint32) uint32 {
	rec, list := b.paths.at(p), &t.watchers.at(wi).lists[b.which]
	if min(rec.count, list.count) > crowdAt {
		return b.crowd(p)[wi]
	}
	if list.count <= rec.count {
		e := list.head
		for range list.count {
			entry := b.entries.at(e)
			if entry.path == p {
				return e
			}
			e = entry.nextOfWatcher
		}
		return 0
	}
	e := rec.head
	for range rec.count {
		entry := b.entries.at(e)
		if entry.watcher == wi {
			return e
		}
		e = entry.nextOnPath
	}
	return 0
}

// crowd returns the map of a path, and creates it if there is none.
func (b *table) crowd(p uint32) map[uint32]uint32 {
	crowd, ok := b.crowds[p]
	if ok {
		return crowd
	}
	if b.crowds == nil {
		b.crowds = make(map[uint32]map[uint32]uint32)
	}
	rec := b.paths.at(p)
	crowd = make(map[uint32]uint32, rec.count)
	b.crowds[p] = crowd
	for i, n := rec.head, rec.count; n > 0; n-- {
		member := b.entries.at(i)
		crowd[member.watcher] = i
		i = member.nextOnPath
	}
	return crowd
}

// kindsOf returns the kinds of a watcher's watch on a path, or 0.
func (b *table) kindsOf(t *Tables, wi uint32, path string) kinds {
	if p := b.path(path); p != 0 {
		if e := b.find(t, wi, p); e != 0 {
			return b.entries.at(e).kinds
		}
	}
	return 0
}

// add adds a kind to the watcher's watch on path, and reports whether it is new.
func (b *table) add(t *Tables, wi uint32, path string, k kinds) bool {
	p := b.path(path)
	if p == 0 {
		p = b.paths.alloc()
		name := t.ownedPath(path)
		b.paths.at(p).name = name
		b.index.put(name, p)
		t.bytes += pathBytes + len(name)
	} else if e := b.find(t, wi, p); e != 0 {
		return b.widen(e, k)
	}
	b.link(t, wi, p, k)
	return true
}

// ownedPath returns path as a string that is safe to keep: the one that the other table
// has, a copy, or path itself, if it is long.
func (t *Tables) ownedPath(path string) string {
	for _, b := range [...]*table{&t.data, &t.child} {
		if p := b.path(path); p != 0 {
			return b.paths.at(p).name
		}
	}
	if len(path) >= LongPath {
		return path
	}
	return strings.Clone(path)
}

// widen adds a kind to an entry and reports whether it is new.
func (b *table) widen(e uint32, k kinds) bool {
	entry := b.entries.at(e)
	if entry.kinds&k != 0 {
		return false
	}
	was := entry.kinds
	entry.kinds |= k
	b.reorder(e, was)
	return true
}

// narrow removes kinds from an entry; at least one must remain.
func (b *table) narrow(e uint32, k kinds) {
	entry := b.entries.at(e)
	was := entry.kinds
	entry.kinds &^= k
	b.reorder(e, was)
}

// reorder moves an entry to its place in its path's ring after its kinds have changed
// from was: recursive entries come first.
func (b *table) reorder(e uint32, was kinds) {
	if (was^b.entries.at(e).kinds)&recursive != 0 {
		b.removeFromPath(e)
		b.putOnPath(e)
	}
}

// link creates an entry. The watcher must not have one on the path yet.
func (b *table) link(t *Tables, wi, p uint32, k kinds) {
	e := b.entries.alloc()
	entry := b.entries.at(e)
	entry.path, entry.watcher, entry.kinds = p, wi, k
	b.count++
	t.bytes += entryBytes
	t.watchers.at(wi).bytes += cost(b.paths.at(p).name)
	b.putOnPath(e)

	list := &t.watchers.at(wi).lists[b.which]
	if list.count == 0 {
		list.head = e
		entry.nextOfWatcher, entry.prevOfWatcher = e, e
		b.watchers++
	} else {
		head := b.entries.at(list.head)
		entry.nextOfWatcher, entry.prevOfWatcher = list.head, head.prevOfWatcher
		b.entries.at(head.prevOfWatcher).nextOfWatcher = e
		head.prevOfWatcher = e
	}
	list.count++
	if crowd, ok := b.crowds[p]; ok {
		crowd[wi] = e
	}
}

// putOnPath inserts an entry into its path's ring: at the front if it is recursive,
// else at the end.
func (b *table) putOnPath(e uint32) {
	entry := b.entries.at(e)
	rec := b.paths.at(entry.path)
	rec.count++
	if rec.count == 1 {
		rec.head = e
		entry.nextOnPath, entry.prevOnPath = e, e
		return
	}
	head := b.entries.at(rec.head)
	entry.nextOnPath, entry.prevOnPath = rec.head, head.prevOnPath
	b.entries.at(head.prevOnPath).nextOnPath = e
	head.prevOnPath = e
	if entry.kinds&recursive != 0 {
		rec.head = e
	}
}

// removeFromPath removes an entry from its path's ring. The path remains, even without
// watchers.
func (b *table) removeFromPath(e uint32) {
	entry := b.entries.at(e)
	rec := b.paths.at(entry.path)
	rec.count--
	b.entries.at(entry.prevOnPath).nextOnPath = entry.nextOnPath
	b.entries.at(entry.nextOnPath).prevOnPath = entry.prevOnPath
	if rec.head == e {
		rec.head = entry.nextOnPath
	}
}

// unlink removes an entry, and its path if that was its last watcher.
func (b *table) unlink(t *Tables, e uint32) {
	entry := b.entries.at(e)
	p, wi := entry.path, entry.watcher
	b.removeFromPath(e)
	rec := b.paths.at(p)
	t.bytes -= entryBytes
	t.watchers.at(wi).bytes -= cost(rec.name)
	if crowd, ok := b.crowds[p]; ok {
		if rec.count <= crowdOver {
			delete(b.crowds, p)
		} else {
			delete(crowd, wi)
		}
	}
	if rec.count == 0 {
		t.bytes -= pathBytes + len(rec.name)
		b.forgetPath(p)
	}
	b.removeFromWatcher(t, e)
	b.entries.release(e)
	b.count--
}

// forgetPath removes a path without watchers.
func (b *table) forgetPath(p uint32) {
	b.index.remove(b.paths.at(p).name, p)
	if b.index.len() == 0 && b.paths.large() {
		b.index, b.crowds = pathIndex{}, nil // a map does not shrink
	}
	b.paths.release(p)
}

// removeFromWatcher removes an entry from its watcher's ring.
func (b *table) removeFromWatcher(t *Tables, e uint32) {
	entry := b.entries.at(e)
	list := &t.watchers.at(entry.watcher).lists[b.which]
	b.entries.at(entry.prevOfWatcher).nextOfWatcher = entry.nextOfWatcher
	b.entries.at(entry.nextOfWatcher).prevOfWatcher = entry.prevOfWatcher
	if list.head == e {
		list.head = entry.nextOfWatcher
	}
	list.count--
	if list.count == 0 {
		list.head = 0
		b.watchers--
	}
}

// remove removes kinds from the watcher's watch on path, and the watch if no kind is
// left. It returns the kinds that it has removed.
func (b *table) remove(t *Tables, wi uint32, path string, k kinds) kinds {
	p := b.path(path)
	if p == 0 || k == 0 {
		return 0
	}
	e := b.find(t, wi, p)
	if e == 0 {
		return 0
	}
	was := b.entries.at(e).kinds
	if was&^k == 0 {
		b.unlink(t, e)
	} else if was&k != 0 {
		b.narrow(e, k)
	}
	return was & k
}

// fire appends the watchers of path itself, and removes its one-shot watches.
func (b *table) fire(t *Tables, path string, dst []ID) []ID {
	p := b.path(path)
	if p == 0 {
		return dst
	}
	rec := b.paths.at(p)
	e, n := rec.head, rec.count
	for ; n > 0; n-- {
		entry := b.entries.at(e)
		next := entry.nextOnPath
		wi := entry.watcher
		dst = t.name(wi, dst)
		switch {
		case entry.kinds == standard:
			b.unlink(t, e)
			t.forgetIdle(wi)
		case entry.kinds&standard != 0:
			entry.kinds &^= standard
		}
		e = next
	}
	return dst
}

// fireRecursive appends the recursive watchers of path.
func (b *table) fireRecursive(t *Tables, path string, dst []ID) []ID {
	p := b.path(path)
	if p == 0 {
		return dst
	}
	rec := b.paths.at(p)
	e := rec.head
	for range rec.count {
		entry := b.entries.at(e)
		if entry.kinds&recursive == 0 {
			break
		}
		dst = t.name(entry.watcher, dst)
		e = entry.nextOnPath
	}
	return dst
}

// hasRecursive reports whether path has recursive watchers.
func (b *table) hasRecursive(path string) bool {
	p := b.path(path)
	return p != 0 && b.entries.at(b.paths.at(p).head).kinds&recursive != 0
}
