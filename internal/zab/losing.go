package zab

import (
	"cmp"
	"errors"
	"fmt"
	"math"
)

// refuse closes the link of a peer that breaks the protocol or does not belong
// here.
func (c *Core) refuse(l *learner, err error) {
	c.event(Event{Kind: EventRefused, Peer: l.id, Link: l.link, Reason: err.Error()})
	c.close(l.link, fmt.Errorf("%w: %w", ErrLost, err))
	c.dropLearner(l.link, err)
}

// dropLearner forgets a link that is closed. Without a quorum the leader leaves
// at once: no other leader can be elected before that.
func (c *Core) dropLearner(k LinkID, err error) {
	s := &c.leader
	l := s.links[k]
	if l == nil {
		return
	}
	delete(s.links, k)
	for i := range s.learners {
		if s.learners[i] == l {
			s.learners = append(s.learners[:i:i], s.learners[i+1:]...)
			break
		}
	}
	if l.holds {
		delete(s.holders, l.id)
		c.event(Event{Kind: EventGone, Peer: l.id, Link: k, Reason: err.Error()})
	}
	c.recount()
	if c.votes(l) && s.stage == leading && c.isolated() {
		c.leave(errors.New("no quorum of followers is left"))
		return
	}
	if s.stage != gatherInfo && c.gathers() && c.election.Sought() {
		c.leave(errors.New("a voter looks for a leader again, and the quorum that had come has gone"))
		return
	}
	if l.holds {
		c.settleClaims()
	}
}

// isolated reports whether the followers that have this leader's history are, with it, no quorum.
func (c *Core) isolated() bool { return !c.quorum(true, func(l *learner) bool { return l.newAcked }) }

// leaderTick pings, and gives up learners and in the end itself when nothing is
// heard. A follower leaves a leader that it has not heard of for syncLimit; what
// counts here is the send time of the last packet that it has answered, so that the leader has
// stepped down before its followers elect another.
func (c *Core) leaderTick() {
	s := &c.leader
	if !c.tickLearners() {
		return
	}
	if s.stage != leading {
		reason := c.sparesNoMore()
		if reason == nil && c.now-c.since > c.ticks(c.cfg.InitLimit) {
			reason = cmp.Or(s.hopeless, errors.New("no quorum has come within initLimit"))
		}
		if reason != nil {
			c.leave(reason)
		}
		return
	}
	if err := c.stalled(); err != nil {
		c.leave(err)
		return
	}
	if c.leaveDrained(); c.role != Leading {
		return
	}
	if c.commitProposals(); c.role != Leading { // if a follower was given up, what waited for its acknowledgement
		return
	}
	s.leaseEnd = math.MaxInt64
	if err := c.withoutProgress(); err != nil {
		c.unfitUntil = c.now + asideFor // the others may hear its vote
		c.leave(err)
		return
	}
	for _, l := range s.learners {
		if l.state == upToDate {
			s.leaseEnd = min(s.leaseEnd, l.contact+c.ticks(c.cfg.SyncLimit))
		}
	}
	c.tickPing()
}

// tickLearners gives up learners of which nothing is heard, and decides about those that claim the
// id of another link. It returns false if this server has left its role meanwhile.
func (c *Core) tickLearners() bool {
	term := c.term
	for _, l := range c.snapshotOfLearners() {
		if err := c.overdue(l); err != nil {
			c.refuse(l, err)
		}
		if !c.teaches() || c.term != term {
			return false
		}
	}
	c.settleClaims()
	return c.teaches() && c.term == term
}

// tickPing has all learners be pinged every half tick.
func (c *Core) tickPing() {
	if s := &c.leader; c.now-s.lastPing >= c.cfg.Tick/2 {
		s.lastPing, s.pingDue = c.now, true
	}
}

// overdue returns why a learner is given up, nil if it is not.
func (c *Core) overdue(l *learner) error {
	initLimit, syncLimit := c.ticks(c.cfg.InitLimit), c.ticks(c.cfg.SyncLimit)
	switch {
	case l.state < synced && c.now-l.since > initLimit,
		l.state == synced && !l.newAcked && c.now-l.since > initLimit+syncLimit:
		return errors.New("not synchronized within initLimit")
	case l.state == upToDate && c.now-l.contact >= syncLimit:
		return fmt.Errorf("nothing heard for %v", c.now-l.contact)
	}
	return nil
}
