package vfs_test

import (
	"bytes"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"unsafe"

	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/test/faultfs"
)

// AlignedBytes keeps what it promises for every length.
func TestAlignedBytes(t *testing.T) {
	for _, n := range []int{0, 1, 511, 4095, 4096, 4097, 70_000, 1 << 20} {
		b := vfs.AlignedBytes(n)
		if len(b) < n || len(b)-n >= vfs.DirectBytes || len(b)%vfs.DirectBytes != 0 || cap(b) != len(b) {
			t.Errorf("%d: length %d, capacity %d", n, len(b), cap(b))
		}
		if n > 0 && uintptr(unsafe.Pointer(unsafe.SliceData(b)))%vfs.DirectBytes != 0 {
			t.Errorf("%d bytes are not aligned", n)
		}
	}
}

// A direct file is written in whole blocks, over and over the last one, extended
// and cut at any byte, and reads back through an ordinary file at any moment. The
// file systems are that of the temporary directory and, if there is one, a tmpfs.
func TestDirect(t *testing.T) {
	systems := testFS(t)
	if shm, err := os.MkdirTemp("/dev/shm", "vfs"); err == nil {
		t.Cleanup(func() { os.RemoveAll(shm) })
		systems["tmpfs"] = func() (vfs.FS, string) { return vfs.OS{}, filepath.ToSlash(shm) }
	}
	for name, newFS := range systems {
		t.Run(name, func(t *testing.T) {
			f, base := newFS()
			must(t, create(t, f, base+"/x", "what was there before").Close())
			file, err := f.CreateDirect(base + "/x")
			must(t, err)
			if a := file.Alignment(); a != 1 && a != vfs.DirectBytes {
				t.Fatalf("alignment %d", a)
			}
			must(t, file.Preallocate(20*vfs.DirectBytes+16))
			model := make([]byte, 20*vfs.DirectBytes+16)
			rng := rand.New(rand.NewPCG(3, 4))
			for range 100 {
				off := rng.IntN(16) * vfs.DirectBytes
				p := vfs.AlignedBytes((1 + rng.IntN(4)) * vfs.DirectBytes)
				for i := range p {
					p[i] = byte(rng.Uint32())
				}
				n, err := file.WriteAt(p, int64(off))
				if must(t, err, file.Sync()); n != len(p) {
					t.Fatalf("wrote %d of %d", n, len(p))
				}
				copy(model[off:], p)
				if got := content(t, f, base+"/x"); got != string(model) {
					t.Fatal("the file is not what was written")
				}
			}
			must(t, file.Truncate(5*vfs.DirectBytes+123), file.Close())
			if got := content(t, f, base+"/x"); got != string(model[:5*vfs.DirectBytes+123]) {
				t.Fatal("the file is not what was left of it")
			}
			if _, err := f.CreateDirect(base + "/none/x"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("in a directory that is not there: %v", err)
			}
		})
	}
}

// Mem refuses what a disk would: offset, length and memory count each by itself.
func TestDirectMisuse(t *testing.T) {
	for name, f := range map[string]vfs.FS{"mem": vfs.NewMem(), "fault": faultfs.New(vfs.NewMem(), 0, faultfs.None, nil)} {
		file, err := f.CreateDirect("/x")
		must(t, err)
		p := vfs.AlignedBytes(3 * vfs.DirectBytes)
		_, err = file.WriteAt(p, 0)
		must(t, err)
		tests := []struct {
			what string
			p    []byte
			off  int64
		}{
			{"offset", p[:vfs.DirectBytes], vfs.SectorBytes},
			{"length", p[:vfs.DirectBytes-1], 0},
			{"memory", p[vfs.SectorBytes : vfs.SectorBytes+vfs.DirectBytes], 0},
		}
		for _, tt := range tests {
			if _, err := file.WriteAt(tt.p, tt.off); !errors.Is(err, syscall.EINVAL) {
				t.Errorf("%s: write with a wrong %s: %v", name, tt.what, err)
			}
			if _, err := file.ReadAt(tt.p, tt.off); !errors.Is(err, syscall.EINVAL) {
				t.Errorf("%s: read with a wrong %s: %v", name, tt.what, err)
			}
		}
		if _, err := file.WriteAt(p, -vfs.DirectBytes); err == nil {
			t.Errorf("%s: a negative offset is accepted", name)
		}
	}
}

// A write that is cut short leaves whole blocks.
func TestDirectShortWrite(t *testing.T) {
	m := vfs.NewMem()
	f := faultfs.New(m, 2, faultfs.ShortWrite, nil)
	file, err := f.CreateDirect("/x")
	must(t, err)
	p := vfs.AlignedBytes(3 * vfs.DirectBytes)
	p[0], p[vfs.DirectBytes] = 1, 1
	if n, err := file.WriteAt(p, 0); n != vfs.DirectBytes || !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("wrote %d: %v", n, err)
	}
	if got := content(t, m, "/x"); got != string(p[:vfs.DirectBytes]) {
		t.Fatalf("the file has %d bytes", len(got))
	}
}

// A block that is written again with more behind keeps what was synced, whatever
// sectors of it a crash leaves; and of the new bytes each sector is there or not.
func TestCrashRewrittenBlock(t *testing.T) {
	const synced = 1300 // in the third sector
	m := vfs.NewMem()
	file, err := m.CreateDirect("/x")
	must(t, err)
	p := vfs.AlignedBytes(vfs.DirectBytes)
	copy(p, bytes.Repeat([]byte{1}, synced))
	_, err = file.WriteAt(p, 0)
	must(t, err, file.Sync(), m.SyncDir("/"))
	copy(p[synced:], bytes.Repeat([]byte{2}, vfs.DirectBytes-synced))
	_, err = file.WriteAt(p, 0)
	must(t, err)

	zeros := make([]byte, vfs.SectorBytes)
	mixed := 0
	for seed := range uint64(300) {
		got := []byte(content(t, m.CrashClone(rand.New(rand.NewPCG(seed, 0))), "/x"))
		if !bytes.Equal(got[:synced], p[:synced]) {
			t.Fatalf("seed %d: synced bytes are lost", seed)
		}
		old, new := 0, 0
		for i := synced; i < vfs.DirectBytes; {
			end := (i/vfs.SectorBytes + 1) * vfs.SectorBytes
			switch part := got[i:end]; {
			case bytes.Equal(part, p[i:end]):
				new++
			case bytes.Equal(part, zeros[:end-i]):
				old++
			default:
				t.Fatalf("seed %d: a torn sector at %d", seed, i)
			}
			i = end
		}
		if old > 0 && new > 0 {
			mixed++
		}
	}
	if mixed < 50 {
		t.Errorf("only %d of 300 crashes tear the block", mixed)
	}
}
