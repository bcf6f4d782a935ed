package zab

import (
	"testing"

	"github.com/pinfold-zk/pinfold/zk"
)

// What a learner has acknowledged it may have to give up when it is synchronized
// anew: a proposal that is not committed is cut off, or not in the snapshot, and
// sent again. Until it is acknowledged again it does not count.
func TestAnAcknowledgementIsOfOneSynchronization(t *testing.T) {
	o, links := leads(t, testConfig(3), history(4, 3), 2, 3)
	o.propose(1)
	o.ack(links[2], zk.MakeZxid(5, 1))
	o.core.LinkDown(o.now, links[2], errLink)
	o.drive()
	l := o.accept()
	o.step(l, infoOf(2, 5), ackEpochOf(-1, zk.MakeZxid(5, 1)))
	want(t, "says", o.says(l), "LEADERINFO epoch 5, TRUNC <4,3>, PROPOSAL <5,1>, NEWLEADER epoch 5")
	o.persist()
	want(t, "committed", o.core.committed, zk.MakeZxid(4, 3))
	o.ack(l, zk.MakeZxid(5, 0))
	o.ack(l, zk.MakeZxid(5, 1))
	want(t, "committed", o.core.committed, zk.MakeZxid(5, 1))
}

// "All requests that update ZooKeeper state are forwarded to the leader." (paper,
// 4.2) Nobody else proposes.
func TestOnlyALeaderThatServesProposes(t *testing.T) {
	o := newSolo(t, testConfig(3), history(4, 3))
	for _, step := range []func(){
		func() {},
		func() { o.elect(2) },
		func() { o.core.StepDown(o.now, "test"); o.drive() },
		func() { o.elect(1) },
		func() { o.join(2, 4, 4, zk.MakeZxid(4, 3)) },
	} {
		step()
		if o.core.Propose([]Entry{{zk.MakeZxid(5, 1), nil}}) == nil || o.core.Sync(0) == nil {
			t.Fatalf("%v in phase %d proposes", o.core.role, o.core.phase)
		}
	}
}

// "Zab uses by default simple majority quorums ... so ZooKeeper can only work if a
// majority of servers are correct (i.e., with 2f+1 server we can tolerate f
// failures)." (paper, 4.2)
func TestAMajorityCommits(t *testing.T) {
	for _, n := range []int{3, 4, 5, 7} {
		need := n/2 + 1
		var followers []int64
		for id := int64(2); id <= int64(n); id++ {
			followers = append(followers, id)
		}
		o, links := leads(t, testConfig(n), State{}, followers...)
		o.propose(1)
		o.persist()
		for i, id := range followers {
			want(t, "committed", o.core.committed != 0, i+1 >= need)
			o.ack(links[id], zk.MakeZxid(1, 1))
		}
	}
}

// The leader's disk counts like any other: a quorum of followers commits without
// it, and the leader applies what is committed although its own write is pending.
func TestTheLeadersDiskIsOneOfMany(t *testing.T) {
	o, links := leads(t, testConfig(3), State{}, 2, 3)
	o.propose(1)
	o.ack(links[2], zk.MakeZxid(1, 1))
	want(t, "committed", o.core.committed, 0)
	o.ack(links[3], zk.MakeZxid(1, 1))
	want(t, "committed", o.core.committed, zk.MakeZxid(1, 1))
	want(t, "says", o.says(links[2]), "COMMIT <1,1>")
	want(t, "to be applied", o.seen.Commit, zk.MakeZxid(1, 1))
	want(t, "durable here", o.seen.Durable, 0)
	o.persist()
	want(t, "durable here", o.seen.Durable, zk.MakeZxid(1, 1))
}

