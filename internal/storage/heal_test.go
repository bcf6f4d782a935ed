package storage

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/test/faultfs"
	"github.com/pinfold-zk/pinfold/zk"
)

// The mark that a member heals survives a crash at each operation once BeginHealing has
// returned, and is gone once EndHealing has.
func TestCrashDuringHealing(t *testing.T) {
	want := Healing{Reason: "log.1: corrupt"}
	for at := 1; ; at++ {
		mem := acknowledged(t, 3)
		fault := faultfs.New(mem, at, faultfs.Crash, nil)
		begun, whole, ended := healScript(fault, want)
		for seed := range uint64(4) {
			d := openTest(t, mem.CrashClone(rand.New(rand.NewPCG(uint64(at), seed))), testOptions())
			h, marked, err := d.Healing()
			switch {
			case err != nil:
				t.Fatal(err)
			case begun && !ended && marked && h != want:
				t.Fatalf("crash at %d: the mark says %+v", at, h)
			case ended && marked:
				t.Fatalf("crash at %d: the member heals for ever", at)
			case begun && !whole && !marked:
				t.Fatalf("crash at %d: the mark is lost", at)
			}
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if ended {
			return
		}
	}
}

// healScript marks a directory, replaces what it holds, and removes the mark.
func healScript(fsys vfs.FS, h Healing) (begun, whole, ended bool) {
	d, err := Open(fsys, testOptions())
	if err != nil {
		return false, false, false
	}
	defer d.Close()
	if err := d.BeginHealing(h); err != nil {
		return false, false, false
	}
	if err := d.Clear(); err != nil {
		return true, false, false
	}
	w, err := d.CreateSnapshot(9)
	if err == nil {
		err = errors.Join(w.Seal(), w.Commit())
	}
	if err == nil {
		err = d.NoteHistory(9)
	}
	if err != nil {
		return true, false, false
	}
	return true, true, d.EndHealing() == nil
}

// Clear removes damaged files as well as others, and what they had synced counts no more.
func TestClear(t *testing.T) {
	mem := acknowledged(t, 3)
	putFile(t, mem, "/data/version-2/snapshot.2", []byte("damaged"))
	putFile(t, mem, "/data/version-2/log.9", []byte("damaged"))
	d := openTest(t, mem, testOptions())
	if err := d.Clear(); err != nil {
		t.Fatal(err)
	}
	logs, _ := d.Logs()
	snaps, _ := d.Snapshots()
	got, _, err := readAll(d, 0)
	if len(logs) != 0 || len(snaps) != 0 || len(got) != 0 || err != nil {
		t.Fatalf("%d logs, %d snapshots, %d transactions, %v", len(logs), len(snaps), len(got), err)
	}
}

// A damaged mark says that everything is lost.
func TestDamagedHealingMark(t *testing.T) {
	for _, content := range []string{"", "\x00\x00", "epoch-", "epoch-lost it is"} {
		mem := vfs.NewMem()
		putFile(t, mem, "/data/version-2/healing", []byte(content))
		if h, marked, err := openTest(t, mem, testOptions()).Healing(); !marked || !h.Forgot || err != nil {
			t.Errorf("%q: %+v, %v, %v", content, h, marked, err)
		}
	}
}

// The accepted epoch is known unless its file is lost, no number, or older than what was
// promised.
func TestAcceptedEpoch(t *testing.T) {
	for _, tt := range []struct {
		content, current string
		known            bool
	}{{"7", "6", true}, {"8", "6", true}, {"6", "6", false}, {"7", "9", false}, {"", "6", false}, {"\x00", "6", false}, {"7", "\x00", true}} {
		mem := vfs.NewMem()
		d := openTest(t, mem, testOptions())
		if err := errors.Join(d.NoteHistory(3), d.SetAcceptedEpoch(7), d.Close()); err != nil {
			t.Fatal(err)
		}
		if err := mem.Remove("/data/version-2/acceptedEpoch"); err != nil {
			t.Fatal(err)
		}
		if tt.content != "" {
			putFile(t, mem, "/data/version-2/acceptedEpoch", []byte(tt.content))
		}
		putFile(t, mem, "/data/version-2/currentEpoch", []byte(tt.current))
		d = openTest(t, mem, testOptions())
		if _, known, err := d.AcceptedEpoch(); known != tt.known || err != nil {
			t.Errorf("%+v: known %v, %v", tt, known, err)
		}
		if _, _, _, err := d.LoadEpochs(zk.MakeZxid(6, 1)); errors.Is(err, ErrEpochs) == (tt.known && tt.current != "\x00") {
			t.Errorf("%+v: %v", tt, err)
		}
	}
}

// A snapshot that a leader has sent and that is lost afterwards is missed.
func TestALostSnapshotIsMissed(t *testing.T) {
	mem := acknowledged(t, 3)
	d := openTest(t, mem, testOptions())
	w, err := d.CreateSnapshot(9)
	if err == nil {
		err = errors.Join(w.Seal(), w.Install(), d.NoteHistory(9), d.Close(), mem.Remove("/data/version-2/snapshot.9"))
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := readAll(openTest(t, mem, testOptions()), 0); !errors.Is(err, ErrCorrupt) {
		t.Fatalf("the log is read to its end: %v", err)
	}
}
