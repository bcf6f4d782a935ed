package zab

import (
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/zk"
)

// "Every tickTime/2: leader sends PING" (14.7), to those that are up to date.
func TestPingsEveryHalfTick(t *testing.T) {
	o, links := leads(t, testConfig(3), State{}, 2)
	l := o.core.leader.learners[0]
	began := l.pings.Len()
	for i := range 8 {
		o.tick(o.core.Deadline() - o.now)
		for l.pings.Len() > 1 {
			o.step(links[2], Packet{Type: Ping})
		}
		want(t, "time", o.now, time.Duration(i+1)*50*ms)
		want(t, "rounds", o.core.leader.round, uint64(began+i+1))
	}
}

// "In our implementation, timeouts are set such that leaders realize they are not
// leaders before followers abandon them" (paper, 4.4). Whatever syncLimit is, and
// whenever a follower is cut off: the clocks run equally fast, and each core is
// told of the time when it wants to be.
func TestALeaderGivesUpBeforeItsFollowersDo(t *testing.T) {
	for syncLimit := 1; syncLimit <= 5; syncLimit++ {
		for cutAt := 300 * ms; cutAt < 420*ms; cutAt += 7 * ms {
			for _, delay := range []time.Duration{0, ms, 20 * ms, 90 * ms} {
				leader, follower := cutOff(t, syncLimit, cutAt, delay)
				if leader > follower {
					t.Errorf("syncLimit %d, cut off at %v, delay %v: the leader gives up at %v, the follower at %v", syncLimit, cutAt, delay, leader, follower)
				}
				if limit := cutAt + time.Duration(syncLimit)*100*ms + 60*ms + delay; follower > limit {
					t.Errorf("syncLimit %d, cut off at %v: the follower gives up at %v only", syncLimit, cutAt, follower)
				}
			}
		}
	}
}

// cutOff has two servers lead and follow, cuts the link silently, and returns when
// each gives up.
func cutOff(t *testing.T, syncLimit int, at, delay time.Duration) (leaderAt, followerAt time.Duration) {
	cfg := testConfig(3)
	cfg.SyncLimit = syncLimit
	l, links := leads(t, cfg, State{}, 2)
	f, up := follows2(t, cfg, State{})
	f.step(up, diffOf(0), newLeaderOf(1), upToDatePacket())
	f.persist()
	type inFlight struct {
		at time.Duration
		to *solo
	}
	var flying []inFlight
	pings := func(from, to *solo) {
		for _, p := range from.sent {
			if p.Type == Ping && from.now < at {
				flying = append(flying, inFlight{from.now + delay, to})
			}
		}
		from.sent = nil
	}
	for now := time.Duration(0); leaderAt == 0 || followerAt == 0; now += ms {
		l.now, f.now = now, now
		for len(flying) > 0 && flying[0].at <= now {
			to := flying[0].to
			flying = flying[1:]
			if to == f {
				f.step(up, Packet{Type: Ping})
				if now < at {
					flying = append(flying, inFlight{now + delay, l}) // the answer
				}
				continue
			}
			l.step(links[2], Packet{Type: Ping})
			pings(l, f)
		}
		if l.core.Deadline() <= now {
			l.tick(0)
			pings(l, f)
		}
		if f.core.Deadline() <= now {
			f.tick(0)
		}
		if leaderAt == 0 && l.core.role != Leading {
			leaderAt = now
		}
		if followerAt == 0 && f.core.role != Following {
			followerAt = now
		}
		if now > time.Minute {
			t.Fatalf("the leader has given up at %v, the follower at %v", leaderAt, followerAt)
		}
	}
	return leaderAt, followerAt
}

// A snapshot may take its time to be loaded, and the transactions behind it wait:
// that is no slow acknowledgement.
func TestALongSnapshotIsNoSlowAcknowledgement(t *testing.T) {
	o, links := leads(t, testConfig(3), State{}, 2)
	o.propose(1)
	o.persist()
	o.ack(links[2], zk.MakeZxid(1, 1))
	slow := o.join(3, 1, -1, 0)
	o.core.Located(o.now, o.asked[0].Link, Location{}, nil)
	o.core.Applied(zk.MakeZxid(1, 1))
	o.drive()
	o.propose(1)
	o.persist()
	for range 40 { // 2 s: more than initLimit and syncLimit
		o.tick(50 * ms)
		o.core.Alive(o.now, slow) // it moves
		o.ack(links[2], zk.MakeZxid(1, 2))
		for l := o.core.leader.holders[2]; l.pings.Len() > 0; {
			o.step(links[2], Packet{Type: Ping})
		}
	}
	o.ack(slow, zk.MakeZxid(1, 0))
	o.tick(ms)
	want(t, "its link", o.core.leader.links[slow] != nil, true)
	want(t, "up to date", o.core.leader.links[slow].state, upToDate)
}

