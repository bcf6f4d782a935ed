package zab

import (
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/internal/zab/election"
	"github.com/pinfold-zk/pinfold/zk"
)

// These tests are named after what the protocol page, sections 5 and 14.2, and the
// paper say of discovery; the section is in parentheses.

// "newEpoch = max(acceptedEpoch over all seen, own)+1" (14.2)
func TestTheNewEpochIsLaterThanAllThatAQuorumAccepted(t *testing.T) {
	for _, c := range []struct{ own, theirs, want uint32 }{{4, 4, 5}, {4, 9, 10}, {9, 4, 10}, {0, 0, 1}} {
		s := history(c.own, 2)
		if c.own == 0 {
			s = State{}
		}
		o := newSolo(t, testConfig(3), s)
		o.elect(1)
		o.step(o.accept(), infoOf(2, c.theirs))
		want(t, "writes", o.writes(), describeWrite(&Write{Kind: WriteAcceptedEpoch, Epoch: c.want}))
	}
}

// "Waits until a quorum of voters (including itself) has sent info" (14.2)
func TestDiscoveryWaitsForAQuorumOfVoters(t *testing.T) {
	o := newSolo(t, testConfig(5), State{})
	o.elect(1)
	first := o.accept()
	o.step(first, infoOf(2, 0))
	want(t, "writes with 2 of 5", o.writes(), "")
	observer := infoOf(9, 0)
	observer.Type = ObserverInfo
	o.step(o.accept(), observer)
	want(t, "writes with an observer more", o.writes(), "")
	o.step(o.accept(), infoOf(3, 0))
	want(t, "writes with 3 of 5", o.writes(), "the accepted epoch: 1")
	want(t, "said", o.says(first), "LEADERINFO epoch 1")
}

// Followers write their epoch files while the leader writes its own. It is no part
// of a quorum before that is durable.
func TestALeaderIsOneOfItsQuorumWhenItsOwnEpochIsDurable(t *testing.T) {
	o := newSolo(t, testConfig(5), history(4, 3))
	o.elect(1)
	var links []LinkID
	for _, id := range []int64{2, 3} {
		l := o.accept()
		o.step(l, infoOf(id, 4))
		links = append(links, l)
	}
	for _, l := range links {
		o.step(l, ackEpochOf(4, zk.MakeZxid(4, 3)))
		want(t, "writes before the accepted epoch is durable", o.writes(), "")
	}
	o.core.Persisted(o.now, o.began)
	o.drive()
	want(t, "writes", o.writes(), "the current epoch: 5")
	want(t, "says", o.says(links[0]), "DIFF <4,3>, NEWLEADER epoch 5")
	for _, l := range links {
		o.ack(l, zk.MakeZxid(5, 0))
		want(t, "serves before the current epoch is durable", o.core.ready.Serving, false)
	}
	o.core.Persisted(o.now, o.began)
	o.drive()
	want(t, "serves", o.core.ready.Serving, true)
}

// "... or initLimit×tickTime" (14.2): here 10 ticks of 100 ms.
func TestDiscoveryTimesOut(t *testing.T) {
	o := newSolo(t, testConfig(3), State{})
	o.elect(1)
	o.tick(1000 * ms)
	want(t, "role at initLimit", o.core.role, Leading)
	o.tick(1 * ms)
	want(t, "role after initLimit", o.core.role, Looking)
}

// "newEpoch > acceptedEpoch ⇒ write acceptedEpoch, ACKEPOCH(lastLogged,
// currentEpoch). equal ⇒ ACKEPOCH(lastLogged, −1). lower ⇒ disconnect." (14.2)
func TestAnEpochIsAcceptedOnce(t *testing.T) {
	state := history(4, 3)
	for _, c := range []struct {
		epoch               uint32
		writes, says, after string
	}{
		{5, "the accepted epoch: 5", "", "ACKEPOCH current 4 last <4,3>"},
		{4, "", "ACKEPOCH current -1 last <4,3>", ""},
		{3, "", "", ""},
	} {
		o := newSolo(t, testConfig(3), state)
		o.elect(2)
		l := o.core.learner.link
		o.up(l)
		want(t, "the first packet", o.says(l), "FOLLOWERINFO epoch 4")
		o.step(l, leaderInfoOf(c.epoch))
		want(t, "writes", o.writes(), c.writes)
		want(t, "says before it is durable", o.says(l), c.says)
		if c.epoch < 4 {
			want(t, "role", o.core.role, Looking)
			continue
		}
		o.persist()
		want(t, "says", strings.TrimPrefix(o.says(l), c.says), c.after)
	}
}

