package server

import (
	"slices"
	"sync"

	"github.com/pinfold-zk/pinfold/internal/socket"
)

// heavy bounds the weight of the large requests that are in the pipeline at a time, from
// submit until they are applied here: a quarter of globalOutstandingBytes, and one request
// always. Whatever is in the pipeline a small write waits for, and small requests do not
// wait for heavy: so large ones delay others by little more than one of them on each member.
// They enter in the order of their connections' calls, one of each connection at most
// waits, and no small request keeps them out.
//
// A request that waits is charged to the budget of the requests in flight already. So only
// as many wait as have room there, and a connection with many has no more turns than others.
type heavy struct {
	limit int // 0: no limit

	mu    sync.Mutex
	used  int            // weight of those that are in the pipeline
	queue []*heavyWaiter // the oldest first
}

// heavyWaiter is a call of enter that blocks.
type heavyWaiter struct {
	n       int
	entered chan struct{} // closed when it has entered
}

// heavyRequest is the weight above which a request is heavy. A connection always has room
// for so much in flight.
const heavyRequest = socket.FreeBytes

// part returns the weight that counts of a request: all of a heavy one's, none of another's.
func (h *heavy) part(n int) int {
	if h.limit == 0 || n <= heavyRequest {
		return 0
	}
	return n
}

// tryEnter lets a request of weight n enter if that needs no waiting.
func (h *heavy) tryEnter(n int) bool {
	if h.part(n) == 0 {
		return true
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.queue) > 0 || !h.fits(n) {
		return false
	}
	h.used += n
	return true
}

// enter waits until a request of weight n may enter. False means that gone was closed before.
func (h *heavy) enter(n int, gone <-chan struct{}) bool {
	if h.part(n) == 0 {
		return true
	}
	w := &heavyWaiter{n, make(chan struct{})}
	h.mu.Lock()
	h.queue = append(h.queue, w)
	h.admit()
	h.mu.Unlock()
	select {
	case <-w.entered:
		return true
	case <-gone:
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	i := slices.Index(h.queue, w)
	if i < 0 {
		return true
	}
	h.queue = slices.Delete(h.queue, i, i+1)
	h.admit()
	return false
}

// leave takes weight out: of one request, light or heavy, or the sum of several heavy ones.
func (h *heavy) leave(n int) {
	if n = h.part(n); n == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.used -= n
	h.admit()
}

// admit lets those enter that have waited longest, as long as they fit. REQUIRES: h.mu.
func (h *heavy) admit() {
	for len(h.queue) > 0 && h.fits(h.queue[0].n) {
		h.used += h.queue[0].n
		close(h.queue[0].entered)
		h.queue = slices.Delete(h.queue, 0, 1)
	}
}

// fits reports whether n more may be in the pipeline. REQUIRES: h.mu.
func (h *heavy) fits(n int) bool { return h.used == 0 || h.used+n <= h.limit }
