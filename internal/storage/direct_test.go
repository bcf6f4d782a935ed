package storage

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/test/faultfs"
	"github.com/pinfold-zk/pinfold/zk"
)

// An acknowledged entry survives a crash of the flush that writes its block
// again: wherever in its sector it ends, and whichever sectors come through.
func TestCrashInRewrittenBlock(t *testing.T) {
	lost, torn, kept := 0, 0, 0
	for n := txnHeadBytes; n < 3*vfs.SectorBytes; n += 13 {
		for seed := range uint64(12) {
			mem := vfs.NewMem()
			syncs, rewrites := 0, 0
			var fault *faultfs.FS
			fault = faultfs.New(mem, 0, faultfs.None, func(op faultfs.Op) {
				switch {
				case op.Name == syncedName:
				case op.Kind == "writeat" && syncs > 0 && op.Offset == 0:
					rewrites++
				case op.Kind == "sync":
					if syncs++; syncs == 2 {
						fault.Crash()
					}
				}
			})
			l := openTest(t, fault, testOptions()).NewLog(0)
			acked := appendTest(t, l, n, 1)
			flush(t, l)
			all := append(acked, appendTest(t, l, 900, 2, 3)...)
			if err := l.Flush(); err == nil || rewrites != 1 {
				t.Fatalf("the block is written %d times more, then: %v", rewrites, err)
			}
			d := openTest(t, mem.CrashClone(rand.New(rand.NewPCG(uint64(n), seed))), testOptions())
			got, tail, err := readAll(d, 0)
			switch {
			case err != nil:
				t.Fatal(err)
			case tail.Torn:
				torn++
			case len(got) == len(all):
				kept++
			default:
				lost++
			}
			checkRecovery(t, d, acked, all, fmt.Sprintf("payload of %d bytes, seed %d", n, seed))
		}
	}
	if lost < 100 || torn < 100 || kept < 100 {
		t.Errorf("%d crashes lose the write, %d tear it, %d keep it: the test does not reach what it is for", lost, torn, kept)
	}
}

// A file has the same bytes up to the end of its last entry whichever way it is
// written, zeros behind while it is open, and no more than that when it is closed.
// Entries and groups have every size from less than a block to more than a write.
func TestDirectBytes(t *testing.T) {
	disk := filepath.ToSlash(t.TempDir())
	for _, prealloc := range []int64{-1, 8192, 3 << 20} {
		rng := rand.New(rand.NewPCG(5, uint64(prealloc)))
		o := testOptions()
		o.Log.PreallocBytes = prealloc
		o.Log.MaxEntryBytes = maxWriteBytes + 1<<20
		noSync := o
		noSync.Log.NoSync = true
		onDisk := o
		onDisk.DataDir = fmt.Sprintf("%s/%d", disk, prealloc)
		type system struct {
			name string
			o    Options
			fs   vfs.FS
			log  *Log
		}
		systems := []*system{
			{"direct", o, vfs.NewMem(), nil},
			{"buffered", o, bufferedFS{vfs.NewMem()}, nil},
			{"not synced", noSync, vfs.NewMem(), nil},
			{"disk", onDisk, vfs.OS{}, nil},
		}
		for _, s := range systems {
			d := openTest(t, s.fs, s.o)
			t.Cleanup(func() { d.Close() })
			s.log = d.NewLog(0)
		}
		want := logBytes()
		check := func(open bool) {
			t.Helper()
			for _, s := range systems {
				got := readFile(t, s.fs, s.o.DataDir+"/version-2/log.1")
				if len(got) < len(want) || !bytes.Equal(got[:len(want)], want) {
					t.Fatalf("step %d, %s: the file is not what was appended", prealloc, s.name)
				}
				if !allZero(got[len(want):]) || !open && len(got) > len(want) {
					t.Fatalf("step %d, %s: %d bytes behind %d", prealloc, s.name, len(got)-len(want), len(want))
				}
			}
		}
		z := zk.Zxid(0)
		for round := range 20 {
			for range 1 + rng.IntN(6) {
				z++
				size := []int{40, 5000, 300_000, maxWriteBytes + 1000}[min(rng.IntN(30)/9, 3)]
				e := testEntry(z, txnHeadBytes+rng.IntN(size))
				for _, s := range systems {
					if err := s.log.Append(z, e.payload); err != nil {
						t.Fatal(err)
					}
				}
				want = append(want, logBytes(e)[headerBytes:]...)
			}
			for _, s := range systems {
				flush(t, s.log)
				if s.log.BufferedBytes() != 0 || s.log.FileBytes() != int64(len(want)) {
					t.Fatalf("%s: %d bytes wait, the file has %d, want 0 and %d",
						s.name, s.log.BufferedBytes(), s.log.FileBytes(), len(want))
				}
			}
			if round%5 == 0 {
				check(true)
			}
		}
		for _, s := range systems {
			if err := s.log.Close(); err != nil {
				t.Fatal(err)
			}
		}
		check(false)
	}
}

