package storage

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/test/faultfs"
	"github.com/pinfold-zk/pinfold/zk"
)

// scriptSizes are the payload lengths of logScript's transactions: some fit into
// a sector, some span many, some end at a boundary.
var scriptSizes = [...]int{40, 100, 1000, 471, 499, 3000, 32, 700, 33, 12000, 45, 600, 512, 511, 90}

func scriptEntries() []entry {
	var es []entry
	for i, n := range scriptSizes {
		z := zk.Zxid(i + 1)
		es = append(es, entry{z, testPayload(z, n)})
	}
	return es
}

// logScript appends scriptEntries in groups of 1 to 3 with a roll in between, and
// adds to acked what a flush has acknowledged.
func logScript(l *Log, acked *[]entry) error {
	var group []entry
	for i, e := range scriptEntries() {
		if err := l.Append(e.zxid, e.payload); err != nil {
			return err
		}
		group = append(group, e)
		if i%3 == 1 {
			continue
		}
		if err := l.Flush(); err != nil {
			return err
		}
		*acked = append(*acked, group...)
		group = nil
		if i == 6 || i == 11 {
			if err := l.Roll(); err != nil {
				return err
			}
		}
	}
	if err := l.Flush(); err != nil {
		return err
	}
	*acked = append(*acked, group...)
	return l.Close()
}

// checkRecovery reads the log of a directory and checks invariants 1, 2 and 5:
// every entry of acked is there, and what is there is a prefix of all. It cuts
// the tail, reads again, appends, and reads that.
func checkRecovery(t *testing.T, d *Dir, acked, all []entry, when string) {
	t.Helper()
	got, tail, err := readAll(d, 0)
	if err != nil {
		t.Fatalf("%s: read: %v", when, err)
	}
	if len(got) < len(acked) {
		t.Fatalf("%s: %d entries, %d were acknowledged (tail %+v)", when, len(got), len(acked), tail)
	}
	if len(got) > len(all) || !sameEntries(got, all[:len(got)]) {
		t.Fatalf("%s: there are entries that nobody appended", when)
	}
	if err := d.CutTail(tail); err != nil {
		t.Fatalf("%s: cut the tail: %v", when, err)
	}
	again, tail, err := readAll(d, 0)
	if err != nil || !sameEntries(got, again) || tail.Torn || tail.Bytes != tail.Size {
		t.Fatalf("%s: after the cut: %d entries, tail %+v, %v", when, len(again), tail, err)
	}
	last := zk.Zxid(len(got))
	l := d.NewLog(last)
	more := appendTest(t, l, 77, last+1, last+2)
	flush(t, l)
	again, _, err = readAll(d, 0)
	if err != nil || !sameEntries(append(got, more...), again) {
		t.Fatalf("%s: after appending: %d entries, %v", when, len(again), err)
	}
}

// bufferedFS is a file system without direct I/O.
type bufferedFS struct{ vfs.FS }

func (b bufferedFS) CreateDirect(name string) (vfs.File, error) { return b.Create(name) }

// Invariants 1, 2 and 5, at every disk operation, with many outcomes each, with
// direct I/O and without.
func TestCrashAtEveryOperation(t *testing.T) {
	t.Run("direct", func(t *testing.T) {
		testCrashes(t, func(m *vfs.Mem) vfs.FS { return m })
	})
	t.Run("buffered", func(t *testing.T) {
		testCrashes(t, func(m *vfs.Mem) vfs.FS { return bufferedFS{m} })
	})
}

func testCrashes(t *testing.T, wrap func(*vfs.Mem) vfs.FS) {
	torn := 0
	for at := 1; ; at++ {
		mem := vfs.NewMem()
		fault := faultfs.New(wrap(mem), at, faultfs.Crash, nil)
		var acked []entry
		err := func() error {
			d, err := Open(fault, testOptions())
			if err != nil {
				return err
			}
			return logScript(d.NewLog(0), &acked)
		}()
		if err != nil && !errors.Is(err, faultfs.ErrCrashed) {
			t.Fatalf("operation %d: %v", at, err)
		}
		for seed := range uint64(40) {
			disk := mem.CrashClone(rand.New(rand.NewPCG(uint64(at), seed)))
			for _, name := range logsOnDisk(disk) {
				if n, _ := disk.Size("/data/version-2/" + name); n <= headerBytes {
					t.Fatalf("operation %d seed %d: %s has %d bytes", at, seed, name, n)
				}
			}
			d := openTest(t, disk, testOptions())
			if _, tail, err := readAll(d, 0); err == nil && tail.Torn {
				torn++
			}
			checkRecovery(t, d, acked, scriptEntries(), fmt.Sprintf("operation %d, seed %d", at, seed))
		}
		if err == nil {
			break
		}
	}
	if torn < 50 {
		t.Errorf("only %d torn tails: the test does not reach what it is for", torn)
	}
}

