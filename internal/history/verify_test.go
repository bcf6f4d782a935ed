package history

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/storage"
	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/zk"
)

// copyOf copies the directory that an Apache server has written.
func copyOf(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "version-2"), os.DirFS(written)); err != nil {
		t.Fatal(err)
	}
	return dir
}

func verify(t *testing.T, dir string) (v Verification, out string, err error) {
	t.Helper()
	var b bytes.Buffer
	v.Out = &b
	err = v.Verify(dir, "")
	return v, b.String(), err
}

// A directory that is whole is said to be whole, up to its last transaction.
func TestVerifyWhole(t *testing.T) {
	v, out, err := verify(t, copyOf(t))
	if err != nil || v.Reached != 0x3b || v.Compared < 50 || len(v.Lost)+len(v.Hidden) > 0 || !strings.Contains(out, "all is well") {
		t.Errorf("%v: %+v\n%s", err, v, out)
	}
}

// Every flipped bit is found, but in the number that Apache's logs have no use for.
func TestVerifyFindsFlippedBits(t *testing.T) {
	dir := copyOf(t)
	files, err := filepath.Glob(filepath.Join(dir, "version-2", "*"))
	if err != nil || len(files) < 8 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		whole, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(bytes.TrimRight(whole, "\x00")); i += 23 {
			if strings.Contains(name, "log.") && i >= 8 && i < 16 {
				continue
			}
			b := bytes.Clone(whole)
			b[i] ^= 1 << (i % 8)
			if err := os.WriteFile(name, b, 0o600); err != nil {
				t.Fatal(err)
			}
			if _, out, err := verify(t, dir); !errors.Is(err, ErrDamaged) || !strings.Contains(out, "DAMAGED") {
				t.Fatalf("%s, bit of byte %d: %v\n%s", filepath.Base(name), i, err, out)
			}
		}
		if err := os.WriteFile(name, whole, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// A log whose entries are whole, one of which names another digest than the tree has.
func TestVerifyComparesDigests(t *testing.T) {
	dir := copyOf(t)
	name := filepath.Join(dir, "version-2", "log.34")
	r, err := storage.OpenEntries(vfs.OS{}, name, 0)
	if err != nil {
		t.Fatal(err)
	}
	b := storage.AppendLogHeader(nil, r.Dbid())
	for changed := false; ; {
		e, err := r.Next()
		if err == io.EOF {
			break
		}
		tx, bad := txn.Decode(e.Payload)
		if err = errors.Join(err, bad); err != nil {
			t.Fatal(err)
		}
		if tx.HasDigest && !changed {
			changed = true
			e.Payload[len(e.Payload)-1] ^= 1
		}
		b = storage.AppendEntry(b, e.Payload)
	}
	if err := errors.Join(r.Close(), os.WriteFile(name, b, 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, out, err := verify(t, dir); !errors.Is(err, ErrDamaged) || !strings.Contains(out, "does not have the digest") {
		t.Errorf("%v\n%s", err, out)
	}
}

// What is lost with a file is said: transactions if a server's state lacks them, else
// states before the next snapshot.
func TestVerifySaysWhatIsLost(t *testing.T) {
	for _, tt := range []struct {
		name         string
		remove       []string
		reached      zk.Zxid
		lost, hidden []Range
	}{
		{"a log before a snapshot", []string{"log.14"}, 0x3b, nil, []Range{{0x13, 0x20}, {0x20, 0x32}}},
		{"a log after the last snapshot", []string{"snapshot.32", "log.22"}, 0x21, []Range{{0x21, 0x3b}}, nil},
		{"the newest snapshot", []string{"snapshot.32"}, 0x3b, nil, nil},
		{"the first log and snapshot", []string{"snapshot.0", "log.1"}, 0x3b, nil, []Range{{0x12, 0x20}}},
		{"what a purge removes", []string{"snapshot.0", "snapshot.12", "log.1"}, 0x3b, nil, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := copyOf(t)
			for _, name := range tt.remove {
				if err := os.Remove(filepath.Join(dir, "version-2", name)); err != nil {
					t.Fatal(err)
				}
			}
			v, out, err := verify(t, dir)
			damaged := len(tt.lost)+len(tt.hidden) > 0
			if v.Reached != tt.reached || !slices.Equal(v.Lost, tt.lost) || !slices.Equal(v.Hidden, tt.hidden) || errors.Is(err, ErrDamaged) != damaged {
				t.Errorf("reached %v, lost %v, hidden %v, %v; want %v, %v, %v\n%s", v.Reached, v.Lost, v.Hidden, err, tt.reached, tt.lost, tt.hidden, out)
			}
		})
	}
}

// A log that ends before what Pinfold had synced has lost its end; its lost snapshots are
// told too.
func TestVerifyKnowsWhatWasSynced(t *testing.T) {
	dir := t.TempDir()
	d, err := storage.Open(vfs.OS{}, storage.Options{DataDir: dir, AutoCreate: true, Log: storage.LogOptions{PreallocBytes: -1}})
	if err != nil {
		t.Fatal(err)
	}
	l := d.NewLog(0)
	for _, tx := range transactions() {
		if err := l.Append(tx.Zxid, tx.Append(nil)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(l.Close(), d.Close()); err != nil {
		t.Fatal(err)
	}
	if _, out, err := verify(t, dir); !errors.Is(err, ErrDamaged) || !strings.Contains(out, "no snapshot") {
		t.Errorf("without a snapshot: %v\n%s", err, out)
	}
	empty, err := os.ReadFile(written + "snapshot.0")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "version-2", "snapshot.0"), empty, 0o600); err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(dir, "version-2", "log.1")
	size := 16
	for _, tx := range transactions()[:9] {
		size += len(storage.AppendEntry(nil, tx.Append(nil)))
	}
	if err := os.Truncate(log, int64(size)); err != nil {
		t.Fatal(err)
	}
	v, out, err := verify(t, dir)
	if !errors.Is(err, ErrDamaged) || !slices.Equal(v.Lost, []Range{{9, 16}}) {
		t.Errorf("%v, lost %v, want 0x9 to 0x10\n%s", err, v.Lost, out)
	}
}
