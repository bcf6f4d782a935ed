package zab

import (
	"strings"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/zab/election"
	"github.com/pinfold-zk/pinfold/zk"
)

// diverge makes a server's tree wrong, and has the server find out, unless then no
// quorum of servers with right trees would be left. What it would make of its disk at
// a start may be wrong as well.
func (x *chaos) diverge(s *server) {
	right := func(id int64) bool {
		o := x.servers[id]
		return o != s && !o.disk.wrong && (o.core == nil || !o.core.diverged)
	}
	if s.core == nil || s.wrong || !s.core.system.Quorum(right) {
		return
	}
	x.say("%d: its tree is wrong at %v", s.id, s.applied)
	x.check.seen["a wrong tree, found as "+s.role.String()]++
	if s.resets == 0 { // else the wrong tree is about to be replaced
		s.wrong, s.disk.wrong = true, x.rng.IntN(3) == 0
	}
	s.core.TreeDiverged(x.now, s.applied)
	s.drive()
}

// In random schedules as TestChaos has them, with trees that go wrong, no server serves
// from a wrong tree, and in peace all come to serve the same.
func TestChaosWithWrongTrees(t *testing.T) {
	first, last := seedRange(*seedsFlag / 10)
	all := map[string]int{}
	for seed := first; seed <= last; seed++ {
		x := newChaos(seed)
		x.wrongTrees = 1 + x.rng.IntN(10)
		seen, err := x.runSafely()
		if err != nil {
			t.Fatalf("seed=%d: %v\n\tgo test ./internal/zab -run TestChaosWithWrongTrees -seed %d -show", seed, err, seed)
		}
		for what, n := range seen {
			all[what] += n
		}
	}
	for _, role := range []Role{Looking, Leading, Following, Observing} {
		what := "a wrong tree, found as " + role.String()
		t.Logf("%8d %s", all[what], what)
		if all[what] == 0 && *seedFlag == 0 {
			t.Errorf("never: %s", what)
		}
	}
}

// diverges tells the core that its tree is wrong.
func (o *solo) diverges() {
	o.core.TreeDiverged(o.now, o.core.committed)
	o.drive()
}

// A follower whose tree is wrong leaves its role, goes back to its leader, in the same
// epoch, and says that it has nothing: it is sent a snapshot, and serves with that.
func TestAFollowerWithAWrongTreeAsksForASnapshot(t *testing.T) {
	o, l := follows2(t, testConfig(3), history(4, 9))
	o.step(l, diffOf(zk.MakeZxid(4, 9)), newLeaderOf(5), upToDatePacket())
	o.persist()
	want(t, "serves", o.core.ready.Serving, true)
	o.diverges()
	want(t, "serves", o.core.ready.Serving, false)
	want(t, "why", strings.Contains(o.left(), divergedReason), true)
	o.tick(20 * ms)
	want(t, "leader", o.core.learner.leader, 2)
	l = o.core.learner.link
	o.up(l)
	o.step(l, leaderInfoOf(5))
	want(t, "says", o.says(l), "ACKEPOCH current -1 last <0,0>")
	o.step(l, Packet{Type: Snap, Zxid: zk.MakeZxid(4, 9)}, newLeaderOf(5), upToDatePacket())
	want(t, "writes", o.writes(), "the leader's tree at <4,9>")
	want(t, "diverged until it is durable", o.core.diverged, true)
	o.persist()
	want(t, "serves", o.core.ready.Serving, true)
	want(t, "diverged", o.core.diverged, false)
}

// It takes nothing but a snapshot from another leader either. There its word counts
// first: it says what its log has.
func TestAWrongTreeIsReplacedWhoeverLeads(t *testing.T) {
	o, l := follows2(t, testConfig(3), history(4, 9))
	o.step(l, diffOf(zk.MakeZxid(4, 9)), newLeaderOf(5), upToDatePacket())
	o.persist()
	o.diverges()
	o.tick(20 * ms)
	o.core.LinkDown(o.now, o.core.learner.link, errLink)
	o.drive()
	o.elect(3)
	o.tick(50 * ms)
	l = o.core.learner.link
	o.up(l)
	o.step(l, leaderInfoOf(6))
	o.core.Persisted(o.now, o.began)
	o.drive()
	want(t, "says", o.says(l), "ACKEPOCH current 5 last <4,9>")
	o.step(l, diffOf(zk.MakeZxid(4, 9)))
	want(t, "why", strings.Contains(o.left(), "DIFF would not change that"), true)
	o.tick(100 * ms)
	want(t, "leader", o.core.learner.leader, 3)
	l = o.core.learner.link
	o.up(l)
	o.step(l, leaderInfoOf(6))
	want(t, "says", o.says(l), "ACKEPOCH current -1 last <0,0>")
}

