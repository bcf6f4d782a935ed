package zab

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/zk"
)

// refused returns why a peer was refused, of what the core told last.
func (o *solo) refused() string {
	for _, e := range o.told {
		if e.Kind == EventRefused {
			return e.Reason
		}
	}
	return ""
}

// "An epoch is believed only from a quorum": a follower that says it has accepted a
// late one does not make the next epoch later if a quorum is there without it.
func TestTheNextEpochIsTheFirstThatAQuorumCanAccept(t *testing.T) {
	for _, c := range []struct {
		mine   uint32
		others []uint32 // of 2, 3, ...; 5 voters
		epoch  uint32
	}{
		{4, []uint32{4, 4}, 5}, {4, []uint32{6, 4}, 7}, {4, []uint32{6, 5, 4}, 5 + 1}, {9, []uint32{2, 3}, 10},
	} {
		o := newSolo(t, testConfig(5), history(c.mine, 3))
		o.elect(1)
		var links []LinkID
		for range c.others {
			links = append(links, o.accept())
		}
		var at []Packet
		for i, e := range c.others {
			at = append(at, infoOf(int64(i+2), e))
		}
		// All come before the leader looks at who is there.
		for i := len(links) - 1; i > 0; i-- {
			o.core.leader.links[links[i]].id = int64(i + 2)
			o.core.leader.links[links[i]].accepted = c.others[i]
			o.core.leader.links[links[i]].state = informed
		}
		o.step(links[0], at[0])
		want(t, "epoch", o.core.epoch, c.epoch)
	}
}

// A follower that says it has accepted an epoch far from this server's is refused
// with a line, in an election and in office. No message uses the epochs up.
func TestAnEpochFarFromOursIsRefused(t *testing.T) {
	for _, far := range []uint32{4 + maxEpochLead + 1, maxEpoch - 1, maxEpoch, 1<<32 - 1} {
		o := newSolo(t, testConfig(3), history(4, 3))
		o.elect(1)
		o.step(o.accept(), infoOf(2, far))
		want(t, "epoch", o.core.epoch, 0)
		want(t, "refused", strings.Contains(o.refused(), "far from"), true)
		o.step(o.accept(), infoOf(2, 4+maxEpochLead))
		want(t, "epoch", o.core.epoch, 4+maxEpochLead+1)
	}
}

// If a quorum has accepted epochs far from this server's, in discoveries that failed while
// it was away, it comes nearer to theirs with each election, and leads at last. Epochs
// that cannot be, observers and strangers bring it no nearer.
func TestAQuorumFarAwayIsReachedStepByStep(t *testing.T) {
	const theirs = 4 + 5*maxEpochLead
	o := newSolo(t, testConfig(3), history(4, 3))
	// fails has it lead in vain, and look again.
	fails := func(infos ...Packet) {
		t.Helper()
		o.elect(1)
		for _, info := range infos {
			o.step(o.accept(), info)
		}
		want(t, "epoch", o.core.epoch, 0)
		o.tick(time.Duration(o.core.cfg.InitLimit+1) * o.core.cfg.Tick)
		o.persist()
		o.tick(o.core.cfg.Tick)
		want(t, "role", o.core.role, Looking)
	}
	observer := infoOf(2, theirs)
	observer.Type = ObserverInfo
	fails(infoOf(2, maxEpoch), infoOf(9, theirs), observer)
	want(t, "accepted", o.core.acceptedEpoch, 4)
	fails(infoOf(2, theirs))
	want(t, "accepted", o.core.acceptedEpoch, 4+maxEpochLead)
	fails(infoOf(2, theirs))
	want(t, "accepted", o.core.acceptedEpoch, 4+3*maxEpochLead)
	fails(infoOf(2, theirs))
	want(t, "accepted", o.core.acceptedEpoch, theirs)
	o.elect(1)
	o.step(o.accept(), infoOf(2, theirs))
	want(t, "epoch", o.core.epoch, theirs+1)
}

