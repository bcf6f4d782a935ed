package storage

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/zk"
)

// What Purge keeps: enough valid snapshots, and every log that the oldest needs.
func TestPurge(t *testing.T) {
	tests := []struct {
		name      string
		snapshots []zk.Zxid // negative: not valid
		logs      []zk.Zxid // first zxids; every log goes up to the next, the last up to 99
		retain    int
		want      string // what is left
	}{
		{"too few", []zk.Zxid{0, 10}, []zk.Zxid{1, 11}, 3, "[log.1 log.b snapshot.0 snapshot.a]"},
		{"just enough", []zk.Zxid{0, 10, 20}, []zk.Zxid{1, 11, 21}, 3, "[log.1 log.15 log.b snapshot.0 snapshot.14 snapshot.a]"},
		{"one too many", []zk.Zxid{0, 10, 20, 30}, []zk.Zxid{1, 11, 21, 31}, 3, "[log.15 log.1f log.b snapshot.14 snapshot.1e snapshot.a]"},
		{"a log spans the oldest", []zk.Zxid{0, 10, 20, 30}, []zk.Zxid{1, 5, 15, 25}, 3, "[log.19 log.5 log.f snapshot.14 snapshot.1e snapshot.a]"},
		{"one transaction of a log is needed", []zk.Zxid{0, 10, 20, 30}, []zk.Zxid{1, 12, 21, 31}, 3, "[log.1 log.15 log.1f log.c snapshot.14 snapshot.1e snapshot.a]"},
		{"one is not valid", []zk.Zxid{0, 10, -20, 30}, []zk.Zxid{1, 11, 21, 31}, 3, "[log.1 log.15 log.1f log.b snapshot.0 snapshot.14 snapshot.1e snapshot.a]"},
		{"retain is too small", []zk.Zxid{0, 10, 20, 30}, []zk.Zxid{1, 11, 21, 31}, 1, "[log.15 log.1f log.b snapshot.14 snapshot.1e snapshot.a]"},
		{"retain 4", []zk.Zxid{0, 5, 10, 20, 30}, []zk.Zxid{1, 11}, 4, "[log.1 log.b snapshot.14 snapshot.1e snapshot.5 snapshot.a]"},
		{"no log", []zk.Zxid{0, 10, 20, 30}, nil, 3, "[snapshot.14 snapshot.1e snapshot.a]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			mem := vfs.NewMem()
			d := openTest(t, mem, testOptions())
			for _, z := range tt.snapshots {
				if z < 0 {
					putFile(t, mem, "/data/version-2/snapshot."+(-z).Hex(), []byte("half a snapshot"))
				} else {
					writeSnapshot(t, d, z, []byte("body"))
				}
			}
			for i, z := range tt.logs {
				end := zk.Zxid(99)
				if i+1 < len(tt.logs) {
					end = tt.logs[i+1] - 1
				}
				putFile(t, mem, testLogDir+"log."+z.Hex(), logBytes(testEntries(40, zxids(z, end)...)...))
			}
			before := list(t, mem, "/data/version-2")
			removed, err := d.Purge(Retention{Snapshots: tt.retain})
			if err != nil {
				t.Fatal(err)
			}
			left := list(t, mem, "/data/version-2")
			if fmt.Sprint(left) != tt.want {
				t.Errorf("left %v, want %s", left, tt.want)
			}
			if both := slices.Sorted(slices.Values(append(left, removed...))); !slices.Equal(both, before) {
				t.Errorf("removed %v of %v, left %v", removed, before, left)
			}
			// The oldest valid snapshot that is left still reaches the end.
			snaps, _ := d.Snapshots()
			for _, s := range snaps {
				if valid, _ := d.valid(s); valid && len(tt.logs) > 0 {
					if got, _, err := readAll(d, s.Zxid); err != nil || len(got) != int(99-s.Zxid) {
						t.Errorf("from snapshot %v: %d entries, %v", s.Zxid, len(got), err)
					}
				}
			}
		})
	}
}

// datedFS is a file system whose files were written at the times that a test sets.
type datedFS struct {
	vfs.FS
	written map[string]time.Time
}

func (f *datedFS) ModTime(name string) (time.Time, error) { return f.written[name], nil }

