package zab

import (
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/zk"
)

// impatient has a tick of 100 ms, a syncLimit of 500 ms and a ProgressLimit of 200 ms.
func impatient() Config {
	cfg := testConfig(3)
	cfg.ProgressLimit = 200 * ms
	return cfg
}

// toDeadline passes the time until Tick wants to be called, and calls it.
func (o *solo) toDeadline() { o.tick(o.core.Deadline() - o.now) }

// untilItLeaves lets time pass until the core has left its role, and returns when that was.
func (o *solo) untilItLeaves(t *testing.T) time.Duration {
	t.Helper()
	for began := o.now; o.core.role != Looking; {
		if o.toDeadline(); o.now-began > time.Minute {
			t.Fatalf("it is %v still", o.core.role)
		}
	}
	return o.now
}

// A leader that hears of nobody leaves when its proposals wait for ProgressLimit, to the millisecond, and
// is no candidate: others may hear its vote. Without proposals it leaves after syncLimit.
func TestALeaderThatHearsOfNoQuorumLeaves(t *testing.T) {
	for _, proposals := range []int{0, 1, 3} {
		o, links := leads(t, impatient(), State{}, 2, 3)
		o.toDeadline()
		for _, l := range links[2:] {
			o.step(l, Packet{Type: Ping}) // of the first round, at 0
			o.step(l, Packet{Type: Ping})
		}
		cut := o.now // the last round that is answered
		o.tick(10 * ms)
		asked := o.now
		if proposals > 0 {
			o.propose(proposals)
			o.persist()
		}
		limit := cut + 500*ms
		if proposals > 0 {
			limit = asked + 200*ms
		}
		want(t, "it leaves", o.untilItLeaves(t), limit)
		want(t, "it is no candidate", o.core.unfitUntil > o.now, proposals > 0)
	}
}

// One of two followers is a quorum with the leader, whatever becomes of the other one.
func TestALeaderThatHearsOfAQuorumStays(t *testing.T) {
	o, links := leads(t, impatient(), State{}, 2, 3)
	for i := range 30 {
		o.propose(1)
		o.persist()
		o.ack(links[2], zk.MakeZxid(1, uint32(i+1)))
		o.toDeadline()
		for o.core.leader.holders[2].pings.Len() > 0 {
			o.step(links[2], Packet{Type: Ping})
		}
	}
	want(t, "role", o.core.role, Leading)
	want(t, "committed", o.core.committed, zk.MakeZxid(1, 30))
}

// Followers that answer pings and acknowledge nothing have disks that stall: another leader could commit
// as little.
func TestStalledDisksAreNoSilence(t *testing.T) {
	o, links := leads(t, impatient(), State{}, 2, 3)
	o.propose(1)
	for range 100 {
		o.toDeadline()
		for _, id := range []int64{2, 3} {
			for o.core.leader.holders[id].pings.Len() > 0 {
				o.step(links[id], Packet{Type: Ping})
			}
		}
	}
	want(t, "role", o.core.role, Leading)
}

// A learner leaves a leader that is silent for ProgressLimit while something waits, to the millisecond:
// a COMMIT, or what its owner has asked for. While nothing waits it stays for syncLimit.
func TestASilentLeaderForWhichSomethingWaitsIsLeft(t *testing.T) {
	for _, test := range []struct {
		name            string
		proposal, owner bool
		after           time.Duration
	}{
		{"nothing waits", false, false, 500 * ms},
		{"a proposal waits", true, false, 200 * ms},
		{"a request waits", false, true, 200 * ms},
	} {
		t.Run(test.name, func(t *testing.T) {
			o, l := follows2(t, impatient(), State{})
			o.step(l, diffOf(0), newLeaderOf(1), upToDatePacket())
			o.persist()
			if test.proposal {
				o.step(l, proposalOf(zk.MakeZxid(1, 1)))
				o.persist()
			}
			o.core.Await(test.owner)
			heard := o.now
			for o.core.role == Following && o.now-heard < test.after-ms {
				o.tick(ms)
			}
			want(t, "role before", o.core.role, Following)
			left := o.untilItLeaves(t) - heard
			if left < test.after || left > test.after+50*ms || left > test.after+ms && test.after < 500*ms {
				t.Errorf("it leaves after %v, want %v", left, test.after)
			}
		})
	}
}

// A leader that pings, and commits nothing, is not left: see TestStalledDisksAreNoSilence. If it is cut off, it
// leaves by itself.
func TestALeaderThatPingsIsNotLeft(t *testing.T) {
	o, l := follows2(t, impatient(), State{})
	o.step(l, diffOf(0), newLeaderOf(1), upToDatePacket(), proposalOf(zk.MakeZxid(1, 1)))
	o.persist()
	for range 100 {
		o.toDeadline()
		o.step(l, Packet{Type: Ping})
	}
	want(t, "role", o.core.role, Following)
}

// A process that was stopped for a while finds what the others have said in the meantime only after its clock.
func TestAProcessThatWasStoppedBlamesNobody(t *testing.T) {
	o, l := follows2(t, impatient(), State{})
	o.step(l, diffOf(0), newLeaderOf(1), upToDatePacket(), proposalOf(zk.MakeZxid(1, 1)))
	o.persist()
	o.tick(400 * ms)
	want(t, "a follower", o.core.role, Following)
	o.step(l, Packet{Type: Ping})
	o.toDeadline()
	want(t, "a follower", o.core.role, Following)

	o, links := leads(t, impatient(), State{}, 2, 3)
	o.propose(1)
	o.persist()
	o.tick(400 * ms)
	want(t, "a leader", o.core.role, Leading)
	o.ack(links[2], zk.MakeZxid(1, 1))
	want(t, "committed", o.core.committed, zk.MakeZxid(1, 1))
	want(t, "a leader", o.core.role, Leading)
}
