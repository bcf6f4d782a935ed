package rawio

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"
)

// What goroutines commit aside at a time is written, each piece once, while collections run; an error is that of the system call.
func TestCommitAside(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	fd := f.Fd()
	const pieces, size = 100, 1000
	var writers sync.WaitGroup
	for w := range 3 {
		writers.Go(func() {
			for i := w; i < pieces; i += 3 {
				if err := CommitAside(fd, bytes.Repeat([]byte{byte(i)}, size), int64(size*i)); err != nil {
					t.Error(err)
				}
				if err := CommitAside(^uintptr(0), []byte("x"), 0); !errors.Is(err, syscall.EBADF) {
					t.Errorf("no file: %v", err)
				}
				if i%20 == 0 {
					runtime.GC()
				}
			}
		})
	}
	writers.Wait()
	b, err := os.ReadFile(f.Name())
	if err != nil || len(b) != pieces*size {
		t.Fatal(len(b), err)
	}
	for i := range pieces {
		if !bytes.Equal(b[i*size:][:size], bytes.Repeat([]byte{byte(i)}, size)) {
			t.Fatalf("piece %d is not as it was written", i)
		}
	}
}
