// Package watch holds the watches of a server's clients: it decides which clients to
// notify of a change, by the rules of ZooKeeper 3.9 (features page, section 2).
//
// A watcher is a number that the caller assigns to a connection. There are two tables,
// as in Apache: the data table fires on creation, deletion and change of a znode; the
// child table fires on changes of its list of children and on its deletion. A watch is
// a watcher, a path and a set of kinds in one table:
//
//	kind        data table   child table   stays after firing
//	Data            x                       no
//	Child                         x         no
//	Persistent      x             x         yes
//	Recursive       x                       yes; fires for descendants too
//
// Invariants, each with a test that carries its number:
//
//  1. The kinds of a watcher on a path accumulate; each can be removed separately.
//  2. A Trigger names a watcher at most once, and removes the one-shot watches on the
//     path of every watcher that it names.
//  3. Recursive watches never fire for NodeChildrenChanged.
//  4. If a path has no watcher, and there are no recursive watches, a Trigger is one
//     map lookup, without allocation.
//  5. Adding and removing a watch takes the same time however many there are. Firing
//     takes time for the watchers that it names, and one map lookup per ancestor if
//     there is any recursive watch.
//  6. A watch takes 28 bytes, about 50 if the path has many watchers and one of them
//     many paths. A watcher takes 40 to 50, a path 50 to 75 in each table, its characters
//     once.
//  7. The watches take no more than Limit, except for 64 KiB of each watcher.
//  8. The order of results depends only on the order of calls.
//
// This package does not know znodes, sessions or ACLs. The tables have no lock: the
// caller makes sure that only one call runs at a time.
package watch

import (
	"iter"
	"strings"

	"github.com/pinfold-zk/pinfold/zk"
)

// ID names a watcher. The caller assigns a number to every connection, and may reuse it
// only after Drop. The Tables take 4 bytes for each number up to the largest, so the
// caller assigns small ones.
type ID uint32

// Kind is how a client asked for a watch.
type Kind uint8

// The kinds.
const (
	Data       Kind = iota // getData, exists
	Child                  // getChildren, getChildren2
	Persistent             // addWatch, mode 0
	Recursive              // addWatch, mode 1
)

// Tables holds the watches of one server. The zero value is empty and ready.
type Tables struct {
	Limit int // of Bytes; 0: none

	data, child table
	byID        []uint32 // records of watchers; 0: none
	watchers    slab[watcher]
	recursive   int    // number of watches in data that include recursive
	bytes       int    // see Bytes
	round       uint64 // number of the latest Trigger that named a watcher
}

// watcher is the record of one ID. It exists while the watcher has a watch.
type watcher struct {
	round uint64 // the last Trigger that named it
	id    ID
	lists [2]watchList // by table.which
	bytes int          // what its watches would take if it were the only watcher
}

// watchList is a ring of one watcher's watches in one table.
type watchList struct {
	head  uint32 // an entry, 0 if there is none
	count uint32
}

// About what a watch takes, and a path in one table with its first watch, in bytes beside
// the characters.
const (
	entryBytes = 64
	pathBytes  = 96
)

// cost is what a watch on path takes if no other watcher watches the path.
func cost(path string) int { return entryBytes + pathBytes + len(path) }

// freeBytes is what every watcher may hold, however much the others hold.
const freeBytes = 64 << 10

// Bytes returns about how much memory the watches take.
func (t *Tables) Bytes() int { return t.bytes }

// Fits reports whether there is room for watches of w on these paths. A watcher may hold
// as much as then remains free of Limit, so the watcher that holds most is refused first,
// and one that holds little never is.
func (t *Tables) Fits(w ID, paths []string) bool {
	more := 0
	for _, p := range paths {
		more += cost(p)
	}
	return t.fits(w, more)
}

func (t *Tables) fits(w ID, more int) bool {
	if t.Limit == 0 {
		return true
	}
	held := more
	if wi := t.record(w); wi != 0 {
		held += t.watchers.at(wi).bytes
	}
	return held <= freeBytes || held <= t.Limit-t.bytes-more
}

// LongPath is the length in bytes from which a path is long. The memory for a copy of it may take
// milliseconds to get, so Add, which is called under locks, makes none.
const LongPath = 16 << 10

