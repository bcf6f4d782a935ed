package zab

import (
	"errors"
	"fmt"

	"github.com/pinfold-zk/pinfold/zk"
)

// A server heals when its disk has lost, or may have lost, what it once held: its log or a
// snapshot is damaged, or its disk is empty. Others may still count on three kinds of
// statements that it has made: it has acknowledged transactions, NEWLEADERs, and epochs. So it
// makes no further statement that counts, until each of those is true again or void (ADR 29):
//
//   - In elections it takes part as an observer does: it has no vote, and asks for the result.
//   - It joins its leader by OBSERVERINFO, and its ACKEPOCH has the epoch -1. Neither our
//     leaders nor Apache's count that for the epoch.
//   - It takes nothing but a snapshot, and acknowledges NEWLEADER only when the leader is
//     established without it. Apache's leader would count the acknowledgement by the
//     server id. It sends no PING before it is established, so a PING is the proof; our
//     leader sends PINGs to a server that heals as soon as it is established.
//   - It has its vote again when it has made durable all that the leader had proposed when
//     it sent the first of these PINGs: what it had acknowledged to this leader is among
//     that, and everything committed in earlier epochs is.
//   - If it has forgotten which epochs it had accepted (State.Forgot), a server that it had
//     promised to follow must not lead on the strength of that promise. So it also waits until
//     the leader has committed a transaction that was proposed after it came back: see noteCommit.
//
// If transactions change the membership, it cannot know whether it has a vote, so it does all of
// this whether it is a voter by what it knows or not.
//
// What an operator sees is that of an observer: clients are served from the moment on at
// which the leader's state is there.

// regains reports whether the server has lost a vote that it will have again, or may have lost one.
func (c *Core) regains() bool { return c.heals && (c.dynamic() || c.system.Voter(c.cfg.ID)) }

// noteLeader notes the signs that the leader is established.
func (c *Core) noteLeader(p *Packet) {
	l := &c.learner
	if !c.heals || !l.newLeader {
		return
	}
	switch p.Type {
	case Ping:
		if !l.established {
			l.established, l.proposed = true, p.Zxid
			c.ackNewLeader()
		}
		l.freed = l.freed || len(p.Data) > 0 && !c.dynamic()
	case Inform, InformAndActivate:
		c.noteCommit(p.Zxid)
	}
	c.regainVote()
}

// noteCommit frees the server from forgotten promises if z was proposed after it came back, by a leader that
// was established then. A quorum without this server has z. A leader of a later epoch that counts a promise which this
// server has forgotten does not have z: it was elected before this server lost its disk. So it finds, in any quorum, a server whose
// history is longer than its own, and steps down. If the voters do not change, our leader also tells by its
// PINGs when all other voters have followed it; among voters that change, one that it does not know may lead.
func (c *Core) noteCommit(z zk.Zxid) {
	l := &c.learner
	l.freed = l.freed || l.established && z.Epoch() == c.epoch && z > l.proposed
}

// regainVote ends the healing, on the disk first, when nothing is missing any more.
func (c *Core) regainVote() {
	if c.heals && c.healSeq == 0 && c.phase == broadcast && c.missing() == "" {
		c.write(WriteHealed)
		c.healSeq = c.seq
	}
}

// missing says what the server waits for before it has its vote again; "" if nothing is missing.
func (c *Core) missing() string {
	l := &c.learner
	switch {
	case c.phase == electing || c.phase == settling:
		return "no leader is known that a quorum follows without this server"
	case !l.newLeader:
		return "the leader has not sent its state yet"
	case !c.regains():
		return ""
	case !l.established:
		return "the leader has no quorum yet without this server"
	case l.proposed.Counter() != 0 && c.persistedZxid < l.proposed:
		return fmt.Sprintf("%v is not committed, which the leader has proposed", l.proposed)
	case c.forgot && !l.freed:
		return "this server has forgotten which epochs it accepted: a client has to write something first, or, if the voters cannot change, each of the others has to join the leader"
	}
	return ""
}

// errHealed is why a server that has healed leaves its role: it joins as a voter.
var errHealed = errors.New("it has healed, and joins again with its vote")

// healed ends the healing, whose end is durable.
func (c *Core) healed() {
	leader := c.learner.leader
	c.heals, c.forgot, c.healSeq = false, false, 0
	c.event(Event{Kind: EventHealed, Peer: leader, Zxid: c.persistedZxid})
	c.election.SetElectorate(c.electorate())
	if c.role == Observing && !c.observes() {
		c.retry = leader
		c.leave(errHealed)
	}
}

// tellHealing reports at every initLimit what a server that heals waits for.
func (c *Core) tellHealing() {
	if !c.heals || c.now < c.tellAt {
		return
	}
	c.tellAt = c.now + c.ticks(c.cfg.InitLimit)
	if reason := c.missing(); reason != "" {
		c.event(Event{Kind: EventHealing, Peer: c.learner.leader, Reason: reason})
	}
}

// isHealing reports, on a leader, whether a learner is, or may be, a voter that heals: it has joined as
// an observer. If the membership changes, any observer may take itself for a voter.
func (c *Core) isHealing(l *learner) bool { return l.observer && (c.dynamic() || c.system.Voter(l.id)) }

// pingHealing sends a PING to a server that heals: it tells that this leader is established
// and, by its data, that the voters do not change, and every other one is up to date and has answered a PING which was
// sent after that server came. Before UPTODATE it is not answered.
func (c *Core) pingHealing(l *learner) {
	p := Packet{Type: Ping, Zxid: c.leader.zxid}
	seen := !c.dynamic()
	for _, id := range c.system.Voters() {
		o := c.leader.holders[id]
		seen = seen && (id == c.cfg.ID || id == l.id || o != nil && o.state == upToDate && o.round > l.cameIn)
	}
	if seen {
		p.Data = []byte{1}
	}
	c.sendTo(l, p)
}

// forgetLost makes what a voter has acknowledged count no more: it comes as an
// observer, so it may have lost that.
func (c *Core) forgetLost(l *learner) {
	if a := c.leader.acksOf(l.id); a != nil && l.observer {
		a.upto = 0
	}
}