// "Waits for a quorum of voters (−1 and zxid −1 are not counted)" (14.2)
func TestWhoDoesNotCountForTheEpoch(t *testing.T) {
	for _, c := range []struct {
		currentEpoch int32
		last         zk.Zxid
		counts       bool
	}{{4, zk.MakeZxid(4, 3), true}, {3, 0, true}, {-1, zk.MakeZxid(4, 3), false}, {4, -1, false}} {
		o := newSolo(t, testConfig(3), history(4, 3))
		o.elect(1)
		o.join(2, 4, c.currentEpoch, c.last)
		want(t, "counts", o.writes() == "the current epoch: 5", c.counts)
	}
}

// Who has accepted the epoch has promised it, whatever becomes of the link: an
// ACKEPOCH counts on, as it does for Apache, by the server's id.
func TestAnEpochsAckOutlivesItsLink(t *testing.T) {
	o := newSolo(t, testConfig(5), history(4, 3))
	o.elect(1)
	a, b := o.accept(), o.accept()
	o.step(a, infoOf(2, 4))
	o.step(b, infoOf(3, 4))
	o.persist()
	o.step(a, ackEpochOf(4, zk.MakeZxid(4, 3)))
	o.core.LinkDown(o.now, a, errLink)
	o.drive()
	o.step(b, ackEpochOf(4, zk.MakeZxid(4, 3)))
	want(t, "writes", o.writes(), "the current epoch: 5")
	// It comes again, and is synchronized though this ACKEPOCH does not count.
	o.persist()
	l := o.join(2, 5, -1, zk.MakeZxid(4, 3))
	want(t, "says", o.says(l), "DIFF <4,3>, NEWLEADER epoch 5")
}

// "Ordering of history: compare (currentEpoch, lastZxid) lexicographically" (5);
// "summary of a voter more recent than its own ⇒ leader steps down" (14.2)
func TestHistoriesAreComparedByEpochThenZxid(t *testing.T) {
	for _, c := range []struct {
		currentEpoch int32
		last         zk.Zxid
		later        bool
	}{
		{4, zk.MakeZxid(4, 3), false},
		{4, zk.MakeZxid(4, 2), false},
		{4, zk.MakeZxid(4, 4), true},
		{3, zk.MakeZxid(3, 99), false},
		{5, zk.MakeZxid(4, 1), true},
		{5, zk.MakeZxid(5, 0), true},
		{4, zk.MakeZxid(4, 0), false}, // the beginning of its epoch
		{0, 0, false},
	} {
		s := history(4, 3)
		s.AcceptedEpoch = 5
		o := newSolo(t, testConfig(3), s)
		o.elect(1)
		o.join(2, 5, c.currentEpoch, c.last)
		want(t, "steps down for epoch "+pair(c.last), o.core.role == Looking, c.later)
	}
	// An observer's history does not matter.
	o := newSolo(t, testConfig(3), history(4, 3))
	o.elect(1)
	o.step(o.accept(), infoOf(2, 4))
	l := o.accept()
	p := infoOf(9, 4)
	p.Type = ObserverInfo
	o.step(l, p)
	o.persist()
	o.step(l, ackEpochOf(4, zk.MakeZxid(4, 9)))
	want(t, "role", o.core.role, Leading)
}

// The last epoch that there is cannot be got past, by anybody.
func TestTheLastEpoch(t *testing.T) {
	for _, voters := range []int{1, 3} {
		o := newSolo(t, testConfig(voters), State{AcceptedEpoch: maxEpoch})
		o.elect(1)
		o.step(o.accept(), infoOf(2, 0))
		want(t, "epoch", o.core.epoch, 0)
		term := o.core.term
		o.tick(1001 * ms)
		want(t, "has left", o.core.role == Looking || o.core.term > term, true)
	}

	o := newSolo(t, testConfig(3), State{AcceptedEpoch: maxEpoch - 1})
	o.elect(1)
	o.step(o.accept(), infoOf(3, maxEpoch-1))
	want(t, "writes", o.writes(), "the accepted epoch: 2147483647")
}

// A follower that its leader turned away again and again has counted more elections
// than the leader that looks again. It does not wait for it until initLimit.
func TestALeaderThatLooksIsLeftWhateverItsElectionEpoch(t *testing.T) {
	cfg := testConfig(3)
	cfg.Tick = time.Second
	o := newSolo(t, cfg, State{})
	o.elect(2)
	o.up(o.core.learner.link)
	o.notify(2, 0) // may have been on its way when it was elected
	want(t, "role", o.core.role, Following)
	o.tick(firstPatience)
	o.notify(3, 0)
	want(t, "role", o.core.role, Following)
	o.notify(2, 0)
	want(t, "role", o.core.role, Looking)
}