// A stranger that has led may leave a server with any epoch up to farEpoch. Another one that wins
// the elections comes near enough to lead within a few seconds, as long as there are epochs enough;
// from farEpoch on in equal steps.
func TestAVoterFarAwayIsReachedSoon(t *testing.T) {
	o := newSolo(t, testConfig(3), history(4, 3))
	fails := func(theirs uint32) {
		o.elect(1)
		o.step(o.accept(), infoOf(2, theirs))
		o.tick(time.Duration(o.core.cfg.InitLimit+1) * o.core.cfg.Tick)
		o.persist()
		o.tick(o.core.cfg.Tick)
	}
	elections := 0
	for ; o.core.acceptedEpoch < farEpoch-maxEpochLead && elections < 30; elections++ {
		fails(farEpoch)
	}
	if elections > 21 {
		t.Errorf("after %d elections it has accepted %d", elections, o.core.acceptedEpoch)
	}
	for o.core.acceptedEpoch < farEpoch {
		fails(farEpoch)
	}
	for far := o.core.acceptedEpoch; far < farEpoch+9*maxEpochLead; far += maxEpochLead {
		want(t, "accepted", o.core.acceptedEpoch, far)
		fails(farEpoch + 20*maxEpochLead)
	}
}

// A leader in office begins no other epoch for a learner that says it has accepted a
// later one, however long it says so.
func TestALeaderInOfficeKeepsItsEpoch(t *testing.T) {
	o, links := leads(t, testConfig(3), history(4, 3), 2)
	for range 40 {
		for _, id := range []int64{2, 3} {
			o.step(o.accept(), infoOf(id, 9))
			want(t, "refused", strings.Contains(o.refused(), "has accepted epoch 9"), true)
		}
		o.notify(3, 7)
		o.answerPings(100 * ms)
	}
	want(t, "role", o.core.role, Leading)
	want(t, "epoch", o.core.epoch, 5)
	want(t, "its follower", o.core.leader.holders[2].link, links[2])
}

// Whoever says that he is a server that is connected does not push it out, neither by
// beginning discovery nor by finishing it.
func TestAnIDIsNotTakenFromALinkThatWorks(t *testing.T) {
	o, links := leads(t, testConfig(3), history(4, 3), 2)
	for range 40 {
		o.step(o.accept(), infoOf(2, 4))
		want(t, "its link", o.core.leader.holders[2].link, links[2])
		l := o.accept()
		o.step(l, infoOf(2, 4), ackEpochOf(4, zk.MakeZxid(4, 9)))
		want(t, "its link", o.core.leader.holders[2].link, links[2])
		o.ack(l, zk.MakeZxid(5, 0)) // not due
		l = o.accept()
		o.step(l, infoOf(2, 4), ackEpochOf(4, zk.MakeZxid(4, 3)))
		o.answerPings(100 * ms)
		want(t, "the newcomer's link", o.core.leader.links[l] == nil, true)
	}
	want(t, "role", o.core.role, Leading)
	want(t, "its link", o.core.leader.holders[2].link, links[2])
}

// A follower whose old link is dead gets in soon: when a tick has gone by
// without a sign of life, or when the old link is known to be gone.
func TestAnIDIsGivenUpByADeadLink(t *testing.T) {
	for _, gone := range []bool{false, true} {
		o, links := leads(t, testConfig(5), history(4, 3), 2, 3, 4)
		o.answerPings(200 * ms)
		l := o.accept()
		o.step(l, infoOf(2, 5), ackEpochOf(-1, zk.MakeZxid(4, 3)))
		want(t, "its link", o.core.leader.holders[2].link, links[2])
		if gone {
			o.core.LinkDown(o.now, links[2], errLink)
			o.drive()
		} else {
			o.tick(50 * ms)
			o.tick(50 * ms)
		}
		want(t, "its link", o.core.leader.holders[2].link, l)
		want(t, "says", o.says(l), "DIFF <4,3>, NEWLEADER epoch 5")
	}
}

// A server that restarts while its old link, which is dead, is being sent a snapshot gets
// its id: bytes that go into a link are no answer.
func TestAnIDIsNotKeptByBytesThatAreSent(t *testing.T) {
	o, _ := leads(t, testConfig(5), history(4, 3), 2, 3)
	old := o.join(4, 4, -1, 0)
	o.core.Located(o.now, old, Location{}, nil)
	o.drive()
	want(t, "says", o.says(old), "SNAP <4,3>, NEWLEADER epoch 5")
	l := o.accept()
	o.step(l, infoOf(4, 5), ackEpochOf(-1, 0))
	for range 4 { // longer than a tick
		o.answerPings(50 * ms)
		o.core.Alive(o.now, old)
	}
	want(t, "its link", o.core.leader.holders[4].link, old)
	want(t, "the newcomer waits", o.core.leader.links[l] != nil, true)
	o.answerPings(100 * ms)
	want(t, "its link", o.core.leader.holders[4].link, l)
	want(t, "refused", o.refused(), "")
}

