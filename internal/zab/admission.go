package zab

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pinfold-zk/pinfold/zk"
)

// maxEpoch is the last epoch that fits the signed zxids of Java.
const maxEpoch = 1<<31 - 1

// maxEpochLead is by how much the epoch that a follower says it has accepted may be
// later than what this server has accepted. Each epoch that was begun and not
// finished makes a difference of one. More than this is a mistake or an attack; were
// it believed, a few messages would use up all the epochs that there are.
const maxEpochLead = 1 << 10

// farEpoch is the latest epoch that a server accepts from a leader whatever it has accepted
// before: it may have been away for long, or be new. From there on, which takes an election a
// second for 34 years, an epoch may be later by maxEpochLead at most. Otherwise a stranger that
// is elected in the name of a server that is down would use up all the epochs that there are.
const farEpoch = maxEpoch / 2

// takeInfo handles FOLLOWERINFO or OBSERVERINFO. The id in it is only a claim, which any
// process can make: the learner does not hold the id until it has finished discovery, see
// claim.
func (c *Core) takeInfo(l *learner, p *Packet) error {
	if p.Type != FollowerInfo && p.Type != ObserverInfo {
		return fmt.Errorf("the first packet is %v", p.Type)
	}
	if len(p.Data) < 8 {
		return fmt.Errorf("%v without a server id", p.Type)
	}
	id := int64(binary.BigEndian.Uint64(p.Data))
	if len(p.Data) >= 20 {
		v := zk.Zxid(binary.BigEndian.Uint64(p.Data[12:]))
		switch {
		case v > 0 && !c.dynamic():
			return fmt.Errorf("its configuration has version %#x, ours is static: is it of another ensemble?", int64(v))
		case v > c.members.Seen.version && c.dynamic():
			return fmt.Errorf("its membership has version %v, which is later than %v here", v, c.members.Seen.version)
		}
	}
	accepted := p.Zxid.Epoch()
	switch {
	case c.role != Leading && (p.Type != ObserverInfo || c.system.Voter(id)):
		return fmt.Errorf("%w server %d, which comes with %v", errElsewhere, id, p.Type)
	case id == c.cfg.ID || id == noServer:
		return fmt.Errorf("it says that it is server %d, which is not possible", id)
	case p.Type == FollowerInfo && !c.dynamic() && !c.system.Voter(id):
		return fmt.Errorf("server %d wants to follow, but has no vote in the configuration", id)
	case accepted > max(c.acceptedEpoch, c.epoch)+maxEpochLead:
		if p.Type == FollowerInfo && c.leader.stage == gatherInfo && c.system.Voter(id) {
			c.leader.refusedEpoch = max(c.leader.refusedEpoch, accepted)
		}
		return fmt.Errorf("server %d says that it has accepted epoch %d, far from %d, which is accepted here: is it of another ensemble, or its acceptedEpoch damaged?", id, accepted, c.acceptedEpoch)
	}
	l.id, l.observer = id, p.Type == ObserverInfo
	l.accepted, l.state, l.contact = accepted, informed, c.now
	if c.leader.stage > gatherEpochs { // until then advance does it
		c.inform(l)
	}
	return nil
}

// approachEpoch makes this server, whose discovery has failed, accept a later epoch, if it has
// refused voters for one far from its own, but not beyond theirs. If others have accepted such
// epochs in discoveries that failed while this server was away, or from a stranger that has led them, it
// can lead after some elections, instead of refusing them in every election. Each step is twice as
// large as the one before while the epochs are not far (farEpoch), so that a few seconds suffice;
// from there on it is maxEpochLead. To accept an epoch is a promise that is always safe.
// Impossible epochs do not count.
func (c *Core) approachEpoch(refused uint32) {
	if refused <= c.acceptedEpoch || refused >= maxEpoch {
		return
	}
	step := uint32(maxEpochLead)
	if c.acceptedEpoch < farEpoch {
		step = max(step, min(step<<c.approaches, farEpoch-c.acceptedEpoch))
		c.approaches = min(c.approaches+1, 20) // maxEpochLead<<20 is farEpoch
	}
	c.writeAcceptedEpoch(min(refused, c.acceptedEpoch+step))
}

