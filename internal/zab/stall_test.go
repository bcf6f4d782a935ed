package zab

import (
	"strings"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/internal/zab/election"
	"github.com/pinfold-zk/pinfold/zk"
)

// answerPings has every follower answer what it was asked, every 50 ms for d.
func (o *solo) answerPings(d time.Duration) {
	for end := o.now + d; o.now < end && o.core.role == Leading; {
		for _, l := range o.core.snapshotOfLearners() {
			for l.pings.Len() > 0 && o.core.leader.links[l.link] != nil {
				o.step(l.link, Packet{Type: Ping})
			}
		}
		o.tick(50 * ms)
	}
}

// left returns why the role was left, of what the core told last.
func (o *solo) left() string {
	for _, e := range o.told {
		if e.Kind == EventLeft {
			return e.Reason
		}
	}
	return ""
}

// A follower whose disk stalls acknowledges nothing, and answers pings. It is kept,
// for its clients: what the others commit, it applies.
func TestAFollowerWhoseDiskStallsIsKept(t *testing.T) {
	o, links := leads(t, testConfig(3), State{}, 2, 3)
	for i := range uint32(60) {
		o.propose(1)
		o.persist()
		o.ack(links[2], zk.MakeZxid(1, i+1))
		o.answerPings(time.Second)
	}
	want(t, "committed", o.core.committed, zk.MakeZxid(1, 60))
	want(t, "its link", o.core.leader.holders[3] != nil, true)
}

// A leader that commits nothing, since no quorum's disks work, does not go on as if.
func TestALeaderThatCommitsNothingLeaves(t *testing.T) {
	o, links := leads(t, testConfig(5), State{}, 2, 3, 4)
	o.propose(2)
	o.persist()
	o.answerPings(DefaultStallAfter / 2)
	o.ack(links[2], zk.MakeZxid(1, 1))
	o.ack(links[3], zk.MakeZxid(1, 1)) // the first is committed, which is progress
	o.answerPings(DefaultStallAfter - 50*ms)
	want(t, "role", o.core.role, Leading)
	o.answerPings(100 * ms)
	want(t, "role", o.core.role, Looking)
	want(t, "why", strings.Contains(o.left(), "no quorum has acknowledged"), true)
}

// A leader whose disk stalls goes on for StallAfter, and hands over then: a quorum
// without it goes on.
func TestALeaderWhoseDiskStallsHandsOver(t *testing.T) {
	o, links := leads(t, testConfig(3), State{}, 2, 3)
	both := func(z zk.Zxid) {
		o.ack(links[2], z)
		o.ack(links[3], z)
	}
	o.propose(1)
	both(zk.MakeZxid(1, 1))
	o.answerPings(8 * time.Second)
	o.persist()
	want(t, "role after 8 s", o.core.role, Leading)
	o.propose(1)
	for i := range uint32(29) {
		both(zk.MakeZxid(1, i+2))
		o.propose(1)
		o.answerPings(time.Second)
	}
	want(t, "committed", o.core.committed, zk.MakeZxid(1, 30))
	want(t, "role", o.core.role, Leading)
	o.answerPings(time.Second + 50*ms)
	want(t, "role", o.core.role, Looking)
	want(t, "why", strings.Contains(o.left(), "a quorum does without it"), true)

	// Until its disk is back it votes for no one, and endorses what the others agree on.
	want(t, "phase", o.core.phase, settling)
	o.tick(time.Hour)
	vote := election.Notification{From: 2, State: election.Looking, Leader: 2, ElectionEpoch: 9, Version: 2}
	o.core.Notification(o.now, vote)
	want(t, "says", len(o.core.Ready().Notify), 0)
	vote.From = 3
	o.core.Notification(o.now, vote)
	want(t, "says", len(o.core.Ready().Notify), 2)
	want(t, "role", o.core.role, Looking)
	o.persist()
	want(t, "phase", o.core.phase, electing)
}

// It hands over only to a quorum that is there and has what it has not.
func TestALeaderWhoseDiskStallsStaysIfItIsNeeded(t *testing.T) {
	o, links := leads(t, testConfig(5), State{}, 2, 3)
	o.propose(1)
	o.ack(links[2], zk.MakeZxid(1, 1))
	o.ack(links[3], zk.MakeZxid(1, 1))
	want(t, "committed", o.core.committed, 0)
	o.answerPings(DefaultStallAfter - time.Second)
	want(t, "dispensable", o.core.dispensable(), false)
	// With a third follower that has it, the others do without the leader.
	l := o.join(4, 1, -1, zk.MakeZxid(1, 1))
	o.ack(l, zk.MakeZxid(1, 0))
	o.ack(l, zk.MakeZxid(1, 1))
	want(t, "dispensable", o.core.dispensable(), true)
	o.core.LinkDown(o.now, l, errLink)
	o.drive()
	want(t, "dispensable", o.core.dispensable(), false)
	o.answerPings(10 * time.Second)
	want(t, "role", o.core.role, Leading)
}

