package node

import (
	"sync"
	"testing"
)

// The limit of memory leaves room for the goroutines' stacks: a server has one for each
// connection, and with little data they are more than the live heap.
func TestLimitLeavesRoomForStacks(t *testing.T) {
	samples := limitSamples()
	_, before := readLive(samples)
	const goroutines, stack = 2000, 64 << 10
	leave := make(chan struct{})
	var deep, left sync.WaitGroup
	for range goroutines {
		deep.Add(1)
		left.Go(func() {
			dig(stack / 1024)
			deep.Done()
			<-leave
		})
	}
	deep.Wait()
	live, other := readLive(samples)
	close(leave)
	left.Wait()
	if other < before+goroutines*stack {
		t.Errorf("%d bytes are no heap, %d before %d stacks of at least %d bytes each", other, before, goroutines, stack)
	}
	if got := limit(live, other); got < int64(other+live)+spareBytes {
		t.Errorf("the limit is %d bytes, with %d that are no heap and %d live", got, other, live)
	}
}

// dig takes a kilobyte of the stack for each level.
//
//go:noinline
func dig(levels int) byte {
	var local [1024]byte
	if levels > 0 {
		local[levels] = dig(levels - 1)
	}
	return local[levels/2]
}
