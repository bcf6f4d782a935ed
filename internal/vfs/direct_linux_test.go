package vfs

import (
	"errors"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// openFlags returns the status flags of an open file.
func openFlags(t *testing.T, f osFile) (flags uintptr) {
	t.Helper()
	must(t, f.control("fcntl", func(fd int) error {
		var errno syscall.Errno
		if flags, _, errno = syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_GETFL, 0); errno != 0 {
			return errno
		}
		return nil
	}))
	return flags
}

// A write that direct I/O refuses is done through the page cache, and so are all
// later ones. Where every alignment is taken the test has nothing to refuse.
func TestDirectFallback(t *testing.T) {
	name := filepath.ToSlash(t.TempDir()) + "/x"
	file, err := OS{}.CreateDirect(name)
	must(t, err)
	defer file.Close()
	direct, ok := file.(*directFile)
	if !ok {
		t.Skip("the temporary directory has no direct I/O")
	}
	if openFlags(t, direct.osFile)&syscall.O_DIRECT == 0 {
		t.Fatal("the file is not open for direct I/O")
	}
	p := AlignedBytes(DirectBytes)
	copy(p, "begin")
	// What the caller may never do stands for a file system that refuses.
	_, raw := direct.File.WriteAt(p[:100], 0)
	if !errors.Is(raw, syscall.EINVAL) {
		t.Skipf("this file system takes any write: %v", raw)
	}
	n, err := file.WriteAt(p[:100], 0)
	if must(t, err); n != 100 {
		t.Fatalf("wrote %d of 100", n)
	}
	if openFlags(t, direct.osFile)&syscall.O_DIRECT != 0 {
		t.Error("the file is still open for direct I/O")
	}
	_, err = file.Write(p[:5])
	must(t, err, file.Sync())
	if got := content(t, OS{}, name); len(got) != 100 || got[:5] != "begin" {
		t.Fatalf("the file holds %d bytes", len(got))
	}
}

// The scheduler is not told of small writes, and of the syncs behind them, as long
// as the disk is quick.
func TestPromptness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p promptness
		call := func(n int, took time.Duration, want bool) {
			t.Helper()
			if got := p.begin(n); got != want {
				t.Errorf("%d bytes: %v", n, got)
			}
			time.Sleep(took)
			p.end()
		}
		call(promptBytes, promptTime/2, true)
		call(0, promptTime/2, true)
		call(promptBytes+1, 0, false)
		call(0, 0, false)
		call(1, promptTime, true)
		for range promptAfter {
			call(1, 0, false)
		}
		call(1, 0, true)
	})
}
