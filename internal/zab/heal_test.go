package zab

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/internal/zab/election"
	"github.com/pinfold-zk/pinfold/zk"
)

// damaged is the disk of a server that heals.
func damaged(accepted uint32, forgot bool) State {
	return State{AcceptedEpoch: accepted, Heals: true, Forgot: forgot}
}

func pingOf(z zk.Zxid, data ...byte) Packet { return Packet{Type: Ping, Zxid: z, Data: data} }

// heals2 makes the core a server that heals, and has got the state of leader 2 of epoch 6, which
// ends at <5,9>.
func heals2(t *testing.T, voters int, s State) (*solo, LinkID) {
	return healsWith(t, testConfig(voters), s)
}

func healsWith(t *testing.T, cfg Config, s State) (*solo, LinkID) {
	o := newSolo(t, cfg, s)
	o.elect(2)
	l := o.core.learner.link
	o.up(l)
	want(t, "says", o.sent[0].Type, ObserverInfo)
	want(t, "accepted", o.sent[0].Zxid, zk.MakeZxid(s.AcceptedEpoch, 0))
	o.step(l, leaderInfoOf(6))
	o.persist()
	want(t, "says", o.says(l), "ACKEPOCH current -1 last <0,0>")
	newLeader := newLeaderOf(6)
	newLeader.Data = cfg.Members.Text()
	o.step(l, Packet{Type: Snap, Zxid: zk.MakeZxid(5, 9)}, newLeader)
	o.persist()
	want(t, "says before the leader is established", o.says(l), "")
	return o, l
}

func (o *solo) isHealing() bool { return o.core.heals }

// informOf is a transaction that an observer gets.
func informOf(z zk.Zxid) Packet { return Packet{Type: Inform, Zxid: z, Data: []byte("data")} }

// A server that heals casts no vote: it looks as an observer does.
func TestAServerThatHealsDoesNotVote(t *testing.T) {
	c := New(testConfig(3), damaged(5, false), 0)
	for _, m := range c.Ready().Notify {
		want(t, "leader in its notification", m.Leader, election.NoCandidate)
	}
	for round := range int64(3) {
		for id := int64(2); id <= 3; id++ {
			c.Notification(0, election.Notification{From: id, State: election.Looking, Leader: 2, ElectionEpoch: round + 1, Version: 2})
		}
		c.Tick(time.Duration(round) * time.Second)
		for _, m := range c.Ready().Notify {
			want(t, "leader in its notification", m.Leader, election.NoCandidate)
		}
	}
	want(t, "role", c.role, Looking)
}

// NEWLEADER is acknowledged when the leader has sent a PING, and the vote is regained when what
// it had proposed by then is durable.
func TestAServerHealsWhenItHasWhatTheLeaderHadProposed(t *testing.T) {
	o, l := heals2(t, 3, damaged(5, false))
	o.step(l, pingOf(zk.MakeZxid(6, 2)))
	want(t, "says", o.says(l), "ACK <6,0>")
	o.step(l, upToDatePacket())
	o.persist()
	want(t, "serves", o.core.ready.Serving, true)
	for n := uint32(1); n <= 2; n++ {
		want(t, "heals", o.isHealing(), true)
		o.step(l, informOf(zk.MakeZxid(6, n)))
		want(t, "heals before it is durable", o.isHealing(), true)
		o.persist()
	}
	want(t, "heals", o.isHealing(), false)
	want(t, "role", o.core.role, Following) // with the same leader
	o.up(o.core.learner.link)
	want(t, "says", o.sent[0].Type, FollowerInfo)
	want(t, "accepted", o.sent[0].Zxid, zk.MakeZxid(6, 0))
}

// The end of the healing is durable before the vote is used.
func TestTheEndOfHealingIsDurableFirst(t *testing.T) {
	o, l := heals2(t, 3, damaged(5, false))
	o.step(l, pingOf(zk.MakeZxid(6, 0)), upToDatePacket())
	want(t, "writes", o.wrote[len(o.wrote)-1].Kind, WriteHealed)
	want(t, "heals", o.isHealing(), true)
	o.core.LinkDown(o.now, l, errHealed)
	o.drive()
	want(t, "role", o.core.phase, settling)
	o.persist()
	want(t, "heals", o.isHealing(), false)
	want(t, "role", o.core.phase, electing)
}

// A server that has forgotten its promises waits for the commit of a transaction that was proposed after it
// came back.
func TestAForgottenPromiseNeedsALaterCommit(t *testing.T) {
	o, l := heals2(t, 5, damaged(0, true))
	o.step(l, pingOf(zk.MakeZxid(6, 1)), upToDatePacket())
	o.persist()
	o.step(l, informOf(zk.MakeZxid(6, 1)), pingOf(zk.MakeZxid(6, 1)))
	o.persist()
	want(t, "heals", o.isHealing(), true)
	o.step(l, informOf(zk.MakeZxid(6, 2)))
	want(t, "heals before that is durable", o.isHealing(), true)
	o.persist()
	want(t, "heals", o.isHealing(), false)
}

