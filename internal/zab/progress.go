package zab

import (
	"fmt"
	"math"
	"time"
)

// A link that passes nothing, or nothing in one direction, is given up after SyncLimit, and so is a
// process that is frozen. While something waits for it, Config.ProgressLimit is enough:
//
//   - A leader that has committed nothing of what it has proposed for that long, and has had no
//     answer from a quorum for that long, leaves its role, and is no candidate for asideFor.
//   - A learner leaves a leader that has been silent for that long while this server waits for a
//     COMMIT, or its owner for the outcome of a request (Await).
//
// An answer, or a ping, proves that the other side is there. What it does not acknowledge or commit
// then waits for disks, with which another leader would do no better (stall.go). So neither
// a stalled disk nor a follower that lags ends a role here.

// Await tells whether the owner waits for the outcome of requests that it has sent to the leader.
func (c *Core) Await(waits bool) { c.awaits = waits }

// impatient reports whether silence is judged here at all.
func (c *Core) impatient() bool {
	return c.cfg.ProgressLimit > 0 && c.cfg.ProgressLimit < c.ticks(c.cfg.SyncLimit)
}

// waits reports whether a learner waits for its leader, and is impatient.
func (c *Core) waits() bool { return c.impatient() && (c.awaits || c.learner.pending.Len() > 0) }

// heardOfQuorum is the time since when no quorum has answered, with this server as one of it: what
// counts is when the pings were sent that were answered.
func (c *Core) heardOfQuorum() time.Duration {
	if c.quorum(true, func(*learner) bool { return false }) {
		return c.now // it needs no other
	}
	latest := time.Duration(math.MinInt64)
	for _, o := range c.leader.learners {
		since := func(l *learner) bool { return l.newAcked && l.contact >= o.contact }
		if o.contact > latest && c.quorum(true, since) {
			latest = o.contact
		}
	}
	return latest
}

// withoutProgress returns why a leader can commit nothing and leaves its role, nil if it need not; then
// leaseEnd is when to ask again, if something waits.
func (c *Core) withoutProgress() error {
	s := &c.leader
	if s.outstanding.Len() == 0 || !c.impatient() {
		return nil
	}
	end := max(s.oldestSince, c.heardOfQuorum()) + c.cfg.ProgressLimit
	if c.now < end {
		s.leaseEnd = end
		return nil
	}
	if c.wasAway {
		return nil
	}
	return fmt.Errorf("%v waits for a quorum, of which nothing is heard for %v", s.outstanding.At(0).Zxid, c.cfg.ProgressLimit)
}
