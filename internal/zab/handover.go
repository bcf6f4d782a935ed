package zab

import "errors"

// A leader that is asked to leave hands over: its owner proposes nothing more, waits
// until Drained, and calls HandOver. Then everything that was proposed is committed and
// on the disks of a quorum of the others, and these know it. Their links close, and they
// elect a leader at once. The former leader is no candidate for a tick, and endorses
// what the others agree on (ADR 21). All this is what Apache's servers see of a leader
// that ends, so they need not know about it.

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
// the others leads.
// REQUIRES: Drained, with no input since.
func (c *Core) HandOver() {
	c.check(c.Drained(), "the leadership is handed over with %d proposals that are not committed", c.leader.outstanding.Len())
	c.handsOver = true
	c.leave(errHandsOver)
}
