package watch

import (
	"fmt"
	"runtime"
	"testing"
)

// heap returns the bytes that are alive.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Invariant 6 at the two sizes that the server must bear, and that the memory
// comes back. The bounds leave room for the steps in which maps grow.
func TestMemory(t *testing.T) {
	for _, c := range []struct {
		name            string
		watchers, paths int
		bound           int // bytes per watch, paths' own bytes included
	}{
		{"many watchers of one path", 100_000, 1, 100},
		{"one watcher of many paths", 1, 250_000, 145},
	} {
		before := heap()
		var w Tables
		n := 0
		buf := make([]byte, 0, 64)
		for i := range c.watchers {
			for j := range c.paths {
				buf = fmt.Appendf(buf[:0], "/services/znode-%09d", j)
				w.Add(ID(i), unsafeString(buf), Data)
				n++
			}
		}
		each := int(heap()-before) / n
		t.Logf("%s: %d bytes a watch", c.name, each)
		if each > c.bound {
			t.Errorf("%s: %d bytes a watch, more than %d", c.name, each, c.bound)
		}
		w.check(t)
		for i := range c.watchers {
			w.Drop(ID(i), everything)
		}
		if left := int64(heap() - before); left > 1<<20 {
			t.Errorf("%s: %d bytes are left after all is dropped", c.name, left)
		}
		w.check(t)
	}
}

func BenchmarkAddTrigger(b *testing.B) {
	var w Tables
	var dst []ID
	b.ReportAllocs()
	for b.Loop() {
		w.Add(1, "/services/znode-1", Data)
		dst = w.Trigger(changed, "/services/znode-1", dst[:0])
	}
}

func BenchmarkTriggerNobody(b *testing.B) {
	var w Tables
	for i := range 100_000 {
		w.Add(1, fmt.Sprint("/", i), Data)
	}
	for _, recursive := range []bool{false, true} {
		b.Run(fmt.Sprint("recursive=", recursive), func(b *testing.B) {
			if recursive {
				w.Add(1, "/elsewhere", Recursive)
			}
			b.ReportAllocs()
			for b.Loop() {
				w.Trigger(changed, "/some/path/of/five/parts", nil)
			}
		})
	}
}

// One operation is one watcher: added and fired among n on the same path.
func BenchmarkFanOut(b *testing.B) {
	for _, n := range []int{10, 200, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var w Tables
			dst := make([]ID, 0, n)
			b.ReportAllocs()
			for i := 0; i < b.N; i += n {
				for id := range n {
					w.Add(ID(id), "/hot", Data)
				}
				if dst = w.Trigger(changed, "/hot", dst[:0]); len(dst) != n {
					b.Fatal(len(dst))
				}
			}
		})
	}
}

// One operation is one path that one watcher adds and drops among 10,000.
func BenchmarkManyPaths(b *testing.B) {
	const n = 10_000
	paths := make([]string, n)
	for i := range paths {
		paths[i] = fmt.Sprintf("/services/znode-%09d", i)
	}
	var w Tables
	b.ReportAllocs()
	for i := 0; i < b.N; i += n {
		for _, p := range paths {
			w.Add(1, p, Data)
		}
		w.Drop(1, everything)
	}
}
