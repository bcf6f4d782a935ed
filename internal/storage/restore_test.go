package storage

import (
	"testing"

	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/zk"
)

// TestRemovedLogIsWrittenAnew: a log file that is removed while the server runs is
// there again, whole, before the next flush is acknowledged; by direct I/O and
// without, and on the real file system.
func TestRemovedLogIsWrittenAnew(t *testing.T) {
	for _, tt := range []struct {
		name string
		fs   vfs.FS
		dir  string
	}{
		{"direct", vfs.NewMem(), "/data"},
		{"buffered", bufferedFS{vfs.NewMem()}, "/data"},
		{"real", vfs.OS{}, t.TempDir()},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := testOptions()
			o.DataDir = tt.dir
			d := openTest(t, tt.fs, o)
			l := d.NewLog(0)
			var want []entry
			// A file that is written beside the caller is looked for every so many writes.
			missing := 0
			for z := range zk.Zxid(300) {
				if z%100 == 10 {
					missing = 1
					if err := tt.fs.Remove(tt.dir + "/version-2/log.1"); err != nil {
						t.Fatal(err)
					}
				}
				want = append(want, appendTest(t, l, 700, z+1)...)
				flush(t, l)
				switch restored := l.Restored() != ""; {
				case restored != (missing > 0) && missing != 0 && missing < linkedEvery:
					missing++
				case restored != (missing > 0):
					t.Fatalf("transaction %v: restored %v, missing for %d writes", z+1, restored, missing)
				default:
					missing = 0
				}
			}
			got, _, err := readAll(d, 0)
			if err != nil || !sameEntries(got, want) {
				t.Fatalf("%d transactions of %d, %v", len(got), len(want), err)
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			if got, _, err = readAll(d, 0); err != nil || !sameEntries(got, want) {
				t.Fatalf("after the end: %d transactions of %d, %v", len(got), len(want), err)
			}
		})
	}
}

// A file that is removed while all flushes are small is missed by LookForLog; without it, after smallLinkedEvery flushes.
func TestRemovedLogIsMissed(t *testing.T) {
	for _, looks := range []bool{true, false} {
		mem, o := vfs.NewMem(), testOptions()
		o.Log.PreallocBytes = 1 << 20
		d := openTest(t, mem, o)
		l := d.NewLog(0)
		flushed := func(z zk.Zxid) (small bool) {
			appendTest(t, l, 30, z)
			if !l.Prompt(0) {
				flush(t, l)
				return false
			}
			if err := l.FlushSmall(); err != nil {
				t.Fatal(err)
			}
			return true
		}
		flushed(1)
		d.LookForLog()
		if !flushed(2) {
			t.Fatal("the log looks for a file that is there")
		}
		if err := mem.Remove("/data/version-2/log.1"); err != nil {
			t.Fatal(err)
		}
		want := zk.Zxid(smallLinkedEvery + 1)
		if looks {
			d.LookForLog()
			want = 3
		}
		z := zk.Zxid(3)
		for flushed(z) {
			z++
		}
		if z != want || l.Restored() == "" {
			t.Errorf("LookForLog %v: flush %d looks for the file, want %d", looks, z, want)
		}
		if !flushed(z + 1) {
			t.Error("the log looks again for a file that it has written")
		}
	}
}