// A learner that is synchronized has initLimit for it, and syncLimit more; without
// a sign of life it is dropped (14.7).
func TestSynchronizationTimesOut(t *testing.T) {
	o, links := leads(t, testConfig(3), State{}, 2)
	slow := o.join(3, 1, -1, 0)
	for range 31 {
		want(t, "its link", o.core.leader.links[slow] != nil, true)
		o.tick(50 * ms)
		for l := o.core.leader.holders[2]; l.pings.Len() > 0; {
			o.step(links[2], Packet{Type: Ping})
		}
	}
	want(t, "its link", o.core.leader.links[slow] == nil, true)
	// One that says nothing at all has initLimit.
	silent := o.accept()
	for range 21 {
		want(t, "its link", o.core.leader.links[silent] != nil, true)
		o.tick(50 * ms)
		for l := o.core.leader.holders[2]; l.pings.Len() > 0; {
			o.step(links[2], Packet{Type: Ping})
		}
	}
	want(t, "its link", o.core.leader.links[silent] == nil, true)
}

// "wait until a quorum of every config has acked (initLimit×tickTime) else step
// down" (14.5)
func TestALeaderWaitsForItsQuorumForInitLimit(t *testing.T) {
	o := newSolo(t, testConfig(3), State{})
	o.elect(1)
	o.join(2, 0, 0, 0)
	o.persist()
	want(t, "phase", o.core.phase, syncing)
	o.tick(1000 * ms)
	want(t, "role", o.core.role, Leading)
	o.tick(ms)
	want(t, "role", o.core.role, Looking)
}

// "A learner that gets nothing for syncLimit×tickTime disconnects and starts an
// election." (14.7)
func TestASilentLeaderIsLeft(t *testing.T) {
	o, l := follows2(t, testConfig(3), State{})
	o.step(l, diffOf(0), newLeaderOf(1), upToDatePacket())
	o.persist()
	want(t, "serves", o.core.ready.Serving, true)
	o.tick(400 * ms)
	o.step(l, Packet{Type: Ping})
	o.tick(500 * ms)
	want(t, "role", o.core.role, Following)
	o.tick(ms)
	want(t, "role", o.core.role, Looking)
}

// A learner whose own disk is at work, which may take long behind a snapshot,
// does not hold that against its leader.
func TestWaitingForTheOwnDiskIsNotSilence(t *testing.T) {
	o, l := follows2(t, testConfig(3), State{})
	o.step(l, Packet{Type: Snap, Zxid: zk.MakeZxid(1, 0)}, newLeaderOf(1))
	o.tick(time.Hour)
	want(t, "role", o.core.role, Following)
	o.core.Persisted(o.now, o.began)
	o.drive()
	want(t, "says", o.says(l), "ACK <1,0>")
	// From now on the leader may wait for others, for initLimit.
	o.tick(1500 * ms)
	want(t, "role", o.core.role, Following)
	o.tick(ms)
	want(t, "role", o.core.role, Looking)
}

// A snapshot that is on its way is a sign of life.
func TestASnapshotOnItsWayIsASignOfLife(t *testing.T) {
	o, l := follows2(t, testConfig(3), State{})
	for range 10 {
		o.tick(900 * ms)
		o.core.Alive(o.now, l)
	}
	want(t, "role", o.core.role, Following)
	o.tick(1001 * ms)
	want(t, "role", o.core.role, Looking)
}

// connectToLearnerMasterLimit bounds how long a leader may take to be reached
// (14.1); it is a second at first, since a leader that cannot be reached may not be
// one.
func TestALeaderThatIsNotReachedIsGivenUp(t *testing.T) {
	cfg := testConfig(3)
	cfg.Tick, cfg.ConnectLimit = time.Second, 3
	o := newSolo(t, cfg, State{})
	for _, patience := range []time.Duration{time.Second, 2 * time.Second, 3 * time.Second, 3 * time.Second} {
		o.now += asideFor
		o.elect(2)
		for o.core.learner.link == 0 {
			o.tick(o.core.Deadline() - o.now)
		}
		o.tick(patience - ms)
		want(t, "phase", o.core.phase, connecting)
		o.tick(ms)
		want(t, "phase", o.core.phase, electing)
	}
	// Its process has ended: there is nothing to wait for.
	o = newSolo(t, cfg, State{})
	o.elect(2)
	o.core.PeerDown(o.now, 3)
	o.drive()
	want(t, "phase", o.core.phase, connecting)
	o.core.PeerDown(o.now, 2)
	o.drive()
	want(t, "phase", o.core.phase, electing)
}

// A link that is there when nobody wants it any more is closed.
func TestALinkThatComesTooLateIsClosed(t *testing.T) {
	o := newSolo(t, testConfig(3), State{})
	o.elect(2)
	l := o.core.learner.link
	o.core.LinkDown(o.now, l, errLink)
	o.drive()
	want(t, "role", o.core.role, Looking)
	o.core.Dialing(77)
	want(t, "closed", len(o.core.Ready().Close), 1)
	o.elect(2)
	o.tick(20 * ms)
	o.core.Dialing(78) // there is one already
	want(t, "closed", len(o.core.Ready().Close), 1)
}

