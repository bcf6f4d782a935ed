package watch

import (
	"fmt"
	"slices"
	"testing"
)

// pages collects a listing in pieces of n, calling between before each.
func pages(w *Tables, list func(*Place, []Watch) []Watch, n int, between func()) (all []Watch) {
	var at Place
	for {
		got := list(&at, make([]Watch, 0, n))
		if len(got) == 0 {
			return all
		}
		all = append(all, got...)
		between()
	}
}

func TestListing(t *testing.T) {
	var w Tables
	var want []Watch
	for p := range 30 {
		for id := range 1 + p%20 {
			path := fmt.Sprint("/p", p)
			w.Add(ID(id), path, Kind(p%2)*Persistent)
			want = append(want, Watch{path, ID(id)})
		}
	}
	w.Add(99, "/children", Child)
	compare := func(a, b Watch) int {
		if a.Path != b.Path {
			return map[bool]int{true: -1, false: 1}[a.Path < b.Path]
		}
		return int(a.Watcher) - int(b.Watcher)
	}
	slices.SortFunc(want, compare)
	for _, n := range []int{1, 2, 7, 1000} {
		for name, list := range map[string]func(*Place, []Watch) []Watch{
			"paths": w.ListPaths, "watchers": w.ListWatchers,
		} {
			got := pages(&w, list, n, func() {})
			grouped := slices.CompactFunc(slices.Clone(got), func(a, b Watch) bool {
				if name == "paths" {
					return a.Path == b.Path
				}
				return a.Watcher == b.Watcher
			})
			if groups := map[string]int{"paths": 30, "watchers": 20}[name]; len(grouped) != groups {
				t.Errorf("%s in pieces of %d: %d groups, want %d", name, n, len(grouped), groups)
			}
			slices.SortFunc(got, compare)
			if !slices.Equal(got, want) {
				t.Errorf("%s in pieces of %d: %d watches, want %d", name, n, len(got), len(want))
			}
		}
	}
}

// A listing shows every watch that is there all the time exactly once, whatever
// others come and go between its steps.
func TestListingWhileTablesChange(t *testing.T) {
	for name, list := range map[string]func(*Tables) func(*Place, []Watch) []Watch{
		"paths":    func(w *Tables) func(*Place, []Watch) []Watch { return w.ListPaths },
		"watchers": func(w *Tables) func(*Place, []Watch) []Watch { return w.ListWatchers },
	} {
		var w Tables
		for i := range 50 {
			for id := range 5 {
				w.Add(ID(id), fmt.Sprint("/stays", i), Data)
			}
		}
		step := 0
		got := pages(&w, list(&w), 3, func() {
			w.Add(77, fmt.Sprint("/new", step), Data)
			if step%2 == 0 {
				w.Trigger(changed, fmt.Sprint("/new", step), nil)
			}
			step++
		})
		seen := map[Watch]int{}
		for _, x := range got {
			seen[x]++
		}
		for i := range 50 {
			for id := range 5 {
				if x := (Watch{fmt.Sprint("/stays", i), ID(id)}); seen[x] != 1 {
					t.Errorf("%s: %v listed %d times", name, x, seen[x])
				}
			}
		}
	}
}

// The entry, the path or all that there was may be gone when a listing goes on.
func TestListingResumesWhereNothingIsLeft(t *testing.T) {
	for name, remove := range map[string]func(*Tables, []Watch){
		"the next": func(w *Tables, got []Watch) { w.Drop(got[len(got)-1].Watcher+1, everything) },
		"the path": func(w *Tables, got []Watch) { w.Trigger(changed, "/hot", nil) },
		"all": func(w *Tables, got []Watch) {
			for id := range 3000 {
				w.Drop(ID(id), everything)
			}
		},
	} {
		var w Tables
		for id := range 3000 {
			w.Add(ID(id), "/hot", Data)
		}
		var at Place
		got := w.ListPaths(&at, make([]Watch, 0, 10))
		remove(&w, got)
		for {
			more := w.ListPaths(&at, make([]Watch, 0, 500))
			if len(more) == 0 {
				break
			}
			got = append(got, more...)
		}
		want := map[string]int{"the next": 2999, "the path": 10, "all": 10}[name]
		if len(got) != want {
			t.Errorf("%s is gone: %d watches listed, want %d", name, len(got), want)
		}
	}
}
