package zab

import (
	"errors"
	"time"

	"github.com/pinfold-zk/pinfold/zk"
)

// A leader that is asked to leave hands over: its owner proposes nothing more, waits
// until Drained, and calls HandOver. Then everything that was proposed is committed and
// on the disks of a quorum of the others, and these know it. Their links close, and they
// elect a leader at once. The former leader is no candidate for a tick, and follows the best of
// them at once (election.Election.Defer), or endorses what the others agree on (ADR 21).
// Apache's servers see a leader that ends, and a follower, so they need not know about it.

// errHandsOver is why a leader that hands over leaves its role.
var errHandsOver = errors.New("it hands over to the others, which have everything that was proposed")

// Replaceable reports whether this server leads, and a quorum of the others is up to
// date: they can go on without it.
func (c *Core) Replaceable() bool {
	return c.role == Leading && c.phase == broadcast && c.quorum(false, func(l *learner) bool { return l.state == upToDate })
}

// Drained reports whether a quorum of the others has everything on its disks that was
// proposed, and has answered a ping that was sent after the last COMMIT. If only the pings
// are missing, the next Ready sends them. The owner proposes nothing between the first
// call and HandOver, or calls Resume.
func (c *Core) Drained() bool {
	s := &c.leader
	if !c.Replaceable() || s.outstanding.Len() > 0 {
		return false
	}
	if s.farewell == 0 {
		s.farewell, s.wantRound = s.round+1, true
	}
	return c.quorum(false, func(l *learner) bool {
		return l.state == upToDate && l.round >= s.farewell && max(l.base, l.acks.upto) >= s.zxid
	})
}

// Resume ends what Drained has begun: the owner proposes again.
func (c *Core) Resume() { c.leader.farewell = 0 }

// HandOver leaves the leadership. For a tick this server is no candidate, so that one of
// the others leads. It follows that one, if it learns of it within that time, and stays no
// candidate if it loses it again: the owner may be closing its links.
// REQUIRES: Drained, with no input since.
func (c *Core) HandOver() {
	c.check(c.Drained(), "the leadership is handed over with %d proposals that are not committed", c.leader.outstanding.Len())
	c.defersUntil = c.now + c.cfg.Tick
	c.leave(errHandsOver)
}

// errReplaced is why a leader whose state is restored leaves its role.
var errReplaced = errors.New("its state was replaced by a snapshot that is restored")

// Settled reports whether this server leads, and everything that was proposed is
// committed.
func (c *Core) Settled() bool {
	return c.role == Leading && c.phase == broadcast && c.leader.outstanding.Len() == 0
}

// Replace makes the owner's tree the state at z, the next zxid, and leaves the leadership: a
// quorum has to get that state before it is served. This server votes when it is durable.
// It has the longest history then, and the others elect it if they hear its vote in time.
// If not, z is cut off, as a proposal is that only its leader has.
//
// No log has z, so all learners are sent a snapshot. No epoch that is begun from now on is
// epoch or before it: the state may have znodes with zxids of that epoch.
//
// REQUIRES: Settled, with no input since.
func (c *Core) Replace(now time.Duration, z zk.Zxid, epoch uint32) {
	c.at(now)
	c.check(c.Settled() && z == c.leader.zxid+1, "the state is replaced at %v, with %d proposals that are not committed", z, c.leader.outstanding.Len())
	if epoch > c.acceptedEpoch {
		c.writeAcceptedEpoch(epoch)
	}
	c.reset(WriteInstall, z)
	c.leave(errReplaced)
}
