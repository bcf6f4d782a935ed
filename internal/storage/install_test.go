package storage

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/test/faultfs"
	"github.com/pinfold-zk/pinfold/zk"
)

// history is what a server has before something is taken away from it: snapshots,
// and log files with a transaction each for the zxids given. Files are separated
// by 0. A snapshot that came from a leader has a gap in the log before it.
type history struct {
	name      string
	snapshots []zk.Zxid
	log       []zk.Zxid
	split     bool // the log has a directory of its own
}

func (h history) options() Options {
	o := testOptions()
	if h.split {
		o.DataLogDir = "/log"
	}
	return o
}

// dir is the open directory, without the operations of Open.
func (h history) dir(fsys vfs.FS) *Dir {
	d := testDir(fsys)
	if h.split {
		d.logDir = "/log/version-2"
	}
	return d
}

func testHistories() []history {
	e1, e2 := zk.MakeZxid(1, 0), zk.MakeZxid(2, 0)
	all := []history{
		{"plain", []zk.Zxid{0, 4, 8}, []zk.Zxid{1, 2, 3, 4, 0, 5, 6, 7, 8, 0, 9, 10, 11}, false},
		{"snapshots within files", []zk.Zxid{0, 3, 6}, []zk.Zxid{1, 2, 3, 4, 5, 0, 6, 7, 8}, false},
		{"epochs", []zk.Zxid{0, 2, e1 + 2}, []zk.Zxid{1, 2, 3, 0, e1 + 1, e1 + 2, 0, e2 + 1, e2 + 2}, false},
		{"a snapshot from a leader", []zk.Zxid{0, e1 + 5}, []zk.Zxid{1, 2, 3, 0, e1 + 6, e1 + 7, 0, e1 + 8}, false},
		{"a snapshot from a leader, then an epoch", []zk.Zxid{0, 2, e1 + 5}, []zk.Zxid{1, 2, 3, 0, e2 + 1, e2 + 2}, false},
		{"a snapshot from a leader and nothing more", []zk.Zxid{0, e1}, []zk.Zxid{1, 2, 3}, false},
		{"purged", []zk.Zxid{6, 8}, []zk.Zxid{5, 6, 7, 8, 0, 9, 10}, false},
		{"new", []zk.Zxid{0}, nil, false},
		{"empty", nil, nil, false},
	}
	all = append(all, all[0], all[3])
	for i := len(all) - 2; i < len(all); i++ {
		all[i].name, all[i].split = all[i].name+", with a directory for the log", true
	}
	return all
}

// cuts are zxids worth cutting a history at: the snapshots and the ends of files,
// those beside them, and what lies before and behind everything.
func (h history) cuts() []zk.Zxid {
	zs := []zk.Zxid{0, zk.MakeZxid(3, 1)}
	for _, z := range h.snapshots {
		zs = append(zs, z, z+1)
	}
	for i, z := range h.log {
		if z != 0 && (i+1 == len(h.log) || h.log[i+1] == 0) {
			zs = append(zs, z-1, z, z+1)
		}
	}
	slices.Sort(zs)
	return slices.Compact(zs)
}

func (h history) entries() (es []entry) {
	for _, z := range h.log {
		if z != 0 {
			es = append(es, entry{z, testPayload(z, 100)})
		}
	}
	return es
}

// after is what follows a snapshot in the history.
func (h history) after(snapshot zk.Zxid) []entry {
	es := h.entries()
	for len(es) > 0 && es[0].zxid <= snapshot {
		es = es[1:]
	}
	return es
}

// end is the zxid that the part of the history up to z ends with, false if it has
// no snapshot to begin with.
func (h history) end(z zk.Zxid) (end zk.Zxid, ok bool) {
	for _, s := range h.snapshots {
		if s <= z {
			end, ok = max(end, s), true
		}
	}
	for _, e := range h.entries() {
		if e.zxid <= z {
			end = max(end, e.zxid)
		}
	}
	return end, ok
}