// Add registers a watch of kind k. Registering it again changes nothing. Add copies
// path if it has to keep it, so path may alias a buffer that is reused, unless it is long: then Add keeps path itself,
// and the caller must not give it one that aliases anything. Add reports false if there is no room: see Fits.
func (t *Tables) Add(w ID, path string, k Kind) bool {
	if !t.fits(w, cost(path)) && !t.Contains(w, path, zk.WatcherAny) {
		return false
	}
	wi := t.record(w)
	if wi == 0 {
		t.child.which = 1
		wi = t.watchers.alloc()
		t.watchers.at(wi).id = w
		if missing := int(w) + 1 - len(t.byID); missing > 0 {
			t.byID = append(t.byID, make([]uint32, missing)...)
		}
		t.byID[w] = wi
	}
	switch k {
	case Data:
		t.data.add(t, wi, path, standard)
	case Child:
		t.child.add(t, wi, path, standard)
	case Persistent:
		t.data.add(t, wi, path, persistent)
		t.child.add(t, wi, path, persistent)
	case Recursive:
		if t.data.add(t, wi, path, recursive) {
			t.recursive++
		}
	}
	return true
}

// record returns the record of a watcher, 0 if it has no watch.
func (t *Tables) record(w ID) uint32 {
	if int(w) < len(t.byID) {
		return t.byID[w]
	}
	return 0
}

// Contains reports whether w has a watch on path that checkWatches of type typ finds.
// WatcherChildren and WatcherData find one-shot watches only, WatcherAny any watch in
// either table. An unknown type finds nothing.
func (t *Tables) Contains(w ID, path string, typ zk.WatcherType) bool {
	wi := t.record(w)
	if wi == 0 {
		return false
	}
	switch typ {
	case zk.WatcherChildren:
		return t.child.kindsOf(t, wi, path)&standard != 0
	case zk.WatcherData:
		return t.data.kindsOf(t, wi, path)&standard != 0
	case zk.WatcherPersistent:
		return t.data.kindsOf(t, wi, path)&persistent != 0
	case zk.WatcherPersistentRecursive:
		return t.data.kindsOf(t, wi, path)&recursive != 0
	case zk.WatcherAny:
		return t.child.kindsOf(t, wi, path)|t.data.kindsOf(t, wi, path) != 0
	}
	return false
}

// Remove removes the watches of w on path that removeWatches of type typ selects, and
// reports whether there was one; if not, the reply to the client is ErrNoWatcher. The
// types select as in Contains.
func (t *Tables) Remove(w ID, path string, typ zk.WatcherType) bool {
	wi := t.record(w)
	if wi == 0 {
		return false
	}
	var fromData, fromChild kinds
	switch typ {
	case zk.WatcherChildren:
		fromChild = standard
	case zk.WatcherData:
		fromData = standard
	case zk.WatcherPersistent:
		fromData, fromChild = persistent, persistent
	case zk.WatcherPersistentRecursive:
		fromData = recursive
	case zk.WatcherAny:
		fromData, fromChild = all, all
	}
	goneChild := t.child.remove(t, wi, path, fromChild)
	goneData := t.data.remove(t, wi, path, fromData)
	if goneData&recursive != 0 {
		t.recursive--
	}
	t.forgetIdle(wi)
	return goneChild|goneData != 0
}

// Drop removes watches of w until that was as much work as most, or no watch is left: then it is done. A watch is a unit of
// work, and each KiB of its path, which is hashed, another one. w may be unknown.
func (t *Tables) Drop(w ID, most int) (work int, done bool) {
	wi := t.record(w)
	if wi == 0 {
		return 0, true
	}
	for _, tab := range [...]*table{&t.data, &t.child} {
		list := &t.watchers.at(wi).lists[tab.which]
		for list.count > 0 {
			if work >= most {
				return work, false
			}
			e := list.head
			entry := tab.entries.at(e)
			if entry.kinds&recursive != 0 {
				t.recursive--
			}
			work += 1 + len(tab.paths.at(entry.path).name)>>10
			tab.unlink(t, e)
		}
	}
	t.forgetIdle(wi)
	return work, true
}

// forgetIdle removes the record of a watcher that has no watches.
func (t *Tables) forgetIdle(wi uint32) {
	w := t.watchers.at(wi)
	if w.lists[0].count|w.lists[1].count != 0 {
		return
	}
	t.byID[w.id] = 0
	if t.watchers.release(wi); t.watchers.empty() {
		t.byID = nil
	}
}

