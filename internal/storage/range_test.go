package storage

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/zk"
)

// readRange reads a part of the log and returns copies.
func readRange(d *Dir, after, upto zk.Zxid) (got []entry, err error) {
	r, err := d.ReadRange(after, upto)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	for {
		z, p, err := r.Next()
		if err == io.EOF {
			return got, nil
		}
		if err != nil {
			return got, err
		}
		if z != payloadZxid(p) {
			return got, errors.New("the zxid is not that of the payload")
		}
		got = append(got, entry{z, bytes.Clone(p)})
	}
}

// rangeDir has a log in five files of our own, the last of which is being written:
//
//	1 2 3 | 4 5 6, <1,1> <1,2> | <2,1> <2,2> | <2,3> | <2,4> <4,1>
func rangeDir(t *testing.T) (d *Dir, all []entry) {
	d = openTest(t, vfs.NewMem(), testOptions())
	writeSnapshot(t, d, 0, []byte("old"))
	e1, e2, e4 := zk.MakeZxid(1, 0), zk.MakeZxid(2, 0), zk.MakeZxid(4, 0)
	l := d.NewLog(0)
	for i, zs := range [][]zk.Zxid{{1, 2, 3}, {4, 5, 6, e1 + 1, e1 + 2}, {e2 + 1, e2 + 2}, {e2 + 3}, {e2 + 4, e4 + 1}} {
		if i > 0 {
			if err := l.Roll(); err != nil {
				t.Fatal(err)
			}
		}
		all = append(all, appendTest(t, l, 300, zs...)...)
		flush(t, l)
	}
	t.Cleanup(func() { l.Close() })
	return d, all
}

// Every range of a log, over files and epochs, beside the open log.
func TestReadRange(t *testing.T) {
	d, all := rangeDir(t)
	starts := []zk.Zxid{0}
	for _, e := range all {
		starts = append(starts, e.zxid)
	}
	for i, after := range starts {
		for j := i; j <= len(all); j++ {
			upto := starts[j]
			got, err := readRange(d, after, upto)
			if err != nil || !sameEntries(got, all[i:j]) {
				t.Errorf("(%v, %v]: %d entries, want %d: %v", after, upto, len(got), j-i, err)
			}
		}
	}
}

// Invariant 7: what is not there, or not certainly all there, is refused.
func TestReadRangeRefuses(t *testing.T) {
	e1, e2, e3, e4 := zk.MakeZxid(1, 0), zk.MakeZxid(2, 0), zk.MakeZxid(3, 0), zk.MakeZxid(4, 0)
	last := e4 + 1
	for _, tt := range []struct {
		after, upto zk.Zxid
		n           int // entries, if it is not refused
		kind        error
	}{
		{e1, e1 + 2, 2, nil}, // counter 0 of an epoch that the log has
		{e2, last, 5, nil},
		{e4, last, 1, nil},
		{e3, last, 0, ErrNoZxid}, // of one that it has not
		{7, last, 0, ErrNoZxid},
		{e1 + 3, last, 0, ErrNoZxid},
		{e2 + 5, last, 0, ErrNoZxid},
		{last + 1, last + 2, 0, ErrNoZxid},
		{2, 7, 4, ErrNoZxid}, // upto is missing
		{2, e2, 6, ErrNoZxid},
		{e2 + 1, e3, 3, ErrNoZxid},
		{1, last + 1, 12, ErrNoZxid},
		{last, last + 1, 0, ErrNoZxid},
		{3, 2, 0, nil},
	} {
		d, _ := rangeDir(t)
		got, err := readRange(d, tt.after, tt.upto)
		if len(got) != tt.n || tt.kind != nil && !errors.Is(err, tt.kind) ||
			(err == nil) != (tt.kind == nil && tt.after < tt.upto) {
			t.Errorf("(%v, %v]: %d entries, want %d: %v", tt.after, tt.upto, len(got), tt.n, err)
		}
	}
}