// What waits for a stalled disk is bounded: a follower leaves, and a leader that is
// not needed.
func TestWhatWaitsForAStalledDiskIsBounded(t *testing.T) {
	cfg := testConfig(3)
	cfg.StallBytes = 64
	cfg.Weigh = func(data []byte) int64 { return 12 + int64(len(data)) } // each transaction has 4 bytes
	o, links := leads(t, cfg, State{}, 2, 3)
	o.propose(4)
	for _, id := range []int64{2, 3} {
		for i := range uint32(5) {
			o.ack(links[id], zk.MakeZxid(1, min(i+1, 4)))
		}
	}
	want(t, "bytes", o.core.unsynced, 64)
	o.answerPings(100 * ms)
	want(t, "role", o.core.role, Leading)
	o.propose(1)
	o.answerPings(100 * ms)
	want(t, "role", o.core.role, Looking)

	f, l := follows2(t, cfg, State{})
	f.step(l, diffOf(0), newLeaderOf(1), upToDatePacket())
	f.persist()
	for i := range uint32(4) {
		f.step(l, proposalOf(zk.MakeZxid(1, i+1)))
	}
	f.tick(ms)
	want(t, "role", f.core.role, Following)
	f.step(l, proposalOf(zk.MakeZxid(1, 5)))
	f.tick(ms)
	want(t, "role", f.core.role, Looking)
}

// The leader's epoch files count like any other's: it serves with followers whose
// disks have the epoch, though its own has not. With too few of them it waits.
func TestTheLeadersEpochFilesAreOfMany(t *testing.T) {
	for _, followers := range [][]int64{{2}, {2, 3}} {
		o := newSolo(t, testConfig(3), history(4, 3))
		o.elect(1)
		for _, id := range followers {
			o.step(o.accept(), infoOf(id, 4))
		}
		for _, l := range o.core.snapshotOfLearners() {
			o.step(l.link, ackEpochOf(4, zk.MakeZxid(4, 3)))
		}
		if len(followers) == 2 {
			want(t, "phase", o.core.phase, syncing)
		} else {
			want(t, "phase", o.core.phase, discovery)
			continue
		}
		for _, l := range o.core.snapshotOfLearners() {
			o.ack(l.link, zk.MakeZxid(5, 0))
		}
		want(t, "serves", o.core.ready.Serving, true)
		want(t, "writes", o.core.persisted, 0)
		o.answerPings(DefaultStallAfter + 100*ms) // nothing is proposed: the epoch is what waits
		want(t, "role", o.core.role, Looking)
	}
}

// An ensemble, one member of which has a disk that stalls: writes go on. If it is
// the leader's, another one leads after StallAfter, sooner than an election that waits for
// the vote of the former leader ends, and goes on; and when the disk is back its server
// follows.
func TestAnEnsembleGoesOnWithOneStalledDisk(t *testing.T) {
	for seed := uint64(1); seed <= 20; seed++ {
		cfg := Config{
			Tick: 20 * ms, InitLimit: 10, SyncLimit: 5, Window: 4, SizeFactor: 0.33, StallAfter: 300 * ms,
			FinalizeWait: time.Second, MinNotify: 10 * ms, MaxNotify: 100 * ms,
		}
		x := newChaos(seed)
		x.cluster, x.healing, x.proposals, x.syncs = newCluster(3, 0, cfg), true, 0, 0
		x.slowDisk = make([]int, 4)
		x.until(t, seed, "all serve", time.Minute, x.whole, true)
		old := x.leader()
		stalledOne := x.servers[1+int(seed)%3]
		x.slowDisk[stalledOne.id] = stalled
		at := x.now
		for x.now < at+600*ms {
			s := x.leader()
			if s == nil { // the hand-over
				x.until(t, seed, "a new leader", 100*ms, func() bool { return x.leader() != nil }, false)
				continue
			}
			es := s.propose(1)
			x.until(t, seed, "a write is shown", 20*ms, func() bool { return x.check.shown() >= es[0].Zxid || s.role != Leading }, false)
		}
		for _, s := range x.servers[1:] {
			if s != stalledOne && !s.serving {
				t.Errorf("seed=%d: server %d does not serve", seed, s.id)
			}
		}
		want(t, "the stalled server serves", stalledOne.serving, stalledOne != old)
		want(t, "it leads", stalledOne.role == Leading, false)
		x.slowDisk[stalledOne.id] = 0
		x.until(t, seed, "all serve again", time.Minute, x.whole, false)
	}
}

// until lets things happen until a condition holds, for d at most.
func (x *chaos) until(t *testing.T, seed uint64, what string, d time.Duration, done func() bool, start bool) {
	t.Helper()
	for _, s := range x.servers[1:] {
		if start {
			s.start()
		}
	}
	for end := x.now + d; !done(); {
		if x.step(); x.violation != nil {
			t.Fatalf("seed=%d: %v", seed, x.violation)
		}
		if x.now > end {
			t.Fatalf("seed=%d: %s: not within %v: %s", seed, what, d, x.state())
		}
	}
}
