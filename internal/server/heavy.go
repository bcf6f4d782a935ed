package server

import (
	"slices"
	"sync"
	"time"

	"github.com/pinfold-zk/pinfold/internal/socket"
	"github.com/pinfold-zk/pinfold/zk"
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
//
// A request with a weight of restWeight or more keeps each server busy for milliseconds, and what is written meanwhile waits for it.
// So if others write, the next such request rests before it enters, for restTimes as long as the pipeline had heavy requests
// without a pause, mostRest at most. Those of one server's clients then use a quarter of the pipeline's time, and most writes of
// others find none before them. Without others nothing rests.
type heavy struct {
	limit   int                  // 0: no limit
	now     func() time.Duration // nil: none rests
	applied func() zk.Zxid       // the last transaction here

	mu      sync.Mutex
	used    int            // weight of those that are in the pipeline
	queue   []*heavyWaiter // the oldest first
	began   time.Duration  // since when used is not 0
	before  zk.Zxid        // applied at began
	entered int            // those that have entered since began
	until   time.Duration  // until when requests rest that must
}

// heavyWaiter is a call of enter that blocks.
type heavyWaiter struct {
	n       int
	entered chan struct{} // closed when it has entered
	rest    time.Duration // then: how long it rests
}

// heavyRequest is the weight above which a request is heavy. A connection always has room
// for so much in flight.
const heavyRequest = socket.FreeBytes

// restWeight is that of a multi of 1,024 operations, or of 512 KiB of data.
const (
	restWeight = 1024 * opWeight
	restTimes  = 3
	mostRest   = 200 * time.Millisecond
)

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
	if len(h.queue) > 0 || !h.fits(n) || h.rest(n) > 0 {
		return false
	}
	h.add(n)
	return true
}

// enter waits until a request of weight n may enter, and rests if it must. False means that gone was closed before.
func (h *heavy) enter(n int, gone <-chan struct{}) bool {
	if h.part(n) == 0 {
		return true
	}
	w := &heavyWaiter{n: n, entered: make(chan struct{})}
	h.mu.Lock()
	h.queue = append(h.queue, w)
	h.admit()
	h.mu.Unlock()
	select {
	case <-w.entered:
		return h.awaitRest(w, gone)
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

// awaitRest rests. The request counts as one in the pipeline meanwhile: the others that do not fit wait as well.
func (h *heavy) awaitRest(w *heavyWaiter, gone <-chan struct{}) bool {
	if w.rest <= 0 {
		return true
	}
	timer := time.NewTimer(w.rest)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-gone:
		h.leave(w.n)
		return false
	}
}

// leave takes weight out: of one request, light or heavy, or the sum of several heavy ones.
func (h *heavy) leave(n int) {
	if n = h.part(n); n == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.used -= n; h.used == 0 {
		h.noteRest()
	}
	h.admit()
}

// noteRest notes until when the next ones rest: the pipeline has no heavy request any more. REQUIRES: h.mu.
func (h *heavy) noteRest() {
	if h.now == nil || int64(h.applied()-h.before) <= int64(h.entered) {
		return // no transaction came from another request
	}
	now := h.now()
	h.until = max(h.until, now+min(restTimes*(now-h.began), mostRest))
}

// rest returns how long a request of weight n rests that enters now. REQUIRES: h.mu.
func (h *heavy) rest(n int) time.Duration {
	if h.now == nil || n < restWeight {
		return 0
	}
	return h.until - h.now()
}

// add counts a request that enters. REQUIRES: h.mu.
func (h *heavy) add(n int) {
	if h.used == 0 && h.now != nil {
		h.began, h.before, h.entered = max(h.now(), h.until), h.applied(), 0
	}
	h.used += n
	h.entered++
}

// admit lets those enter that have waited longest, as long as they fit. REQUIRES: h.mu.
func (h *heavy) admit() {
	for len(h.queue) > 0 && h.fits(h.queue[0].n) {
		w := h.queue[0]
		w.rest = h.rest(w.n)
		h.add(w.n)
		close(w.entered)
		h.queue = slices.Delete(h.queue, 0, 1)
	}
}

// fits reports whether n more may be in the pipeline. REQUIRES: h.mu.
func (h *heavy) fits(n int) bool { return h.used == 0 || h.used+n <= h.limit }
