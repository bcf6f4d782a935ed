package server

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// queued starts connections from an address that wait for their turn, one after the other, and
// enters those whose turn it was, as ADDRESS/NUMBER.
func (q *turns) queued(from string, n int, deadline time.Time) {
	for i := range n {
		go func() {
			if q.h.begin(netip.MustParseAddr(from), 0, deadline) {
				q.began = append(q.began, fmt.Sprintf("%s/%d", from, i))
			} else {
				q.late++
			}
		}()
		synctest.Wait()
	}
}

type turns struct {
	h     handshakes
	began []string
	late  int
}

// next lets n handshakes end, and returns those that begin.
func (q *turns) next(n int) (began []string) {
	for range n {
		q.h.end()
		synctest.Wait()
	}
	began, q.began = q.began, nil
	return began
}

// Thousands of handshakes that stop half-way delay the others from their address, and not those
// from another one.
func TestHandshakesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q turns
		q.queued("10.0.0.1", maxHandshakes, time.Now())
		if q.began = nil; q.h.running() != maxHandshakes {
			t.Errorf("%d are in progress", q.h.running())
		}
		later := time.Now().Add(10 * time.Second)
		q.queued("10.0.0.1", 3, later)
		q.queued("10.0.0.2", 2, later)
		q.queued("2001:db8::1", 1, later)
		q.queued("2001:db8::2", 1, later) // the same origin
		q.queued("10.0.0.3", 1, time.Now().Add(time.Second))
		time.Sleep(time.Second)
		synctest.Wait()
		if q.late != 1 {
			t.Errorf("%d have waited in vain", q.late)
		}
		want := []string{"10.0.0.1/2", "10.0.0.2/1", "2001:db8::2/0", "10.0.0.1/1", "10.0.0.2/0", "2001:db8::1/0", "10.0.0.1/0"}
		if got := q.next(len(want)); !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
		if q.h.running() != maxHandshakes || len(q.h.mu.callers) != 0 || q.h.mu.turns.Len() != 0 {
			t.Errorf("%d in progress, %d addresses wait", q.h.running(), len(q.h.mu.callers))
		}
		if q.next(maxHandshakes); q.h.running() != 0 {
			t.Errorf("%d are in progress in the end", q.h.running())
		}
	})
}

// With netty.server.outstandingHandshake.limit nobody waits.
func TestHandshakesAreLimited(t *testing.T) {
	var h handshakes
	from := netip.MustParseAddr("10.0.0.1")
	for i, want := range []bool{true, true, false} {
		if got := h.begin(from, 2, time.Now().Add(time.Hour)); got != want {
			t.Errorf("handshake %d: %v", i, got)
		}
	}
	h.end()
	if !h.begin(from, 2, time.Now().Add(time.Hour)) {
		t.Error("none begins after one has ended")
	}
}