// A leader that is itself on its way to a later epoch, and whose followers have
// gone on, does not wait for them.
func TestNobodyWaitsForWhoLooksAgain(t *testing.T) {
	o := newSolo(t, testConfig(3), State{})
	o.elect(1)
	n := o.core.election.ElectionEpoch()
	o.notify(2, n)
	want(t, "role after a vote of this election", o.core.role, Leading)
	o.notify(2, n+1)
	want(t, "role after one of the next", o.core.role, Looking)

	o = newSolo(t, testConfig(3), State{})
	o.elect(2)
	o.up(o.core.learner.link)
	o.notify(3, o.core.election.ElectionEpoch()+1)
	want(t, "role after another's vote", o.core.role, Following)
	o.notify(2, o.core.election.ElectionEpoch()+1)
	want(t, "role after the leader's vote", o.core.role, Looking)
}

// A leader whose quorum has come, and gone again before it could serve, does not wait for a voter that looks in a
// later election: that voter does not join a leader without a quorum. It may be heard before or after.
func TestALeaderWhoseQuorumHasGoneLooksAgain(t *testing.T) {
	for _, before := range []bool{false, true} {
		o := newSolo(t, testConfig(3), State{})
		o.elect(1)
		l := o.accept()
		o.step(l, infoOf(3, 0))
		want(t, "stage", o.core.leader.stage, gatherEpochs)
		later := o.core.election.ElectionEpoch() + 1
		if before {
			o.notify(2, later)
		} else {
			o.notify(2, later-1) // its vote of this election may have been on its way
		}
		want(t, "role with a quorum", o.core.role, Leading)
		o.core.LinkDown(o.now, l, errLink)
		o.drive()
		if !before {
			want(t, "role without it", o.core.role, Leading)
			o.notify(2, later)
		}
		want(t, "role when a voter looks", o.core.role, Looking)
		want(t, "why", strings.Contains(o.left(), "look"), true)
	}
}

// Packets say what Apache's say (13).
func TestWhatTheFirstPacketsCarry(t *testing.T) {
	o := newSolo(t, testConfig(3), history(4, 3))
	o.elect(2)
	o.up(o.core.learner.link)
	p := o.sent[0]
	want(t, "type", p.Type, FollowerInfo)
	want(t, "zxid", p.Zxid, zk.MakeZxid(4, 0))
	want(t, "data", string(p.Data), string(infoOf(1, 0).Data))

	o = newSolo(t, testConfig(3), history(4, 3))
	o.elect(1)
	l := o.accept()
	o.step(l, infoOf(2, 4))
	p = o.sent[len(o.sent)-1]
	want(t, "type", p.Type, LeaderInfo)
	want(t, "zxid", p.Zxid, zk.MakeZxid(5, 0))
	want(t, "protocol version", binary.BigEndian.Uint32(p.Data), 0x10000)
	o.persist()
	o.step(l, ackEpochOf(4, zk.MakeZxid(4, 3)))
	p = o.sent[len(o.sent)-1]
	want(t, "type", p.Type, NewLeader)
	want(t, "data", string(p.Data), "config")
	o.persist()
	o.ack(l, p.Zxid)
	for _, p := range o.sent {
		if p.Type == UpToDate {
			want(t, "UPTODATE's zxid", p.Zxid, zk.Zxid(-1))
		}
	}
}

// The numbers are Apache's (13).
func TestPacketNumbers(t *testing.T) {
	names := "REQUEST PROPOSAL ACK COMMIT PING REVALIDATE SYNC INFORM COMMITANDACTIVATE NEWLEADER " +
		"FOLLOWERINFO UPTODATE DIFF TRUNC SNAP OBSERVERINFO LEADERINFO ACKEPOCH INFORMANDACTIVATE"
	for i, name := range strings.Fields(names) {
		want(t, "packet", PacketType(i+1).String(), name)
	}
	for _, p := range []PacketType{0, 20, -1} {
		if p.Known() || !strings.HasPrefix(p.String(), "packet type") {
			t.Errorf("%d is %v", int32(p), p)
		}
	}
}

// A server of an ensemble of one needs nobody's word.
func TestAQuorumOfOne(t *testing.T) {
	o := newSolo(t, testConfig(1), State{})
	o.persist()
	want(t, "serves", o.core.ready.Serving, true)
	o.propose(3)
	o.persist()
	want(t, "commits", o.core.ready.Commit, zk.MakeZxid(1, 3))
	o.sync()
	want(t, "syncs", o.synced, 1)
}