// testEntry is testPayload for large ones: a pattern that does not repeat by
// blocks.
func testEntry(z zk.Zxid, n int) entry {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(uint32(i) * 2654435761 >> 16)
	}
	binary.BigEndian.PutUint64(p[txnZxidOffset:], uint64(z))
	return entry{z, p}
}

// Space that is only reserved is turned into written zeros in large steps, by the
// writes that need the first of it; a write within them touches its blocks only.
func TestZerosAhead(t *testing.T) {
	var writes []faultfs.Op
	fsys := faultfs.New(vfs.NewMem(), 0, faultfs.None, func(op faultfs.Op) {
		if op.Kind == "writeat" && op.Name != syncedName {
			writes = append(writes, op)
		}
	})
	o := testOptions()
	o.Log.PreallocBytes = 3 * zeroAheadBytes
	l := openTest(t, fsys, o).NewLog(0)
	large, ends := 0, int64(0)
	for z := zk.Zxid(1); l.FileBytes() < 3*zeroAheadBytes-2*growMargin; z++ {
		appendTest(t, l, 1000, z)
		flush(t, l)
		op := writes[len(writes)-1]
		if op.Bytes > 2*vfs.DirectBytes {
			large++
			ends = op.Offset + op.Bytes
			if ends%zeroAheadBytes != 0 {
				t.Fatalf("a write up to %d, want a multiple of %d", ends, zeroAheadBytes)
			}
		}
		if op.Offset+op.Bytes > ends {
			t.Fatalf("entry %v is written to %d, behind the zeros up to %d", z, op.Offset+op.Bytes, ends)
		}
	}
	if large != 3 {
		t.Errorf("%d writes took zeros along, want 3", large)
	}
}

// What is flushed in each way is read back, and only a flush that is not small looks whether the file has its name.
func TestFlushSmall(t *testing.T) {
	o := testOptions()
	o.DataDir = t.TempDir()
	d := openTest(t, vfs.OS{}, o)
	defer d.Close()
	l := d.NewLog(0)
	var want []entry
	small := 0
	for z := zk.Zxid(1); z <= 200; z++ {
		want = append(want, appendTest(t, l, 300, z)...)
		if !l.Prompt(0) {
			flush(t, l)
			continue
		}
		small++
		way := l.FlushSmall
		if z%3 == 0 {
			way = l.FlushAside
		}
		if err := way(); err != nil {
			t.Fatal(err)
		}
	}
	if small < 150 || small > 200-1 { // the first makes the file, some make it longer
		t.Errorf("%d of 200 flushes are small", small)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	got, _, err := readAll(d, 0)
	same := func(a, b entry) bool { return a.zxid == b.zxid && bytes.Equal(a.payload, b.payload) }
	if err != nil || !slices.EqualFunc(got, want, same) {
		t.Errorf("%d entries are read, %d were written: %v", len(got), len(want), err)
	}
}
