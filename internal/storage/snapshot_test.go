package storage

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/adler32"
	"io"
	"math/rand/v2"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/test/faultfs"
	"github.com/pinfold-zk/pinfold/zk"
)

// writeSnapshot writes a snapshot whose parts are each sealed.
func writeSnapshot(t testing.TB, d *Dir, zxid zk.Zxid, parts ...[]byte) {
	t.Helper()
	w, err := d.CreateSnapshot(zxid)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range parts {
		if _, err := w.Write(p); err != nil {
			t.Fatal(err)
		}
		if err := w.Seal(); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Commit(); err != nil {
		t.Fatal(err)
	}
}

// readSnapshot reads a snapshot of one part and returns it. It is read ahead too,
// with the same result, and its checksum is looked at alone.
func readSnapshot(d *Dir, s Snapshot) (part []byte, err error) {
	part, err = readSnapshotIn(d, s, false)
	again, errAgain := readSnapshotIn(d, s, true)
	if !bytes.Equal(part, again) || fmt.Sprint(err) != fmt.Sprint(errAgain) {
		return nil, fmt.Errorf("read ahead: %d bytes, %w; else %d bytes, %w", len(again), errAgain, len(part), err)
	}
	if sums := checkSums(d, s); (sums == nil) != (err == nil) {
		return nil, fmt.Errorf("by its checksum: %v; else %v", sums, err) // not as damage: a test takes that for right
	}
	return part, err
}

func checkSums(d *Dir, s Snapshot) error {
	r, err := d.OpenSnapshot(s)
	if err != nil {
		return err
	}
	return errors.Join(r.CheckSums(), r.Close())
}

func readSnapshotIn(d *Dir, s Snapshot, ahead bool) (part []byte, err error) {
	r, err := d.OpenSnapshot(s)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if ahead {
		r.ReadAhead()
	}
	n := 0
	for {
		b, err := r.Fill(n + 1)
		n = len(b)
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	if n < sealBytes {
		return nil, r.Corrupt("too short")
	}
	part = bytes.Clone(r.Buffered()[:n-sealBytes])
	r.Discard(len(part))
	if err := r.CheckSeal(); err != nil {
		return nil, err
	}
	return part, r.CheckEnd()
}

// The bytes around the parts are those of the protocol page, section 11.5.
func TestSnapshotGoldenBytes(t *testing.T) {
	mem := vfs.NewMem()
	d := openTest(t, mem, testOptions())
	writeSnapshot(t, d, 0x10, []byte("first"), []byte("second"))
	header := "5a4b534e" + "00000002" + "ffffffffffffffff"
	b, _ := hex.DecodeString(header + hex.EncodeToString([]byte("first")))
	want := fmt.Sprintf("%x%016x000000012f", b, adler32.Checksum(b))
	b, _ = hex.DecodeString(want + hex.EncodeToString([]byte("second")))
	want = fmt.Sprintf("%x%016x000000012f", b, adler32.Checksum(b))
	if got := hex.EncodeToString(readFile(t, mem, "/data/version-2/snapshot.10")); got != want {
		t.Fatalf("the snapshot is\n%s, want\n%s", got, want)
	}
}

// What is written in pieces of any size is read, compressed or not.
func TestSnapshotRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	body := make([]byte, 700_001)
	for i := range body {
		body[i] = byte(rng.IntN(20))
	}
	for _, c := range []Compression{Plain, Gzip, Snappy} {
		t.Run("compression"+c.suffix(), func(t *testing.T) {
			o := testOptions()
			o.Compression = c
			d := openTest(t, vfs.NewMem(), o)
			w, err := d.CreateSnapshot(0xabc)
			if err != nil {
				t.Fatal(err)
			}
			for rest := body; len(rest) > 0; {
				n := min(len(rest), rng.IntN(100_000))
				if _, err := w.Write(rest[:n]); err != nil {
					t.Fatal(err)
				}
				rest = rest[n:]
			}
			if err := errors.Join(w.Seal(), w.Commit()); err != nil {
				t.Fatal(err)
			}
			if names := list(t, d.fs, "/data/version-2"); fmt.Sprint(names) != "[snapshot.abc"+c.suffix()+"]" {
				t.Fatalf("files %v", names)
			}
			snaps, err := d.Snapshots()
			if err != nil || len(snaps) != 1 || snaps[0].Zxid != 0xabc || snaps[0].Compression != c {
				t.Fatalf("snapshots %v, %v", snaps, err)
			}
			got, err := readSnapshot(d, snaps[0])
			if err != nil || !bytes.Equal(got, body) {
				t.Fatalf("read %d bytes, %v", len(got), err)
			}
		})
	}
}

// A reader sees the stream whole in steps of any size, and its seals where they
// are; read ahead or not.
func TestSnapshotReaderInSteps(t *testing.T) {
	for _, sizes := range [][]int{
		{600_000, 20, 300_000}, {3_000_000, 8, 20}, {1_000_000},
		// The seal, or what follows it, begins on either side of a chunk's end.
		{chunkBytes - headerBytes - 3, 20}, {chunkBytes - headerBytes - sealBytes, 5},
		{chunkBytes - headerBytes - sealBytes - 1, 5}, {2*chunkBytes - headerBytes}, {2*chunkBytes - headerBytes - 1, 1},
	} {
		for _, ahead := range []bool{false, true} {
			for seed := range uint64(4) {
				readInSteps(t, rand.New(rand.NewPCG(seed, 1)), sizes, ahead)
			}
		}
	}
}

func readInSteps(t *testing.T, rng *rand.Rand, sizes []int, ahead bool) {
	t.Helper()
	d := openTest(t, vfs.NewMem(), testOptions())
	var parts [][]byte
	for i, n := range sizes {
		parts = append(parts, testPayload(zk.Zxid(i+1), n)[:n])
	}
	writeSnapshot(t, d, 1, parts...)
	snaps, _ := d.Snapshots()
	r, err := d.OpenSnapshot(snaps[0])
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if ahead {
		r.ReadAhead()
	}
	for i, part := range parts {
		for len(part) > 0 {
			n := min(len(part), 1+rng.IntN(2000))
			if rng.IntN(50) == 0 {
				n = min(len(part), rng.IntN(3*chunkBytes))
			}
			b, err := r.Fill(n)
			if err != nil || !bytes.Equal(b[:n], part[:n]) {
				t.Fatalf("%v: part %d at %d: %v", sizes, i, r.Offset(), err)
			}
			r.Discard(n)
			part = part[n:]
		}
		if err := r.CheckSeal(); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.CheckSeal(); err != io.EOF {
		t.Fatalf("a part that is absent: %v, want io.EOF", err)
	}
	if err := r.CheckEnd(); err != nil {
		t.Fatal(err)
	}
}

// A reader that is closed early leaves no goroutine, wherever that one is.
func TestCloseWhileReadingAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := openTest(t, vfs.NewMem(), testOptions())
		writeSnapshot(t, d, 1, testPayload(1, 20*chunkBytes))
		snaps, _ := d.Snapshots()
		for steps := range 5 {
			r, err := d.OpenSnapshot(snaps[0])
			if err != nil {
				t.Fatal(err)
			}
			r.ReadAhead()
			for range steps {
				b, err := r.Fill(chunkBytes)
				if err != nil {
					t.Fatal(err)
				}
				r.Discard(len(b))
			}
			if steps%2 == 0 {
				synctest.Wait() // it has read as far as it may
			}
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// Invariant 3 for snapshots, and: cut anywhere, a snapshot is refused.
func TestEveryFlippedBitOfSnapshot(t *testing.T) {
	body := append(testPayload(1, 60), bytes.Repeat([]byte("node"), 40)...)
	for _, c := range []Compression{Plain, Gzip, Snappy} {
		o := testOptions()
		o.Compression = c
		d := openTest(t, vfs.NewMem(), o)
		writeSnapshot(t, d, 1, body)
		name := "/data/version-2/snapshot.1" + c.suffix()
		file := readFile(t, d.fs, name)
		s := Snapshot{Name: "snapshot.1" + c.suffix(), Zxid: 1, Compression: c}
		check := func(what string, at int, b []byte, exact bool) {
			t.Helper()
			putFile(t, d.fs, name, b)
			got, err := readSnapshot(d, s)
			if err == nil && exact && bytes.Equal(got, body) {
				return
			}
			if e, ok := errors.AsType[*Error](err); !ok || e.Kind != ErrCorrupt || e.Name != name {
				t.Fatalf("%s%s %d: read %d bytes, %v", s.Name, what, at, len(got), err)
			}
		}
		refused := 0
		for bit := range len(file) * 8 {
			b := bytes.Clone(file)
			b[bit/8] ^= 1 << (bit % 8)
			// Gzip's header has fields, as the time, that mean nothing here.
			check(": bit", bit, b, true)
			if _, err := readSnapshot(d, s); err != nil {
				refused++
			}
		}
		if refused < len(file)*8*9/10 {
			t.Errorf("%s: only %d of %d flipped bits are refused", s.Name, refused, len(file)*8)
		}
		for n := range len(file) {
			check(": length", n, file[:n], false)
		}
	}
}

// An error of the disk ends a snapshot, leaves no file behind if the disk
// allows, and is told.
func TestSnapshotErrorAtEveryOperation(t *testing.T) {
	body := testPayload(1, 3<<20)
	for _, kind := range []faultfs.Kind{faultfs.IO, faultfs.ShortWrite} {
		for at := 1; ; at++ {
			mem := vfs.NewMem()
			openTest(t, mem, testOptions()).Close()
			fault := faultfs.New(mem, at, kind, nil)
			err := func() error {
				w, err := testDir(fault).createSnapshot(5, Gzip)
				if err != nil {
					return err
				}
				w.Write(body)
				w.Seal()
				err = w.Commit()
				if again := w.Commit(); err != nil && again == nil {
					t.Fatalf("operation %d: the error does not stick", at)
				}
				return err
			}()
			names := list(t, mem, "/data/version-2")
			if err == nil {
				if at < 5 {
					t.Fatalf("only %d operations", at)
				}
				break
			}
			if !errors.Is(err, syscall.EIO) && !errors.Is(err, syscall.ENOSPC) {
				t.Fatalf("operation %d: %v", at, err)
			}
			// A failed sync of the directory leaves the whole file.
			if len(names) == 1 && names[0] == "snapshot.5.gz" {
				d := openTest(t, mem, testOptions())
				if _, err := readSnapshot(d, Snapshot{names[0], 5, Gzip}); err != nil {
					t.Fatalf("operation %d: %v", at, err)
				}
			} else if len(names) != 0 {
				t.Fatalf("operation %d: files %v are left", at, names)
			}
		}
	}
}

// Abort leaves nothing; after Commit it does nothing.
func TestAbort(t *testing.T) {
	d := openTest(t, vfs.NewMem(), testOptions())
	w, err := d.CreateSnapshot(1)
	if err != nil {
		t.Fatal(err)
	}
	w.Write([]byte("x"))
	if err := w.Abort(); err != nil {
		t.Fatal(err)
	}
	if names := list(t, d.fs, "/data/version-2"); len(names) != 0 {
		t.Fatalf("files %v after Abort", names)
	}
	if _, err := w.Write([]byte("x")); err == nil {
		t.Fatal("Write after Abort is accepted")
	}
	w, err = d.CreateSnapshot(2)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Seal(), w.Commit(), w.Abort()); err != nil {
		t.Fatal(err)
	}
	if names := list(t, d.fs, "/data/version-2"); fmt.Sprint(names) != "[snapshot.2]" {
		t.Fatalf("files %v after Commit and Abort", names)
	}
}

func TestSnapshotNames(t *testing.T) {
	tests := map[string]string{
		"snapshot.0":                "0x0",
		"snapshot.1a2b":             "0x1a2b",
		"snapshot.5.gz":             "0x5.gz",
		"snapshot.5.snappy":         "0x5.snappy",
		"snapshot.7fffffffffffffff": "0x7fffffffffffffff",
		"snapshot.8000000000000000": "",
		"snapshot.":                 "",
		"snapshot.5.zst":            "",
		"snapshot.5A":               "",
		"snapshot.05":               "",
		"snapshot.-5":               "",
		"snapshot.+5":               "",
		"tmp.snapshot.5":            "",
		"log.5":                     "",
	}
	for name, want := range tests {
		got := ""
		if s, ok := parseSnapshotName(name); ok {
			got = s.Zxid.String() + s.Compression.suffix()
		}
		if got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	for method, want := range map[string]Compression{"": Plain, "gz": Gzip, "snappy": Snappy} {
		if c, err := ParseCompression(method); err != nil || c != want {
			t.Errorf("method %q is %v, %v", method, c, err)
		}
	}
	if _, err := ParseCompression("lz4"); err == nil {
		t.Error("method lz4 is accepted")
	}
}
