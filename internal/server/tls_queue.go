package server

import (
	"container/list"
	"net/netip"
	"sync"
	"time"

	"github.com/pinfold-zk/pinfold/internal/ratelimit"
)

// handshakes bounds how many TLS handshakes are in progress. A connection waits for its turn
// if there are too many. The addresses take turns, so that one that opens thousands delays its
// own; and of an address the newest connection comes first, as the client of the oldest has
// probably given up.
type handshakes struct {
	mu struct {
		sync.Mutex
		running int
		turns   list.List // of *callers: the next address comes first
		callers map[netip.Addr]*list.Element
	}
}

// callers are the connections from one address that wait; there is at least one.
type callers struct {
	from    netip.Addr
	waiting list.List // of chan struct{}, closed when it is the connection's turn; the oldest comes first
}

// running is how many are in progress.
func (h *handshakes) running() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.mu.running
}

// begin waits until a handshake may begin, at most until the deadline, and reports whether it
// may. Then the caller must call end. With a limit it does not wait: no more than so many are
// in progress.
func (h *handshakes) begin(from netip.Addr, limit int, deadline time.Time) bool {
	from = ratelimit.HostOf(from)
	h.mu.Lock()
	most := maxHandshakes
	if limit > 0 {
		most = min(most, limit)
	}
	if h.mu.running < most {
		h.mu.running++
		h.mu.Unlock()
		return true
	}
	if most == limit {
		h.mu.Unlock()
		return false
	}
	turn, place := h.waitLocked(from)
	h.mu.Unlock()
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	select {
	case <-turn:
		return true
	case <-timer.C:
		return h.leave(from, turn, place)
	}
}

// waitLocked enters a connection. REQUIRES: h.mu.
func (h *handshakes) waitLocked(from netip.Addr) (turn chan struct{}, place *list.Element) {
	e := h.mu.callers[from]
	if e == nil {
		if h.mu.callers == nil {
			h.mu.callers = map[netip.Addr]*list.Element{}
		}
		e = h.mu.turns.PushBack(&callers{from: from})
		h.mu.callers[from] = e
	}
	turn = make(chan struct{})
	return turn, e.Value.(*callers).waiting.PushBack(turn)
}

// leave removes a connection that waits no longer. It reports whether it was its turn meanwhile.
func (h *handshakes) leave(from netip.Addr, turn chan struct{}, place *list.Element) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	select {
	case <-turn:
		return true
	default:
		h.removeLocked(h.mu.callers[from], place)
		return false
	}
}

// removeLocked removes a connection, and its address if there is no other. REQUIRES: h.mu.
func (h *handshakes) removeLocked(e, place *list.Element) {
	c := e.Value.(*callers)
	if c.waiting.Remove(place); c.waiting.Len() == 0 {
		h.mu.turns.Remove(e)
		delete(h.mu.callers, c.from)
	}
}

// end notes that a handshake is over, and lets the next one begin.
func (h *handshakes) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	e := h.mu.turns.Front()
	if e == nil {
		h.mu.running--
		return
	}
	newest := e.Value.(*callers).waiting.Back()
	close(newest.Value.(chan struct{}))
	h.mu.turns.MoveToBack(e)
	h.removeLocked(e, newest)
}
