package zab

import (
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/zk"
)

// outOfReach is an ensemble whose last voter wins every election, by its id, and whose quorum
// port is out of the reach of some: the name does not resolve there, or the port refuses.
type outOfReach struct {
	name         string
	voters, dead int     // dead is one of them; 0 is none
	cannot       []int64 // reach the last one
	longer       bool    // the last one has a transaction more
	stubborn     bool    // the others are as Apache's: they set no one aside
}

// start starts the ensemble, in which nothing fails.
func (o *outOfReach) start(t *testing.T, seed uint64) *chaos {
	t.Helper()
	x := newChaos(seed)
	x.cluster = newCluster(o.voters, 0, Config{
		Tick: 2 * time.Second, InitLimit: 10, SyncLimit: 5, Window: 4, SizeFactor: 0.33,
	})
	x.slowDisk, x.healing, x.faults, x.proposals, x.syncs = make([]int, o.voters+1), true, 0, 0, 0
	x.showTrace()
	x.refuses = map[[2]int64]bool{}
	for _, id := range o.cannot {
		x.refuses[[2]int64{id, int64(o.voters)}] = true
	}
	if o.longer {
		for _, s := range x.servers[1:] {
			s.disk.accepted, s.disk.current = 1, 1
		}
		e := Entry{zk.MakeZxid(1, 1), []byte("no quorum has it")}
		x.servers[o.voters].disk.history = []Entry{e}
		x.check.proposed[e.Zxid], x.check.initial[1] = e.Data, 0
	}
	for _, s := range x.servers[1:] {
		if s.id != int64(o.dead) {
			s.start()
		}
	}
	return x
}

// A quorum of those that can follow each other elects another server than one that is out of
// reach, which follows it.
func TestALeaderOutOfReachIsSetAside(t *testing.T) {
	for _, c := range []outOfReach{
		{name: "three voters", voters: 3, cannot: []int64{1, 2}},
		{name: "three voters, one is dead", voters: 3, dead: 2, cannot: []int64{1}},
		{name: "three voters, the last has more", voters: 3, cannot: []int64{1, 2}, longer: true},
		{name: "three voters, the others set no one aside", voters: 3, cannot: []int64{1, 2}, stubborn: true},
		{name: "five voters", voters: 5, cannot: []int64{1, 2, 3, 4}},
		{name: "five voters, one reaches it", voters: 5, cannot: []int64{1, 2, 3}},
		{name: "five voters, one reaches it and one is dead", voters: 5, dead: 3, cannot: []int64{1, 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for seed := uint64(1); seed <= 40; seed++ {
				x := c.start(t, seed)
				x.until(t, seed, "all that live serve", 10*time.Minute, func() bool {
					serving := true
					for _, s := range x.servers[1:] {
						if s.core != nil && c.stubborn && s.id != int64(c.voters) {
							s.core.vain = 0
						}
						serving = serving && (s.core == nil || s.serving)
					}
					return serving
				}, false)
				t.Logf("seed %d: %v leads after %v", seed, x.leader().id, x.now.Round(time.Millisecond))
			}
		})
	}
}

// If there is no quorum without it, a server that was set aside and has more is elected when it
// can be reached and the time is over.
func TestALeaderIsNotSetAsideForEver(t *testing.T) {
	for seed := uint64(1); seed <= 40; seed++ {
		x := (&outOfReach{voters: 3, dead: 2, cannot: []int64{1}, longer: true}).start(t, seed)
		x.until(t, seed, "the leader is set aside", time.Minute, func() bool { return x.servers[1].core.vain >= vainTillAside }, false)
		clear(x.refuses)
		began := x.now
		x.until(t, seed, "both serve", time.Minute, func() bool { return x.servers[1].serving && x.servers[3].serving }, false)
		t.Logf("seed %d: %d leads %v after it can be reached", seed, x.leader().id, (x.now - began).Round(time.Millisecond))
	}
}

// Two voters, both of which the only possible leader needs, may have set it aside at different times. They must not wait for it in
// turns, each while the other one has set it aside: so an attempt lasts longer than the time after it, if that has not helped before.
func TestVotersDoNotWaitInTurns(t *testing.T) {
	c := newSolo(t, testConfig(3), State{}).core
	for _, aside := range []time.Duration{0, asideFor, asideFor / 2, asideFor / 4, asideFor / 8, leastAside, leastAside} {
		c.role, c.phase, c.leader.stage, c.unfitUntil = Leading, discovery, gatherInfo, c.now
		c.since = c.now - vainAfter
		c.setAside()
		want(t, "the time aside", c.unfitUntil-c.now, aside)
	}
	want(t, "an attempt is longer", leastAside < vainAfter, true)
	c.role, c.phase = Following, broadcast
	c.setAside()
	c.role, c.phase, c.vain = Leading, discovery, vainTillAside
	c.setAside()
	want(t, "the time aside after a success", c.unfitUntil-c.now, asideFor)
}
