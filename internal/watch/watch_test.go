package watch

import (
	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/pinfold-zk/pinfold/zk"
)

const (
	created  = zk.EventNodeCreated
	deleted  = zk.EventNodeDeleted
	changed  = zk.EventNodeDataChanged
	children = zk.EventNodeChildrenChanged
)

var events = []zk.EventType{created, deleted, changed, children}

// expect triggers and compares.
func expect(t *testing.T, w *Tables, ev zk.EventType, path string, want ...ID) {
	t.Helper()
	if got := w.Trigger(ev, path, nil); !slices.Equal(got, want) {
		t.Errorf("%v %s names %v, want %v", ev, path, got, want)
	}
	w.check(t)
}

// The table of kinds in the package's document, row by row.
func TestKinds(t *testing.T) {
	for _, c := range []struct {
		kind       Kind
		fires      []zk.EventType // on the path itself
		below      []zk.EventType // on a grandchild
		persistent bool
	}{
		{Data, []zk.EventType{created, deleted, changed}, nil, false},
		{Child, []zk.EventType{deleted, children}, nil, false},
		{Persistent, events, nil, true},
		{Recursive, []zk.EventType{created, deleted, changed}, []zk.EventType{created, deleted, changed}, true},
	} {
		for _, ev := range events {
			var w Tables
			w.Add(7, "/a", c.kind)
			if slices.Contains(c.below, ev) {
				expect(t, &w, ev, "/a/b/c", 7)
			} else {
				expect(t, &w, ev, "/a/b/c")
			}
			expect(t, &w, ev, "/ab")
			expect(t, &w, ev, "/")
			if !slices.Contains(c.fires, ev) {
				expect(t, &w, ev, "/a")
				if w.Len() == 0 {
					t.Errorf("%v used up a watch of kind %d that it does not fire", ev, c.kind)
				}
				continue
			}
			expect(t, &w, ev, "/a", 7)
			if c.persistent {
				expect(t, &w, ev, "/a", 7)
			} else {
				expect(t, &w, ev, "/a")
			}
			if got := w.Len() > 0; got != c.persistent {
				t.Errorf("kind %d after %v: a watch is left: %v", c.kind, ev, got)
			}
		}
	}
}

// Invariant 1.
func TestKindsAddUp(t *testing.T) {
	var w Tables
	for _, k := range []Kind{Data, Child, Persistent, Recursive, Data, Recursive} {
		w.Add(1, "/a", k)
		w.check(t)
	}
	if w.Len() != 2 {
		t.Errorf("%d watches, want one in each table", w.Len())
	}
	expect(t, &w, deleted, "/a", 1)
	for _, c := range []struct {
		typ  zk.WatcherType
		want bool
	}{
		{zk.WatcherData, false},
		{zk.WatcherChildren, false},
		{zk.WatcherPersistent, true},
		{zk.WatcherPersistentRecursive, true},
		{zk.WatcherAny, true},
		{0, false},
		{6, false},
	} {
		if got := w.Contains(1, "/a", c.typ); got != c.want {
			t.Errorf("Contains(%d): %v", c.typ, got)
		}
	}
	if !w.Remove(1, "/a", zk.WatcherPersistent) || w.Remove(1, "/a", zk.WatcherPersistent) {
		t.Error("a persistent watch is removed once")
	}
	expect(t, &w, children, "/a")
	expect(t, &w, changed, "/a", 1)
	expect(t, &w, changed, "/a/b", 1)
	if !w.Remove(1, "/a", zk.WatcherPersistentRecursive) || w.Remove(1, "/a", zk.WatcherAny) {
		t.Error("nothing is left after the recursive watch")
	}
	expect(t, &w, changed, "/a/b")
}

