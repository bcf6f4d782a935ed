package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/test/faultfs"
	"github.com/pinfold-zk/pinfold/zk"
)

// Open makes the directories if it may, and shares them with nobody.
func TestOpen(t *testing.T) {
	for name, newFS := range map[string]func() (vfs.FS, string){
		"mem": func() (vfs.FS, string) { return vfs.NewMem(), "/srv" },
		"os":  func() (vfs.FS, string) { return vfs.OS{}, filepath.ToSlash(t.TempDir()) },
	} {
		t.Run(name, func(t *testing.T) {
			fsys, base := newFS()
			o := Options{DataDir: base + "/data", DataLogDir: base + "/log"}
			if _, err := Open(fsys, o); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "datadir.autocreate") {
				t.Fatalf("without autocreate: %v", err)
			}
			o.AutoCreate = true
			d := openTest(t, fsys, o)
			if n := len(list(t, fsys, base+"/data/version-2")) + len(list(t, fsys, base+"/log/version-2")); n != 0 {
				t.Fatalf("%d files in new directories", n)
			}
			for _, other := range []Options{o, {DataDir: base + "/log"}, {DataDir: base + "/other", DataLogDir: base + "/log", AutoCreate: true}} {
				if _, err := Open(fsys, other); !errors.Is(err, vfs.ErrLocked) {
					t.Fatalf("a second server with %+v: %v", other, err)
				}
			}
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			openTest(t, fsys, o).Close()
		})
	}
}

// Files that a crash has left are removed; others are left alone.
func TestOpenCleans(t *testing.T) {
	mem := vfs.NewMem()
	for _, name := range []string{"tmp.log.7", "tmp.snapshot.5.gz", "tmp.notes", "acceptedEpoch.tmp", "log.bak", "README"} {
		putFile(t, mem, "/data/version-2/"+name, []byte("x"))
	}
	d := openTest(t, mem, testOptions())
	if got := fmt.Sprint(list(t, mem, "/data/version-2")); got != "[README acceptedEpoch.tmp log.bak tmp.notes]" {
		t.Errorf("files %v are left", got)
	}
	if has, err := d.HasLog(); has || err != nil {
		t.Errorf("log.bak is a log: %v", err)
	}
}

// Logs among the snapshots, or snapshots among the logs, mean that a directory
// has moved: to start would be to start empty.
func TestOpenRefusesMixedDirectories(t *testing.T) {
	for _, tt := range []struct{ file, want string }{
		{"/data/version-2/log.1", "/data/version-2 is for snapshots but has the log file log.1"},
		{"/log/version-2/snapshot.5", "/log/version-2 is for logs but has the snapshot snapshot.5"},
	} {
		mem := vfs.NewMem()
		putFile(t, mem, tt.file, []byte("x"))
		o := Options{DataDir: "/data", DataLogDir: "/log", AutoCreate: true}
		if _, err := Open(mem, o); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", tt.file, err)
		}
		o.DataLogDir = ""
		if tt.file == "/data/version-2/log.1" {
			openTest(t, mem, o).Close()
		}
	}
}

// The epoch files against the log, whose last transaction is of epoch 5.
func TestLoadEpochs(t *testing.T) {
	last := zk.MakeZxid(5, 9)
	tests := []struct {
		name                  string
		accepted, current     string
		tmp                   string // currentEpoch.tmp
		wantAccepted, wantNow uint32
		adopted               bool
		err                   string
	}{
		{"none", "", "", "", 5, 5, false, ""},
		{"both", "8", "7", "", 8, 7, false, ""},
		{"with a newline", "8\n", "7\n", "", 8, 7, false, ""},
		{"no accepted", "", "5", "", 5, 5, false, ""},
		{"no accepted, newer current", "", "6", "", 0, 0, false, "older than currentEpoch"},
		{"an unfinished update that the log does not reach", "8", "5", "8", 8, 5, false, ""},
		{"unfinished update", "5", "4", "5", 5, 5, false, ""},
		{"unfinished update to a newer epoch", "9", "4", "7", 9, 5, true, ""},
		{"unfinished update to an older epoch", "5", "3", "4", 5, 5, true, ""},
		{"update torn", "5", "4", " ", 5, 5, true, ""},
		{"crashed in synchronization", "5", "4", "", 5, 5, true, ""},
		{"crashed in synchronization with a later leader", "7", "4", "", 7, 5, true, ""},
		{"crashed in synchronization, the promise is lost", "4", "4", "", 5, 5, true, ""},
		{"no accepted, crashed in synchronization", "", "4", "", 5, 5, true, ""},
		{"the promise was older before", "3", "4", "", 5, 5, true, ""},
		{"accepted lags current", "6", "7", "", 0, 0, false, "acceptedEpoch 6 is older than currentEpoch 7"},
		{"no number", "5", "five", "", 0, 0, false, "not an epoch"},
		{"empty", "5", " ", "", 0, 0, false, "not an epoch"},
		{"negative", "5", "-1", "", 0, 0, false, "not an epoch"},
		{"too large", "2147483648", "5", "", 0, 0, false, "not an epoch"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			mem := vfs.NewMem()
			for name, s := range map[string]string{"acceptedEpoch": tt.accepted, "currentEpoch": tt.current, "currentEpoch.tmp": tt.tmp} {
				if s != "" {
					putFile(t, mem, "/data/version-2/"+name, []byte(s))
				}
			}
			d := openTest(t, mem, testOptions())
			accepted, current, adopted, err := d.LoadEpochs(last)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("error %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil || accepted != tt.wantAccepted || current != tt.wantNow || adopted != tt.adopted {
				t.Fatalf("epochs %d and %d, adopted %v, %v", accepted, current, adopted, err)
			}
			// What it says is on the disk: the next start finds nothing to adopt.
			disk := openTest(t, mem.CrashClone(rand.New(rand.NewPCG(1, 2))), testOptions())
			if a, c, again, err := disk.LoadEpochs(last); a != accepted || c != current || again || err != nil {
				t.Fatalf("the next start: epochs %d and %d, adopted %v, %v", a, c, again, err)
			}
		})
	}
}

