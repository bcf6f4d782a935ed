package zab

import (
	"testing"

	"github.com/pinfold-zk/pinfold/zk"
)

// A leader that has installed a snapshot has a hole in its log. A learner whose
// last transaction falls into it has nothing to cut off.
func TestHoleInTheLogCutsNothingOff(t *testing.T) {
	last := zk.MakeZxid(3, 2)
	c := New(Config{ID: 1, Members: membersOf(2, 0), InitLimit: 10, SyncLimit: 5}, State{AcceptedEpoch: 3, CurrentEpoch: 3, Last: last}, 0)
	c.Ready()
	c.role, c.epoch = Leading, 4
	l := &learner{link: 5, id: 2, state: locating, last: zk.MakeZxid(3, 1)}
	c.leader.links = map[LinkID]*learner{5: l}
	c.Located(0, 5, Location{Before: zk.MakeZxid(2, 0x22), After: last, SnapshotBytes: 1 << 20}, nil)
	snapshots := 0
	for _, s := range c.Ready().Sends {
		if s.Kind == SendSnapshot {
			snapshots++
		}
		for _, p := range s.Packets {
			if p.Type == Trunc || p.Type == Diff {
				t.Errorf("the learner is sent %v", p)
			}
		}
	}
	if snapshots != 1 {
		t.Errorf("the learner is sent %d snapshots", snapshots)
	}
}
