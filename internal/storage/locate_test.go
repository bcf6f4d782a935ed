package storage

import (
	"bytes"
	"errors"
	"io/fs"
	"math/rand/v2"
	"syscall"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/test/faultfs"
	"github.com/pinfold-zk/pinfold/zk"
)

// Where zxids belong in the log of rangeDir, whose files are told by length.
func TestLocate(t *testing.T) {
	d, all := rangeDir(t)
	writeSnapshot(t, d, 5, make([]byte, 1000))
	putFile(t, d.fs, "/data/version-2/snapshot.6", []byte("half a snapshot"))
	const head, one = headerBytes, 300 + frameBytes
	files := []int64{head + 3*one, head + 5*one, head + 2*one, head + one, head + 2*one}
	from := func(i int) (sum int64) {
		for _, n := range files[i:] {
			sum += n
		}
		return sum
	}
	e1, e2, e3, e4 := zk.MakeZxid(1, 0), zk.MakeZxid(2, 0), zk.MakeZxid(3, 0), zk.MakeZxid(4, 0)
	for _, tt := range []struct {
		peer    zk.Zxid
		present bool
		before  zk.Zxid
		after   zk.Zxid
		file    int   // that before is in
		place   int64 // how many entries of it are up to before
	}{
		{0, false, 0, 1, 0, 0},
		{1, true, 1, 2, 0, 1},
		{3, true, 3, 4, 0, 3},
		{4, true, 4, 5, 1, 1},
		{7, false, 6, e1 + 1, 1, 3},
		{e1, false, 6, e1 + 1, 1, 3},
		{e1 + 2, true, e1 + 2, e2 + 1, 1, 5},
		{e1 + 9, false, e1 + 2, e2 + 1, 1, 5},
		{e2, false, e1 + 2, e2 + 1, 1, 5},
		{e2 + 3, true, e2 + 3, e2 + 4, 3, 1},
		{e3 + 8, false, e2 + 4, e4 + 1, 4, 1},
		{e4, false, e2 + 4, e4 + 1, 4, 1},
		{e4 + 1, true, e4 + 1, 0, 4, 2},
		{e4 + 2, false, e4 + 1, 0, 4, 2},
		{maxZxid, false, e4 + 1, 0, 4, 2},
	} {
		behind := from(tt.file)
		if tt.place > 0 {
			behind -= head + tt.place*one
		}
		want := Location{tt.present, tt.before, tt.after, behind, headerBytes + 1000 + sealBytes}
		if got, err := d.Locate(tt.peer); err != nil || got != want {
			t.Errorf("%v: %+v, want %+v, %v", tt.peer, got, want, err)
		}
	}
	if n := len(all); n != 13 {
		t.Fatal(n)
	}
}

// A server with nothing has nothing, one with a snapshot alone its length.
func TestLocateWithoutLog(t *testing.T) {
	d := openTest(t, vfs.NewMem(), testOptions())
	if got, err := d.Locate(5); err != nil || got != (Location{}) {
		t.Errorf("%+v, %v", got, err)
	}
	writeSnapshot(t, d, 3, []byte("body"))
	if got, err := d.Locate(3); err != nil || got != (Location{SnapshotBytes: 33}) {
		t.Errorf("%+v, %v", got, err)
	}
}

// The file that the zxid can be in is the only one that is read, and damage in it
// counts up to there.
func TestLocateReadsOneFile(t *testing.T) {
	es := testEntries(1000, zxids(1, 9)...)
	damaged := logBytes(es[3:6]...)
	damaged[headerBytes+frameBytes+1000+300] ^= 4 // in 5
	d := putLogs(t, map[string][]byte{
		"log.1": []byte("not a log"), "log.4": damaged, "log.7": logBytes(es[6:]...),
	})
	for _, z := range []zk.Zxid{7, 8, 12} {
		if loc, err := d.Locate(z); err != nil || loc.Before != min(z, 9) {
			t.Errorf("%v: %+v, %v", z, loc, err)
		}
	}
	for _, z := range []zk.Zxid{2, 4, 6} {
		if _, err := d.Locate(z); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%v, in a damaged file: %v", z, err)
		}
	}
}

// What a write that is not synced has left in the file so far does not count, be
// it whole or not.
func TestLocateBesideWrite(t *testing.T) {
	whole := logBytes(testEntry(4, 700))[headerBytes:]
	part := bytes.Clone(whole)
	part[600] ^= 1
	for _, b := range [][]byte{whole, part, part[:300]} {
		mem := vfs.NewMem()
		d := openTest(t, mem, testOptions())
		l := d.NewLog(0)
		appendTest(t, l, 300, 1, 2, 3)
		flush(t, l)
		f, err := mem.OpenReadWrite(testLogDir + "log.1")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt(b, l.FileBytes()); err != nil {
			t.Fatal(err)
		}
		for z, want := range map[zk.Zxid]Location{
			3: {Present: true, Before: 3},
			4: {Before: 3},
		} {
			if got, err := d.Locate(z); err != nil || got != want {
				t.Errorf("%v: %+v, want %+v, %v", z, got, want, err)
			}
		}
		if got, err := readRange(d, 1, 4); !errors.Is(err, ErrNoZxid) || len(got) != 2 {
			t.Errorf("%d entries, %v", len(got), err)
		}
	}
}