// A follower that serves applies what is committed although its own write is
// pending. It acknowledges only what is durable.
func TestAFollowerAppliesWhatIsCommittedBeforeItsOwnDisk(t *testing.T) {
	for _, role := range []Role{Following, Observing} {
		cfg := testConfig(3)
		if role == Observing {
			cfg.Members = observing(3, 1)
		}
		o, l := follows2(t, cfg, State{})
		o.step(l, diffOf(0), newLeaderOf(1), upToDatePacket())
		o.persist()
		want(t, "serves", o.core.ready.Serving, true)
		if z := zk.MakeZxid(1, 1); role == Observing {
			o.step(l, Packet{Type: Inform, Zxid: z, Data: []byte("data")})
		} else {
			o.step(l, proposalOf(z), commitOf(z))
		}
		want(t, "to be applied", o.seen.Commit, zk.MakeZxid(1, 1))
		want(t, "durable here", o.seen.Durable, 0)
		want(t, "says", o.says(l), "")
		o.persist()
		if role == Following {
			want(t, "says", o.says(l), "ACK <1,1>")
		}
	}
}

// What was applied before it was durable is durable before the server votes.
func TestWhatWasAppliedIsDurableBeforeTheVote(t *testing.T) {
	o, links := leads(t, testConfig(3), State{}, 2, 3)
	o.propose(2)
	o.ack(links[2], zk.MakeZxid(1, 1))
	o.ack(links[3], zk.MakeZxid(1, 1))
	o.core.StepDown(o.now, "test")
	o.drive()
	want(t, "phase", o.core.phase, settling)
	want(t, "to be applied", o.seen.Commit, zk.MakeZxid(1, 1)) // not <1,2>: nobody has committed it
	o.persist()
	want(t, "phase", o.core.phase, electing)
	want(t, "to be applied", o.seen.Commit, zk.MakeZxid(1, 2))
	want(t, "vote", o.core.election.Vote().Zxid, zk.MakeZxid(1, 2))
}

// A learner may have to be sent what the leader's own log does not hold yet: the
// window keeps it, however small it is.
func TestTheWindowKeepsWhatIsNotDurable(t *testing.T) {
	cfg := testConfig(5)
	cfg.Window = 1
	o, links := leads(t, cfg, history(4, 3), 2, 3, 4)
	o.propose(4)
	for _, id := range []int64{2, 3, 4} {
		o.ack(links[id], zk.MakeZxid(5, 1))
		o.ack(links[id], zk.MakeZxid(5, 2))
		o.ack(links[id], zk.MakeZxid(5, 3))
		o.ack(links[id], zk.MakeZxid(5, 4))
	}
	want(t, "committed", o.core.committed, zk.MakeZxid(5, 4))
	o.core.Applied(zk.MakeZxid(5, 4))
	want(t, "kept", len(o.core.window.after(zk.MakeZxid(4, 3))), 4)
	l := o.accept()
	o.step(l, infoOf(5, 5), ackEpochOf(-1, zk.MakeZxid(4, 2)))
	o.core.Located(o.now, o.asked[0].Link, Location{Exact: true, Before: zk.MakeZxid(4, 2), After: zk.MakeZxid(4, 3)}, nil)
	o.drive()
	want(t, "says", o.says(l), "DIFF <5,4>, PROPOSAL <5,1>, COMMIT <5,1>, PROPOSAL <5,2>, COMMIT <5,2>, PROPOSAL <5,3>, COMMIT <5,3>, PROPOSAL <5,4>, COMMIT <5,4>, NEWLEADER epoch 5")
	// The log is sent up to <4,3>, between DIFF and the rest.
	o.persist()
	want(t, "kept", o.core.window.Len(), 1)
}

// "changes broadcast by a leader are delivered in the order they were sent" (paper,
// 4.2); "commit strictly in zxid order: only if zxid−1 is not outstanding and all
// quorums acked" (14.6)
func TestCommitsAreInTheOrderOfProposals(t *testing.T) {
	o, links := leads(t, testConfig(5), State{}, 2, 3, 4)
	o.propose(3)
	o.persist()
	z := zk.MakeZxid
	for _, c := range []struct {
		from int64
		zxid zk.Zxid
		says string
	}{
		{3, z(1, 1), ""}, {3, z(1, 2), ""}, {3, z(1, 3), ""},
		{4, z(1, 1), "COMMIT <1,1>"}, {2, z(1, 1), ""}, {2, z(1, 2), "COMMIT <1,2>"}, {4, z(1, 2), ""},
		{4, z(1, 3), "COMMIT <1,3>"},
	} {
		o.ack(links[c.from], c.zxid)
		want(t, "says", o.says(links[2]), c.says)
	}
}

