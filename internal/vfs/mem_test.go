package vfs_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/test/faultfs"
)

// testFS are the implementations that must behave alike, each with a directory.
func testFS(t *testing.T) map[string]func() (vfs.FS, string) {
	return map[string]func() (vfs.FS, string){
		"os":    func() (vfs.FS, string) { return vfs.OS{}, filepath.ToSlash(t.TempDir()) },
		"mem":   func() (vfs.FS, string) { return vfs.NewMem(), "/" },
		"fault": func() (vfs.FS, string) { return faultfs.New(vfs.NewMem(), 0, faultfs.None, nil), "/" },
	}
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func create(t *testing.T, f vfs.FS, name, content string) vfs.File {
	t.Helper()
	file, err := f.Create(name)
	must(t, err)
	_, err = file.Write([]byte(content))
	must(t, err)
	return file
}

func content(t *testing.T, f vfs.FS, name string) string {
	t.Helper()
	file, err := f.Open(name)
	must(t, err)
	b, err := io.ReadAll(file)
	must(t, err, file.Close())
	return string(b)
}

// Names: create, list, rename, remove, and the errors of each.
func TestNames(t *testing.T) {
	for name, newFS := range testFS(t) {
		t.Run(name, func(t *testing.T) {
			f, base := newFS()
			dir := base + "/a/b"
			must(t, f.MkdirAll(dir), f.MkdirAll(dir))
			must(t, create(t, f, dir+"/x", "one").Close(), create(t, f, dir+"/y", "two").Close())
			must(t, f.Rename(dir+"/x", dir+"/y"), f.SyncDir(dir))
			names, err := f.List(dir)
			must(t, err)
			if fmt.Sprint(names) != "[y]" || content(t, f, dir+"/y") != "one" {
				t.Fatalf("after the rename: %v, y holds %q", names, content(t, f, dir+"/y"))
			}
			if names, _ := f.List(base + "/a"); fmt.Sprint(names) != "[b]" {
				t.Fatalf("a holds %v", names)
			}
			if n, err := f.Size(dir + "/y"); n != 3 || err != nil {
				t.Fatalf("size %d, %v", n, err)
			}
			must(t, f.Remove(dir+"/y"))
			_, openErr := f.Open(dir + "/y")
			_, openRWErr := f.OpenReadWrite(dir + "/y")
			_, createErr := f.Create(base + "/none/x")
			_, listErr := f.List(base + "/none")
			_, sizeErr := f.Size(dir + "/y")
			for i, err := range []error{openErr, openRWErr, createErr, listErr, sizeErr,
				f.Remove(dir + "/y"), f.Rename(dir+"/y", dir+"/z"), f.SyncDir(base + "/none")} {
				if !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("number %d on a name that is not there: %v", i, err)
				}
			}
			if err := f.Rename(dir+"/y", base+"/y"); err == nil {
				t.Error("a rename to another directory is accepted")
			}
			must(t, create(t, f, base+"/file", "").Close())
			if err := f.MkdirAll(base + "/file/sub"); err == nil {
				t.Error("a directory in a file is accepted")
			}
			lock, err := f.Lock(base + "/lock")
			must(t, err)
			if _, err := f.Lock(base + "/lock"); !errors.Is(err, vfs.ErrLocked) {
				t.Errorf("the second lock: %v", err)
			}
			must(t, lock.Close())
			lock, err = f.Lock(base + "/lock")
			must(t, err, lock.Close())
		})
	}
}

// Content: a file behaves like a slice of bytes under random operations.
func TestContent(t *testing.T) {
	for name, newFS := range testFS(t) {
		t.Run(name, func(t *testing.T) {
			f, base := newFS()
			rng := rand.New(rand.NewPCG(1, 2))
			file := create(t, f, base+"/x", "")
			var model []byte
			resize := func(n int) {
				model = append(model, make([]byte, max(0, n-len(model)))...)[:n]
			}
			for range 500 {
				switch rng.IntN(6) {
				case 0, 1:
					off, p := rng.IntN(4000), make([]byte, rng.IntN(1500))
					for i := range p {
						p[i] = byte(rng.Uint32())
					}
					_, err := file.Seek(int64(off), io.SeekStart)
					must(t, err)
					n, err := file.Write(p)
					if must(t, err); n != len(p) {
						t.Fatalf("wrote %d of %d", n, len(p))
					}
					if len(p) > 0 {
						resize(max(len(model), off+len(p)))
						copy(model[off:], p)
					}
				case 2:
					n := rng.IntN(5000)
					must(t, file.Truncate(int64(n)))
					resize(n)
				case 3:
					n := rng.IntN(6000)
					must(t, file.Preallocate(int64(n)))
					resize(max(len(model), n))
				case 4:
					must(t, file.Sync())
				case 5:
					off, p := rng.IntN(6000), make([]byte, rng.IntN(2000))
					n, err := file.ReadAt(p, int64(off))
					want := model[min(off, len(model)):min(off+len(p), len(model))]
					if !bytes.Equal(p[:n], want) || (err == io.EOF) != (n < len(p)) {
						t.Fatalf("read %d bytes at %d of %d: %v", n, off, len(model), err)
					}
				}
			}
			if got := content(t, f, base+"/x"); got != string(model) {
				t.Fatal("the file is not what was written")
			}
			end, err := file.Seek(0, io.SeekEnd)
			if must(t, err); end != int64(len(model)) {
				t.Fatalf("the end is at %d, want %d", end, len(model))
			}
			must(t, file.Close())
			read, err := f.Open(base + "/x")
			must(t, err)
			if _, err := read.Write([]byte("x")); err == nil {
				t.Error("a file that is open for reading is written")
			}
			must(t, read.Close())
			again := create(t, f, base+"/x", "")
			if n, _ := f.Size(base + "/x"); n != 0 {
				t.Errorf("created again, the file has %d bytes", n)
			}
			must(t, again.Close())
		})
	}
}

