package client

import (
	"slices"
	"testing"
)

// A queue that has grown and is made anew, as an idle Client does, begins at the
// front: whatever was in it, it works.
func TestCallQueueIsMadeAnew(t *testing.T) {
	var q callQueue
	q.init()
	for round := range int32(3) {
		for i := range int32(100) {
			q.push(&call{xid: i})
		}
		for i := range int32(53) {
			if got := q.first().xid; got != i {
				t.Fatalf("round %d: the first is %d, not %d", round, got, i)
			}
			q.pop()
		}
		for q.n > 0 {
			q.pop()
		}
		q.push(&call{})
		q.pop()
		q.init()
	}
}

// What was popped is cleared by forget, and by a push without one; what waits is
// not, wherever the ring's end is.
func TestCallQueueForgets(t *testing.T) {
	for start := range 16 {
		var q callQueue
		q.init()
		for range start {
			q.push(&call{})
			q.pop()
		}
		q.forget()
		for i := range int32(12) {
			q.push(&call{xid: i, path: "/a"})
		}
		for range 5 {
			q.pop()
		}
		q.forget()
		for range 4 {
			q.pop()
		}
		for i := range int32(8) { // no room is left for what was
			q.push(&call{xid: 12 + i, path: "/a"})
		}
		kept := 0
		for i := range q.ring {
			if q.ring[i].path != "" {
				kept++
			}
		}
		var xids []int32
		for i := range q.n {
			xids = append(xids, q.at(i).xid)
		}
		if want := []int32{9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19}; !slices.Equal(xids, want) || kept != len(want) {
			t.Errorf("from %d: %v wait, %d are kept", start, xids, kept)
		}
	}
}
