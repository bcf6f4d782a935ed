package zab

import (
	"testing"
	"time"
)

// A server wins every election, by its id, and its quorum port is out of reach of a
// quorum of the others: the name does not resolve there, or the port refuses. The others
// elect another one, which it follows, and keep that.
func TestALeaderOutOfReachIsSetAside(t *testing.T) {
	for _, c := range []struct {
		name            string
		voters, dead    int
		reaches, cannot []int64 // the last voter
	}{
		{name: "three voters", voters: 3, cannot: []int64{1, 2}},
		{name: "five voters", voters: 5, cannot: []int64{1, 2, 3, 4}},
		{name: "five voters, one reaches it", voters: 5, reaches: []int64{4}, cannot: []int64{1, 2, 3}},
		{name: "five voters, one reaches it and one is dead", voters: 5, dead: 3, reaches: []int64{4}, cannot: []int64{1, 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for seed := uint64(1); seed <= 40; seed++ {
				x := newChaos(seed)
				x.cluster = newCluster(c.voters, 0, Config{
					Tick: 2 * time.Second, InitLimit: 10, SyncLimit: 5, Window: 4, SizeFactor: 0.33,
				})
				x.slowDisk, x.healing, x.faults, x.proposals, x.syncs = make([]int, c.voters+1), true, 0, 0, 0
				x.showTrace()
				last := int64(c.voters)
				x.refuses = map[[2]int64]bool{}
				for _, id := range c.cannot {
					x.refuses[[2]int64{id, last}] = true
				}
				for _, s := range x.servers[1:] {
					if s.id != int64(c.dead) {
						s.start()
					}
				}
				x.until(t, seed, "all that live serve", 10*time.Minute, func() bool {
					for _, s := range x.servers[1:] {
						if s.core != nil && !s.serving {
							return false
						}
					}
					return true
				}, false)
				t.Logf("seed %d: %v leads after %v", seed, x.leader().id, x.now.Round(time.Millisecond))
			}
		})
	}
}

// If there is no quorum without it, a server that was set aside is elected as soon as it
// can be reached and the time is over.
func TestALeaderIsNotSetAsideForEver(t *testing.T) {
	for seed := uint64(1); seed <= 40; seed++ {
		x := newChaos(seed)
		x.cluster = newCluster(3, 0, Config{
			Tick: 2 * time.Second, InitLimit: 10, SyncLimit: 5, Window: 4, SizeFactor: 0.33,
		})
		x.slowDisk, x.healing, x.faults, x.proposals, x.syncs = make([]int, 4), true, 0, 0, 0
		x.showTrace()
		x.servers[3].disk.accepted, x.servers[3].disk.current = 1, 1
		x.refuses = map[[2]int64]bool{{1, 3}: true}
		x.servers[1].start()
		x.servers[3].start()
		x.until(t, seed, "the leader is set aside", time.Minute, func() bool { return x.servers[1].core.vain >= vainTillAside }, false)
		clear(x.refuses)
		began := x.now
		x.until(t, seed, "both serve", time.Minute, func() bool { return x.servers[1].serving && x.servers[3].serving }, false)
		t.Logf("seed %d: %d leads %v after it can be reached", seed, x.leader().id, (x.now - began).Round(time.Millisecond))
	}
}