// What is synced survives every crash; what is not survives in some and not in
// others; nothing else appears.
func TestCrashClone(t *testing.T) {
	m := vfs.NewMem()
	must(t, m.MkdirAll("/d"))
	file := create(t, m, "/d/synced", "old old old")
	must(t, file.Sync(), m.SyncDir("/d"))
	big := bytes.Repeat([]byte("n"), 3*vfs.SectorBytes)
	file.Seek(vfs.SectorBytes, io.SeekStart)
	file.Write(big)
	create(t, m, "/d/nameless", "data").Sync()
	create(t, m, "/d/moving", "data").Sync()
	must(t, m.SyncDir("/d"), m.Rename("/d/moving", "/d/moved"))
	create(t, m, "/d/late", "data").Sync()
	must(t, m.Remove("/d/nameless"))

	seen := map[string]int{}
	for seed := range uint64(400) {
		c := m.CrashClone(rand.New(rand.NewPCG(seed, 0)))
		again := m.CrashClone(rand.New(rand.NewPCG(seed, 0)))
		got := content(t, c, "/d/synced")
		if got != content(t, again, "/d/synced") {
			t.Fatalf("seed %d gives two disks", seed)
		}
		if len(got) < 11 || got[:11] != "old old old" {
			t.Fatalf("seed %d: synced bytes are lost: %q", seed, got)
		}
		for i := vfs.SectorBytes; i < len(got); i += vfs.SectorBytes {
			sector := got[i:min(len(got), i+vfs.SectorBytes)]
			switch {
			case len(sector) == vfs.SectorBytes && sector == string(big[:vfs.SectorBytes]):
				seen["new sector"]++
			case sector == string(make([]byte, len(sector))):
				seen["lost sector"]++
			default:
				t.Fatalf("seed %d: a sector that nobody wrote", seed)
			}
		}
		if len(got) == 11 {
			seen["lost length"]++
		}
		names, err := c.List("/d")
		must(t, err)
		seen[fmt.Sprint(names)]++
		if moved, moving := slices.Contains(names, "moved"), slices.Contains(names, "moving"); moved == moving {
			t.Fatalf("seed %d: a rename by halves: %v", seed, names)
		}
	}
	for _, want := range []string{"new sector", "lost sector", "lost length",
		"[moving nameless synced]", "[late moved synced]", "[moved nameless synced]", "[late moving synced]"} {
		if seen[want] == 0 {
			t.Errorf("never seen: %s (%v)", want, seen)
		}
	}
	if got := content(t, m, "/d/late"); got != "data" {
		t.Error("a clone has changed the original")
	}
}

// A crash of a crashed disk loses nothing more.
func TestCrashTwice(t *testing.T) {
	m := vfs.NewMem()
	create(t, m, "/x", string(bytes.Repeat([]byte("n"), 2000)))
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 0))
		c := m.CrashClone(rng)
		names, _ := c.List("/")
		again, _ := c.CrashClone(rng).List("/")
		if fmt.Sprint(names) != fmt.Sprint(again) {
			t.Fatalf("names %v, then %v", names, again)
		}
		if len(names) > 0 && content(t, c, "/x") != content(t, c.CrashClone(rng), "/x") {
			t.Fatal("the content has changed")
		}
	}
}

// Each fault does what it says to the operation that it is set to, and to no
// other; a crash to all that follow.
func TestFault(t *testing.T) {
	tests := []struct {
		kind    faultfs.Kind
		at      int
		fails   string // which of the script's operations fail
		content string
	}{
		{faultfs.None, 3, "----", "onetwo"},
		{faultfs.NoSpace, 2, "-x--", "two"},
		{faultfs.IO, 4, "---x", "onetwo"},
		{faultfs.ShortWrite, 3, "--x-", "onet"},
		{faultfs.ShortWrite, 4, "---x", "onetwo"},
		{faultfs.Crash, 3, "--xx", "one"},
	}
	for _, tt := range tests {
		m := vfs.NewMem()
		var ops []string
		f := faultfs.New(m, tt.at, tt.kind, func(o faultfs.Op) { ops = append(ops, o.String()) })
		fails := ""
		note := func(err error) {
			fails += map[bool]string{true: "-", false: "x"}[err == nil]
			if err != nil && errors.Is(err, faultfs.ErrCrashed) != (tt.kind == faultfs.Crash) {
				t.Errorf("kind %d: %v", tt.kind, err)
			}
		}
		file, err := f.Create("/x")
		note(err)
		_, err = file.Write([]byte("one"))
		note(err)
		_, err = file.Write([]byte("two"))
		note(err)
		note(file.Sync())
		must(t, file.Close())
		if fails != tt.fails || f.Ops() != 4 || content(t, m, "/x") != tt.content {
			t.Errorf("kind %d at %d: fails %s, %d operations, content %q", tt.kind, tt.at, fails, f.Ops(), content(t, m, "/x"))
		}
		if want := "[create x write x 3 write x 3 sync x]"; fmt.Sprint(ops) != want {
			t.Errorf("trace %v, want %s", ops, want)
		}
	}
	f := faultfs.New(vfs.NewMem(), 0, faultfs.None, nil)
	f.Crash()
	if _, err := f.List("/"); !errors.Is(err, faultfs.ErrCrashed) {
		t.Errorf("after Crash: %v", err)
	}
}
