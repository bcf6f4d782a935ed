package watch

import (
	"hash/maphash"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/pinfold-zk/pinfold/zk"
)

func unsafeString(b []byte) string { return unsafe.String(&b[0], len(b)) }

// check fails the test if the tables contradict themselves.
func (t *Tables) check(tb testing.TB) {
	tb.Helper()
	recursives, live := 0, map[uint32]bool{}
	bytes, held := 0, map[uint32]int{}
	for _, b := range []*table{&t.data, &t.child} {
		entries, watchers := 0, 0
		indexed := maps.Clone(b.index.short)
		for hash, same := range b.index.long {
			for _, p := range same {
				name := b.paths.at(p).name
				if indexed == nil {
					indexed = map[string]uint32{}
				}
				if indexed[name] = p; len(name) < LongPath || maphash.String(seed, name) != hash {
					tb.Fatalf("path of %d bytes is in the wrong map, or has another hash", len(name))
				}
			}
		}
		for name, p := range indexed {
			rec := b.paths.at(p)
			bytes += pathBytes + len(name)
			if rec.name != name || rec.count == 0 {
				tb.Fatalf("path %q: record %q with %d watchers", name, rec.name, rec.count)
			}
			crowd, crowded := b.crowds[p]
			if crowded && len(crowd) != int(rec.count) {
				tb.Fatalf("path %q: %d watchers, crowd of %d", name, rec.count, len(crowd))
			}
			e, front := rec.head, true
			for range rec.count {
				entry := b.entries.at(e)
				isRecursive := entry.kinds&recursive != 0
				if entry.path != p || entry.kinds == 0 || b.find(t, entry.watcher, p) != e ||
					b.entries.at(entry.nextOnPath).prevOnPath != e || isRecursive && !front {
					tb.Fatalf("path %q: bad entry %+v", name, *entry)
				}
				bytes += entryBytes
				held[entry.watcher] += cost(name)
				front = isRecursive
				if isRecursive {
					recursives++
				}
				e = entry.nextOnPath
			}
			if e != rec.head {
				tb.Fatalf("path %q: the ring is longer than %d", name, rec.count)
			}
			entries += int(rec.count)
		}
		listed := 0
		for id, wi := range t.byID {
			if wi == 0 {
				continue
			}
			w := t.watchers.at(wi)
			list := w.lists[b.which]
			if w.id != ID(id) || w.lists[0].count+w.lists[1].count == 0 {
				tb.Fatalf("watcher %d: record %+v", id, *w)
			}
			live[wi] = true
			if list.count > 0 {
				watchers++
			}
			e := list.head
			for range list.count {
				if entry := b.entries.at(e); entry.watcher != wi ||
					b.entries.at(entry.nextOfWatcher).prevOfWatcher != e {
					tb.Fatalf("watcher %d: bad entry %+v", id, *entry)
				}
				e = b.entries.at(e).nextOfWatcher
				listed++
			}
			if e != list.head {
				tb.Fatalf("watcher %d: the ring is longer than %d", id, list.count)
			}
		}
		if entries != b.count || listed != b.count || watchers != b.watchers {
			tb.Fatalf("table %d: %d entries on paths, %d of %d watchers, counted %d and %d",
				b.which, entries, listed, watchers, b.count, b.watchers)
		}
		if len(b.crowds) > len(indexed) || b.index.len() != len(indexed) || b.entries.inUse() != b.count ||
			b.paths.inUse() != len(indexed) {
			tb.Fatalf("table %d: %d crowds, %d entries and %d paths in use",
				b.which, len(b.crowds), b.entries.inUse(), b.paths.inUse())
		}
	}
	for id, wi := range t.byID {
		if wi == 0 {
			continue
		}
		if w := t.watchers.at(wi); w.bytes != held[wi] {
			tb.Fatalf("watcher %d: %d bytes, counted %d", id, w.bytes, held[wi])
		}
	}
	if bytes != t.bytes {
		tb.Fatalf("%d bytes, counted %d", t.bytes, bytes)
	}
	if recursives != t.recursive || t.watchers.inUse() != len(live) {
		tb.Fatalf("%d recursive watches, counted %d; %d watchers of %d in use",
			recursives, t.recursive, len(live), t.watchers.inUse())
	}
}

func (s *slab[T]) inUse() int { return max(int(s.next)-1, 0) - len(s.free) }

// model says the same as Tables in the plainest way.
type model map[mark]bool

// mark is one kind of one watch: the kind that it was asked for by.
type mark struct {
	w    ID
	path string
	kind Kind
}

// holds reports whether the watch that e stands for is of the type typ.
func (e mark) holds(typ zk.WatcherType) bool {
	switch typ {
	case zk.WatcherAny:
		return true
	case zk.WatcherChildren:
		return e.kind == Child
	case zk.WatcherData:
		return e.kind == Data
	case zk.WatcherPersistent:
		return e.kind == Persistent
	case zk.WatcherPersistentRecursive:
		return e.kind == Recursive
	}
	return false
}

func (m model) contains(w ID, path string, typ zk.WatcherType) bool {
	for e := range m {
		if e.w == w && e.path == path && e.holds(typ) {
			return true
		}
	}
	return false
}

