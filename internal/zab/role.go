package zab

import (
	"fmt"
	"slices"
	"time"

	"github.com/pinfold-zk/pinfold/internal/zab/election"
)

// look begins an election with what is durable.
func (c *Core) look(reason string) {
	c.check(c.persisted == c.seq && c.persistedZxid == c.last, "a vote for %v, durable is %v", c.last, c.persistedZxid)
	c.setPhase(Looking, electing)
	c.event(Event{Kind: EventLooking, Reason: reason})
	c.forgetHeard()
	c.yield()
	c.election.SetUnfit(c.diverged || c.now < c.unfitUntil)
	c.election.Look(c.now, c.last, int64(c.currentEpoch))
	c.takeElected()
}

// takeElected takes the role that an election has given, to a server that looks, or to one that
// defers to the others.
func (c *Core) takeElected() {
	if c.phase != electing && c.phase != settling {
		return
	}
	if r, ok := c.election.Elected(); ok {
		c.adoptResult(r)
	}
}

// adoptResult takes the role that follows from the result of an election, the present one
// or the last one.
func (c *Core) adoptResult(r election.Result) {
	c.term++
	c.tookEpoch, c.tookMembers = c.currentEpoch, c.members
	switch {
	case r.Leader == c.cfg.ID && c.diverged:
		c.decline()
	case r.Leader == c.cfg.ID:
		c.lead(r)
	case c.observes():
		c.follow(Observing, r)
	default:
		c.follow(Following, r)
	}
}

// leave ends the role. Logged entries count as committed from here on: the next leader
// either has them, or has them cut off.
func (c *Core) leave(reason error) {
	c.event(Event{Kind: EventLeft, Reason: fmt.Sprintf("%v: %v", c.role, reason)})
	r := &c.ready
	clear(r.Deliver)
	r.Deliver, r.Lookups, r.Synced, r.Dial = r.Deliver[:0], r.Lookups[:0], 0, 0
	for _, l := range c.leader.learners {
		c.close(l.link, fmt.Errorf("%w: this server leads no more: %w", ErrLost, reason))
	}
	if c.learner.link != 0 {
		c.close(c.learner.link, reason)
	}
	c.countMisses()
	c.setAside()
	c.window.add(c.leader.outstanding.All()...)
	c.window.add(c.learner.pending.All()...)
	switch {
	case c.leader.stage == gatherInfo:
		c.approachEpoch(c.leader.refusedEpoch)
	case c.phase == broadcast:
		c.approaches = 0
	}
	c.leader, c.learner = leaderState{}, learnerState{}
	c.leader.outstanding.Spare = queueSpare
	c.recount()
	c.committed = c.last
	c.epoch = 0
	c.lookAt = c.now + c.lookDelay()
	if c.defers() {
		c.lookAt = c.defersUntil
	}
	c.setPhase(Looking, settling)
	c.withdraw()
	c.publish()
	c.settle()
}

// withdraw keeps this server out of elections until settle. If its disk stalls, or it hands
// over, that may take long, and the others need not wait for its vote.
func (c *Core) withdraw() { c.election.Withdraw(c.defers() || c.DiskStalled() || c.overfull()) }

// defers reports whether this server leaves it to the others to lead, for it has handed over.
func (c *Core) defers() bool { return c.now < c.defersUntil }

// settle begins the election once everything is durable, and no earlier than lookAt: a vote must not tell of
// what a crash could take back (protocol page, section 17.1: 2845, 4712). A learner
// that only needs a snapshot goes back to its leader.
func (c *Core) settle() {
	switch leader := c.retry; {
	case c.persisted != c.seq:
	case leader != 0:
		c.retry = 0
		c.adoptResult(election.Result{Leader: leader, PeerEpoch: c.election.Vote().PeerEpoch})
	case c.now < c.lookAt: // Tick calls settle then
		if c.defers() {
			c.election.Defer(c.now, c.last, int64(c.currentEpoch))
			c.takeElected()
		}
	default:
		c.look("left the ensemble")
	}
}

// lookDelay is how long an observer waits, once it has left its role, before it
// looks for a leader: a part of Config.LookDelay that differs from observer to
// observer and from term to term, so that they do not all ask the voters at once.
func (c *Core) lookDelay() time.Duration {
	if !c.observes() || c.cfg.LookDelay <= 0 {
		return 0
	}
	x := mix(uint64(c.cfg.ID)<<32 ^ c.term) // neighbours get unlike parts
	return time.Duration(x % uint64(c.cfg.LookDelay))
}

// mix is the mixing function of SplitMix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func (c *Core) setPhase(r Role, p phase) {
	c.role, c.phase, c.since = r, p, c.now
	c.ready.Role, c.ready.Term = r, c.term
	c.ready.Serving = p == broadcast
	c.ready.Epoch = c.epoch
}

// abandoned leaves a role that has not got far when a server on which it depends looks for a
// leader again, or the voters of a leader have changed their minds: waiting for them would take initLimit. A server looks
// again if its election is a later one; a leader also if it still says so when the
// role is firstPatience old, since its election epoch may be smaller than ours.
func (c *Core) abandoned(n *election.Notification) {
	later := n.ElectionEpoch > c.election.ElectionEpoch()
	gathers := c.gathers() && c.system.Voter(n.From)
	follows := (c.phase == connecting || c.phase == discovery) && c.role != Leading && n.From == c.learner.leader &&
		(later || c.now-c.since >= firstPatience)
	switch {
	case gathers && later, follows:
		c.leave(fmt.Errorf("server %d looks for a leader again", n.From))
	case gathers && c.election.Deserted():
		c.leave(fmt.Errorf("server %d, which has elected it, votes for server %d now", n.From, n.Leader))
	}
}

// gathers reports whether this server leads, and waits for a quorum: none has come yet, or those that had come
// have gone before it could serve. A learner counts as soon as it has told its id: it holds the id only once it has accepted
// the epoch.
func (c *Core) gathers() bool {
	s := &c.leader
	if c.role != Leading || s.stage == leading {
		return false
	}
	return s.stage == gatherInfo || !c.system.Quorum(func(id int64) bool {
		return id == c.cfg.ID || slices.ContainsFunc(s.learners, func(l *learner) bool { return l.id == id && !l.observer })
	})
}
