package rawio

import (
	"bytes"
	"syscall"
	"testing"
)

// Populate changes nothing, whatever the slice begins and ends with.
func TestPopulate(t *testing.T) {
	b := bytes.Repeat([]byte{7}, 3*populatePiece)
	for _, part := range [][]byte{b, b[:0], nil, b[1:], b[4095:4097], b[5:100], b[1 : 1<<19], b[len(b)-1:]} {
		Populate(part)
	}
	if !bytes.Equal(b, bytes.Repeat([]byte{7}, 3*populatePiece)) {
		t.Error("the content has changed")
	}
}

// All pages are there after Populate.
func TestPopulatedPagesAreThere(t *testing.T) {
	const size = 3*populatePiece + 5000
	b, err := syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Munmap(b)
	faults := func() int64 {
		var use syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
			t.Fatal(err)
		}
		return use.Minflt
	}
	Populate(b)
	before := faults()
	for i := 0; i < len(b); i += syscall.Getpagesize() {
		b[i] = 1
	}
	if n := faults() - before; n > int64(size/syscall.Getpagesize()/4) {
		t.Errorf("%d faults for %d bytes that were populated", n, size)
	}
}
