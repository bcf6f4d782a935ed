package zab

import (
	"strings"
	"testing"

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