// A crash while an epoch is adopted is followed by a start that adopts it.
func TestCrashDuringAdoption(t *testing.T) {
	last := zk.MakeZxid(5, 9)
	for at := 1; ; at++ {
		mem := vfs.NewMem()
		putFile(t, mem, "/data/version-2/acceptedEpoch", []byte("4"))
		putFile(t, mem, "/data/version-2/currentEpoch", []byte("4"))
		fault := faultfs.New(mem, at, faultfs.Crash, nil)
		_, _, _, err := testDir(fault).LoadEpochs(last)
		for seed := range uint64(10) {
			d := openTest(t, mem.CrashClone(rand.New(rand.NewPCG(uint64(at), seed))), testOptions())
			accepted, current, _, err := d.LoadEpochs(last)
			if err != nil || accepted != 5 || current != 5 {
				t.Fatalf("operation %d, seed %d: epochs %d and %d, %v", at, seed, accepted, current, err)
			}
		}
		if err == nil {
			if at < 10 {
				t.Fatalf("only %d operations", at)
			}
			break
		}
	}
}

// An epoch file has the decimal number and nothing else.
func TestSetEpochs(t *testing.T) {
	mem := vfs.NewMem()
	d := openTest(t, mem, testOptions())
	if err := errors.Join(d.SetAcceptedEpoch(12), d.SetCurrentEpoch(11), d.SetAcceptedEpoch(13)); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(list(t, mem, "/data/version-2")); got != "[acceptedEpoch currentEpoch]" {
		t.Fatalf("files %v", got)
	}
	if got := readFile(t, mem, "/data/version-2/acceptedEpoch"); string(got) != "13" {
		t.Fatalf("acceptedEpoch holds %q", got)
	}
	accepted, current, _, err := d.LoadEpochs(0)
	if err != nil || accepted != 13 || current != 11 {
		t.Fatalf("epochs %d and %d, %v", accepted, current, err)
	}
}

func TestInitialize(t *testing.T) {
	mem := vfs.NewMem()
	o := Options{DataDir: "/data", DataLogDir: "/log", AutoCreate: true}
	putFile(t, mem, "/log/initialize", nil)
	d := openTest(t, mem, o)
	for _, want := range []bool{true, false} {
		if got, err := d.MayInitialize(); got != want || err != nil {
			t.Fatalf("initialize is there: %v, %v, want %v", got, err, want)
		}
		if err := d.EndInitialize(); err != nil {
			t.Fatal(err)
		}
	}
}

// At most MaxSnapshotCandidates are listed, the newest.
func TestSnapshotsNewestFirst(t *testing.T) {
	mem := vfs.NewMem()
	for z := range zk.Zxid(130) {
		putFile(t, mem, "/data/version-2/snapshot."+z.Hex(), []byte("x"))
	}
	d := openTest(t, mem, testOptions())
	snaps, err := d.Snapshots()
	if err != nil || len(snaps) != MaxSnapshotCandidates {
		t.Fatalf("%d snapshots, %v", len(snaps), err)
	}
	for i, s := range snaps {
		if s.Zxid != zk.Zxid(129-i) {
			t.Fatalf("number %d is %v", i, s.Zxid)
		}
	}
}

// A process that was killed between the rename of an epoch file and the sync of its
// directory leaves a name that is not durable. What the next start reads survives a
// power failure all the same.
func TestEpochsThatAreReadAreDurable(t *testing.T) {
	for at := 1; ; at++ {
		mem := vfs.NewMem()
		fault := faultfs.New(mem, 0, faultfs.None, nil)
		d := openTest(t, fault, testOptions())
		fault.Arm(at, faultfs.Kill)
		err := d.SetAcceptedEpoch(3)
		d.Close()
		d = openTest(t, mem, testOptions())
		before, _, _, loadErr := d.LoadEpochs(0)
		if loadErr != nil {
			t.Fatal(loadErr)
		}
		d.Close()
		for seed := range uint64(20) {
			d := openTest(t, mem.CrashClone(rand.New(rand.NewPCG(seed, 1))), testOptions())
			after, _, _, err := d.LoadEpochs(0)
			if d.Close(); err != nil || after != before {
				t.Fatalf("killed at operation %d, seed %d: acceptedEpoch %d, then %d, %v", at, seed, before, after, err)
			}
		}
		if err == nil {
			break
		}
	}
}