func TestRemoveTypes(t *testing.T) {
	types := []zk.WatcherType{
		zk.WatcherChildren, zk.WatcherData, zk.WatcherPersistent, zk.WatcherPersistentRecursive,
	}
	kindOf := map[zk.WatcherType]Kind{
		zk.WatcherChildren: Child, zk.WatcherData: Data,
		zk.WatcherPersistent: Persistent, zk.WatcherPersistentRecursive: Recursive,
	}
	for _, typ := range types {
		var w Tables
		for _, k := range []Kind{Data, Child, Persistent, Recursive} {
			w.Add(1, "/a", k)
		}
		if !w.Remove(1, "/a", typ) {
			t.Fatalf("type %d: nothing removed", typ)
		}
		w.check(t)
		for _, other := range types {
			if w.Contains(1, "/a", other) != (other != typ) {
				t.Errorf("after removing type %d, type %d is there: %v", typ, other, other == typ)
			}
		}
		var alone Tables
		alone.Add(1, "/a", kindOf[typ])
		if alone.Remove(2, "/a", typ) || alone.Remove(1, "/b", typ) || alone.Remove(1, "/a", 9) {
			t.Errorf("type %d: removed what is not there", typ)
		}
		if !alone.Remove(1, "/a", zk.WatcherAny) || alone.Len() != 0 {
			t.Errorf("type %d: not removed by Any", typ)
		}
		alone.check(t)
	}
}

// Invariant 2.
func TestNamedOnce(t *testing.T) {
	var w Tables
	w.Add(1, "/a/b", Data)
	w.Add(1, "/a/b", Child)
	w.Add(1, "/a", Recursive)
	w.Add(1, "/", Recursive)
	w.Add(2, "/a/b", Child)
	w.Add(3, "/a/b", Persistent)
	w.Add(4, "/", Recursive)
	expect(t, &w, deleted, "/a/b", 1, 3, 4, 2)
	expect(t, &w, deleted, "/a/b", 3, 1, 4)
	expect(t, &w, children, "/a/b", 3)
	expect(t, &w, children, "/a")
}

// Invariant 3.
func TestRecursiveNeverForChildren(t *testing.T) {
	var w Tables
	w.Add(1, "/", Recursive)
	w.Add(1, "/a", Recursive)
	expect(t, &w, children, "/a")
	expect(t, &w, children, "/")
	expect(t, &w, created, "/a", 1)
	expect(t, &w, changed, "/", 1)
	w.Add(1, "/a", Child)
	expect(t, &w, children, "/a", 1)
}

// Invariant 4, and no allocation for those who are named either.
func TestTriggerDoesNotAllocate(t *testing.T) {
	var w Tables
	for i := range 100 {
		w.Add(ID(i), "/watched", Persistent)
	}
	dst := make([]ID, 0, 100)
	for _, c := range []struct {
		path      string
		recursive bool
		named     int
	}{{"/some/other/path", false, 0}, {"/watched", false, 100}, {"/some/other/path", true, 1}} {
		if c.recursive {
			w.Add(1000, "/some", Recursive)
		}
		for _, ev := range events[:3] {
			if n := testing.AllocsPerRun(100, func() {
				if got := len(w.Trigger(ev, c.path, dst[:0])); got != c.named {
					t.Fatalf("%v %s names %d", ev, c.path, got)
				}
			}); n != 0 {
				t.Errorf("%v %s: %v allocations", ev, c.path, n)
			}
		}
	}
}

// The path of a request lies in a buffer that the next request overwrites.
func TestAddKeepsACopy(t *testing.T) {
	var w Tables
	frame := []byte("/aaaa")
	w.Add(1, unsafeString(frame), Persistent)
	copy(frame, "/bbbb")
	w.check(t)
	expect(t, &w, changed, "/aaaa", 1)
	expect(t, &w, children, "/aaaa", 1)
	expect(t, &w, changed, "/bbbb")
}

// Long paths with the same hash are different paths.
func TestLongPathsWithTheSameHash(t *testing.T) {
	var w Tables
	a, b := "/a"+strings.Repeat("-", LongPath), "/b"+strings.Repeat("-", LongPath)
	w.Add(1, a, Data)
	w.Add(2, b, Data)
	x := &w.data.index
	hash := maphash.String(seed, a)
	x.long[hash] = append([]uint32{w.data.path(b)}, x.long[hash]...)
	if got := w.Trigger(changed, a, nil); !slices.Equal(got, []ID{1}) {
		t.Errorf("%d are named, want 1", got)
	}
	if got := x.long[hash]; len(got) != 1 || got[0] != w.data.path(b) {
		t.Errorf("records %d have the hash, want %d alone", got, w.data.path(b))
	}
}

// everything is more than any watcher has.
const everything = math.MaxInt