// In what Apache has written, the first of an epoch at the beginning of a file
// does not say that nothing is missing before, and a zxid may be missing anywhere.
func TestReadRangeOfApache(t *testing.T) {
	e1, e2 := zk.MakeZxid(1, 0), zk.MakeZxid(2, 0)
	setup := func(t *testing.T, snapshots ...zk.Zxid) *Dir {
		d := putLogs(t, map[string][]byte{
			"log.100000001": logBytes(testEntries(50, e1+1, e1+2)...),
			"log.100000003": logBytes(testEntries(50, e1+3, e1+5)...),
			"log.200000001": logBytes(testEntries(50, e2+1, e2+2, e2+2, e2+3)...),
		})
		for _, z := range snapshots {
			writeSnapshot(t, d, z, []byte("body"))
		}
		return d
	}
	for _, tt := range []struct {
		snapshots   []zk.Zxid
		after, upto zk.Zxid
		n           int
		kind        error
	}{
		{nil, e1 + 1, e1 + 3, 2, nil},
		{nil, e1 + 1, e1 + 5, 2, ErrGap},
		{nil, e1 + 5, e2 + 1, 0, ErrGap},
		{nil, e2 + 1, e2 + 3, 2, nil},
		{nil, e2, e2 + 3, 3, nil},
		{nil, 0, e1 + 2, 0, ErrNoZxid},
		{[]zk.Zxid{0}, 0, e1 + 2, 2, nil},
		{[]zk.Zxid{0}, e1, e1 + 2, 2, nil},
		{[]zk.Zxid{0, 77}, 0, e1 + 2, 0, ErrNoZxid},
		{[]zk.Zxid{e1 + 2}, 0, e1 + 2, 0, ErrNoZxid},
	} {
		got, err := readRange(setup(t, tt.snapshots...), tt.after, tt.upto)
		if len(got) != tt.n || tt.kind != nil && !errors.Is(err, tt.kind) || (err == nil) != (tt.kind == nil) {
			t.Errorf("(%v, %v] with snapshots %v: %d entries, want %d: %v",
				tt.after, tt.upto, tt.snapshots, len(got), tt.n, err)
		}
	}
}

// A flipped bit within the range is refused where it is, one outside of it is
// without effect or refused.
func TestEveryFlippedBitOfRange(t *testing.T) {
	first, second := testEntries(40, 1, 2), testEntries(40, zk.MakeZxid(1, 1), zk.MakeZxid(1, 2))
	files := map[string][]byte{"log.1": logBytes(first...), "log.100000001": logBytes(second...)}
	files["log.100000001"][15] = 2 // it follows 2
	want := append(first[1:2:2], second...)
	refused := 0
	for name, file := range files {
		for bit := range len(file) * 8 {
			file[bit/8] ^= 1 << (bit % 8)
			got, err := readRange(putLogs(t, files), 1, second[1].zxid)
			file[bit/8] ^= 1 << (bit % 8)
			switch _, damage := errors.AsType[*Error](err); {
			case err == nil && !sameEntries(got, want):
				t.Fatalf("%s: bit %d of byte %d: read %d entries without an error", name, bit%8, bit/8, len(got))
			case err != nil && !damage && !errors.Is(err, ErrNoZxid):
				t.Fatalf("%s: bit %d of byte %d: %v", name, bit%8, bit/8, err)
			case err != nil:
				refused++
			case bit/8 >= headerBytes:
				t.Fatalf("%s: bit %d of byte %d goes unnoticed", name, bit%8, bit/8)
			}
		}
	}
	if refused == 0 {
		t.Error("no bit is refused")
	}
}

// A purge does not end a reading that has begun, unless the range has very many
// files; then it is told.
func TestReadRangeDuringPurge(t *testing.T) {
	for _, tt := range []struct {
		files int
		ok    bool
	}{{maxHeldFiles, true}, {maxHeldFiles + 20, false}} {
		d := openTest(t, vfs.NewMem(), testOptions())
		l := d.NewLog(0)
		var all []entry
		for z := range zk.Zxid(tt.files) {
			all = append(all, appendTest(t, l, 40, z+1)...)
			if err := l.Roll(); err != nil {
				t.Fatal(err)
			}
		}
		upto := all[len(all)-1].zxid
		for z := range zk.Zxid(MinRetainedSnapshots) {
			writeSnapshot(t, d, upto-z, []byte("body"))
		}
		r, err := d.ReadRange(0, upto)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		removed, err := d.Purge(Retention{})
		if err != nil || len(removed) < tt.files-5 {
			t.Fatalf("removed %d files, %v", len(removed), err)
		}
		n := 0
		for ; err == nil; n++ {
			_, _, err = r.Next()
		}
		if tt.ok && (err != io.EOF || n != len(all)+1) {
			t.Errorf("%d files: %d entries, then %v", tt.files, n-1, err)
		}
		if !tt.ok && (!errors.Is(err, ErrNoZxid) || !strings.Contains(err.Error(), "purged") || n < maxHeldFiles) {
			t.Errorf("%d files: %d entries, then %v", tt.files, n-1, err)
		}
		if _, _, again := r.Next(); again != err {
			t.Errorf("the error does not stick: %v", again)
		}
		if _, err := d.ReadRange(1, upto); !errors.Is(err, ErrNoZxid) {
			t.Errorf("after a zxid that is purged: %v", err)
		}
	}
}

