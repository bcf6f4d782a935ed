package zab

import (
	"slices"
	"strings"
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
	late         int64   // starts a while after the others, which have elected the last one then; 0: all start together
	stubborn     bool    // the others are as Apache's: they set no one aside
}

// lateBy is when a server starts that is late: the others wait for the one out of reach a second time.
const lateBy = 1200 * ms

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
		if s.id != int64(o.dead) && s.id != o.late {
			s.start()
		}
	}
	if o.late != 0 {
		for x.now < lateBy {
			x.step()
		}
		x.servers[o.late].start()
	}
	return x
}

// A quorum of those that can follow each other elects another server than one that is out of
// reach, which follows it, within two ticks and an election.
func TestALeaderOutOfReachIsSetAside(t *testing.T) {
	for _, c := range []outOfReach{
		{name: "three voters", voters: 3, cannot: []int64{1, 2}},
		{name: "three voters, one is dead", voters: 3, dead: 2, cannot: []int64{1}},
		{name: "three voters, the last has more", voters: 3, cannot: []int64{1, 2}, longer: true},
		{name: "three voters, the others set no one aside", voters: 3, cannot: []int64{1, 2}, stubborn: true},
		{name: "five voters", voters: 5, cannot: []int64{1, 2, 3, 4}},
		{name: "five voters, one reaches it", voters: 5, cannot: []int64{1, 2, 3}},
		{name: "five voters, one reaches it and one is dead", voters: 5, dead: 3, cannot: []int64{1, 2}},
		{name: "five voters, one reaches it, the last has more", voters: 5, cannot: []int64{1, 2, 3}, longer: true},
		{name: "three voters, the last has more, one is late", voters: 3, cannot: []int64{1, 2}, longer: true, late: 2},
		{name: "three voters, the last has more, the other one is late", voters: 3, cannot: []int64{1, 2}, longer: true, late: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			for seed := uint64(1); seed <= 40; seed++ {
				x := c.start(t, seed)
				x.until(t, seed, "all that live serve", 2*x.servers[1].cfg.Tick+300*ms, func() bool {
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

// setsAside has a server take voter 3 for out of reach: it has set it aside, or has waited for it once.
var setsAside = map[string]func(*Core){
	"set aside": func(c *Core) { c.election.SetAside(3, asideFor) },
	"missed":    func(c *Core) { c.missed = missed{3, asideFor} },
}

// asideLeads is a server that takes voter 3 for out of reach and is elected, and to which voter 3 comes first, with a history that is longer.
func asideLeads(t *testing.T, aside func(*Core)) (*solo, LinkID) {
	t.Helper()
	cfg := testConfig(3)
	cfg.InitLimit = 100
	o := newSolo(t, cfg, history(1, 2))
	aside(o.core)
	o.elect(1)
	l := o.accept()
	o.step(l, infoOf(3, 1))
	o.persist()
	o.step(l, ackEpochOf(1, zk.MakeZxid(1, 3)))
	return o, l
}

// A leader that could not follow a voter gathers a quorum of the others, though that voter came before them and has a longer
// history. It does not count that voter for the quorum. Then the voter's history becomes the leader's.
func TestALeaderWaitsForAQuorumWithoutOneThatIsAside(t *testing.T) {
	for name, how := range setsAside {
		t.Run(name, func(t *testing.T) {
			o, aside := asideLeads(t, how)
			want(t, "the role", o.core.role, Leading)
			want(t, "the stage", o.core.leader.stage, gatherEpochs)
			o.tick(50 * ms)
			o.join(2, 1, 1, zk.MakeZxid(1, 2))
			want(t, "the stage with a quorum", o.core.leader.stage, gatherAcks)
			want(t, "what the one that is out of reach is told", o.says(aside), "TRUNC <1,2>, NEWLEADER epoch 2")
			o.persist()
			o.ack(o.last, zk.MakeZxid(o.core.epoch, 0))
			want(t, "it serves", o.core.leader.stage, leading)
		})
	}
}

// It leaves for a voter that was not out of reach, or if there is no quorum without the one that is, and waits no longer than it
// takes that one for out of reach, but for a tick at least.
func TestALeaderDoesNotWaitLongWithoutOneThatIsAside(t *testing.T) {
	for name, how := range setsAside {
		t.Run(name, func(t *testing.T) {
			o, _ := asideLeads(t, how)
			want(t, "the wait", o.untilItLeaves(t), asideFor)
			want(t, "why", slices.ContainsFunc(o.told, func(e Event) bool {
				return e.Kind == EventLeft && strings.Contains(e.Reason, "server 3 has a longer history")
			}), true)

			o, _ = asideLeads(t, how)
			o.join(2, 1, 1, zk.MakeZxid(1, 4))
			want(t, "another one has more", o.core.role, Looking)

			o, _ = asideLeads(t, how)
			began := o.now
			o.core.PeerDown(o.now, 2)
			o.drive()
			want(t, "the wait after the other one has gone", o.untilItLeaves(t)-began, o.core.cfg.Tick)

			o, _ = asideLeads(t, func(c *Core) { how(c); c.PeerDown(0, 2) })
			want(t, "there is no other one", o.core.role, Looking)
		})
	}
	o, _ := asideLeads(t, func(*Core) {})
	want(t, "it was not out of reach", o.core.role, Looking)
}

// A server that could not follow its leader, is elected itself and leaves because another one has a longer history, has not reached
// its leader meanwhile.
func TestALeaderThatLeavesForALongerHistoryHasReachedNobody(t *testing.T) {
	c := newSolo(t, testConfig(3), State{}).core
	c.role, c.phase, c.learner.leader, c.now, c.vain = Following, discovery, 3, 10*time.Second, 0
	c.since = c.now - vainAfter
	c.setAside()
	want(t, "in vain", c.vain, 1)
	want(t, "whom it missed", c.missed, missed{3, c.now + asideFor})
	c.role, c.phase, c.leader.stage = Leading, discovery, gatherEpochs
	c.setAside()
	want(t, "in vain, after it has led", c.vain, 1)
	c.phase, c.leader.stage = broadcast, leading
	c.setAside()
	want(t, "in vain, after it has served", c.vain, 0)
}