// renamedFS calls a function when a file has its new name.
type renamedFS struct {
	vfs.FS
	renamed func(name string)
}

func (r renamedFS) Rename(from, to string) error {
	err := r.FS.Rename(from, to)
	r.renamed(to)
	return err
}

// From the moment on when a new log file can be listed its end is known: whoever
// found it sooner would take for its content what comes into it later.
func TestOpenEndIsKnownFirst(t *testing.T) {
	var d *Dir
	files := 0
	d = openTest(t, renamedFS{vfs.NewMem(), func(name string) {
		files++
		if bytes, open := d.openEnd(name); !open || bytes <= headerBytes {
			t.Errorf("%s appears, known to be open: %v, with %d bytes", name, open, bytes)
		}
	}}, testOptions())
	l := d.NewLog(0)
	for z := range zk.Zxid(3) {
		appendTest(t, l, 40, z+1)
		if err := l.Roll(); err != nil {
			t.Fatal(err)
		}
	}
	if files != 3 {
		t.Errorf("%d files", files)
	}
}

// A place that a range could not be read over is not offered again: the log is
// taken to begin behind it.
func TestLocateBehindDamage(t *testing.T) {
	es := testEntries(1000, zxids(1, 9)...)
	damaged := logBytes(es[3:6]...)
	damaged[headerBytes+frameBytes+1000+300] ^= 4 // in 5
	d := putLogs(t, map[string][]byte{
		"log.1": logBytes(es[:3]...), "log.4": damaged, "log.7": logBytes(es[6:]...),
	})
	if loc, err := d.Locate(2); err != nil || !loc.Present {
		t.Fatalf("%+v, %v", loc, err)
	}
	if got, err := readRange(d, 2, 9); !errors.Is(err, ErrCorrupt) || len(got) != 2 {
		t.Fatalf("%d entries, %v", len(got), err)
	}
	for _, z := range []zk.Zxid{1, 2, 4} {
		loc, err := d.Locate(z)
		if err == nil && (loc.Present || loc.Before != 0 || loc.After != z+1) || err != nil && z < 4 {
			t.Errorf("%v: %+v, %v", z, loc, err)
		}
	}
	for _, z := range []zk.Zxid{7, 9} {
		if loc, err := d.Locate(z); err != nil || !loc.Present {
			t.Errorf("%v: %+v, %v", z, loc, err)
		}
	}
	// Nor is one over which nothing is certain.
	e1, e2 := zk.MakeZxid(1, 0), zk.MakeZxid(2, 0)
	apache := putLogs(t, map[string][]byte{
		"log.100000001": logBytes(testEntries(50, e1+1, e1+2)...),
		"log.200000001": logBytes(testEntries(50, e2+1, e2+2)...),
	})
	for _, present := range []bool{true, false} {
		if loc, err := apache.Locate(e1 + 2); err != nil || loc.Present != present {
			t.Errorf("%+v, %v, want present %v", loc, err, present)
		}
		if _, err := readRange(apache, e1+2, e2+2); !errors.Is(err, ErrGap) {
			t.Error(err)
		}
	}
	// Nor is one whose end is in a snapshot alone: a leader's, behind this log.
	ends := putLogs(t, map[string][]byte{"log.100000001": logBytes(testEntries(50, e1+1, e1+2, e1+3)...)})
	for _, present := range []bool{true, false} {
		if loc, err := ends.Locate(e1 + 2); err != nil || loc.Present != present {
			t.Errorf("%+v, %v, want present %v", loc, err, present)
		}
		if _, err := readRange(ends, e1+2, e2+2); !errors.Is(err, ErrNoZxid) {
			t.Error(err)
		}
	}
	// The same if the range begins with a file: what precedes it is not read.
	begins := putLogs(t, map[string][]byte{
		"log.100000001": logBytes(testEntries(50, e1+1, e1+2)...), "log.100000003": logBytes(testEntries(50, e1+3, e1+4)...),
	})
	for _, present := range []bool{true, false} {
		if loc, err := begins.Locate(e1 + 2); err != nil || loc.Present != present {
			t.Errorf("%+v, %v, want present %v", loc, err, present)
		}
		if got, err := readRange(begins, e1+2, e2+2); !errors.Is(err, ErrNoZxid) || len(got) != 2 {
			t.Errorf("%d entries, %v", len(got), err)
		}
	}
	// The beginning of an epoch is behind the place too, if the log has nothing of that epoch.
	if loc, err := begins.Locate(e2); err != nil || loc.Before != 0 {
		t.Errorf("%+v, %v", loc, err)
	}
	// A zxid that the log does not have is no damage.
	if _, err := readRange(d, 12, 13); !errors.Is(err, ErrNoZxid) {
		t.Error(err)
	}
	if loc, err := d.Locate(9); err != nil || !loc.Present {
		t.Errorf("%+v, %v", loc, err)
	}
}

