package backup

import (
	"context"
	"io"
	"slices"
	"strings"
	"testing"
)

// Whatever names a store lists, each generation has a snapshot, is in order, and has only files that the store has
// under the names by which a backup and a restore ask for them.
func TestGenerationsAreInTheStore(t *testing.T) {
	for _, list := range []string{
		"000001/version-2/snapshot.0\n000001/version-2/log.1\n000002/version-2/snapshot.5.gz",
		"1/version-2/log.1\n+1/version-2/snapshot.0\n000001/version-2/snapshot.0",
		"1000000/version-2/snapshot.0\n0000001/version-2/log.1\n-00001/version-2/log.1",
		"000001/version-2/log.01\n000001/version-2/tmp.log.1\n000001/version-2/log.1/x\n000001/version-2/snapshot.1",
	} {
		s := listing{}
		for name := range strings.SplitSeq(list, "\n") {
			s[name] = 7
		}
		generations, err := Generations(t.Context(), s)
		if err != nil || len(generations) == 0 {
			t.Fatalf("%d generations, %v", len(generations), err)
		}
		if !slices.IsSortedFunc(generations, func(a, b Generation) int { return a.Number - b.Number }) {
			t.Errorf("the generations are out of order: %+v", generations)
		}
		for _, g := range generations {
			if len(g.Snapshots) == 0 || !slices.IsSorted(g.Logs) {
				t.Errorf("generation %+v", g)
			}
			for _, snapshot := range g.Snapshots {
				s.needs(t, g.file(snapshot.Name))
			}
			for _, first := range g.Logs {
				s.needs(t, g.file(logName(first)))
			}
		}
	}
}

// A listing is a Store that has names and lengths.
type listing map[string]int64

func (l listing) needs(t *testing.T, name string) {
	t.Helper()
	if _, ok := l[name]; !ok {
		t.Errorf("the store has no file %q", name)
	}
}

func (l listing) List(context.Context) (files []File, err error) {
	for name, bytes := range l {
		files = append(files, File{name, bytes})
	}
	slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	return files, nil
}

func (l listing) Put(context.Context, string, io.Reader, int64) error { panic("nothing is written") }

func (l listing) Get(context.Context, string) (io.ReadCloser, error) { panic("nothing is read") }
