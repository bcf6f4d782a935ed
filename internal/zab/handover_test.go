package zab

import (
	"strings"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/internal/zab/election"
	"github.com/pinfold-zk/pinfold/zk"
)

// answerPingsOf has one follower answer what it was asked.
func (o *solo) answerPingsOf(l LinkID) {
	for o.core.leader.links[l].pings.Len() > 0 {
		o.step(l, Packet{Type: Ping})
	}
}

// A leader hands over when a quorum of the others has everything on its disks, and knows
// that it is committed.
func TestALeaderHandsOverWhenTheOthersHaveEverything(t *testing.T) {
	o, links := leads(t, testConfig(3), State{}, 2, 3)
	o.answerPings(100 * ms)
	o.propose(2)
	o.persist()
	want(t, "drained with proposals", o.core.Drained(), false)
	last := zk.MakeZxid(1, 2)
	o.ack(links[2], zk.MakeZxid(1, 1))
	o.ack(links[2], last)
	want(t, "committed", o.core.committed, last)
	want(t, "drained with a follower behind", o.core.Drained(), false)
	o.drive()
	o.answerPingsOf(links[2])
	o.answerPingsOf(links[3])
	want(t, "drained while a follower's disk is behind", o.core.Drained(), false)
	o.ack(links[3], zk.MakeZxid(1, 1))
	o.ack(links[3], last)
	want(t, "drained", o.core.Drained(), true)
	o.core.HandOver()
	o.drive()
	want(t, "role", o.core.role, Looking)
	want(t, "why", strings.Contains(o.left(), "hands over"), true)
	want(t, "links", len(o.links), 0)

	// It is no candidate, and follows the best of the others as soon as that one votes.
	o.tick(50 * ms)
	want(t, "phase", o.core.phase, settling)
	vote := election.Notification{From: 2, State: election.Looking, Leader: 2, Zxid: last, PeerEpoch: 1, ElectionEpoch: 2, Version: 2}
	o.core.Notification(o.now, vote)
	want(t, "phase when the second best votes", o.core.phase, settling)
	vote.From, vote.Leader = 3, 3
	o.core.Notification(o.now, vote)
	want(t, "role", o.core.role, Following)
	ready := o.core.Ready()
	want(t, "dials", ready.Dial, 3)
	want(t, "says", len(ready.Notify), 2)
	for _, m := range ready.Notify {
		want(t, "votes for", m.Leader, 3)
		want(t, "says that it", m.State, election.Following)
	}

	// Nor is it one when it loses that one again: its owner may be closing its links. It follows the next.
	o.core.Dialing(o.last + 1)
	o.core.LinkDown(o.now, o.last+1, errLink)
	o.drive()
	want(t, "phase without the link", o.core.phase, settling)
	vote.ElectionEpoch = 3
	o.core.Notification(o.now, vote)
	o.drive()
	want(t, "role in the next election", o.core.role, Following)

	// Nor when that one looks again in a later election.
	vote.ElectionEpoch = 4
	o.core.Notification(o.now, vote)
	o.drive()
	want(t, "role in the one after that", o.core.role, Following)
	want(t, "election", o.core.election.ElectionEpoch(), 4)

	o.tick(o.core.cfg.Tick)
	o.core.LinkDown(o.now, o.core.learner.link, errLink)
	want(t, "phase a tick later", o.core.phase, electing)
}

// A follower that has not answered a ping since the last COMMIT may not know of it: its
// clients would lose their answers.
func TestAHandOverWaitsForCommitsToArrive(t *testing.T) {
	o, links := leads(t, testConfig(3), State{}, 2, 3)
	o.answerPings(100 * ms)
	o.propose(1)
	o.persist()
	o.ack(links[2], zk.MakeZxid(1, 1))
	o.ack(links[3], zk.MakeZxid(1, 1))
	want(t, "drained before pings", o.core.Drained(), false)
	o.drive()
	o.answerPingsOf(links[2])
	want(t, "drained with one answer", o.core.Drained(), false)
	o.answerPingsOf(links[3])
	want(t, "drained", o.core.Drained(), true)
	// Its owner has changed its mind: the next hand-over needs pings of its own.
	o.core.Resume()
	o.propose(1)
	o.persist()
	o.ack(links[2], zk.MakeZxid(1, 2))
	o.ack(links[3], zk.MakeZxid(1, 2))
	want(t, "drained again before pings", o.core.Drained(), false)
}

// A leader that has proposed nothing in its epoch hands over too.
func TestALeaderWithoutProposalsHandsOver(t *testing.T) {
	for _, s := range []State{{}, history(4, 3)} {
		o, links := leads(t, testConfig(3), s, 2, 3)
		o.core.Drained()
		o.drive()
		for range 2 { // the first pings are those of the beginning
			o.answerPingsOf(links[2])
			o.answerPingsOf(links[3])
		}
		want(t, "drained", o.core.Drained(), true)
		o.core.HandOver()
		o.drive()
		want(t, "role", o.core.role, Looking)
	}
}

// A leader without which there is no quorum is not replaceable.
func TestALeaderThatIsNeededIsNotReplaceable(t *testing.T) {
	o, _ := leads(t, testConfig(3), State{}, 2)
	want(t, "replaceable", o.core.Replaceable(), false)
	o.answerPings(time.Second)
	want(t, "drained", o.core.Drained(), false)
	f, _ := follows2(t, testConfig(3), State{})
	want(t, "a follower", f.core.Replaceable(), false)
}

// An ensemble whose leader hands over has another one sooner than an election that waits
// for the vote of the former leader; later that follows.
func TestAnEnsembleGoesOnAfterAHandOver(t *testing.T) {
	for seed := uint64(1); seed <= 20; seed++ {
		cfg := Config{
			Tick: 500 * ms, InitLimit: 10, SyncLimit: 5, Window: 4, SizeFactor: 0.33,
			FinalizeWait: 300 * ms, MinNotify: 10 * ms, MaxNotify: 100 * ms,
		}
		x := newChaos(seed)
		x.cluster, x.healing, x.proposals, x.syncs = newCluster(3, 0, cfg), true, 0, 0
		x.slowDisk = make([]int, 4)
		x.until(t, seed, "all serve", time.Minute, x.whole, true)
		old := x.leader()
		es := old.propose(3)
		x.until(t, seed, "the others have everything", time.Second, func() bool { return old.core.Drained() }, false)
		want(t, "committed", old.core.committed >= es[2].Zxid, true)
		old.core.HandOver()
		old.drive()
		x.until(t, seed, "another one leads", 200*ms, func() bool { s := x.leader(); return s != nil && s != old }, false)
		next := x.leader()
		x.until(t, seed, "all serve again", time.Minute, x.whole, false)
		want(t, "it still leads", x.leader() == next, true)
	}
}