// A leader without any transaction has no snapshot to send. Its learner has none either
// then, and so the right tree.
func TestAWrongTreeWhereTheLeaderHasNothing(t *testing.T) {
	o, _ := follows2(t, testConfig(3), history(4, 9))
	o.diverges()
	o.tick(20 * ms)
	l := o.core.learner.link
	o.up(l)
	o.step(l, leaderInfoOf(5))
	o.step(l, diffOf(0), newLeaderOf(5), upToDatePacket())
	want(t, "writes", o.writes(), "the log, cut to <0,0>, the current epoch: 5")
	o.persist()
	want(t, "serves", o.core.ready.Serving, true)
	want(t, "diverged", o.core.diverged, false)
}

// A leader whose tree is wrong leaves its role, and is a candidate no more.
func TestALeaderWithAWrongTreeStepsDown(t *testing.T) {
	o, _ := leads(t, testConfig(3), history(4, 9), 2, 3)
	o.diverges()
	want(t, "role", o.core.role, Looking)
	v := o.core.election.Vote()
	want(t, "vote", v.Leader, 1)
	want(t, "vote's epoch", v.PeerEpoch, -1)
	want(t, "vote's zxid", v.Zxid, 0)
	// Any other server is better, even one that has nothing.
	o.core.Notification(o.now, election.Notification{
		From: 2, State: election.Looking, Leader: 2, ElectionEpoch: o.core.election.ElectionEpoch(), Version: 2,
	})
	want(t, "vote", o.core.election.Vote().Leader, 2)
}

// What a leader has proposed is committed first: else only its own log might have the
// end of it, and no other server could lead with it as a follower.
func TestALeaderWithAWrongTreeCommitsWhatItHasProposed(t *testing.T) {
	o, links := leads(t, testConfig(3), history(4, 9), 2)
	o.propose(2)
	o.sync()
	o.diverges()
	want(t, "role", o.core.role, Leading)
	want(t, "serves", o.core.ready.Serving, false)
	o.persist()
	o.ack(links[2], zk.MakeZxid(5, 1))
	want(t, "role", o.core.role, Leading)
	o.ack(links[2], zk.MakeZxid(5, 2))
	want(t, "role", o.core.role, Looking)
	want(t, "syncs answered", o.synced, 0)
	want(t, "committed", o.core.ready.Commit, zk.MakeZxid(5, 2))

	// It does not wait for ever.
	o, _ = leads(t, testConfig(3), history(4, 9), 2)
	o.propose(1)
	o.diverges()
	o.answerPings(400 * ms)
	want(t, "role", o.core.role, Leading)
	o.answerPings(200 * ms)
	want(t, "role", o.core.role, Looking)
}

// If every voter of a quorum has a wrong tree, no server can send a right one. The elected
// server declines to lead, and starts the next election a tick later.
func TestWhereAllTreesAreWrongNobodyLeads(t *testing.T) {
	s := history(4, 9)
	s.Diverged = true
	o := newSolo(t, testConfig(3), s)
	declined := 0
	for range 100 {
		for _, id := range []int64{2, 3} {
			o.core.Notification(o.now, election.Notification{
				From: id, State: election.Looking, Leader: 1, PeerEpoch: -1, ElectionEpoch: o.core.election.ElectionEpoch(), Version: 2,
			})
			o.drive()
			for _, e := range o.told {
				if e.Kind == EventDeclined {
					declined++
				}
			}
		}
		o.tick(10 * ms)
	}
	want(t, "role", o.core.role, Looking)
	if declined < 5 || declined > 11 {
		t.Errorf("it has declined %d times in ten ticks", declined)
	}
	// A server with a right tree is elected as soon as it comes.
	for o.core.phase != electing {
		o.tick(10 * ms)
	}
	for range 2 {
		for _, id := range []int64{2, 3} {
			o.core.Notification(o.now, election.Notification{
				From: id, State: election.Looking, Leader: 3, PeerEpoch: 4, Zxid: zk.MakeZxid(4, 9),
				ElectionEpoch: o.core.election.ElectionEpoch(), Version: 2,
			})
		}
		o.drive()
	}
	o.tick(300 * ms)
	want(t, "role", o.core.role, Following)
	want(t, "leader", o.core.learner.leader, 3)
}