// A link that has acknowledged NEWLEADER and died before its server came again does not
// keep the id because the leader begins to serve, which is when that sends its first ping.
func TestAnIDIsNotKeptByALeaderThatBeginsToServe(t *testing.T) {
	o := newSolo(t, testConfig(5), history(4, 3))
	o.elect(1)
	links := []LinkID{o.accept(), o.accept(), o.accept()}
	for i, l := range links {
		o.step(l, infoOf(int64(2+i), 4))
	}
	o.persist()
	for _, l := range links {
		o.step(l, ackEpochOf(4, zk.MakeZxid(4, 3)))
	}
	o.persist()
	o.ack(links[0], zk.MakeZxid(5, 0))
	o.tick(ms)
	l := o.accept()
	o.step(l, infoOf(2, 5), ackEpochOf(4, zk.MakeZxid(4, 3)))
	o.tick(ms)
	o.ack(links[1], zk.MakeZxid(5, 0)) // the leader serves
	o.ack(links[2], zk.MakeZxid(5, 0))
	for range 4 {
		want(t, "its link", o.core.leader.holders[2].link, links[0])
		want(t, "the newcomer waits", o.core.leader.links[l] != nil, true)
		o.tick(25 * ms)
		for id := int64(3); id <= 4; id++ {
			for h := o.core.leader.holders[id]; h.pings.Len() > 0; {
				o.step(h.link, Packet{Type: Ping})
			}
		}
	}
	want(t, "its link", o.core.leader.holders[2].link, l)
	want(t, "refused", o.refused(), "")
}

// A leader refuses a learner that says that it is the leader itself, or no server, or that its
// history is of an epoch that has not begun, or ends beyond the leader's, or is none that a
// server can have; with a line, and without a change of its own.
func TestALearnerThatCannotBeIsRefused(t *testing.T) {
	o, _ := leads(t, testConfig(3), history(4, 3), 2)
	epoch := o.core.epoch
	for _, id := range []int64{1, noServer} {
		o.step(o.accept(), infoOf(id, 4))
		want(t, "refused", strings.Contains(o.refused(), "which is not possible"), true)
	}
	for _, c := range []struct {
		currentEpoch int32
		last         zk.Zxid
	}{
		{int32(epoch), zk.MakeZxid(4, 3)}, {maxEpoch, zk.MakeZxid(4, 3)}, {-2, 0}, {math.MinInt32, 0},
		{4, zk.MakeZxid(epoch, 1)}, {4, zk.MakeZxid(epoch+1, 0)}, {4, math.MaxInt64}, {4, -2}, {4, math.MinInt64},
	} {
		l := o.join(3, 4, c.currentEpoch, c.last)
		want(t, "refused", strings.Contains(o.refused(), "its history is of epoch"), true)
		want(t, "the link is kept", o.core.leader.links[l] != nil, false)
	}
	want(t, "role", o.core.role, Leading)
	want(t, "epoch", o.core.epoch, epoch)
	o.join(3, 4, 4, zk.MakeZxid(epoch, 0))
	want(t, "holders", o.core.leader.holders[3] != nil, true)
}

// A stranger that is elected in the name of a server that is down does not use up the
// epochs: near the last one a follower accepts only what is near to its own. Below that it
// accepts any later epoch, as it may have been away for long.
func TestALeaderDoesNotUseUpTheEpochs(t *testing.T) {
	for _, tt := range []struct {
		accepted, offered uint32
		ok                bool
	}{
		{4, 5, true}, {4, 1 << 29, true}, {4, farEpoch, true}, {4, farEpoch + 1, false}, {4, maxEpoch, false},
		{farEpoch, farEpoch + maxEpochLead, true}, {farEpoch, farEpoch + maxEpochLead + 1, false}, {maxEpoch - 1, maxEpoch, true},
	} {
		s := State{AcceptedEpoch: tt.accepted, CurrentEpoch: 3, Last: zk.MakeZxid(3, 7)}
		o := newSolo(t, testConfig(3), s)
		o.elect(2)
		l := o.core.learner.link
		o.up(l)
		o.step(l, leaderInfoOf(tt.offered))
		o.persist()
		want := tt.accepted
		if tt.ok {
			want = tt.offered
		}
		if got := o.core.acceptedEpoch; got != want {
			t.Errorf("a follower that has accepted %d is offered %d and has then accepted %d, want %d", tt.accepted, tt.offered, got, want)
		}
	}
}
