package hostile

import (
	"sync"
	"syscall"
	"testing"
	"time"
)

// usualPage is the most that the first access to a page of memory takes on an ordinary machine,
// a virtual one included: the system clears the page and enters it into a table.
const usualPage = 2 * time.Microsecond

// pageCost is how long the first access to a page takes on this machine. Where the tables of a virtual machine
// are kept by another program it has been seen to take 17 µs; then every attack that makes servers grow takes
// much longer, whatever they do. Measured once.
var pageCost = sync.OnceValue(func() time.Duration {
	best := time.Duration(0)
	for range 3 {
		if cost := touch(16 << 20); best == 0 || cost < best {
			best = cost
		}
	}
	return best
})

// touch returns how long the first access to a page took, on average of so many bytes.
func touch(bytes int) time.Duration {
	mem, err := syscall.Mmap(-1, 0, bytes, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return 0
	}
	defer syscall.Munmap(mem)
	page := syscall.Getpagesize()
	began := time.Now()
	for i := 0; i < len(mem); i += page {
		mem[i] = 1
	}
	return time.Since(began) / time.Duration(bytes/page)
}

// slowness is by how much more a gross miss of a goal must be where a page takes that long, from 1 to 4.
func slowness(page time.Duration) float64 { return min(max(float64(page)/float64(usualPage), 1), 4) }

func TestSlowness(t *testing.T) {
	for page, want := range map[time.Duration]float64{
		0: 1, 300: 1, usualPage: 1, 3 * time.Microsecond: 1.5, 13 * time.Microsecond: 4, time.Second: 4,
	} {
		if got := slowness(page); got != want {
			t.Errorf("a page that takes %v: %v, want %v", page, got, want)
		}
	}
	if pageCost() <= 0 {
		t.Errorf("a page takes %v", pageCost())
	}
}
