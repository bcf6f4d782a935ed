package storage

import (
	"errors"
	"io"
	"os"
	"path"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/zk"
)

// rawEntries reads a log of three entries of 40 bytes with an EntryReader, after change.
func rawEntries(t *testing.T, change func(b []byte) []byte) (entries []Entry, torn bool, err error) {
	t.Helper()
	b := AppendLogHeader(nil, 7)
	for z := range zk.Zxid(3) {
		b = AppendEntry(b, testPayload(z+1, 40))
	}
	name := path.Join(t.TempDir(), "log.1")
	if err := os.WriteFile(name, change(b), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := OpenEntries(vfs.OS{}, name, 0)
	if err != nil {
		return nil, false, err
	}
	defer r.Close()
	if r.Dbid() != 7 {
		t.Errorf("dbid %d, want 7", r.Dbid())
	}
	for {
		e, err := r.Next()
		if err == io.EOF {
			torn, err = r.Torn()
			return entries, torn, err
		}
		if err != nil {
			return entries, false, err
		}
		entries = append(entries, e)
	}
}

const rawEntryBytes = 40 + frameBytes

// An EntryReader reads every entry with its place, also after one whose checksum is wrong,
// and up to zeros, the end of the file, or what has no length.
func TestEntryReader(t *testing.T) {
	for name, tt := range map[string]struct {
		change  func(b []byte) []byte
		entries int
		bad     int // index of the entry with a wrong checksum, -1 for none
		torn    bool
		err     error
	}{
		"whole":           {func(b []byte) []byte { return b }, 3, -1, false, nil},
		"zeros":           {func(b []byte) []byte { return append(b, make([]byte, 5000)...) }, 3, -1, false, nil},
		"cut":             {func(b []byte) []byte { return b[:len(b)-5] }, 2, -1, true, nil},
		"flipped payload": {func(b []byte) []byte { b[headerBytes+rawEntryBytes+prefixBytes+35] ^= 1; return b }, 3, 1, false, nil},
		"flipped sum":     {func(b []byte) []byte { b[headerBytes+7] ^= 1; return b }, 3, 0, false, nil},
		"flipped end":     {func(b []byte) []byte { b[len(b)-1] ^= 1; return b }, 2, -1, false, ErrCorrupt},
		"huge length":     {func(b []byte) []byte { b[headerBytes+8] = 0x7f; return b }, 0, -1, false, ErrCorrupt},
		"no header":       {func(b []byte) []byte { return b[:10] }, 0, -1, false, ErrNoLog},
		"snapshot":        {func(b []byte) []byte { b[3] = 'N'; return b }, 0, -1, false, ErrNoLog},
	} {
		t.Run(name, func(t *testing.T) {
			entries, torn, err := rawEntries(t, tt.change)
			if len(entries) != tt.entries || torn != tt.torn || !errors.Is(err, tt.err) {
				t.Fatalf("%d entries, torn %t, %v; want %d, %t, %v", len(entries), torn, err, tt.entries, tt.torn, tt.err)
			}
			for i, e := range entries {
				if e.Valid != (i != tt.bad) || e.Offset != int64(headerBytes+i*rawEntryBytes) || e.Zxid != zk.Zxid(i+1) {
					t.Errorf("entry %d: valid %t, zxid %v at byte %d", i, e.Valid, e.Zxid, e.Offset)
				}
			}
		})
	}
}

// A directory that is open for reading only is not locked, and stays as it is.
func TestReadOnly(t *testing.T) {
	fs := vfs.NewMem()
	d := openTest(t, fs, testOptions())
	l := d.NewLog(0)
	appendTest(t, l, 3, 1)
	flush(t, l)
	if f, err := fs.Create("/data/version-2/tmp.log.9"); err != nil || f.Close() != nil {
		t.Fatal(err)
	}
	before, err := fs.List("/data/version-2")
	if err != nil {
		t.Fatal(err)
	}
	r, err := OpenReadOnly(fs, testOptions()) // d has the lock
	if err != nil {
		t.Fatal(err)
	}
	logs, err := r.Logs()
	if err != nil || len(logs) != 1 || logs[0] != (LogFile{"/data/version-2/log.1", 1}) {
		t.Errorf("logs %v, %v", logs, err)
	}
	if z, err := r.Synced(); z != l.LastZxid() || err != nil {
		t.Errorf("synced %v, %v, want %v", z, err, l.LastZxid())
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	after, err := fs.List("/data/version-2")
	if err != nil || len(after) != len(before) {
		t.Errorf("%v, %v; before %v", after, err, before)
	}
	if _, err := OpenReadOnly(vfs.NewMem(), testOptions()); err == nil {
		t.Error("a directory that does not exist was opened")
	}
}

// A reader beside the server's log may have seen the zeros that the server keeps ready in the file, and find it
// shorter then, because the server has ended it. What was written meanwhile is read the next time.
func TestReadALogThatEndsMeanwhile(t *testing.T) {
	fs := vfs.NewMem()
	l := openTest(t, fs, testOptions()).NewLog(0)
	appendTest(t, l, 40, 1, 2)
	flush(t, l)
	beside, err := OpenReadOnly(fs, testOptions())
	if err != nil {
		t.Fatal(err)
	}
	r, err := beside.ReadLog(0)
	for z := zk.Zxid(1); err == nil && z <= 2; z++ {
		_, err = r.Next()
	}
	if err != nil {
		t.Fatal(err)
	}
	appendTest(t, l, 40, 3)
	if err := l.Roll(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Next(); !errors.Is(err, ErrCorrupt) {
		t.Errorf("the file became shorter: %v", err)
	}
	again, err := beside.ReadLog(2)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := again.Next(); err != nil || again.LastZxid() != 3 {
		t.Errorf("read again: %v, %v", again.LastZxid(), err)
	}
	if err := errors.Join(r.Close(), again.Close()); err != nil {
		t.Error(err)
	}
}