// A follower logs and acknowledges in the order of proposals. One that leaves out what
// is not committed cannot be counted for what follows: it is refused.
func TestAnAckThatLeavesOneOutIsRefused(t *testing.T) {
	o, links := leads(t, testConfig(5), State{}, 2, 3, 4)
	o.propose(3)
	o.persist()
	o.ack(links[2], zk.MakeZxid(1, 1))
	o.ack(links[3], zk.MakeZxid(1, 1)) // committed by now
	o.ack(links[4], zk.MakeZxid(1, 2))
	want(t, "its link", o.core.leader.holders[4] != nil, true)
	o.ack(links[3], zk.MakeZxid(1, 3))
	want(t, "the link of the one that leaves <1,2> out", o.core.leader.holders[3] == nil, true)
}

// "all changes from previous leaders are delivered to an established leader before
// it broadcasts its own changes" (paper, 4.2)
func TestALeaderHasAllEarlierChangesBeforeItsOwn(t *testing.T) {
	o := newSolo(t, testConfig(3), State{})
	o.elect(2)
	l := o.core.learner.link
	o.up(l)
	o.step(l, leaderInfoOf(1))
	o.persist()
	o.step(l, diffOf(0), newLeaderOf(1), upToDatePacket())
	o.persist()
	o.step(l, proposalOf(zk.MakeZxid(1, 1)), proposalOf(zk.MakeZxid(1, 2)), commitOf(zk.MakeZxid(1, 1)))
	o.core.LinkDown(o.now, l, errLink)
	o.drive()
	want(t, "looks before it is durable", o.core.phase, settling)
	o.persist()
	o.elect(1)
	f := o.accept()
	o.step(f, infoOf(2, 1))
	o.persist()
	o.step(f, ackEpochOf(1, zk.MakeZxid(1, 1)))
	o.persist()
	want(t, "serves", o.core.ready.Serving, false)
	o.ack(f, zk.MakeZxid(2, 0))
	want(t, "serves", o.core.ready.Serving, true)
	want(t, "to be applied", o.core.ready.Commit, zk.MakeZxid(1, 2))
	z, _ := o.core.NextZxid()
	want(t, "its first", z, zk.MakeZxid(2, 1))
}

// "We use the log to keep track of proposals as the write-ahead log ... so that we
// do not have to write messages twice to disk." (paper, 4.2)
func TestATransactionIsWrittenOnce(t *testing.T) {
	o, l := follows2(t, testConfig(3), history(4, 3))
	var written []zk.Zxid
	note := func() {
		for _, w := range o.wrote {
			for _, e := range w.Entries {
				written = append(written, e.Zxid)
			}
		}
	}
	z := zk.MakeZxid
	o.step(l, diffOf(z(5, 2)), proposalOf(z(4, 4)), commitOf(z(4, 4)), proposalOf(z(5, 1)), newLeaderOf(5), proposalOf(z(5, 2)))
	note()
	o.persist()
	o.step(l, upToDatePacket(), commitOf(z(5, 1)), commitOf(z(5, 2)), proposalOf(z(5, 3)), commitOf(z(5, 3)))
	note()
	want(t, "written", len(written), 4)
	for i, w := range []zk.Zxid{z(4, 4), z(5, 1), z(5, 2), z(5, 3)} {
		want(t, "written", written[i], w)
	}
}

