package zab

import (
	"slices"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/zab/election"
	"github.com/pinfold-zk/pinfold/zk"
)

// tellsOf is a vote of a server that has seen a change of the membership.
func tellsOf(from, leader int64, last, change zk.Zxid, members []Member) election.Notification {
	return election.Notification{
		From: from, State: election.Looking, Leader: leader, Zxid: last, PeerEpoch: 4, ElectionEpoch: 1, Version: 2,
		SeenText: write(change, members),
	}
}

// A voter that has not seen a change of the membership votes for a server that has a vote only
// by that change, if another server tells of it: that one may have the longest history. The
// voter counts the votes as before.
func TestAVoterVotesForAServerOfAChangeThatItHears(t *testing.T) {
	z := zk.MakeZxid(4, 2)
	for _, c := range []struct {
		name   string
		change zk.Zxid
		has    zk.Zxid // how far the history of server 4 reaches
		votes  int64
	}{
		{"a change after its history", z, z, 4},
		{"a change that its history left out", zk.MakeZxid(4, 1), z, 3},
		{"a change of an epoch that is over", zk.MakeZxid(3, 9), z, 3},
		{"a change that the candidate does not have", zk.MakeZxid(4, 3), z, 3},
	} {
		o := newSolo(t, changing(3), history(4, 1))
		own := o.core.system
		for range 2 { // the first time it is told, the election begins again
			n := tellsOf(4, 4, c.has, c.change, membersOf(4, 0).Members())
			n.ElectionEpoch = o.core.election.ElectionEpoch()
			o.core.Notification(o.now, n)
			o.drive()
		}
		n := tellsOf(3, 3, zk.MakeZxid(4, 1), c.change, membersOf(4, 0).Members())
		n.ElectionEpoch = o.core.election.ElectionEpoch()
		o.core.Notification(o.now, n)
		o.drive()
		want(t, c.name+": votes for", o.core.election.Vote().Leader, c.votes)
		want(t, c.name+": counts as before", o.core.system, own)
		want(t, c.name+": has it in no history", o.core.Memberships().Seen, o.core.Memberships().Committed)
	}
}

// The peers are also those of a change that is heard of: the server that is to lead may be
// one of them. Once a leader's history is taken, they are those of that.
func TestPeersOfAChangeThatIsHeard(t *testing.T) {
	o := newSolo(t, changing(3), history(4, 1))
	o.core.Notification(o.now, tellsOf(3, 3, zk.MakeZxid(4, 2), zk.MakeZxid(4, 2), membersOf(5, 0).Members()))
	rd := o.core.Ready()
	ids := func(members []Member) (all []int64) {
		for _, m := range members {
			all = append(all, m.ID)
		}
		return all
	}
	if got := ids(rd.Members); !slices.Equal(got, []int64{1, 2, 3, 4, 5}) {
		t.Fatalf("its peers are %v", got)
	}
	o.drive()
	o.elect(2)
	l := o.core.learner.link
	o.up(l)
	o.step(l, leaderInfoOf(5))
	o.persist()
	p := newLeaderOf(5)
	p.Data = o.core.cfg.Members.Text()
	o.step(l, diffOf(zk.MakeZxid(4, 1)), p)
	o.persist()
	o.core.Step(o.now, l, []Packet{upToDatePacket()})
	if got := ids(o.core.Ready().Members); !slices.Equal(got, []int64{1, 2, 3}) {
		t.Fatalf("its peers are %v under a leader without the change", got)
	}
}

// An observer that a change makes a voter votes, and follows, before it knows that the change is
// committed: those that have the change may need it for that. It does not stand for election if it
// has only heard of it. Under a leader that does not have the change it observes again.
func TestAnObserverFollowsIfAChangeGivesItAVote(t *testing.T) {
	z := zk.MakeZxid(4, 2)
	voters := []Member{{ID: 1, Weight: 1}, {ID: 2, Weight: 1}, {ID: 3, Weight: 1}, {ID: 4, Weight: 1}}
	for _, c := range []struct {
		name             string
		heard, has, kept bool // what the server knows of the change, and whether the leader has it
		role             Role
	}{
		{"knows nothing", false, false, false, Observing},
		{"has heard of it", true, false, true, Following},
		{"has it in its log", false, true, true, Following},
		{"has heard of what the leader does not have", true, false, false, Following},
	} {
		cfg := changing(3)
		cfg.Members = textReader{}.OfText(write(0, []Member{{ID: 1, Observer: true}, voters[1], voters[2], voters[3]}))
		s := history(4, 1)
		if c.has {
			s = history(4, 2)
			s.Members = Memberships{Committed: cfg.Members, Seen: textReader{}.OfText(write(z, voters))}
		}
		o := newSolo(t, cfg, s)
		o.persist()
		if c.heard {
			o.core.Notification(o.now, tellsOf(3, 3, z, z, voters))
			o.drive()
			want(t, c.name+": its own vote", o.core.election.Vote().Leader, election.NoCandidate)
		}
		o.elect(2)
		want(t, c.name+": role", o.core.role, c.role)
		l := o.core.learner.link
		o.up(l)
		o.step(l, leaderInfoOf(5))
		o.persist()
		p := newLeaderOf(5)
		p.Data = cfg.Members.Text()
		if c.kept && !c.has {
			o.step(l, diffOf(z), Packet{Type: Proposal, Zxid: z, Data: append(make([]byte, 8), write(z, voters)...)}, commitOf(z))
			p.Data = write(z, voters)
		} else {
			o.step(l, diffOf(s.Last))
		}
		if c.has {
			p.Data = write(z, voters)
		}
		o.step(l, p)
		o.persist()
		term := o.core.term
		o.step(l, upToDatePacket())
		o.persist()
		want(t, c.name+": stays", o.core.term == term, c.kept || !c.heard)
		want(t, c.name+": role under a leader that serves", o.core.role, map[bool]Role{true: Following, false: Observing}[c.kept])
		want(t, c.name+": its leader", o.core.learner.leader, 2)
		want(t, c.name+": observes from then on", o.core.observes(), !c.kept)
	}
}