// inform sends LEADERINFO. A leader in office begins no other epoch, whatever a
// learner says that it has accepted: such a learner waits for the next election.
func (c *Core) inform(l *learner) {
	if l.accepted > c.epoch {
		c.refuse(l, fmt.Errorf("it has accepted epoch %d, this one is %d: it can follow in a later one only", l.accepted, c.epoch))
		return
	}
	l.state = asked
	c.sendTo(l, Packet{
		Type: LeaderInfo, Zxid: zk.MakeZxid(c.epoch, 0), Data: binary.BigEndian.AppendUint32(nil, ProtocolVersion),
	})
}

// gathered reports whether this server and those that have said what epoch they
// have accepted, and that it is not later than epoch, are a quorum.
func (c *Core) gathered(epoch uint32) bool {
	return c.system.Quorum(func(id int64) bool {
		if id == c.cfg.ID {
			return true
		}
		return slices.ContainsFunc(c.leader.learners, func(l *learner) bool {
			return l.id == id && !l.observer && l.state >= informed && l.accepted <= epoch
		})
	})
}

// claim gives a learner that has finished discovery its id, with which it counts. If
// another link has the id, that one keeps it as long as its server is alive: it has a
// tick to answer a ping that was sent after the claim. So a
// follower whose old link is dead soon gets in, and neither a stranger nor a second
// server with the same id by mistake can push one out. A link that is being synchronized is
// not sent pings: as long as bytes move on it, the claim waits. The link may be dead, and the
// bytes go into a buffer, so they do not refute the claim.
func (c *Core) claim(l *learner) {
	old := c.leader.holders[l.id]
	if old == nil {
		c.grant(l)
		return
	}
	l.state, l.claimed, l.claimedIn = claiming, c.now, c.leader.round
	if old.state == upToDate && old.pings.Len() == 0 {
		c.leader.pingDue = true
	}
}

// grant gives a learner its id. What a follower acknowledges is noted whether it has
// a vote or not: it may get one.
func (c *Core) grant(l *learner) {
	s := &c.leader
	l.holds, l.cameIn = true, s.round
	s.holders[l.id] = l
	c.forgetLost(l)
	if !l.observer {
		if l.acks = s.acksOf(l.id); l.acks == nil {
			l.acks = &ack{id: l.id}
			s.acks = append(s.acks, l.acks)
		}
	}
	c.admit(l)
}

// settleClaims decides about learners that claim the id of another link. It refuses the
// learner if that link has answered a ping that was sent after the claim, and grants it the
// id if that link has given no sign of life for a tick, or is closed.
func (c *Core) settleClaims() {
	term := c.term
	for _, l := range c.snapshotOfLearners() {
		if !c.teaches() || c.term != term {
			return
		}
		if l.state != claiming || c.leader.links[l.link] != l {
			continue
		}
		old := c.leader.holders[l.id]
		switch {
		case old == nil:
			c.grant(l)
		case old.round > l.claimedIn:
			c.refuse(l, fmt.Errorf("server %d is connected already, and that link works: do two servers have one id?", l.id))
		case c.now-max(l.claimed, old.contact) >= c.cfg.Tick:
			c.dropLearner(old.link, fmt.Errorf("server %d has connected again, and this link is silent", l.id))
			c.close(old.link, fmt.Errorf("%w: server %d has connected again", ErrLost, l.id))
		}
	}
}

