package storage

import (
	"bytes"
	"errors"
	"os"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/vfs"
)

// FuzzLogReader: whatever a log file holds, reading it ends, with entries and a
// tail or with an error that is damage; what is read is what was written; and
// once the tail is cut the file reads the same and is clean.
func FuzzLogReader(f *testing.F) {
	f.Add(logBytes(testEntries(40, 1, 2, 3)...))
	f.Add(append(logBytes(testEntries(700, 1, 2)...), make([]byte, 600)...))
	f.Add([]byte{})
	if b, err := os.ReadFile("testdata/apache/log.1"); err == nil {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		d := putLogs(t, map[string][]byte{"log.1": b})
		got, tail, err := readAll(d, 0)
		if err != nil {
			if e, ok := errors.AsType[*Error](err); !ok || e.Offset > int64(len(b)) {
				t.Fatal(err)
			}
			return
		}
		// Where no entry was skipped as a duplicate, the file has these and no others.
		if w := logBytes(got...); int64(len(w)) == tail.Bytes && !bytes.Equal(w[headerBytes:], b[headerBytes:tail.Bytes]) {
			t.Fatal("there are entries that are not in the file")
		}
		if err := d.CutTail(tail); err != nil {
			t.Fatal(err)
		}
		again, tail, err := readAll(d, 0)
		if err != nil || !sameEntries(got, again) || tail.Torn {
			t.Fatalf("after the cut: %d entries of %d, tail %+v, %v", len(again), len(got), tail, err)
		}
	})
}

// FuzzSnapshotReader: whatever a snapshot file holds, reading it ends, and what
// passes the seal is what was sealed.
func FuzzSnapshotReader(f *testing.F) {
	for _, c := range []Compression{Plain, Gzip, Snappy} {
		o := testOptions()
		o.Compression = c
		d := openTest(f, vfs.NewMem(), o)
		writeSnapshot(f, d, 1, bytes.Repeat([]byte("node"), 100))
		f.Add(byte(c), readFile(f, d.fs, "/data/version-2/snapshot.1"+c.suffix()))
	}
	f.Fuzz(func(t *testing.T, compression byte, b []byte) {
		c := Compression(compression % 3)
		name := "snapshot.1" + c.suffix()
		d := putLogs(t, map[string][]byte{name: b})
		part, err := readSnapshot(d, Snapshot{name, 1, c})
		if err != nil {
			if e, ok := errors.AsType[*Error](err); !ok || e.Kind != ErrCorrupt {
				t.Fatal(err)
			}
			return
		}
		sum := sumAdler(sumAdler(adlerInit, appendFileHeader(nil, snapshotMagic, -1)), part)
		if c == Plain && !bytes.Contains(b, []byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)}) {
			// The dbid is free, and part of the sum.
			if bytes.Equal(b[:16], appendFileHeader(nil, snapshotMagic, -1)) {
				t.Fatal("the seal does not hold the checksum")
			}
		}
	})
}
