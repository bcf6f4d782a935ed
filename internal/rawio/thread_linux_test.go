//go:build linux && (amd64 || arm64) && !race

package rawio

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
)

// What a thread was given is written, whatever the collector does meanwhile.
func TestThread(t *testing.T) {
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	note, err := os.Create(filepath.Join(dir, "note"))
	if err != nil {
		t.Fatal(err)
	}
	defer note.Close()
	told := make(chan struct{}, 1)
	th := Start(func() {
		select {
		case told <- struct{}{}:
		default:
		}
	})
	defer th.Stop()
	for i := range 300 {
		th.Begin(f.Fd(), []byte("abc"), int64(3*i), note.Fd(), []byte{byte(i)})
		done, err := th.Await(i%2 == 0)
		for ; !done && err == nil; done, err = th.Await(false) {
			<-told
		}
		if !done || err != nil {
			t.Fatal(done, err)
		}
		if i%50 == 0 {
			runtime.GC()
		}
	}
	if b, err := os.ReadFile(f.Name()); err != nil || !bytes.Equal(b, bytes.Repeat([]byte("abc"), 300)) {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	if b, err := os.ReadFile(note.Name()); err != nil || !bytes.Equal(b, []byte{299 % 256}) {
		t.Errorf("the note is %v, %v", b, err)
	}
	th.Begin(^uintptr(0), []byte("x"), 0, 0, nil)
	if _, err := th.Await(true); !errors.Is(err, syscall.EBADF) {
		t.Errorf("no file: %v", err)
	}
}