// Readers see exactly what is durable while the log's owner appends, rolls and
// flushes, in memory and on a disk with direct I/O.
func TestReadRangeBesideWriter(t *testing.T) {
	for name, newFS := range map[string]func() (vfs.FS, string){
		"mem":      func() (vfs.FS, string) { return vfs.NewMem(), "/data" },
		"disk":     func() (vfs.FS, string) { return vfs.OS{}, filepath.ToSlash(t.TempDir()) },
		"buffered": func() (vfs.FS, string) { return bufferedFS{vfs.OS{}}, filepath.ToSlash(t.TempDir()) },
	} {
		t.Run(name, func(t *testing.T) {
			fsys, base := newFS()
			o := testOptions()
			o.DataDir = base
			o.Log.MaxFileBytes = 150 << 10
			d := openTest(t, fsys, o)
			defer d.Close()
			testBesideWriter(t, d)
		})
	}
}

// besideTxns is how many transactions of many sizes testBesideWriter appends, over
// epochs of besideEpoch each.
const besideTxns, besideEpoch = 3000, 500

func besideEntry(i int) entry {
	z := zk.MakeZxid(uint32(1+i/besideEpoch), uint32(1+i%besideEpoch))
	return entry{z, testPayload(z, []int{40, 200, 1000, 5000}[i*7%13%4])}
}

func testBesideWriter(t *testing.T, d *Dir) {
	writeSnapshot(t, d, 0, []byte("old"))
	var durable atomic.Int64
	var done atomic.Bool
	var g sync.WaitGroup
	defer func() {
		done.Store(true)
		g.Wait()
	}()
	for seed := range uint64(2) {
		g.Go(func() {
			rng := rand.New(rand.NewPCG(seed, 1))
			for rounds := 0; !done.Load() || rounds < 20; {
				n := int(durable.Load())
				if n == 0 && done.Load() {
					return
				}
				if n == 0 {
					continue
				}
				if err := checkBeside(d, rng.IntN(n), n); err != nil {
					t.Error(err)
					return
				}
				rounds++
			}
		})
	}
	l := d.NewLog(0)
	rng := rand.New(rand.NewPCG(9, 9))
	for i := 0; i < besideTxns; {
		for range 1 + rng.IntN(20) {
			if i == besideTxns {
				break
			}
			e := besideEntry(i)
			if err := l.Append(e.zxid, e.payload); err != nil {
				t.Fatal(err)
			}
			i++
		}
		flush(t, l)
		durable.Store(int64(i))
		if rng.IntN(40) == 0 {
			if err := l.Roll(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if logs, _ := listLogs(d.fs, d.logDir); len(logs) < 20 {
		t.Errorf("only %d files: the test does not reach what it is for", len(logs))
	}
}

// checkBeside reads the transactions from the i-th on of n that are durable, some
// hundreds at most, and locates the one before.
func checkBeside(d *Dir, i, n int) error {
	after := zk.Zxid(0)
	if i > 0 {
		after = besideEntry(i - 1).zxid
	}
	n = min(n, i+300)
	got, err := readRange(d, after, besideEntry(n-1).zxid)
	if err != nil {
		return err
	}
	if len(got) != n-i {
		return fmt.Errorf("%d entries, want %d", len(got), n-i)
	}
	for j, e := range got {
		if want := besideEntry(i + j); e.zxid != want.zxid || !bytes.Equal(e.payload, want.payload) {
			return fmt.Errorf("entry %d is %v, want %v", i+j, e.zxid, want.zxid)
		}
	}
	loc, err := d.Locate(after)
	if err != nil {
		return err
	}
	if loc.Present != (i > 0) || loc.Before != after || loc.After != besideEntry(i).zxid || loc.SnapshotBytes != 32 {
		return fmt.Errorf("%v is at %+v", after, loc)
	}
	return nil
}