// Or until the leader's PINGs say that all other voters have been seen: if these do not change.
func TestAForgottenPromiseIsVoidWhenAllVotersAreSeen(t *testing.T) {
	for _, changes := range []bool{false, true} {
		cfg := testConfig(5)
		if changes {
			cfg = changing(5)
		}
		o, l := healsWith(t, cfg, damaged(0, true))
		o.step(l, pingOf(zk.MakeZxid(6, 0)), upToDatePacket(), pingOf(zk.MakeZxid(6, 0), 1))
		o.persist()
		want(t, "heals", o.isHealing(), changes)
	}
}

// If the membership changes, an observer may have had a vote: it waits as a voter does.
func TestAnObserverHealsAsAVoterIfVotersChange(t *testing.T) {
	cfg := changing(3)
	cfg.ID, cfg.Members = 4, textReader{}.OfText(write(0, membersOf(3, 1).Members()))
	o, l := healsWith(t, cfg, damaged(0, true))
	o.step(l, pingOf(zk.MakeZxid(6, 0)), upToDatePacket())
	o.persist()
	want(t, "heals", o.isHealing(), true)
	o.step(l, informOf(zk.MakeZxid(6, 1)))
	o.persist()
	want(t, "heals", o.isHealing(), false)
	want(t, "role", o.core.role, Observing)
}

// And a leader sends PINGs to each observer, before UPTODATE too. It does not tell that all voters have been seen:
// it may not know them all.
func TestALeaderPingsAllObserversIfVotersChange(t *testing.T) {
	o, links := leads(t, changing(3), history(5, 9), 2, 3)
	info := infoOf(7, 0)
	info.Type = ObserverInfo
	l := o.accept()
	o.step(l, info)
	o.step(l, ackEpochOf(-1, 0))
	o.core.Located(o.now, l, Location{}, nil)
	o.drive()
	pings, told := 0, 0
	for range 3 {
		o.tick(60 * ms)
		for i := range o.sent {
			if o.to[i] == l && o.sent[i].Type == Ping {
				pings++
				told += len(o.sent[i].Data)
			}
		}
		for _, to := range links {
			for n := 0; to != 0 && n < o.core.leader.links[to].pings.Len(); {
				o.step(to, Packet{Type: Ping})
			}
		}
	}
	if pings == 0 {
		t.Error("the leader sends no PING to an observer that may heal")
	}
	want(t, "told that all voters are seen", told, 0)
}

// A server that heals does not lead, though a change of the membership designates it.
func TestAServerThatHealsDoesNotLeadWhenItIsDesignated(t *testing.T) {
	cfg := changing(3)
	o, l := healsWith(t, cfg, damaged(5, false))
	o.step(l, pingOf(zk.MakeZxid(6, 7)), upToDatePacket())
	o.persist()
	z := zk.MakeZxid(6, 1)
	data := binary.BigEndian.AppendUint64(nil, uint64(cfg.ID))
	data = append(binary.BigEndian.AppendUint64(data, 1), write(z, membersOf(4, 0).Members())...)
	o.step(l, Packet{Type: InformAndActivate, Zxid: z, Data: data})
	o.persist()
	want(t, "heals", o.isHealing(), true)
	want(t, "role", o.core.role, Looking)
}

// What is pending in its file does not count: but the servers in it are asked for the leader.
func TestAServerThatHealsAsksTheServersOfAPendingChange(t *testing.T) {
	cfg := changing(3)
	next := textReader{}.OfText(write(zk.MakeZxid(4, 2), membersOf(5, 0).Members()))
	s := damaged(5, false)
	s.Members = Memberships{Committed: cfg.Members, Seen: next}
	o := newSolo(t, cfg, s)
	o.persist()
	want(t, "knows", o.core.Memberships(), Memberships{Committed: cfg.Members, Seen: cfg.Members})
	want(t, "has heard of", o.core.heard.Version(), next.Version())
}

// A server that heals keeps what it remembers: it follows in no earlier epoch than it has accepted.
func TestAServerThatHealsKeepsItsPromise(t *testing.T) {
	o := newSolo(t, testConfig(3), damaged(7, false))
	o.elect(2)
	l := o.core.learner.link
	o.up(l)
	o.step(l, leaderInfoOf(6))
	want(t, "role", o.core.role, Looking)
}

