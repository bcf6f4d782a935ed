package rawio

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"
)

// What was committed is written, whatever the collector does meanwhile, and an error is that of
// the system call.
func TestCommit(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for i := range 300 {
		if err := Commit(f.Fd(), []byte("abc"), int64(3*i), i%2 == 0); err != nil {
			t.Fatal(err)
		}
		if i%50 == 0 {
			runtime.GC()
		}
	}
	if b, err := os.ReadFile(f.Name()); err != nil || !bytes.Equal(b, bytes.Repeat([]byte("abc"), 300)) {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	for _, small := range []bool{false, true} {
		if err := Commit(^uintptr(0), []byte("x"), 0, small); !errors.Is(err, syscall.EBADF) {
			t.Errorf("no file: %v", err)
		}
	}
}

// A goroutine that dozes does not delay a garbage collection: it ends although another one
// dozes, for an hour at a time.
func TestDozeLetsTheCollectorStopTheWorld(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 1))
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-end:
				return
			default:
				Doze(time.Hour)
			}
		}
	}()
	for range 20 {
		runtime.GC()
	}
	close(end)
	for {
		select {
		case <-ended:
			return
		default:
			runtime.GC() // its signal ends the last doze
		}
	}
}