// put makes the history on a disk.
func (h history) put(t *testing.T) *vfs.Mem {
	t.Helper()
	mem := vfs.NewMem()
	d := openTest(t, mem, h.options())
	defer d.Close()
	var l *Log
	last := zk.Zxid(0)
	for i, z := range h.log {
		if z == 0 || l == nil {
			if l != nil {
				if err := l.Close(); err != nil {
					t.Fatal(err)
				}
			}
			// A file goes on from the one before, or from the snapshot in between.
			if z == 0 {
				z = h.log[i+1]
			}
			for _, s := range h.snapshots {
				if s < z {
					last = max(last, s)
				}
			}
			l = d.NewLog(last)
			if h.log[i] == 0 {
				continue
			}
		}
		appendTest(t, l, 100, z)
		flush(t, l)
		last = z
	}
	if l != nil {
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range h.snapshots {
		writeSnapshot(t, d, s, []byte("old "+s.Hex()))
	}
	return mem
}

// recovered is what a start finds.
type recovered struct {
	snapshot string // its content, "" if there is none
	base     zk.Zxid
	log      []entry
}

func (r recovered) end() zk.Zxid {
	if len(r.log) > 0 {
		return r.log[len(r.log)-1].zxid
	}
	return r.base
}

// recoverTest does what a server does: the newest snapshot that can be read, and
// the log behind it.
func recoverTest(d *Dir) (r recovered, err error) {
	snaps, err := d.Snapshots()
	if err != nil {
		return r, err
	}
	for _, s := range snaps {
		part, err := readSnapshot(d, s)
		if errors.Is(err, ErrCorrupt) {
			continue
		}
		if err != nil {
			return r, err
		}
		r.snapshot, r.base = string(part), s.Zxid
		break
	}
	var tail Tail
	if r.log, tail, err = readAll(d, r.base); err != nil {
		return r, err
	}
	return r, d.CutTail(tail)
}

// checkGoesOn appends to what was recovered and recovers again.
func checkGoesOn(t *testing.T, d *Dir, r recovered, when string) {
	t.Helper()
	l := d.NewLog(r.end())
	more := appendTest(t, l, 50, r.end()+1, zk.MakeZxid(8, 1))
	if err := l.Close(); err != nil {
		t.Fatal(when, err)
	}
	again, err := recoverTest(d)
	if err != nil || again.snapshot != r.snapshot || !sameEntries(again.log, append(r.log, more...)) {
		t.Fatalf("%s: after appending to %v: %d entries, %v", when, r.end(), len(again.log), err)
	}
}

// checkPrefix fails unless what was recovered is the history, or it without its
// end, but with everything up to least.
func (h history) checkPrefix(t *testing.T, r recovered, least zk.Zxid, when string) {
	t.Helper()
	if r.snapshot == "" && len(r.log) == 0 {
		if _, ok := h.end(least); ok {
			t.Fatalf("%s: nothing is left, there was a history up to %v", when, least)
		}
		return
	}
	want := h.after(r.base)
	if r.snapshot != "old "+r.base.Hex() || len(r.log) > len(want) || !sameEntries(r.log, want[:len(r.log)]) {
		t.Fatalf("%s: snapshot %q of %v and %d entries: no part of the history", when, r.snapshot, r.base, len(r.log))
	}
	if end, ok := h.end(least); ok && r.end() < end {
		t.Fatalf("%s: it ends with %v, before %v", when, r.end(), end)
	}
}

// crashes runs do on the history with a crash at each of its disk operations, and
// check on what is left of it, many times each.
func (h history) crashes(t *testing.T, do func(d *Dir) error, check func(t *testing.T, d *Dir, done bool, when string)) {
	t.Helper()
	before := h.put(t)
	for at := 1; ; at++ {
		mem := before.CrashClone(rand.New(rand.NewPCG(0, 0))) // a copy: all is durable
		fault := faultfs.New(mem, at, faultfs.Crash, nil)
		err := do(h.dir(fault))
		if err != nil && !errors.Is(err, faultfs.ErrCrashed) {
			t.Fatalf("operation %d: %v", at, err)
		}
		for seed := range uint64(2) {
			disk := mem.CrashClone(rand.New(rand.NewPCG(uint64(at), seed)))
			check(t, openTest(t, disk, h.options()), err == nil, fmt.Sprintf("operation %d, seed %d", at, seed))
		}
		if err == nil {
			return
		}
	}
}

func installTest(d *Dir, zxid zk.Zxid) error {
	w, err := d.CreateSnapshot(zxid)
	if err != nil {
		return err
	}
	_, err = w.Write([]byte("new"))
	if err == nil {
		err = w.Seal()
	}
	if err != nil {
		return errors.Join(err, w.Abort())
	}
	return w.Install()
}

// Invariant 6: a snapshot from a leader is installed whole or not at all, whenever the machine
// crashes: there is the history, or a part of it that goes as far as the
// snapshot, or the snapshot with nothing after it.
func TestCrashDuringInstall(t *testing.T) {
	for _, h := range testHistories() {
		t.Run(h.name, func(t *testing.T) {
			for _, z := range h.cuts() {
				h.crashes(t, func(d *Dir) error { return installTest(d, z) },
					func(t *testing.T, d *Dir, done bool, when string) {
						h.checkInstalled(t, d, z, done, fmt.Sprintf("%v, %s", z, when))
					})
			}
		})
	}
}

func (h history) checkInstalled(t *testing.T, d *Dir, z zk.Zxid, done bool, when string) {
	t.Helper()
	r, err := recoverTest(d)
	if err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	switch {
	case r.snapshot == "new":
		if r.base != z || len(r.log) > 0 {
			t.Fatalf("%s: the snapshot is of %v, with %d entries", when, r.base, len(r.log))
		}
	case done:
		t.Fatalf("%s: the snapshot is not there", when)
	default:
		h.checkPrefix(t, r, z, when)
		if _, ok := h.end(z); !ok && r.snapshot == "" && len(h.snapshots) > 0 {
			t.Fatalf("%s: nothing is left, neither the history nor the snapshot", when)
		}
	}
	checkGoesOn(t, d, r, when)
}

// An error of the disk during Install leaves what a crash may leave.
func TestErrorDuringInstall(t *testing.T) {
	for _, h := range testHistories() {
		for i, z := range h.cuts() {
			if i%2 == 1 {
				continue
			}
			before := h.put(t)
			for at := 1; ; at++ {
				mem := before.CrashClone(rand.New(rand.NewPCG(0, 0)))
				err := installTest(h.dir(faultfs.New(mem, at, faultfs.IO, nil)), z)
				if err != nil && !errors.Is(err, syscall.EIO) {
					t.Fatalf("%s: %v, operation %d: %v", h.name, z, at, err)
				}
				when := fmt.Sprintf("%s: %v, after an error of operation %d", h.name, z, at)
				h.checkInstalled(t, openTest(t, mem, h.options()), z, err == nil, when)
				if err == nil {
					break
				}
			}
		}
	}
}

// The same for Retire, which may leave nothing if there is no snapshot as old.
func TestCrashDuringRetire(t *testing.T) {
	for _, h := range testHistories() {
		t.Run(h.name, func(t *testing.T) {
			for _, z := range h.cuts() {
				h.crashes(t, func(d *Dir) error { return d.Retire(z) },
					func(t *testing.T, d *Dir, done bool, when string) {
						when = fmt.Sprintf("%v, %s", z, when)
						r, err := recoverTest(d)
						_, base := h.end(z)
						if err != nil && (base || r.snapshot != "") {
							t.Fatalf("%s: %v", when, err)
						}
						if r.snapshot == "" && !base {
							return
						}
						h.checkPrefix(t, r, z, when)
						if end, _ := h.end(z); done && r.end() != end {
							t.Fatalf("%s: it ends with %v, want %v", when, r.end(), end)
						}
						checkGoesOn(t, d, r, when)
					})
			}
		})
	}
}

// The same for Truncate, which changes nothing if it cannot end where it should.
func TestCrashDuringTruncate(t *testing.T) {
	for _, h := range testHistories() {
		t.Run(h.name, func(t *testing.T) {
			for _, z := range h.cuts() {
				end, base := h.end(z)
				possible := base && end == z
				h.crashes(t,
					func(d *Dir) error {
						err := d.Truncate(z)
						if !possible && errors.Is(err, ErrNoZxid) {
							return nil
						}
						return err
					},
					func(t *testing.T, d *Dir, done bool, when string) {
						when = fmt.Sprintf("%v, %s", z, when)
						r, err := recoverTest(d)
						if err != nil {
							t.Fatalf("%s: %v", when, err)
						}
						least := z
						if !possible {
							least = maxZxid
						}
						h.checkPrefix(t, r, least, when)
						if done && possible && r.end() != z {
							t.Fatalf("%s: it ends with %v", when, r.end())
						}
						if len(h.snapshots) > 0 {
							checkGoesOn(t, d, r, when)
						}
					})
			}
		})
	}
}

// Invariant 7. After Install the snapshots from before are of no use if the log does not lead
// from them to the new one: to fall back to them is an error, also where the log
// goes on with a newer epoch, and also when the snapshot has been removed as it
// could not be read.
func TestFallBackOverGap(t *testing.T) {
	e1, e2 := zk.MakeZxid(1, 0), zk.MakeZxid(2, 0)
	for _, h := range []history{
		{"", []zk.Zxid{0, 2}, []zk.Zxid{1, 2, 3}, false},
		{"", []zk.Zxid{0}, nil, false},
	} {
		for _, next := range []zk.Zxid{e1 + 6, e2 + 1} {
			for _, removed := range []bool{false, true} {
				mem := h.put(t)
				d := openTest(t, mem, testOptions())
				if err := installTest(d, e1+5); err != nil {
					t.Fatal(err)
				}
				l := d.NewLog(e1 + 5)
				more := appendTest(t, l, 40, next)
				if err := l.Close(); err != nil {
					t.Fatal(err)
				}
				r, err := recoverTest(d)
				if err != nil || r.snapshot != "new" || !sameEntries(r.log, more) {
					t.Fatalf("%q and %d entries, %v", r.snapshot, len(r.log), err)
				}
				name := "/data/version-2/snapshot." + (e1 + 5).Hex()
				if removed {
					err = mem.Remove(name)
				} else {
					putFile(t, mem, name, []byte("half a snapshot"))
				}
				if err != nil {
					t.Fatal(err)
				}
				r, err = recoverTest(d)
				if !errors.Is(err, ErrGap) || !strings.Contains(err.Error(), "restore it, or a snapshot of 0x100000005 or later") {
					t.Fatalf("without the snapshot, log from %v: %q and %d entries, %v", next, r.snapshot, len(r.log), err)
				}
				for _, after := range append(h.snapshots, h.log...) {
					if got, err := readRange(d, after, next); len(got) > 0 && got[len(got)-1].zxid == next || err == nil {
						t.Fatalf("(%v, %v]: %d entries, %v", after, next, len(got), err)
					}
				}
			}
		}
	}
}

// After Install no part of the log is offered that a learner would need the hole before the
// snapshot for; what follows the snapshot is.
func TestLocateBeforeAnInstalledSnapshot(t *testing.T) {
	e1, e2 := zk.MakeZxid(1, 0), zk.MakeZxid(2, 0)
	for _, h := range testHistories() {
		mem := h.put(t)
		d := openTest(t, mem, h.options())
		if err := installTest(d, e2+5); err != nil {
			t.Fatal(err)
		}
		l := d.NewLog(e2 + 5)
		appendTest(t, l, 40, e2+6, e2+7)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		for _, z := range append(h.log, e1, e1+9, e2, e2+4) {
			if loc, err := d.Locate(z); err != nil || loc.Present || loc.Before != 0 {
				t.Errorf("%s: %v is at %+v, %v", h.name, z, loc, err)
			}
		}
		if loc, err := d.Locate(e2 + 6); err != nil || !loc.Present || loc.After != e2+7 {
			t.Errorf("%s: %+v, %v", h.name, loc, err)
		}
	}
}

// Retire changes nothing if the log is damaged before the place to cut it at.
func TestRetireMeetsDamage(t *testing.T) {
	mem := testHistories()[0].put(t)
	name := testLogDir + "log.5"
	b := readFile(t, mem, name)
	b[200] ^= 1 // in 6
	putFile(t, mem, name, b)
	d := openTest(t, mem, testOptions())
	before := list(t, mem, "/data/version-2")
	if err := d.Retire(7); !errors.Is(err, ErrCorrupt) {
		t.Fatal(err)
	}
	if err := installTest(d, 7); !errors.Is(err, ErrCorrupt) {
		t.Fatal(err)
	}
	if after := list(t, mem, "/data/version-2"); !slices.Equal(before, after) {
		t.Fatalf("files %v, before %v", after, before)
	}
	if err := d.Retire(5); err != nil {
		t.Fatal(err)
	}
	if r, err := recoverTest(d); err != nil || r.end() != 5 {
		t.Fatalf("it ends with %v, %v", r.end(), err)
	}
}