func logsOnDisk(fsys vfs.FS) (logs []string) {
	names, err := fsys.List("/data/version-2")
	if err != nil {
		return nil // the crash came before it
	}
	for _, n := range names {
		if strings.HasPrefix(n, logPrefix) {
			logs = append(logs, n)
		}
	}
	return logs
}

// A crash during recovery, too: cutting the tail may be interrupted anywhere.
func TestCrashDuringRecovery(t *testing.T) {
	for seed := range uint64(40) {
		mem := vfs.NewMem()
		var acked []entry
		fault := faultfs.New(mem, 35, faultfs.Crash, nil)
		d, err := Open(fault, testOptions())
		if err == nil {
			err = logScript(d.NewLog(0), &acked)
		}
		if !errors.Is(err, faultfs.ErrCrashed) {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(seed, 1))
		first := mem.CrashClone(rng)
		for at := 1; ; at++ {
			disk := first.CrashClone(rng)
			fault := faultfs.New(disk, at, faultfs.Crash, nil)
			d, err := Open(fault, testOptions())
			if err == nil {
				var tail Tail
				if _, tail, err = readAll(d, 0); err == nil {
					err = d.CutTail(tail)
				}
			}
			disk = disk.CrashClone(rng)
			d2 := openTest(t, disk, testOptions())
			checkRecovery(t, d2, acked, scriptEntries(), fmt.Sprintf("seed %d, operation %d", seed, at))
			if err == nil {
				break
			}
		}
	}
}

// A snapshot, an epoch file and a truncation are each done or not done, and done
// if they say so.
func TestCrashDuringReplacement(t *testing.T) {
	for at := 1; ; at++ {
		mem := vfs.NewMem()
		d := openTest(t, mem, testOptions())
		writeSnapshot(t, d, 0, []byte("old"))
		if err := d.SetAcceptedEpoch(7); err != nil {
			t.Fatal(err)
		}
		l := d.NewLog(0)
		for _, z := range zxids(1, 9) {
			appendTest(t, l, 100, z)
			flush(t, l)
			if z%3 == 0 {
				if err := l.Roll(); err != nil {
					t.Fatal(err)
				}
			}
		}
		d.Close()
		fault := faultfs.New(mem, at, faultfs.Crash, nil)
		var done int
		err := replaceScript(fault, &done)
		for seed := range uint64(20) {
			disk := mem.CrashClone(rand.New(rand.NewPCG(uint64(at), seed)))
			checkReplaced(t, openTest(t, disk, testOptions()), done, fmt.Sprintf("operation %d, seed %d", at, seed))
		}
		if err == nil {
			break
		}
	}
}

// replaceScript writes a snapshot, then an epoch, then truncates to 5. done
// counts what has been acknowledged.
func replaceScript(fsys vfs.FS, done *int) error {
	d, err := Open(fsys, testOptions())
	if err != nil {
		return err
	}
	w, err := d.CreateSnapshot(9)
	if err != nil {
		return err
	}
	w.Write([]byte("new"))
	w.Seal()
	if err := w.Commit(); err != nil {
		return err
	}
	*done++
	if err := d.SetAcceptedEpoch(8); err != nil {
		return err
	}
	*done++
	if err := d.Truncate(5); err != nil {
		return err
	}
	*done++
	return nil
}

func checkReplaced(t *testing.T, d *Dir, done int, when string) {
	t.Helper()
	snaps, err := d.Snapshots()
	if err != nil {
		t.Fatal(err)
	}
	newest := zk.Zxid(0)
	for _, s := range snaps {
		want := map[zk.Zxid]string{0: "old", 9: "new"}[s.Zxid]
		if got, err := readSnapshot(d, s); err != nil || string(got) != want {
			t.Fatalf("%s: snapshot %v: %q, %v", when, s.Zxid, got, err)
		}
		newest = max(newest, s.Zxid)
	}
	if len(snaps) == 0 || done == 1 && newest != 9 || done == 3 && newest != 0 {
		t.Fatalf("%s: snapshots %v with %d steps done", when, snaps, done)
	}
	accepted, _, _, err := d.LoadEpochs(0)
	if err != nil || accepted != 7 && accepted != 8 || done >= 2 && accepted != 8 || done == 0 && accepted != 7 {
		t.Fatalf("%s: acceptedEpoch %d, %v, with %d steps done", when, accepted, err, done)
	}
	got, tail, err := readAll(d, 0)
	if err != nil || tail.Torn {
		t.Fatalf("%s: log: %v, tail %+v", when, err, tail)
	}
	n := len(got)
	if n < 5 || done < 2 && n != 9 || done == 3 && n != 5 || newest == 9 && n != 9 {
		t.Fatalf("%s: %d entries with %d steps done, newest snapshot %v", when, n, done, newest)
	}
}
