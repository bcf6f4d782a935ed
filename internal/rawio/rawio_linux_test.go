//go:build linux && (amd64 || arm64)

package rawio

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestFile(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if n, err := Pwrite(f.Fd(), []byte("xyz"), 5); n != 3 || err != nil {
		t.Fatal(n, err)
	}
	if err := Fdatasync(f.Fd()); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(f.Name()); err != nil || string(b) != "\x00\x00\x00\x00\x00xyz" {
		t.Errorf("%q, %v", b, err)
	}
	if _, err := Pwrite(f.Fd(), []byte("x"), -1); err != syscall.EINVAL {
		t.Errorf("before the file: %v", err)
	}
	if err := Fdatasync(^uintptr(0)); err != syscall.EBADF {
		t.Errorf("no file: %v", err)
	}
}