// By age and by size Purge removes the oldest, but keeps three snapshots and their logs.
func TestPurgeByAgeAndSize(t *testing.T) {
	now := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		name string
		keep Retention
		want string // snapshots that are left
	}{
		{"neither", Retention{Snapshots: 9}, "[1 2 3 4 5 6]"},
		{"four days", Retention{Snapshots: 9, NotBefore: now.AddDate(0, 0, -4)}, "[2 3 4 5 6]"},
		{"an hour", Retention{Snapshots: 9, NotBefore: now.Add(-time.Hour)}, "[4 5 6]"},
		{"number and age", Retention{Snapshots: 5, NotBefore: now.AddDate(0, 0, -9)}, "[2 3 4 5 6]"},
		{"all fit", Retention{Snapshots: 9, Bytes: 1 << 30}, "[1 2 3 4 5 6]"},
		{"room for one", Retention{Snapshots: 9, Bytes: 1}, "[4 5 6]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			mem := vfs.NewMem()
			dated := &datedFS{FS: mem, written: map[string]time.Time{}}
			d := openTest(t, dated, testOptions())
			for z := zk.Zxid(1); z <= 6; z++ { // one each day, the last today
				writeSnapshot(t, d, z, []byte("body"))
				dated.written["/data/version-2/snapshot."+z.Hex()] = now.AddDate(0, 0, int(z)-6)
				putFile(t, mem, testLogDir+"log."+z.Hex(), logBytes(testEntries(40, z)...))
			}
			if _, err := d.Purge(tt.keep); err != nil {
				t.Fatal(err)
			}
			snaps, err := d.Snapshots()
			if err != nil {
				t.Fatal(err)
			}
			var left []int64
			for _, s := range slices.Backward(snaps) {
				left = append(left, int64(s.Zxid))
			}
			if fmt.Sprint(left) != tt.want {
				t.Errorf("left %v, want %s", left, tt.want)
			}
			if got, _, err := readAll(d, zk.Zxid(left[0])); err != nil || len(got) != 6-int(left[0]) {
				t.Errorf("after snapshot %d: %d entries, %v", left[0], len(got), err)
			}
		})
	}
	// The limit of size counts the logs that a snapshot needs: with one byte less it goes.
	mem := vfs.NewMem()
	d := openTest(t, mem, testOptions())
	total := int64(0)
	for z := zk.Zxid(1); z <= 4; z++ {
		writeSnapshot(t, d, z, []byte("body"))
		putFile(t, mem, testLogDir+"log."+z.Hex(), logBytes(testEntries(40, z)...))
		for _, name := range []string{"/data/version-2/snapshot." + z.Hex(), testLogDir + "log." + z.Hex()} {
			n, err := mem.Size(name)
			if err != nil {
				t.Fatal(err)
			}
			if name != testLogDir+"log.1" { // no snapshot needs it
				total += n
			}
		}
	}
	if removed, err := d.Purge(Retention{Snapshots: 9, Bytes: total}); err != nil || len(removed) > 0 {
		t.Errorf("all fit, removed are %v, %v", removed, err)
	}
	if removed, err := d.Purge(Retention{Snapshots: 9, Bytes: total - 1}); err != nil || fmt.Sprint(removed) != "[snapshot.1 log.1 log.2]" {
		t.Errorf("removed are %v, %v", removed, err)
	}
}