// badSectorsFS cannot read one file.
type badSectorsFS struct {
	vfs.FS
	name string
}

func (b badSectorsFS) Open(name string) (vfs.File, error) {
	f, err := b.FS.Open(name)
	if name == b.name {
		f = badSectors{f}
	}
	return f, err
}

type badSectors struct{ vfs.File }

func (badSectors) Read([]byte) (int, error) { return 0, syscall.EIO }

// A part of the log that the disk cannot read is not offered again either. A file that was
// purged is no reason for that.
func TestLocateBehindBadSectors(t *testing.T) {
	es := testEntries(1000, zxids(1, 9)...)
	d := putLogs(t, map[string][]byte{"log.1": logBytes(es[:3]...), "log.4": logBytes(es[3:6]...), "log.7": logBytes(es[6:]...)})
	d.fs = badSectorsFS{d.fs, testLogDir + "log.4"}
	for _, after := range []zk.Zxid{1, 3} {
		if loc, err := d.Locate(after); err != nil || !loc.Present {
			t.Fatalf("%+v, %v", loc, err)
		}
		if got, err := readRange(d, after, 9); !errors.Is(err, syscall.EIO) || len(got) != int(3-after) {
			t.Fatalf("%d entries, %v", len(got), err)
		}
		if loc, err := d.Locate(after); err != nil || loc.Present || loc.Before != 0 {
			t.Errorf("%+v, %v", loc, err)
		}
		d.broken.Store(0)
	}
	if _, err := d.Locate(5); !errors.Is(err, syscall.EIO) {
		t.Error(err)
	}
	if loc, err := d.Locate(7); err != nil || !loc.Present {
		t.Errorf("%+v, %v", loc, err)
	}
}

// purgingFS purges before a file is opened, once.
type purgingFS struct {
	vfs.FS
	purge *func()
}

func (p purgingFS) Open(name string) (vfs.File, error) {
	if purge := *p.purge; purge != nil {
		*p.purge = nil
		purge()
	}
	return p.FS.Open(name)
}

// A file that is purged between being listed and being read is as if it had not
// been listed; one that cannot be read is an error.
func TestLocateDuringPurge(t *testing.T) {
	var purge func()
	mem := vfs.NewMem()
	d := openTest(t, purgingFS{mem, &purge}, testOptions())
	for _, f := range [][]zk.Zxid{{1, 2}, {3, 4}, {5, 6}} {
		putFile(t, mem, testLogDir+"log."+f[0].Hex(), logBytes(testEntries(40, f...)...))
	}
	for z := range zk.Zxid(3) {
		writeSnapshot(t, d, 4+z, []byte("body"))
	}
	purge = func() {
		if removed, err := d.Purge(Retention{Snapshots: 3}); err != nil || len(removed) != 2 {
			t.Errorf("purge: %v, %v", removed, err)
		}
	}
	loc, err := d.Locate(2)
	if err != nil || loc.Before != 0 || loc.After != 5 || loc.Present {
		t.Fatalf("%+v, %v", loc, err)
	}
	for at := 1; ; at++ {
		fault := faultfs.New(mem, at, faultfs.IO, nil)
		loc, err := testDir(fault).Locate(5)
		if fault.Ops() < at {
			break
		}
		if err == nil || errors.Is(err, fs.ErrNotExist) || loc != (Location{}) {
			t.Fatalf("operation %d fails: %+v, %v", at, loc, err)
		}
	}
}

// Locate against reading everything, for logs of random epochs and files.
func TestLocateModel(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 3))
		d := openTest(t, vfs.NewMem(), testOptions())
		l := d.NewLog(0)
		var all []entry
		z := zk.Zxid(1)
		for range 1 + rng.IntN(30) {
			all = append(all, appendTest(t, l, 32+rng.IntN(900), z)...)
			z++
			if rng.IntN(5) == 0 {
				z = zk.MakeZxid(z.Epoch()+1+rng.Uint32N(2), 1)
			}
			flush(t, l)
			if rng.IntN(4) == 0 {
				if err := l.Roll(); err != nil {
					t.Fatal(err)
				}
			}
		}
		for range 40 {
			peer := all[rng.IntN(len(all))].zxid + zk.Zxid(rng.IntN(5)-2)
			if rng.IntN(4) == 0 {
				peer = zk.MakeZxid(rng.Uint32N(8), rng.Uint32N(3))
			}
			var want Location
			for _, e := range all {
				if e.zxid <= peer {
					want.Before = e.zxid
				} else if want.After == 0 {
					want.After = e.zxid
				}
			}
			got, err := d.Locate(peer)
			if err != nil || got.Present != (peer == want.Before && peer != 0) || got.Before != want.Before || got.After != want.After {
				t.Fatalf("seed %d: %v is at %+v, want %+v, %v", seed, peer, got, want, err)
			}
			last := all[len(all)-1].zxid
			if got.Present && got.After != 0 {
				if part, err := readRange(d, peer, last); err != nil || len(part) == 0 || part[0].zxid != got.After {
					t.Fatalf("seed %d: after %v there are %d entries, %v", seed, peer, len(part), err)
				}
			}
		}
	}
}