func TestDrop(t *testing.T) {
	var w Tables
	w.Drop(1, everything)
	for i := range 50 {
		for _, k := range []Kind{Data, Child, Persistent, Recursive} {
			w.Add(1, fmt.Sprintf("/%d", i), k)
			w.Add(2, fmt.Sprintf("/%d", i), k)
		}
	}
	for left := 100; left > 0; left -= 30 {
		if w.Len() != 100+left {
			t.Errorf("%d watches are left, want %d", w.Len(), 100+left)
		}
		if n, done := w.Drop(1, 30); n != min(left, 30) || done != (left == 10) {
			t.Errorf("%d of %d watches are removed, done: %v", n, left, done)
		}
		w.check(t)
	}
	if w.Len() != 100 || w.Contains(1, "/0", zk.WatcherAny) || !w.Contains(2, "/0", zk.WatcherAny) {
		t.Errorf("%d watches are left", w.Len())
	}
	long := strings.Repeat("n", 10<<10)
	for i := range 3 {
		w.Add(3, fmt.Sprint("/", i, long), Data)
	}
	for left := 2; left >= 0; left-- {
		if work, done := w.Drop(3, 5); work != 11 || w.Len() != 100+left || done != (left == 0) {
			t.Errorf("%d units of work, done: %v; %d watches are left", work, done, w.Len())
		}
	}
	w.Drop(2, everything)
	w.check(t)
	if w.Len() != 0 || w.recursive != 0 {
		t.Errorf("%d watches are left, %d recursive", w.Len(), w.recursive)
	}
	w.Add(1, "/a", Data)
	expect(t, &w, changed, "/a", 1)
}

func TestReports(t *testing.T) {
	var w Tables
	w.Add(2, "/a", Data)
	w.Add(1, "/a", Persistent)
	w.Add(2, "/b", Recursive)
	w.Add(3, "/c", Child)
	if n := w.Len(); n != 5 {
		t.Errorf("Len %d", n)
	}
	if ws, ps, n := w.Summary(); ws != 2 || ps != 2 || n != 3 {
		t.Errorf("Summary %d %d %d", ws, ps, n)
	}
	var byPath, byWatcher []string
	for path, ids := range w.Paths() {
		byPath = append(byPath, fmt.Sprintf("%s%d", path, slices.Collect(ids)))
	}
	for id, paths := range w.Watchers() {
		byWatcher = append(byWatcher, fmt.Sprintf("%d%s", id, slices.Collect(paths)))
	}
	if want := []string{"/a[2 1]", "/b[2]"}; !slices.Equal(byPath, want) {
		t.Errorf("by path %v, want %v", byPath, want)
	}
	if want := []string{"1[/a]", "2[/a /b]"}; !slices.Equal(byWatcher, want) {
		t.Errorf("by watcher %v, want %v", byWatcher, want)
	}
	for range w.Paths() {
		break
	}
	for range w.Watchers() {
		break
	}
}

// Invariant 7. The watcher that holds most is refused first; what it drops is free again.
func TestLimit(t *testing.T) {
	w := Tables{Limit: 4 << 20}
	fill := func(id ID) (n int) {
		for w.Add(id, fmt.Sprint("/some/long/path/of/a/watcher/", id, "/", n), Data) {
			n++
		}
		return n
	}
	first := fill(1)
	if got := w.Bytes(); got < w.Limit/2-1000 || got > w.Limit/2 {
		t.Errorf("the first watcher holds %d bytes of %d", got, w.Limit)
	}
	second := fill(2)
	if second < first/3 || second > first*2/3 {
		t.Errorf("the watchers got %d and %d watches", first, second)
	}
	for id := ID(3); id < 40; id++ {
		if n := fill(id); n < freeBytes/250 {
			t.Fatalf("watcher %d got %d watches", id, n)
		}
	}
	if got := w.Bytes(); got > w.Limit+40*freeBytes {
		t.Errorf("%d bytes are held, the limit is %d", got, w.Limit)
	}
	if !w.Add(1, "/some/long/path/of/a/watcher/1/0", Persistent) {
		t.Error("a watch that is there cannot be registered again")
	}
	if w.Fits(3, []string{string(make([]byte, freeBytes))}) {
		t.Error("a long path fits")
	}
	w.check(t)
	w.Drop(1, everything)
	if n := fill(3); n < 1000 {
		t.Errorf("%d watches fit when others are gone", n)
	}
	w.check(t)
	for id := range ID(40) {
		w.Drop(id, everything)
	}
	if w.Bytes() != 0 {
		t.Errorf("%d bytes are left", w.Bytes())
	}
}