// Groups and weights decide about epochs, histories and transactions alike.
func TestGroupsAndWeights(t *testing.T) {
	cfg := testConfig(6)
	members := slices.Clone(cfg.Members.Members())
	members[1].Weight = 0
	for i := range members {
		members[i].Group = int64(1 + i/3)
	}
	cfg.Members = must(NewMembership(0, members, nil))
	o := newSolo(t, cfg, State{})
	o.elect(1)
	for _, c := range []struct {
		id     int64
		enough bool
	}{{2, false}, {3, false}, {4, false}, {5, true}} {
		o.step(o.accept(), infoOf(c.id, 0))
		want(t, "enough", o.core.epoch != 0, c.enough)
	}
}

func TestMembershipRefuses(t *testing.T) {
	many := make([]Member, MaxVoters+1)
	for i := range many {
		many[i] = Member{ID: int64(i + 1), Weight: 1}
	}
	for name, members := range map[string][]Member{
		"65 voters": many, "none": nil, "no weight": {{ID: 1}}, "one id twice": {{ID: 1, Weight: 1}, {ID: 1, Observer: true}},
	} {
		if m, err := NewMembership(0, members, nil); err == nil {
			t.Errorf("%s: %v", name, m.Members())
		}
	}
}

// LearnerInfo may end behind the id, or behind the protocol version (13).
func TestLearnerInfoMayBeShort(t *testing.T) {
	for n, ok := range map[int]bool{0: false, 7: false, 8: true, 12: true, 20: true, 30: true} {
		o := newSolo(t, testConfig(3), State{})
		o.elect(1)
		p := infoOf(2, 0)
		p.Data = append(p.Data, make([]byte, 10)...)[:n]
		o.step(o.accept(), p)
		want(t, "accepted", o.writes() != "", ok)
	}
	o := newSolo(t, testConfig(3), State{})
	o.elect(1)
	l := o.accept()
	o.step(l, infoOf(2, 0))
	o.persist()
	o.step(l, Packet{Type: AckEpoch, Data: make([]byte, 3)})
	want(t, "links", len(o.links), 0)
}

// A leader that refuses a server closes the link without a word: the server says what it knows.
func TestAServerThatIsRefusedSaysWhatItKnows(t *testing.T) {
	for _, c := range []struct {
		name  string
		state State
		after func(o *solo, l LinkID)
		want  string
	}{
		{"later epoch", State{AcceptedEpoch: 99, CurrentEpoch: 5, Last: zk.MakeZxid(5, 9)}, func(*solo, LinkID) {},
			"this server has accepted epoch 99, and leader 2 is known to be in epoch 5"},
		{"no epoch", history(5, 9), func(*solo, LinkID) {}, "leader 2 has not told its epoch"},
		{"history", history(5, 9), func(o *solo, l LinkID) {
			o.step(l, leaderInfoOf(6))
			o.persist()
		}, "was told this server's history, of epoch 5 and up to 0x500000009"},
	} {
		o := newSolo(t, testConfig(3), c.state)
		o.elect(2)
		l := o.core.learner.link
		o.up(l)
		c.after(o, l)
		o.core.LinkDown(o.now, l, errors.New("the peer has closed the link"))
		o.drive()
		said := ""
		for _, e := range o.told {
			if e.Kind == EventLeft {
				said = e.Reason
			}
		}
		if !strings.Contains(said, c.want) {
			t.Errorf("%s: %q, want %q", c.name, said, c.want)
		}
	}
}

// A server that was elected before a better candidate could be reached does not wait for initLimit when its
// voters elect that one.
func TestADesertedLeaderLooksAgain(t *testing.T) {
	cfg := testConfig(3)
	o := newSolo(t, cfg, State{})
	o.core.PeerDown(o.now, 3)
	vote := func(leader int64) {
		o.core.Notification(o.now, election.Notification{
			From: 2, State: election.Looking, Leader: leader, ElectionEpoch: o.core.election.ElectionEpoch(), Version: 2,
		})
		o.drive()
	}
	vote(1)
	want(t, "role with the vote of server 2", o.core.role, Leading)
	vote(3)
	want(t, "role without it", o.core.role, Looking)

	vote(1)
	want(t, "role with the vote once more", o.core.role, Leading)
	o.join(2, 0, 0, 0)
	vote(3)
	want(t, "role of a leader that a quorum has come to", o.core.role, Leading)
}
