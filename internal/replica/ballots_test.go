package replica

import (
	"testing"

	"github.com/pinfold-zk/pinfold/internal/zab/election"
)

// However many messages come while the loop is busy, the newest of each server is
// kept, of a bounded number of servers.
func TestBallotsAreBounded(t *testing.T) {
	var q ballots
	told := 0
	for i := range int64(10 * maxBallots) {
		for round := range int64(3) {
			if q.put(election.Notification{From: i, ElectionEpoch: round}) {
				told++
			}
		}
	}
	if told != maxBallots || len(q.mu.newest) != maxBallots {
		t.Fatalf("%d messages are kept, the loop is told of %d", len(q.mu.newest), told)
	}
	if n := q.remove(7); n.From != 7 || n.ElectionEpoch != 2 {
		t.Errorf("taken: %+v", n)
	}
	if !q.put(election.Notification{From: 7}) {
		t.Error("the loop is not told of a message that comes after the last was taken")
	}
}