func (m model) remove(w ID, path string, typ zk.WatcherType) bool {
	n := len(m)
	maps.DeleteFunc(m, func(e mark, _ bool) bool {
		return e.w == w && e.path == path && e.holds(typ)
	})
	return len(m) < n
}

func (m model) trigger(ev zk.EventType, path string) []ID {
	named := map[ID]bool{}
	for e := range m {
		fires := false
		switch e.kind {
		case Data:
			fires = ev != children && e.path == path
		case Child:
			fires = (ev == children || ev == deleted) && e.path == path
		case Persistent:
			fires = e.path == path
		case Recursive:
			fires = ev != children && (e.path == path || e.path == "/" ||
				e.path != "" && strings.HasPrefix(path, e.path+"/"))
		}
		if !fires {
			continue
		}
		named[e.w] = true
		if e.kind == Data || e.kind == Child {
			delete(m, e)
		}
	}
	return slices.Sorted(maps.Keys(named))
}

// counts returns what Len and Summary do.
func (m model) counts() (all, watchers, paths, watches int) {
	type watch struct {
		w    ID
		path string
	}
	ws, ps, data, child := map[ID]bool{}, map[string]bool{}, map[watch]bool{}, map[watch]bool{}
	for e := range m {
		if e.kind != Child {
			ws[e.w], ps[e.path], data[watch{e.w, e.path}] = true, true, true
		}
		if e.kind == Child || e.kind == Persistent {
			child[watch{e.w, e.path}] = true
		}
	}
	return len(data) + len(child), len(ws), len(ps), len(data)
}

// countOf returns the number of watches of w.
func (m model) countOf(w ID) int {
	own := model{}
	for e := range m {
		if e.w == w {
			own[e] = true
		}
	}
	all, _, _, _ := own.counts()
	return all
}

// TestModel runs random operations against the model. There are enough watchers of enough
// paths that crowds come and go.
func TestModel(t *testing.T) {
	long := "/" + strings.Repeat("long", LongPath/4)
	paths := []string{"/", "/a", "/a/b", "/a/b/c", "/ab", "/a/bc", "/x", "", "odd", "/y", "/z", "/x/y", long, long + "/a"}
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 0))
		var w Tables
		m := model{}
		ids := 2 + r.IntN(40)
		for step := range 600 {
			id, path := ID(r.IntN(ids)), paths[r.IntN(len(paths))]
			typ := zk.WatcherType(r.IntN(7))
			switch op := r.IntN(20); {
			case op < 12:
				k := Kind(r.IntN(4))
				w.Add(id, path, k)
				m[mark{id, path, k}] = true
			case op < 14:
				if got, want := w.Remove(id, path, typ), m.remove(id, path, typ); got != want {
					t.Fatalf("seed=%d step %d: Remove(%d, %q, %d) %v", seed, step, id, path, typ, got)
				}
			case op < 15:
				w.Drop(id, everything)
				maps.DeleteFunc(m, func(e mark, _ bool) bool { return e.w == id })
			case path == "" || path == "odd":
			default:
				ev := events[r.IntN(4)]
				fires := w.Fires(ev, path)
				got, want := w.Trigger(ev, path, nil), m.trigger(ev, path)
				if fires != (len(want) > 0) {
					t.Fatalf("seed=%d step %d: %v %s fires: %v, want %v", seed, step, ev, path, fires, want)
				}
				slices.Sort(got)
				if !slices.Equal(got, want) {
					t.Fatalf("seed=%d step %d: %v %s names %v, want %v", seed, step, ev, path, got, want)
				}
			}
			w.check(t)
			if got, want := w.Contains(id, path, typ), m.contains(id, path, typ); got != want {
				t.Fatalf("seed=%d step %d: Contains(%d, %q, %d) %v", seed, step, id, path, typ, got)
			}
			all, ws, ps, n := m.counts()
			gotWs, gotPs, gotN := w.Summary()
			if got, want := w.Count(id), m.countOf(id); got != want {
				t.Fatalf("seed=%d step %d: Count(%d) %d, want %d", seed, step, id, got, want)
			}
			if w.Len() != all || w.Empty() != (all == 0) || gotWs != ws || gotPs != ps || gotN != n {
				t.Fatalf("seed=%d step %d: counts %d %d %d %d, want %d %d %d %d",
					seed, step, w.Len(), gotWs, gotPs, gotN, all, ws, ps, n)
			}
		}
	}
}

// TestOrder is invariant 7: the same calls name the same watchers in the same
// order, whatever Go's maps do.
func TestOrder(t *testing.T) {
	run := func() (trace []ID) {
		r := rand.New(rand.NewPCG(9, 9))
		var w Tables
		for range 3000 {
			path := []string{"/", "/a", "/a/b"}[r.IntN(3)]
			switch r.IntN(10) {
			case 0:
				trace = w.Trigger(events[r.IntN(4)], path, trace)
			case 1:
				w.Drop(ID(r.IntN(100)), everything)
			default:
				w.Add(ID(r.IntN(100)), path, Kind(r.IntN(4)))
			}
		}
		for id, paths := range w.Watchers() {
			trace = append(trace, id)
			for p := range paths {
				trace = append(trace, ID(len(p)))
			}
		}
		return trace
	}
	first := run()
	for range 3 {
		if !slices.Equal(run(), first) {
			t.Fatal("two runs differ")
		}
	}
}
