package history

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/storage"
	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/test/fuzzy"
	"github.com/pinfold-zk/pinfold/zk"
)

// withFuzzy copies the directory that an Apache server has written, and leaves no other snapshot in it than one that
// write writes.
func withFuzzy(t *testing.T, write func(dir string, from, z zk.Zxid) (storage.Snapshot, error), from, z zk.Zxid) (dir string) {
	t.Helper()
	dir = copyOf(t)
	s, err := write(dir, from, z)
	if err != nil {
		t.Fatal(from, z, err)
	}
	all, err := filepath.Glob(filepath.Join(dir, "version-2", "snapshot.*"))
	if err != nil || !slices.Contains(all, filepath.Join(dir, "version-2", s.Name)) {
		t.Fatal(all, err)
	}
	for _, name := range all {
		if filepath.Base(name) == s.Name {
			continue
		}
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// cut removes what follows z from the log.
func cut(t *testing.T, dir string, z zk.Zxid) {
	t.Helper()
	d, err := storage.Open(vfs.OS{}, storage.Options{DataDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(d.Truncate(z), d.Close()); err != nil {
		t.Fatal(err)
	}
}

// A snapshot of Apache's may have the transaction after the one that its digest block names: its directory is whole.
// Where the log ends before that transaction, the state is that of no zxid, which is said.
func TestVerifyFuzzySnapshots(t *testing.T) {
	ahead := 0
	for z := zk.Zxid(2); z < 0x3b; z++ {
		dir := withFuzzy(t, fuzzy.Write, z-1, z)
		v, out, err := verify(t, dir)
		if err != nil || v.Reached != 0x3b || z < 0x3a && v.Compared == 0 || !strings.Contains(out, "all is well") {
			t.Errorf("up to %v: %v: %+v\n%s", z, err, v, out)
		}
		d, err := storage.OpenReadOnly(vfs.OS{}, storage.Options{DataDir: dir})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Newest(d, storage.DefaultMaxEntryBytes); err != nil {
			t.Errorf("up to %v: %v", z, err)
		}
		cut(t, dir, z)
		v, out, err = verify(t, dir)
		if err == nil {
			if v.Reached != z || !strings.Contains(out, "all is well") {
				t.Errorf("cut at %v: %+v\n%s", z, v, out)
			}
			continue
		}
		ahead++
		if !errors.Is(err, ErrDamaged) || v.Ahead <= z || !strings.Contains(out, "may have a part of the next transaction") {
			t.Errorf("cut at %v: %v: %+v\n%s", z, err, v, out)
		}
		if _, err := Newest(d, storage.DefaultMaxEntryBytes); err == nil || !strings.Contains(err.Error(), "where the log ends") {
			t.Errorf("cut at %v: %v", z, err)
		}
	}
	if ahead < 10 {
		t.Errorf("%d snapshots had effects of the next transaction", ahead)
	}
}

// A leader's snapshot does not say how far it is ahead. If the log ends before that, the state is that of no zxid: a note
// says so, and nothing is made of it. It is no damage: the leader sends the rest.
func TestVerifyALeadersSnapshot(t *testing.T) {
	ahead := 0
	for z := zk.Zxid(2); z < 0x3a; z++ {
		dir := withFuzzy(t, fuzzy.WriteLeaders, z-1, z+1)
		if v, out, err := verify(t, dir); err != nil || v.Reached != 0x3b || v.Compared == 0 || strings.Contains(out, "note") {
			t.Errorf("up to %v: %v: %+v\n%s", z+1, err, v, out)
		}
		cut(t, dir, z)
		v, out, err := verify(t, dir)
		if err != nil || v.Reached != z {
			t.Errorf("cut at %v: %v: %+v\n%s", z, err, v, out)
		}
		d, err := storage.OpenReadOnly(vfs.OS{}, storage.Options{DataDir: dir})
		if err != nil {
			t.Fatal(err)
		}
		_, err = Newest(d, storage.DefaultMaxEntryBytes)
		if noted := strings.Contains(out, "note     it has effects of transactions after "+z.String()); noted != (err != nil) || noted && v.Ahead <= z {
			t.Errorf("cut at %v: ahead up to %v, %v\n%s", z, v.Ahead, err, out)
		} else if noted {
			ahead++
		}
	}
	if ahead < 10 {
		t.Errorf("%d snapshots were ahead of the log", ahead)
	}
}
