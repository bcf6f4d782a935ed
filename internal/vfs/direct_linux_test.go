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

// What is committed is in the file, and the mark in the other one.
func TestCommit(t *testing.T) {
	dir := t.TempDir()
	file, err := OS{}.CreateDirect(filepath.Join(dir, "log"))
	must(t, err)
	note, err := OS{}.Create(filepath.Join(dir, "note"))
	must(t, err)
	p := AlignedBytes(DirectBytes)
	c, ok := file.(Committer)
	if !ok {
		t.Skip("SKIPPED: no direct I/O here")
	}
	ended := make(chan struct{}, 3)
	for i := range 3 {
		copy(p, "content")
		if !c.Commit(p[:DirectBytes], int64(i*DirectBytes), note, []byte{'0' + byte(i)}, func() { ended <- struct{}{} }) {
			t.Skip("SKIPPED: the system has no thread for it")
		}
		done, err := c.Await(i == 1)
		for ; !done && err == nil; done, err = c.Await(false) {
			<-ended
		}
		must(t, err)
	}
	must(t, file.Close(), note.Close())
	if got := contentOf(t, filepath.Join(dir, "log")); len(got) != 3*DirectBytes || got[2*DirectBytes:][:7] != "content" {
		t.Errorf("the file has %d bytes", len(got))
	}
	if got := contentOf(t, filepath.Join(dir, "note")); got != "2" {
		t.Errorf("the mark is %q", got)
	}
}
