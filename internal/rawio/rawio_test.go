package rawio

import (
	"runtime"
	"syscall"
	"testing"
)

// pair returns two connected sockets that do not block.
func pair(t *testing.T) (a, b uintptr) {
	t.Helper()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		t.Cleanup(func() { syscall.Close(fd) })
		if err := syscall.SetNonblock(fd, true); err != nil {
			t.Fatal(err)
		}
	}
	return uintptr(fds[0]), uintptr(fds[1])
}

func TestReadWrite(t *testing.T) {
	a, b := pair(t)
	buf := make([]byte, 10)
	if n, err := Read(b, buf); n > 0 || err != syscall.EAGAIN {
		t.Errorf("nothing to read: %d, %v", n, err)
	}
	if n, err := Write(a, []byte("abc")); n != 3 || err != 0 {
		t.Fatal(n, err)
	}
	if n, err := Read(b, buf); err != 0 || string(buf[:n]) != "abc" {
		t.Errorf("read %q, %v", buf[:max(n, 0)], err)
	}
	syscall.Shutdown(int(a), syscall.SHUT_WR)
	if n, err := Read(b, buf); n != 0 || err != 0 {
		t.Errorf("the end: %d, %v", n, err)
	}
	for {
		if _, err := Write(b, make([]byte, 1<<16)); err == syscall.EAGAIN {
			break
		} else if err != 0 {
			t.Fatal(err)
		}
	}
}

func TestErrors(t *testing.T) {
	const bad = ^uintptr(0)
	if n, err := Read(bad, make([]byte, 1)); n > 0 || err != syscall.EBADF {
		t.Errorf("read: %d, %v", n, err)
	}
	if n, err := Write(bad, make([]byte, 1)); n > 0 || err != syscall.EBADF {
		t.Errorf("write: %d, %v", n, err)
	}
	a, _ := pair(t)
	if n, err := Write(a, nil); n != 0 || err != 0 {
		t.Errorf("nothing: %d, %v", n, err)
	}
}

// Uncleared memory has its length and capacity, is the slice's own, and survives a
// collection.
func TestUncleared(t *testing.T) {
	for _, n := range []int{0, 1, 100, 4 << 10, 256 << 10} {
		a, b := Uncleared(n), Uncleared(n)
		if len(a) != 0 || cap(a) < n {
			t.Fatalf("%d: length %d, capacity %d", n, len(a), cap(a))
		}
		for i := range n {
			a, b = append(a, byte(i)), append(b, byte(i+1))
		}
		runtime.GC()
		for i := range n {
			if a[i] != byte(i) || b[i] != byte(i+1) {
				t.Fatalf("%d: byte %d is %d and %d", n, i, a[i], b[i])
			}
		}
	}
}
