package storage

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/test/faultfs"
	"github.com/pinfold-zk/pinfold/zk"
)

// The bytes of a log are those of the protocol page, section 11.3: an error
// transaction of 36 bytes, whose Adler-32 was computed by hand with Python.
func TestLogGoldenBytes(t *testing.T) {
	mem := vfs.NewMem()
	d := openTest(t, mem, testOptions())
	l := d.NewLog(0)
	payload, _ := hex.DecodeString("0100001234560000" + "00000007" + "0000000100000001" +
		"0000019abcdef012" + "ffffffff" + "ffffff9b")
	if err := l.Append(0x100000001, payload); err != nil {
		t.Fatal(err)
	}
	flush(t, l)
	got := readFile(t, mem, "/data/version-2/log.100000001")
	want := "5a4b4c47" + "00000002" + "0000000000000000" + // header
		"00000000" + "5c0d0b72" + "00000024" + // checksum, length
		hex.EncodeToString(payload) + "42"
	if h := hex.EncodeToString(got); !strings.HasPrefix(h, want) {
		t.Fatalf("the log is\n%s, want\n%s", h[:len(want)], want)
	}
	if !allZero(got[len(want)/2:]) || len(got) != 16+8192 {
		t.Fatalf("the log has %d bytes, want 8208, zeros behind the entry", len(got))
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if n, _ := mem.Size("/data/version-2/log.100000001"); n != int64(len(want)/2) {
		t.Fatalf("closed, the log has %d bytes, want %d", n, len(want)/2)
	}
}

// A default log's first file has Apache's length, 64 MiB and the header's 16.
func TestLogPreallocation(t *testing.T) {
	mem := vfs.NewMem()
	d := openTest(t, mem, Options{DataDir: "/data", AutoCreate: true})
	l := d.NewLog(0)
	appendTest(t, l, 100, 1)
	flush(t, l)
	if n, _ := mem.Size("/data/version-2/log.1"); n != 67108880 {
		t.Fatalf("the file has %d bytes, want 67108880", n)
	}
}

// The order of disk operations is the argument for durability, so it is kept in
// a file that a change has to touch.
func TestGoldenOperations(t *testing.T) {
	var ops strings.Builder
	mem := vfs.NewMem()
	fsys := faultfs.New(mem, 0, faultfs.None, func(op faultfs.Op) {
		if op.Kind != "read" {
			ops.WriteString(op.String() + "\n")
		}
	})
	section := func(s string) { ops.WriteString("# " + s + "\n") }

	section("open an empty directory")
	d := openTest(t, fsys, testOptions())
	section("first flush of a log: two entries")
	l := d.NewLog(0)
	appendTest(t, l, 100, 1, 2)
	flush(t, l)
	section("second flush")
	appendTest(t, l, 100, 3)
	flush(t, l)
	section("a flush that extends the file")
	appendTest(t, l, 5000, 4)
	flush(t, l)
	section("roll, and flush")
	if err := l.Roll(); err != nil {
		t.Fatal(err)
	}
	appendTest(t, l, 100, 5)
	flush(t, l)
	section("close the log")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	section("a snapshot")
	writeSnapshot(t, d, 5, []byte("body"))
	section("an epoch")
	if err := d.SetCurrentEpoch(3); err != nil {
		t.Fatal(err)
	}
	section("cut a torn tail")
	name := "/data/version-2/log.5"
	n, _ := mem.Size(name)
	if err := d.CutTail(Tail{Name: name, Bytes: n - 7, Size: n, Torn: true}); err != nil {
		t.Fatal(err)
	}
	section("truncate to 3")
	writeSnapshot(t, d, 0, []byte("body"))
	if err := d.Truncate(3); err != nil {
		t.Fatal(err)
	}
	section("without syncing: a new log, a second flush")
	o := testOptions()
	o.Log.NoSync = true
	d.Close()
	d = openTest(t, fsys, o)
	l = d.NewLog(3)
	appendTest(t, l, 100, 4)
	flush(t, l)
	appendTest(t, l, 100, 5)
	flush(t, l)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	section("install a snapshot of 4 from a leader, where the log goes up to 5")
	if err := installTest(d, 4); err != nil {
		t.Fatal(err)
	}

	golden := path.Join("testdata", "operations.txt")
	if os.Getenv("REWRITE") != "" {
		if err := os.WriteFile(golden, []byte(ops.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if ops.String() != string(want) {
		t.Fatalf("the operations are (REWRITE=1 accepts them)\n%s\nwant\n%s", ops.String(), want)
	}
}

// What is written is read, over files of every length and payloads of many.
func TestLogRoundTrip(t *testing.T) {
	mem := vfs.NewMem()
	o := testOptions()
	o.Log.MaxFileBytes = 20000
	d := openTest(t, mem, o)
	l := d.NewLog(0)
	var want []entry
	z := zk.MakeZxid(1, 1)
	for i := range 200 {
		if i == 100 {
			z = zk.MakeZxid(4, 1)
		}
		want = append(want, appendTest(t, l, 32+i*7%900, z)...)
		z++
		if i%3 == 0 {
			flush(t, l)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if n := len(list(t, mem, "/data/version-2")); n < 4 {
		t.Fatalf("%d files, want several", n)
	}
	for skip := range want {
		after := want[skip].zxid
		got, tail, err := readAll(d, after)
		if err != nil {
			t.Fatalf("after %v: %v", after, err)
		}
		if !sameEntries(got, want[skip+1:]) {
			t.Fatalf("after %v: %d entries, want %d", after, len(got), len(want)-skip-1)
		}
		if tail.Torn || tail.Bytes != tail.Size {
			t.Fatalf("after %v: tail %+v", after, tail)
		}
	}
	got, _, err := readAll(d, 0)
	if err != nil || !sameEntries(got, want) {
		t.Fatalf("after 0: %d entries, %v", len(got), err)
	}
}

// An entry larger than one write, and many that together are, are flushed in
// several writes, none of which a crash can tear beyond what the reader allows.
func TestLogWritesAreBounded(t *testing.T) {
	largest := int64(0)
	mem := vfs.NewMem()
	fsys := faultfs.New(mem, 0, faultfs.None, func(op faultfs.Op) {
		if op.Kind == "writeat" {
			largest = max(largest, op.Bytes)
		}
	})
	o := testOptions()
	o.Log.PreallocBytes = -1
	d := openTest(t, fsys, o)
	l := d.NewLog(0)
	want := appendTest(t, l, 900_000, zxids(1, 12)...)
	flush(t, l)
	if largest > maxWriteBytes+vfs.DirectBytes {
		t.Errorf("a write of %d bytes, want %d at most, and the rest of a block", largest, maxWriteBytes)
	}
	got, _, err := readAll(d, 0)
	if err != nil || !sameEntries(got, want) {
		t.Fatalf("%d entries, %v", len(got), err)
	}
}

// Entries that could not be read back are refused, and do no harm.
func TestLogRefuses(t *testing.T) {
	d := openTest(t, vfs.NewMem(), testOptions())
	l := d.NewLog(zk.MakeZxid(2, 5))
	tests := []struct {
		name    string
		zxid    zk.Zxid
		payload []byte
		gap     bool
	}{
		{"gap", zk.MakeZxid(2, 7), testPayload(zk.MakeZxid(2, 7), 50), true},
		{"again", zk.MakeZxid(2, 5), testPayload(zk.MakeZxid(2, 5), 50), true},
		{"older epoch", zk.MakeZxid(1, 1), testPayload(zk.MakeZxid(1, 1), 50), true},
		{"newer epoch from 2", zk.MakeZxid(3, 2), testPayload(zk.MakeZxid(3, 2), 50), true},
		{"newer epoch from 0", zk.MakeZxid(3, 0), testPayload(zk.MakeZxid(3, 0), 50), true},
		{"short", zk.MakeZxid(2, 6), make([]byte, 31), false},
		{"long", zk.MakeZxid(2, 6), testPayload(zk.MakeZxid(2, 6), DefaultMaxEntryBytes+1), false},
		{"another zxid", zk.MakeZxid(2, 6), testPayload(zk.MakeZxid(2, 7), 50), false},
	}
	for _, tt := range tests {
		err := l.Append(tt.zxid, tt.payload)
		if err == nil || errors.Is(err, ErrGap) != tt.gap {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	want := appendTest(t, l, 50, zk.MakeZxid(2, 6), zk.MakeZxid(3, 1))
	flush(t, l)
	got, _, err := readAll(d, zk.MakeZxid(2, 5))
	if err != nil || !sameEntries(got, want) {
		t.Fatalf("%d entries, %v", len(got), err)
	}
}

// A log never replaces a file.
func TestLogKeepsExistingFile(t *testing.T) {
	mem := vfs.NewMem()
	putFile(t, mem, "/data/version-2/log.1", []byte("precious"))
	d := openTest(t, mem, testOptions())
	l := d.NewLog(0)
	appendTest(t, l, 50, 1)
	if err := l.Flush(); !errors.Is(err, fs.ErrExist) {
		t.Fatalf("flush: %v", err)
	}
	if got := readFile(t, mem, "/data/version-2/log.1"); string(got) != "precious" {
		t.Fatal("the file was replaced")
	}
}

// Invariant 4: whichever operation fails, however it does, the log says so at
// once, refuses everything from then on without touching the disk, and what it
// had acknowledged is there.
func TestErrorAtEveryOperation(t *testing.T) {
	for _, kind := range []faultfs.Kind{faultfs.IO, faultfs.NoSpace, faultfs.ShortWrite} {
		for at := 1; ; at++ {
			mem := vfs.NewMem()
			d := openTest(t, mem, testOptions())
			fault := faultfs.New(mem, at, kind, nil)
			l := testDir(fault).NewLog(0)
			var acked []entry
			err := logScript(l, &acked)
			if err == nil {
				if at < 10 {
					t.Fatalf("the script has only %d operations", at)
				}
				break
			}
			if !errors.Is(err, syscall.EIO) && !errors.Is(err, syscall.ENOSPC) {
				t.Fatalf("operation %d: %v", at, err)
			}
			if l.Err() == errLogClosed {
				checkRecovery(t, d, acked, scriptEntries(), "after an error of Close")
				continue
			}
			ops := fault.Ops()
			next := l.LastZxid() + 1
			for _, again := range []error{l.Flush(), l.Append(next, testPayload(next, 50)), l.Roll(), l.Err()} {
				if !errors.Is(again, syscall.EIO) && !errors.Is(again, syscall.ENOSPC) {
					t.Fatalf("operation %d: after the error: %v", at, again)
				}
			}
			if fault.Ops() != ops {
				t.Fatalf("operation %d: the disk was used after the error", at)
			}
			if err := l.Close(); err == nil {
				t.Fatalf("operation %d: Close hides the error", at)
			}
			checkRecovery(t, d, acked, scriptEntries(), "after an error")
		}
	}
}

// The hot path allocates nothing.
func TestAppendAllocatesNothing(t *testing.T) {
	d := openTest(t, discardFS{vfs.NewMem()}, testOptions())
	l := d.NewLog(0)
	z := zk.Zxid(0)
	payload := testPayload(1, 1000)
	round := func() {
		for range 100 {
			z++
			binary.BigEndian.PutUint64(payload[txnZxidOffset:], uint64(z))
			if err := l.Append(z, payload); err != nil {
				t.Fatal(err)
			}
		}
		flush(t, l)
	}
	round()
	if n := testing.AllocsPerRun(50, round); n != 0 {
		t.Errorf("%v allocations for 100 entries and a flush", n)
	}
}

// discardFS makes files whose content goes nowhere.
type discardFS struct{ vfs.FS }

func (d discardFS) Create(name string) (vfs.File, error) {
	f, err := d.FS.Create(name)
	return discardFile{f}, err
}

func (d discardFS) CreateDirect(name string) (vfs.File, error) {
	f, err := d.FS.CreateDirect(name)
	return discardFile{f}, err
}

type discardFile struct{ vfs.File }

func (discardFile) WriteAt(p []byte, off int64) (int, error) { return len(p), nil }
func (discardFile) Preallocate(size int64) error             { return nil }
