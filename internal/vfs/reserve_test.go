//go:build linux

package vfs

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestReserveWithoutDescriptors: in a process that has no file descriptor left,
// files are made, synced and read, one after the other and two at once; and the
// reserve is as full afterwards as before.
func TestReserveWithoutDescriptors(t *testing.T) {
	dir := t.TempDir()
	r := NewReserve(OS{}, 4)
	defer r.Release()
	var others []*os.File
	defer func() {
		for _, f := range others {
			f.Close()
		}
	}()
	limitDescriptors(t, 64)
	for {
		f, err := os.Open(os.DevNull)
		if errors.Is(err, syscall.EMFILE) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		others = append(others, f)
	}
	for range 3 {
		f, err := r.CreateDirect(filepath.Join(dir, "log"))
		if err != nil {
			t.Fatal(err)
		}
		g, err := r.Create(filepath.Join(dir, "snapshot"))
		if err != nil {
			t.Fatal(err)
		}
		if err := r.SyncDir(dir); err != nil {
			t.Fatal(err)
		}
		if names, err := r.List(dir); err != nil || len(names) != 2 {
			t.Fatal(names, err)
		}
		if err := errors.Join(f.Sync(), g.Sync(), f.Close(), g.Close()); err != nil {
			t.Fatal(err)
		}
		if len(r.held) != 4 {
			t.Fatalf("%d descriptors in reserve, want 4", len(r.held))
		}
	}
	if _, err := r.Open(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that does not exist: %v", err)
	}
}

// limitDescriptors lets the process have so many more, until the test's end.
func limitDescriptors(t *testing.T, more uint64) {
	t.Helper()
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	probe, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	low := was
	low.Cur = min(uint64(probe.Fd())+more, was.Cur)
	probe.Close()
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &low); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
			t.Error(err)
		}
	})
}
