package storage

import (
	"bytes"
	"errors"
	"io/fs"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/test/faultfs"
	"github.com/pinfold-zk/pinfold/zk"
)

const (
	testLogName    = "/data/version-2/log.1"
	testSyncedName = "/data/version-2/" + syncedName
)

// acknowledged makes a log of n transactions, each of them flushed, and ends its
// process.
func acknowledged(t *testing.T, n int) *vfs.Mem {
	t.Helper()
	mem := vfs.NewMem()
	d := openTest(t, mem, testOptions())
	l := d.NewLog(0)
	for z := range zk.Zxid(n) {
		appendTest(t, l, 100, z+1)
		flush(t, l)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	return mem
}

// rewrite changes the content of a file.
func rewrite(t *testing.T, fsys vfs.FS, name string, change func([]byte) []byte) {
	t.Helper()
	b := change(readFile(t, fsys, name))
	f, err := fsys.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = f.Write(b); err == nil {
		err = errors.Join(f.Sync(), f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestZeroedSectorIsNoTornTail: each sector in turn of a log whose transactions
// were all acknowledged turns into zeros. None is taken for the end of the log.
func TestZeroedSectorIsNoTornTail(t *testing.T) {
	mem := acknowledged(t, 60)
	whole := readFile(t, mem, testLogName)
	used := len(bytes.TrimRight(whole, "\x00"))
	for at := 0; at < used; at += vfs.SectorBytes {
		rewrite(t, mem, testLogName, func([]byte) []byte {
			b := bytes.Clone(whole)
			clear(b[at:min(at+vfs.SectorBytes, len(b))])
			return b
		})
		d := openTest(t, mem, testOptions())
		got, _, err := readAll(d, 0)
		e, ok := errors.AsType[*Error](err)
		if !ok || !errors.Is(err, ErrCorrupt) || e.Name != testLogName || e.Offset > int64(at) && at > 0 {
			t.Fatalf("zeros at %d of %d: %d transactions, %v", at, used, len(got), err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestShortLogIsNotDropped: a newest log whose transactions were acknowledged is
// cut to a few bytes, or removed.
func TestShortLogIsNotDropped(t *testing.T) {
	whole := readFile(t, acknowledged(t, 20), testLogName)
	for _, size := range []int{-1, 0, 1, 10, 15, 16, 17, 600, 2000} {
		mem := acknowledged(t, 20)
		if size < 0 {
			if err := mem.Remove(testLogName); err != nil {
				t.Fatal(err)
			}
		} else {
			rewrite(t, mem, testLogName, func([]byte) []byte { return whole[:size] })
		}
		d := openTest(t, mem, testOptions())
		_, _, err := readAll(d, 0)
		if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "0x14 was synced") {
			t.Errorf("%d bytes: %v", size, err)
		}
		// A snapshot has what the log lacks.
		if got, _, err := readAll(d, 20); err != nil || len(got) != 0 {
			t.Errorf("%d bytes behind a snapshot: %d transactions, %v", size, len(got), err)
		}
	}
}

// TestLossAfterTruncate: a log that is lost right after its end was cut off, on a server that
// has also lost power, is noticed.
func TestLossAfterTruncate(t *testing.T) {
	mem := vfs.NewMem()
	d := openTest(t, mem, testOptions())
	writeSnapshot(t, d, 0, []byte("empty"))
	l := d.NewLog(0)
	for z := range zk.Zxid(20) {
		appendTest(t, l, 100, z+1)
		flush(t, l)
	}
	if err := errors.Join(l.Close(), d.Truncate(15)); err != nil {
		t.Fatal(err)
	}
	mem = mem.CrashClone(rand.New(rand.NewPCG(1, 1)))
	if err := mem.Remove(testLogName); err != nil {
		t.Fatal(err)
	}
	_, _, err := readAll(openTest(t, mem, testOptions()), 0)
	if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "0xf was synced") {
		t.Error(err)
	}
}

// TestHoleWithoutMark: in the log of another program valid transactions behind a
// hole are damage, and a hole with nothing behind it is a torn write.
func TestHoleWithoutMark(t *testing.T) {
	whole := readFile(t, acknowledged(t, 60), testLogName)
	used := len(bytes.TrimRight(whole, "\x00"))
	for at := vfs.SectorBytes; at < used; at += vfs.SectorBytes {
		b := bytes.Clone(whole)
		clear(b[at : at+vfs.SectorBytes])
		_, tail, err := readAll(putLogs(t, map[string][]byte{"log.1": b}), 0)
		if behind := used - at - vfs.SectorBytes; behind > 300 {
			if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "truncate -s") {
				t.Fatalf("zeros at %d of %d: %v", at, used, err)
			}
		} else if behind <= 0 && (err != nil || !tail.Torn) {
			t.Fatalf("zeros at %d of %d: torn %v, %v", at, used, tail.Torn, err)
		}
	}
}

// TestMarkOfAnotherTime: the mark does not count once another program may have cut
// the log off, or when it is damaged itself; and it moves with our own epochs.
func TestMarkOfAnotherTime(t *testing.T) {
	short := func(t *testing.T, mem *vfs.Mem) error {
		d := openTest(t, mem, testOptions())
		if err := d.cutFile(testLogName, int64(len(logBytes(testEntries(100, 1, 2)...)))); err != nil {
			t.Fatal(err)
		}
		_, _, err := readAll(d, 0)
		return err
	}
	t.Run("another program's epoch", func(t *testing.T) {
		mem := acknowledged(t, 20)
		if err := testDir(mem).writeEpoch(acceptedEpochName, 3); err != nil {
			t.Fatal(err)
		}
		if err := short(t, mem); err != nil {
			t.Error(err)
		}
	})
	t.Run("our epoch", func(t *testing.T) {
		mem := acknowledged(t, 20)
		if err := testDir(mem).SetAcceptedEpoch(3); err != nil {
			t.Fatal(err)
		}
		if err := short(t, mem); !errors.Is(err, ErrCorrupt) {
			t.Error(err)
		}
	})
	t.Run("damaged", func(t *testing.T) {
		mem := acknowledged(t, 20)
		rewrite(t, mem, testSyncedName, func(b []byte) []byte { b[15] ^= 1; return b })
		if err := short(t, mem); err != nil {
			t.Error(err)
		}
	})
	t.Run("our truncation", func(t *testing.T) {
		mem := acknowledged(t, 20)
		d := openTest(t, mem, testOptions())
		writeSnapshot(t, d, 0, []byte("empty"))
		if err := d.Truncate(5); err != nil {
			t.Fatal(err)
		}
		if got, _, err := readAll(openAgain(t, d, mem), 0); err != nil || len(got) != 5 {
			t.Errorf("%d transactions, %v", len(got), err)
		}
	})
}

// openAgain closes d and opens its directory.
func openAgain(t *testing.T, d *Dir, fsys vfs.FS) *Dir {
	t.Helper()
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	return openTest(t, fsys, testOptions())
}

// Small flushes leave some marks to WriteMark, to the next larger flush, and to the end. A mark that is left counts as any other
// when the log is cut, or the epoch changes.
func TestMarksThatAreLeft(t *testing.T) {
	mem := vfs.NewMem()
	d := openTest(t, mem, testOptions())
	writeSnapshot(t, d, 0, []byte("empty"))
	l := d.NewLog(0)
	z := zk.Zxid(0)
	next := func(flush func() error) {
		t.Helper()
		z++
		appendTest(t, l, 100, z)
		if err := flush(); err != nil {
			t.Fatal(err)
		}
	}
	want := func(file, known zk.Zxid) {
		t.Helper()
		inFile, _, ok, err := d.readMark()
		inMemory, valid, merr := d.syncedZxid()
		if inFile != file || inMemory != known || !ok || !valid || err != nil || merr != nil {
			t.Fatalf("the mark is %v, and known as %v, %v, %v; want %v, %v", inFile, inMemory, err, merr, file, known)
		}
	}
	next(l.Flush)
	want(1, 1)
	for range mostMarksLeft {
		next(l.FlushSmall)
		want(1, z)
	}
	next(l.FlushSmall) // the next one is written
	want(z, z)
	next(l.FlushSmall)
	want(z-1, z)
	if err := d.WriteMark(); err != nil {
		t.Fatal(err)
	}
	want(z, z)
	next(l.FlushSmall)
	next(l.Flush)
	want(z, z)
	next(l.FlushSmall)
	if err := d.SetAcceptedEpoch(1); err != nil {
		t.Fatal(err)
	}
	want(z, z)
	next(l.FlushSmall)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := d.Truncate(z - 3); err != nil {
		t.Fatal(err)
	}
	if err := d.WriteMark(); err != nil {
		t.Fatal(err)
	}
	z -= 3
	want(z, z)
	l = d.NewLog(z)
	next(l.Flush)
	next(l.FlushSmall)
	d = openAgain(t, d, mem)
	want(z, z)
}

// TestMarkIsBeforeTheLog: wherever a crash comes, a directory with a log has a
// valid mark, and the mark does not promise more than there is.
func TestMarkIsBeforeTheLog(t *testing.T) {
	for at := 1; ; at++ {
		mem := vfs.NewMem()
		fault := faultfs.New(mem, at, faultfs.Crash, nil)
		d, err := Open(fault, testOptions())
		if err == nil {
			var acked []entry
			err = logScript(d.NewLog(0), &acked)
		}
		for seed := range uint64(20) {
			disk := mem.CrashClone(rand.New(rand.NewPCG(uint64(at), seed)))
			_, ok, lerr := openTest(t, disk, testOptions()).syncedZxid()
			if lerr != nil || !ok && len(logsOnDisk(disk)) > 0 {
				t.Fatalf("operation %d, seed %d: a log without a mark, %v", at, seed, lerr)
			}
		}
		if err == nil {
			return
		}
		if !errors.Is(err, faultfs.ErrCrashed) && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
}