// A vote tells of durable history alone (17.1: 2845, 4712, 4882): a role is left,
// and the election begins when all that was logged is durable.
func TestAVoteWaitsForTheDisk(t *testing.T) {
	o, l := follows2(t, testConfig(3), history(4, 3))
	o.step(l, diffOf(zk.MakeZxid(4, 5)), proposalOf(zk.MakeZxid(4, 4)), newLeaderOf(5), proposalOf(zk.MakeZxid(5, 1)))
	o.core.LinkDown(o.now, l, errLink)
	o.drive()
	want(t, "phase", o.core.phase, settling)
	o.core.Persisted(o.now, o.began-1)
	o.drive()
	want(t, "phase", o.core.phase, settling)
	o.core.Persisted(o.now, o.began)
	o.drive()
	v := o.core.election.Vote()
	want(t, "vote", v.Zxid, zk.MakeZxid(5, 1)) // logged, though not committed
	want(t, "vote's epoch", v.PeerEpoch, 5)
	want(t, "to be applied", o.core.ready.Commit, zk.MakeZxid(5, 1))
}

// A server that looks keeps those who come before it knows that it leads: so many,
// who say so much.
func TestEarlyLinksAreBounded(t *testing.T) {
	o := newSolo(t, testConfig(3), State{})
	friend := o.accept()
	o.step(friend, infoOf(2, 0))
	for range 10 * maxWaiting {
		o.accept()
	}
	want(t, "early links", len(o.core.waiting), maxWaiting)
	want(t, "the friend", o.core.waitingIndex(friend) >= 0, true)
	o.step(o.core.waiting[1].link, Packet{Type: FollowerInfo, Data: make([]byte, maxInfoBytes+1)})
	want(t, "early links", len(o.core.waiting), maxWaiting-1)
	o.step(o.core.waiting[1].link, infoOf(3, 0), infoOf(3, 0))
	want(t, "early links", len(o.core.waiting), maxWaiting-2)
	o.elect(1)
	want(t, "the friend's stage", o.core.leader.links[friend].state, asked)
	want(t, "early links", len(o.core.waiting), 0)
	// Whoever follows another keeps nobody.
	o = newSolo(t, testConfig(3), State{})
	o.accept()
	o.elect(2)
	want(t, "early links", len(o.core.waiting), 0)
}

// What Status tells.
func TestStatus(t *testing.T) {
	o, links := leads(t, testConfig(3), history(4, 3), 2)
	o.propose(2)
	o.persist()
	o.ack(links[2], zk.MakeZxid(5, 1))
	o.sync()
	s := o.core.Status()
	want(t, "role", s.Role, Leading)
	want(t, "leader", s.Leader, 1)
	want(t, "outstanding", s.Outstanding, 1)
	want(t, "syncs", s.Syncs, 1)
	want(t, "committed", s.Committed, zk.MakeZxid(5, 1))
	want(t, "learners", len(s.Learners), 1)
	want(t, "acked", s.Learners[0].Acked, zk.MakeZxid(5, 1))
	want(t, "synced", s.Learners[0].Synced, true)

	f, l := follows2(t, testConfig(3), history(4, 3))
	f.step(l, diffOf(zk.MakeZxid(4, 4)), proposalOf(zk.MakeZxid(4, 4)))
	s = f.core.Status()
	want(t, "leader", s.Leader, 2)
	want(t, "pending", s.Pending, 1)
}

// An early link that is gone is forgotten.
func TestAnEarlyLinkMayGo(t *testing.T) {
	o := newSolo(t, testConfig(3), State{})
	a, b := o.accept(), o.accept()
	o.core.LinkDown(o.now, a, errLink)
	o.drive()
	o.elect(1)
	want(t, "the one that is gone", o.core.leader.links[a] == nil, true)
	want(t, "the one that is there", o.core.leader.links[b] != nil, true)
}

// A leader has initLimit from the moment that it is reached.
func TestDiscoveryBeginsWhenTheLeaderIsReached(t *testing.T) {
	o := newSolo(t, testConfig(3), State{})
	o.elect(2)
	l := o.core.learner.link
	o.tick(900 * ms)
	o.up(l)
	o.tick(1000 * ms)
	want(t, "role", o.core.role, Following)
	o.tick(ms)
	want(t, "role", o.core.role, Looking)
}

// Strangers that come to a server that looks for a leader leave room for voters.
func TestEarlyVotersHaveTheirPlaces(t *testing.T) {
	o := newSolo(t, testConfig(3), State{})
	for i := range 5 * maxWaiting {
		stranger := infoOf(int64(100+i), 0)
		stranger.Type = ObserverInfo
		o.step(o.accept(), stranger)
	}
	friend := o.accept()
	o.step(friend, infoOf(2, 0))
	for i := range 5 * maxWaiting {
		o.step(o.accept(), Packet{Type: ObserverInfo, Data: infoOf(int64(100+i), 0).Data})
	}
	want(t, "early links", len(o.core.waiting), maxWaiting)
	want(t, "the friend", o.core.waitingIndex(friend) >= 0, true)
}