// "each [ACK] counts once per sid"; "ACK ≤ lastCommitted or unknown zxid ignored"
// (14.6)
func TestAnAckCountsOncePerServer(t *testing.T) {
	o, links := leads(t, testConfig(5), State{}, 2, 3)
	o.propose(2)
	o.persist()
	o.ack(links[2], zk.MakeZxid(1, 1))
	o.ack(links[2], zk.MakeZxid(1, 1))
	want(t, "committed", o.core.committed, 0)
	o.ack(links[3], zk.MakeZxid(1, 1))
	want(t, "committed", o.core.committed, zk.MakeZxid(1, 1))
	o.ack(links[2], zk.MakeZxid(1, 1))
	want(t, "its link", o.core.leader.holders[2] != nil, true)
}

// "never take a NEWLEADER ACK as proof for proposals not acked themselves" (17.1)
func TestTheAckOfNewLeaderProvesNoTransaction(t *testing.T) {
	o, _ := leads(t, testConfig(5), State{}, 2, 3)
	o.propose(1)
	o.persist()
	for _, id := range []int64{4, 5} {
		l := o.join(id, 1, -1, 0)
		o.ack(l, zk.MakeZxid(1, 0))
		o.ack(l, zk.MakeZxid(1, 0))
	}
	want(t, "committed", o.core.committed, 0)
}

// An observer's acknowledgement does not count (15).
func TestAnObserversAckDoesNotCount(t *testing.T) {
	o, _ := leads(t, testConfig(3), State{}, 2)
	l := o.accept()
	p := infoOf(3, 1) // even if it could have a vote
	p.Type = ObserverInfo
	o.step(l, p, ackEpochOf(-1, 0))
	o.propose(1)
	o.persist()
	o.ack(l, zk.MakeZxid(1, 0))
	o.ack(l, zk.MakeZxid(1, 1))
	want(t, "committed", o.core.committed, 0)
}

// "Counter rollover: before proposing, counter 0xFFFFFFFF ⇒ the leader steps down"
// (5; 17.1: 1277)
func TestNoZxidRunsIntoTheNextEpoch(t *testing.T) {
	o, _ := leads(t, testConfig(1), history(4, 3))
	o.persist()
	o.core.leader.zxid = zk.MakeZxid(5, 0xFFFFFFFE)
	z, left := o.core.NextZxid()
	want(t, "next", z, zk.MakeZxid(5, 0xFFFFFFFF))
	want(t, "left", left, 1)
	o.core.leader.zxid++
	_, left = o.core.NextZxid()
	want(t, "left", left, 0)
	o.core.StepDown(o.now, "no zxid is left")
	o.drive()
	o.persist()
	want(t, "the next epoch", o.core.epoch, 6)
	z, _ = o.core.NextZxid()
	want(t, "next", z, zk.MakeZxid(6, 1))
}

// "This primitive executes asynchronously and is ordered by the leader after all
// pending writes to its local replica." (paper, 4.4)
func TestSyncIsAfterAllPendingWrites(t *testing.T) {
	o, links := leads(t, testConfig(3), State{}, 2)
	o.tick(50 * ms)
	for o.core.leader.learners[0].pings.Len() > 0 {
		o.step(links[2], Packet{Type: Ping})
	}
	o.propose(2)
	o.sync()
	o.step(links[2], Packet{Type: Ping})
	want(t, "syncs", o.synced, 0)
	o.persist()
	o.ack(links[2], zk.MakeZxid(1, 1))
	want(t, "syncs", o.synced, 0)
	o.ack(links[2], zk.MakeZxid(1, 2))
	want(t, "syncs", o.synced, 1)
}

// "In order for this to work, the follower must be sure that the leader is still
// the leader." (paper, 4.4) What a follower has sent before the sync came does not
// tell, be it an ACK or the answer to a ping: it may follow another since.
func TestSyncNeedsAWordFromAQuorumThatCameAfterIt(t *testing.T) {
	o, links := leads(t, testConfig(5), State{}, 2, 3, 4)
	learners := o.core.leader.holders
	for o.tick(50 * ms); learners[2].pings.Len() > 1; {
		o.step(links[2], Packet{Type: Ping})
	}
	before := learners[2].pings.Len()
	o.propose(1)
	o.persist()
	o.sync()
	// These were on their way when the sync came.
	for range before {
		for _, id := range []int64{2, 3, 4} {
			o.step(links[id], Packet{Type: Ping})
		}
	}
	for _, id := range []int64{2, 3, 4} {
		o.ack(links[id], zk.MakeZxid(1, 1))
	}
	want(t, "committed", o.core.committed, zk.MakeZxid(1, 1))
	want(t, "syncs", o.synced, 0)
	for learners[2].pings.Len()+learners[3].pings.Len() > 0 && o.synced == 0 {
		o.step(links[2], Packet{Type: Ping})
		o.step(links[3], Packet{Type: Ping})
	}
	want(t, "syncs", o.synced, 1)
}