// Truncate leaves the history up to a zxid, wherever in which file that is.
func TestTruncate(t *testing.T) {
	e1, e2 := zk.MakeZxid(1, 0), zk.MakeZxid(2, 0)
	all := append(zxids(e1+1, e1+6), zxids(e2+1, e2+3)...)
	setup := func(t *testing.T) (*Dir, []entry) {
		d := openTest(t, vfs.NewMem(), testOptions())
		writeSnapshot(t, d, 0, []byte("body"))
		l := d.NewLog(0)
		var es []entry
		for _, z := range all {
			es = append(es, appendTest(t, l, 100, z)...)
			if z == e1+2 || z == e1+6 {
				if err := l.Roll(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		writeSnapshot(t, d, e1+4, []byte("body"))
		writeSnapshot(t, d, e2+2, []byte("body"))
		return d, es
	}
	for i, z := range all {
		d, es := setup(t)
		if err := d.Truncate(z); err != nil {
			t.Fatalf("to %v: %v", z, err)
		}
		got, tail, err := readAll(d, 0)
		if err != nil || !sameEntries(got, es[:i+1]) || tail.Torn || tail.Bytes != tail.Size {
			t.Fatalf("to %v: %d entries, tail %+v, %v", z, len(got), tail, err)
		}
		snaps, err := d.Snapshots()
		if err != nil || len(snaps) == 0 {
			t.Fatalf("to %v: %d snapshots, %v", z, len(snaps), err)
		}
		for _, s := range snaps {
			if s.Zxid > z {
				t.Fatalf("to %v: snapshot %v is left", z, s.Zxid)
			}
		}
		l := d.NewLog(z)
		more := appendTest(t, l, 50, zk.MakeZxid(9, 1))
		flush(t, l)
		if got, _, err := readAll(d, 0); err != nil || !sameEntries(got, append(es[:i+1:i+1], more...)) {
			t.Fatalf("to %v and on: %d entries, %v", z, len(got), err)
		}
	}
	for _, z := range []zk.Zxid{e1, e1 + 7, e2, e2 + 4, zk.MakeZxid(3, 1), 5} {
		d, es := setup(t)
		before := list(t, d.fs, "/data/version-2")
		if err := d.Truncate(z); !errors.Is(err, ErrNoZxid) {
			t.Errorf("to %v, which is not there: %v", z, err)
		}
		got, _, err := readAll(d, 0)
		if after := list(t, d.fs, "/data/version-2"); err != nil || !sameEntries(got, es) || !slices.Equal(before, after) {
			t.Errorf("to %v, which is not there: something has changed (%v)", z, err)
		}
	}
}

// Apache leaves the zeros that it has reserved behind every file. Truncate cuts
// before them, in a file that others follow and in the last.
func TestTruncateApache(t *testing.T) {
	es := testEntries(60, zxids(1, 6)...)
	zeros := make([]byte, 5000)
	for _, z := range zxids(1, 6) {
		d := putLogs(t, map[string][]byte{
			"log.1": append(logBytes(es[:3]...), zeros...), "log.4": append(logBytes(es[3:]...), zeros...),
		})
		writeSnapshot(t, d, 0, []byte("body"))
		if err := d.Truncate(z); err != nil {
			t.Fatal(err)
		}
		got, tail, err := readAll(d, 0)
		if err != nil || !sameEntries(got, es[:z]) || tail.Bytes != tail.Size {
			t.Fatalf("to %v: %d entries, tail %+v, %v", z, len(got), tail, err)
		}
	}
}

// A snapshot that came from a leader is a state to go back to, though the log
// never had its zxid.
func TestTruncateToSnapshot(t *testing.T) {
	e1 := zk.MakeZxid(1, 0)
	h := history{snapshots: []zk.Zxid{0, e1 + 5}, log: []zk.Zxid{1, 2, 0, e1 + 6, e1 + 7}}
	d := openTest(t, h.put(t), testOptions())
	if err := d.Truncate(e1 + 4); !errors.Is(err, ErrNoZxid) {
		t.Fatal(err)
	}
	if err := d.Truncate(e1 + 5); err != nil {
		t.Fatal(err)
	}
	r, err := recoverTest(d)
	if err != nil || r.base != e1+5 || len(r.log) > 0 {
		t.Fatalf("snapshot %v and %d entries, %v", r.base, len(r.log), err)
	}
	if err := d.Truncate(2); err != nil {
		t.Fatal(err)
	}
	if r, err = recoverTest(d); err != nil || r.base != 0 || r.end() != 2 {
		t.Fatalf("snapshot %v and %d entries, %v", r.base, len(r.log), err)
	}
}

// A log that begins after a leader's snapshot is cut off to that snapshot, whose file is lost then: the history does not end
// silently with what was before.
func TestSnapshotLostAfterTruncate(t *testing.T) {
	e1 := zk.MakeZxid(1, 0)
	h := history{snapshots: []zk.Zxid{0, e1 + 5}, log: []zk.Zxid{e1 + 6, e1 + 7}}
	mem := h.put(t)
	d := openTest(t, mem, testOptions())
	if err := d.Truncate(e1 + 5); err != nil {
		t.Fatal(err)
	}
	if r, err := recoverTest(d); err != nil || r.base != e1+5 || len(r.log) > 0 {
		t.Fatalf("snapshot %v and %d entries, %v", r.base, len(r.log), err)
	}
	if err := errors.Join(d.Close(), mem.Remove(fmt.Sprintf("/data/version-2/snapshot.%x", uint64(e1+5)))); err != nil {
		t.Fatal(err)
	}
	d = openTest(t, mem, testOptions())
	if r, err := recoverTest(d); !errors.Is(err, ErrCorrupt) {
		t.Fatalf("the history ends with %v: %v", r.end(), err)
	}
}

// Without a snapshot to begin from, a truncated log is of no use.
func TestTruncateNeedsSnapshot(t *testing.T) {
	d := putLogs(t, map[string][]byte{"log.1": logBytes(testEntries(50, zxids(1, 5)...)...)})
	writeSnapshot(t, d, 4, []byte("body"))
	if err := d.Truncate(3); !errors.Is(err, ErrNoZxid) {
		t.Fatalf("truncate: %v", err)
	}
	if err := d.Truncate(4); err != nil {
		t.Fatalf("truncate: %v", err)
	}
}
