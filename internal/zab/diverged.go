package zab

import (
	"fmt"
	"time"

	"github.com/pinfold-zk/pinfold/internal/fifo"
	"github.com/pinfold-zk/pinfold/zk"
)

// divergedReason is why a server leaves its role, or does not take one.
const divergedReason = "its tree is not what the log leads to"

// TreeDiverged tells that the tree after transaction z does not have the digest that
// the transaction names. The log holds what was agreed on, so this server still votes,
// and tells leaders truthfully what its log has. The tree is wrong:
//
//   - The server leaves its role. A leader first commits what it has proposed, for
//     syncLimit at most: then another server can lead without what only this log has.
//   - It takes only a snapshot from a leader, until one is installed. A follower or
//     observer asks its present leader first.
//   - Until then it does not lead. It votes for itself on grounds that every other
//     server's outrank; elected all the same, it declines, for then a quorum of voters
//     is in this state. It looks again after a tick: a voter with the right tree may
//     have come by then.
//
// It may be called in any role.
func (c *Core) TreeDiverged(now time.Duration, z zk.Zxid) {
	c.at(now)
	c.diverged = true
	switch {
	case c.phase == draining:
	case c.phase == broadcast && c.role == Leading && c.leader.outstanding.Len() > 0:
		c.leader.syncs, c.ready.Synced = fifo.Queue[pendingSync]{}, 0 // the owner answers none
		c.setPhase(Leading, draining)
	case c.role != Looking:
		if c.role != Leading {
			c.resync(divergedReason)
		}
		c.leave(fmt.Errorf("%s, at %v", divergedReason, z))
	case c.phase == electing:
		c.look(divergedReason)
	}
}

// leaveDrained ends the role of a leader whose tree has diverged, once its proposals
// are committed or syncLimit has passed.
func (c *Core) leaveDrained() {
	if c.phase == draining && (c.leader.outstanding.Len() == 0 || c.now-c.since >= c.ticks(c.cfg.SyncLimit)) {
		c.leave(fmt.Errorf("%s; %d proposals are not committed", divergedReason, c.leader.outstanding.Len()))
	}
}

// decline leaves the leadership to which this server was elected to others.
func (c *Core) decline() {
	c.event(Event{Kind: EventDeclined, Reason: divergedReason})
	c.closeWaiting(c.now)
	c.lookAt = c.now + c.cfg.Tick
	c.setPhase(Looking, settling)
	c.election.Withdraw(false)
}