// "If the pending queue is empty, the leader needs to issue a null transaction"
// (paper, 4.4): here a ping does, and costs none.
func TestSyncOfAnIdleLeaderCostsNoTransaction(t *testing.T) {
	o, links := leads(t, testConfig(3), State{}, 2)
	o.tick(50 * ms)
	o.sync()
	for o.core.leader.learners[0].pings.Len() > 0 {
		o.step(links[2], Packet{Type: Ping})
	}
	want(t, "syncs", o.synced, 1)
	want(t, "last", o.core.last, 0)
}

// "when the leader is under load, no extra broadcast traffic is generated" (paper,
// 4.4): any number of syncs need one round of pings at a time.
func TestSyncsShareARound(t *testing.T) {
	o, links := leads(t, testConfig(3), State{}, 2)
	l := o.core.leader.learners[0]
	for l.pings.Len() > 0 {
		o.step(links[2], Packet{Type: Ping})
	}
	for range 1000 {
		o.sync()
	}
	want(t, "pings", l.pings.Len(), 1)
	o.step(links[2], Packet{Type: Ping})
	want(t, "syncs", o.synced, 1)
	want(t, "pings", l.pings.Len(), 1)
	o.step(links[2], Packet{Type: Ping})
	want(t, "syncs", o.synced, 1000)
}

// A role that was left delivers nothing: what came for it, and what it would have
// answered, is for nobody.
func TestARoleThatIsLeftDeliversNothing(t *testing.T) {
	o, links := leads(t, testConfig(3), State{}, 2)
	l := o.core.leader.learners[0]
	for l.pings.Len() > 0 {
		o.step(links[2], Packet{Type: Ping})
	}
	o.sync()
	delivered := o.delivered
	// The answer to the ping, a request, and the end, before the owner looks.
	o.core.Step(o.now, links[2], []Packet{{Type: Ping}, {Type: Request}})
	o.core.LinkDown(o.now, links[2], errLink)
	o.drive()
	want(t, "role", o.core.role, Looking)
	want(t, "syncs", o.synced, 0)
	want(t, "delivered", o.delivered, delivered)

	// A leader is dialled, and the role is left before anybody has done so.
	o = newSolo(t, testConfig(3), State{})
	for _, id := range []int64{2, 3} {
		n := o.core.election.ElectionEpoch()
		o.core.Notification(o.now, noteOf(id, 2, n))
	}
	want(t, "role", o.core.role, Following)
	o.core.StepDown(o.now, "test")
	o.drive()
	want(t, "dialled", o.dials, 0)
}

// "SYNC ... answers its oldest pending sync" (14.8): on a learner it is told with
// what is to be applied before.
func TestASyncIsToldWithWhatWasCommittedBefore(t *testing.T) {
	o, l := follows2(t, testConfig(3), history(4, 3))
	o.step(l, diffOf(zk.MakeZxid(4, 3)), newLeaderOf(5), upToDatePacket())
	o.persist()
	o.core.Step(o.now, l, []Packet{proposalOf(zk.MakeZxid(5, 1)), commitOf(zk.MakeZxid(5, 1)), {Type: Sync}, proposalOf(zk.MakeZxid(5, 2)), commitOf(zk.MakeZxid(5, 2))})
	rd := o.core.Ready()
	want(t, "delivered", len(rd.Deliver), 1)
	want(t, "at", rd.Deliver[0].At, zk.MakeZxid(5, 1))
}
