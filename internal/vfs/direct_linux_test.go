package vfs

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func contentOf(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	must(t, err)
	return string(b)
}

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
		t.Skip("SKIPPED: the temporary directory has no direct I/O")
	}
	if openFlags(t, direct.osFile)&syscall.O_DIRECT == 0 {
		t.Fatal("the file is not open for direct I/O")
	}
	p := AlignedBytes(DirectBytes)
	copy(p, "begin")
	// What the caller may never do stands for a file system that refuses.
	_, raw := direct.File.WriteAt(p[:100], 0)
	if !errors.Is(raw, syscall.EINVAL) {
		t.Skipf("SKIPPED: this file system takes any write: %v", raw)
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
	if got := contentOf(t, name); len(got) != 100 || got[:5] != "begin" {
		t.Fatalf("the file holds %d bytes", len(got))
	}
}

// What is committed is in the file, and a refused direct write goes through the page cache.
func TestCommit(t *testing.T) {
	name := filepath.Join(t.TempDir(), "log")
	file, err := OS{}.CreateDirect(name)
	must(t, err)
	if _, ok := file.(Committer); !ok {
		t.Skip("SKIPPED: no direct I/O here")
	}
	p := AlignedBytes(DirectBytes)
	copy(p, "content")
	ways := []Wait{HandOver, Keep, Aside}
	for i := range 4 {
		must(t, Commit(file, p[:DirectBytes], int64(i*DirectBytes), ways[i%len(ways)]))
	}
	must(t, Commit(file, p[:5], 4*DirectBytes, Keep), Commit(file, p[:2], 4*DirectBytes+5, HandOver), file.Close())
	if got := contentOf(t, name); len(got) != 4*DirectBytes+7 || got[3*DirectBytes:][:7] != "content" || got[4*DirectBytes:] != "conteco" {
		t.Errorf("the file has %d bytes, the last are %q", len(got), got[max(0, len(got)-7):])
	}
	for _, w := range ways {
		if err := Commit(file, p[:DirectBytes], 0, w); err == nil {
			t.Error("a closed file is written")
		}
	}
}
