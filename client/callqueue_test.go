package client

import "testing"

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