// takeAckEpoch takes a learner's history, which ends its discovery.
func (c *Core) takeAckEpoch(l *learner, p *Packet) error {
	if len(p.Data) < 4 {
		return errors.New("ACKEPOCH without an epoch")
	}
	l.currentEpoch, l.last = int32(binary.BigEndian.Uint32(p.Data)), p.Zxid
	end := max(c.leader.zxid, zk.MakeZxid(c.epoch, 0))
	if c.role != Leading {
		if end = max(end, c.committed); l.last > end && l.last.Epoch() == c.epoch {
			return fmt.Errorf("%w a server that has everything up to %v, here %v is committed", errElsewhere, l.last, c.committed)
		}
	}
	if l.last < -1 || l.last > end || l.currentEpoch < -1 || int64(l.currentEpoch) >= int64(c.epoch) {
		return fmt.Errorf("its history is of epoch %d and ends at %v, this epoch is %d: is it of another ensemble?", l.currentEpoch, l.last, c.epoch)
	}
	l.contact = c.now
	c.claim(l)
	return nil
}

// admit goes on with a learner that has its id. While a quorum is gathered, a
// history that is later than ours ends this server's leadership: it may hold what
// is committed. If that voter is spared, it is as if its history had not come yet.
func (c *Core) admit(l *learner) {
	l.state = accepted
	switch {
	case c.leader.stage >= gatherAcks:
		c.synchronizeLearner(l)
	case c.leader.stage != gatherEpochs || !c.votes(l) || l.currentEpoch == -1 || l.last == -1:
	case c.moreRecent(l):
		reason := fmt.Errorf("server %d has a longer history: epoch %d, zxid %v; this one's is %d, %v",
			l.id, l.currentEpoch, l.last, c.currentEpoch, c.last)
		if !c.spare(l, reason) {
			c.leave(reason)
		}
	default:
		c.leader.accepted.Add(l.id)
	}
}

// spared is a voter with a longer history without which a leader gathers its quorum.
type spared struct {
	id     int64
	since  time.Duration
	reason error // for which the leader leaves if no quorum comes; nil: no voter is spared
}

// missed is a leader that a server could not follow, and until when it may still be so.
type missed struct {
	id    int64
	until time.Duration
}

// mayDoWithout reports whether this server, which leads, could not follow a voter lately, whether it has set it aside or
// not yet, and may gather a quorum without it.
func (c *Core) mayDoWithout(id int64) bool {
	missed := id == c.missed.id && c.now < c.missed.until
	return (missed || c.election.Aside(id, c.now)) && c.election.QuorumWithout(id, c.now)
}

// spare decides to wait for a quorum without a voter that comes with a longer history. It returns
// false if this server has not found that voter out of reach, or there may be no quorum without it. A voter that this
// server could not follow, and that looks again when this server leaves, would otherwise end each of this
// server's roles, whenever it comes before the others.
//
// What is committed is in the history of one of each quorum, so it does not matter which quorum a leader
// gathers; the histories of all of that quorum are compared. Nothing depends on when a voter comes, so
// to wait for the others is the same as a voter whose ACKEPOCH comes after theirs.
func (c *Core) spare(l *learner, reason error) bool {
	if !c.mayDoWithout(l.id) {
		return false
	}
	c.leader.spared = spared{l.id, c.now, reason}
	return true
}

// sparesNoMore returns why this leader leaves its role: no quorum has come without the voter that it spares, which may
// be needed now. The wait lasts as long as the time for which that voter is taken for out of reach, and a tick at least: the others may
// need longer for their disks.
func (c *Core) sparesNoMore() error {
	s := &c.leader.spared
	if s.reason == nil || c.leader.stage != gatherEpochs || c.now-s.since < c.cfg.Tick || c.mayDoWithout(s.id) {
		return nil
	}
	return s.reason
}

// votes reports whether a learner that holds its id is a voter.
func (c *Core) votes(l *learner) bool { return l.holds && !l.observer && c.system.Voter(l.id) }

// moreRecent reports whether the learner's history is later than ours. A zxid
// with counter 0 says that the learner has what its epoch began with, which
// every server with that current epoch has.
func (c *Core) moreRecent(l *learner) bool {
	mine := int64(c.currentEpoch)
	if int64(l.currentEpoch) != mine {
		return int64(l.currentEpoch) > mine
	}
	return l.last > c.last && !(l.last.Counter() == 0 && int64(l.last.Epoch()) == mine)
}