// A leader counts no server that heals, neither for the epoch nor for its history, and pings it.
func TestALeaderDoesNotCountAServerThatHeals(t *testing.T) {
	info := infoOf(3, 5)
	info.Type = ObserverInfo
	o, links := leads(t, testConfig(3), history(5, 9))
	heals := o.accept()
	o.step(heals, info)
	want(t, "phase", o.core.leader.stage, gatherInfo)
	links[2] = o.accept()
	o.step(links[2], infoOf(2, 5))
	o.persist()
	o.step(heals, ackEpochOf(-1, 0))
	want(t, "stage", o.core.leader.stage, gatherEpochs)
	o.step(links[2], ackEpochOf(5, zk.MakeZxid(5, 9)))
	o.persist()
	o.core.Located(o.now, heals, Location{}, nil)
	o.drive()
	o.ack(heals, zk.MakeZxid(6, 0))
	want(t, "stage", o.core.leader.stage, gatherAcks)
	o.ack(links[2], zk.MakeZxid(6, 0))
	want(t, "stage", o.core.leader.stage, leading)
	o.propose(1)
	o.ack(heals, zk.MakeZxid(6, 1))
	want(t, "committed", o.core.committed, zk.MakeZxid(5, 9))
}

// What a server had acknowledged as a follower counts no more when it comes to heal.
func TestALeaderForgetsWhatADamagedServerHasAcknowledged(t *testing.T) {
	o, links := leads(t, testConfig(3), history(5, 9), 2, 3)
	o.propose(1)
	o.ack(links[3], zk.MakeZxid(6, 1)) // not durable here: not committed
	o.core.LinkDown(o.now, links[3], errHealed)
	o.drive()
	info := infoOf(3, 5)
	info.Type = ObserverInfo
	l := o.accept()
	o.step(l, info)
	o.step(l, ackEpochOf(-1, 0))
	o.core.Located(o.now, l, Location{}, nil)
	o.persist()
	want(t, "committed", o.core.committed, zk.MakeZxid(5, 9))
	o.ack(links[2], zk.MakeZxid(6, 1))
	want(t, "committed", o.core.committed, zk.MakeZxid(6, 1))
}

// A leader tells a server that heals when every other voter has answered since that came.
func TestALeaderTellsWhenAllOthersAreSeen(t *testing.T) {
	o, links := leads(t, testConfig(5), history(5, 9), 2, 3)
	info := infoOf(5, 0)
	info.Type = ObserverInfo
	l := o.accept()
	o.step(l, info)
	o.step(l, ackEpochOf(-1, 0))
	o.core.Located(o.now, l, Location{}, nil)
	o.drive()
	seen := func() (seen bool) {
		for range 2 {
			o.tick(60 * ms)
			for i := range o.sent {
				if o.to[i] == l && o.sent[i].Type == Ping {
					seen = len(o.sent[i].Data) > 0
				}
			}
			for _, to := range links {
				for n := 0; to != 0 && o.core.leader.links[to] != nil && n < o.core.leader.links[to].pings.Len(); {
					o.step(to, Packet{Type: Ping})
				}
			}
		}
		return seen
	}
	o.ack(l, zk.MakeZxid(6, 0))
	want(t, "all seen without server 4", seen(), false)
	links[4] = o.join(4, 5, 5, zk.MakeZxid(5, 9))
	o.ack(links[4], zk.MakeZxid(6, 0))
	seen()
	want(t, "all seen", seen(), true)
}

// A true observer has no promises, and is whole when it has the leader's state.
func TestAnObserverHealsAtOnce(t *testing.T) {
	cfg := testConfig(3)
	cfg.ID, cfg.Members = 4, membersOf(3, 1)
	o := newSolo(t, cfg, damaged(0, true))
	o.elect(2)
	l := o.core.learner.link
	o.up(l)
	o.step(l, leaderInfoOf(6))
	o.persist()
	o.step(l, Packet{Type: Snap, Zxid: zk.MakeZxid(5, 9)}, newLeaderOf(6))
	o.persist()
	want(t, "says", o.says(l), "ACK <6,0>")
	o.step(l, upToDatePacket())
	o.persist()
	want(t, "heals", o.isHealing(), false)
	want(t, "role", o.core.role, Observing)
}

// While no leader is there, the operator is told so at every initLimit.
func TestAServerThatHealsTellsWhatItWaitsFor(t *testing.T) {
	o := newSolo(t, testConfig(3), damaged(5, false))
	told := 0
	for range 30 {
		o.tick(100 * ms)
		for _, e := range o.told {
			if e.Kind == EventHealing {
				told++
			}
		}
	}
	want(t, "told", told, 3)
}

// A server that heals asks for the leader every two seconds at least: voters that look do not
// remember that it has asked.
func TestAServerThatHealsGoesOnAsking(t *testing.T) {
	c := New(testConfig(3), damaged(5, false), 0)
	asked := time.Duration(0)
	for now := time.Duration(0); now < time.Minute; now += 100 * ms {
		if c.Tick(now); len(c.Ready().Notify) > 0 {
			asked = now
		}
		if now-asked > 2100*ms {
			t.Fatalf("at %v nobody was asked for %v", now, now-asked)
		}
	}
}