// Trigger appends to dst the watchers to notify that ev happened to path, and removes
// their one-shot watches. One call names no watcher twice:
//
//	NodeCreated, NodeDataChanged  data table of path, recursive watches above it
//	NodeDeleted                   the same, then the child table of path
//	NodeChildrenChanged           child table of path
//
// A created or deleted znode needs two calls: one for itself, and one with
// NodeChildrenChanged for its parent. Other events name no watcher.
//
// REQUIRES: path is that of a znode; the root is "/".
func (t *Tables) Trigger(ev zk.EventType, path string, dst []ID) []ID {
	switch ev {
	case zk.EventNodeCreated, zk.EventNodeDataChanged, zk.EventNodeDeleted:
		t.round++
		dst = t.data.fire(t, path, dst)
		if t.recursive > 0 {
			dst = t.fireAbove(path, dst)
		}
		if ev == zk.EventNodeDeleted {
			dst = t.child.fire(t, path, dst)
		}
	case zk.EventNodeChildrenChanged:
		t.round++
		dst = t.child.fire(t, path, dst)
	}
	return dst
}

// Empty reports whether there are no watches.
func (t *Tables) Empty() bool { return t.data.index.len()+t.child.index.len() == 0 }

// Fires reports whether Trigger would name a watcher. It changes nothing.
func (t *Tables) Fires(ev zk.EventType, path string) bool {
	data, child := false, false
	switch ev {
	case zk.EventNodeCreated, zk.EventNodeDataChanged:
		data = true
	case zk.EventNodeDeleted:
		data, child = true, true
	case zk.EventNodeChildrenChanged:
		child = true
	}
	if child && t.child.path(path) != 0 {
		return true
	}
	if data && t.data.path(path) != 0 {
		return true
	}
	if data && t.recursive > 0 {
		for above := range ancestors(path) {
			if t.data.hasRecursive(above) {
				return true
			}
		}
	}
	return false
}

// fireAbove appends the recursive watchers of the ancestors of path.
func (t *Tables) fireAbove(path string, dst []ID) []ID {
	for above := range ancestors(path) {
		dst = t.data.fireRecursive(t, above, dst)
	}
	return dst
}

// ancestors iterates over the paths of the znodes above path, the parent first.
func ancestors(path string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for len(path) > 1 {
			path = path[:max(strings.LastIndexByte(path, '/'), 0)]
			above := path
			if above == "" {
				above = "/"
			}
			if !yield(above) {
				return
			}
		}
	}
}

// name appends the watcher unless this Trigger has named it already.
func (t *Tables) name(wi uint32, dst []ID) []ID {
	w := t.watchers.at(wi)
	if w.round == t.round {
		return dst
	}
	w.round = t.round
	return append(dst, w.id)
}

// Len returns the number of watches in both tables (watch_count in mntr).
func (t *Tables) Len() int { return t.data.count + t.child.count }

// Count returns the number of watches of w in both tables.
func (t *Tables) Count(w ID) int {
	wi := t.record(w)
	if wi == 0 {
		return 0
	}
	lists := &t.watchers.at(wi).lists
	return int(lists[0].count + lists[1].count)
}

// Summary counts the data table, as wchs shows it: watchers with a watch in it, watched
// paths, and watches (pairs of watcher and path).
func (t *Tables) Summary() (watchers, paths, watches int) {
	return t.data.watchers, t.data.index.len(), t.data.count
}

// Paths iterates over the paths in the data table, and for each over its watchers, as
// wchp shows them. The caller must not add, remove or trigger watches meanwhile.
func (t *Tables) Paths() iter.Seq2[string, iter.Seq[ID]] {
	return func(yield func(string, iter.Seq[ID]) bool) {
		for p := uint32(1); p < t.data.paths.next; p++ {
			if rec := t.data.paths.at(p); rec.count > 0 && !yield(rec.name, t.watchersOf(rec)) {
				return
			}
		}
	}
}

func (t *Tables) watchersOf(rec *watched) iter.Seq[ID] {
	return func(yield func(ID) bool) {
		e := rec.head
		for range rec.count {
			entry := t.data.entries.at(e)
			if !yield(t.watchers.at(entry.watcher).id) {
				return
			}
			e = entry.nextOnPath
		}
	}
}

// Watchers iterates over the watchers in the data table in the order of their numbers,
// and for each over the paths that it watches, as wchc shows them. The caller must not
// add, remove or trigger watches meanwhile.
func (t *Tables) Watchers() iter.Seq2[ID, iter.Seq[string]] {
	return func(yield func(ID, iter.Seq[string]) bool) {
		for id, wi := range t.byID {
			if wi == 0 {
				continue
			}
			if list := t.watchers.at(wi).lists[0]; list.count > 0 && !yield(ID(id), t.pathsOf(list)) {
				return
			}
		}
	}
}

func (t *Tables) pathsOf(list watchList) iter.Seq[string] {
	return func(yield func(string) bool) {
		e := list.head
		for range list.count {
			entry := t.data.entries.at(e)
			if !yield(t.data.paths.at(entry.path).name) {
				return
			}
			e = entry.nextOfWatcher
		}
	}
}
