package zab

import (
	"errors"
	"time"

	"github.com/pinfold-zk/pinfold/internal/zab/quorum"
)

// An oracle is a failure detector outside the ensemble. Of two voters neither is a majority, so
// if one fails the other stops. The oracle of an ensemble may then permit the one that is left to
// go on alone (Apache's QuorumOracleMaj). The core does not know how the oracle finds that out,
// and relies on two properties of it:
//
//  1. It never permits both voters at the same time.
//  2. It permits a voter only if that one has everything that is committed: if the other one was
//     permitted before, not until that one leads without a permission and has synchronized this one.
//
// An oracle that breaks the first parts the ensemble; one that breaks the second loses what the
// other voter has committed alone.

// ConsultOracle tells whether the oracle permits this server to go on alone. A permission ends
// by itself when it has not been told again for oracleTicks: an oracle that cannot be asked any
// more permits nothing.
//
// REQUIRES: Config.Oracle.
func (c *Core) ConsultOracle(now time.Duration, permits bool) {
	c.at(now)
	c.permittedUntil = c.now + c.ticks(oracleTicks)
	c.setPermitted(permits)
}

// oracleTicks is how long the oracle's permission counts. Its owner asks it more often.
const oracleTicks = 2

// expirePermission ends a permission that was not told again.
func (c *Core) expirePermission() {
	if c.permitted && c.now >= c.permittedUntil {
		c.setPermitted(false)
	}
}

// setPermitted acts on what the oracle says, if that has changed.
func (c *Core) setPermitted(permits bool) {
	if permits == c.permitted {
		return
	}
	c.permitted = permits
	c.recount()
	switch {
	case c.phase == electing:
		c.lookAgain()
	case c.role == Leading && c.leader.stage != leading:
		c.advance()
	case c.role == Leading && c.isolated():
		c.leave(errors.New("it has no follower, and the oracle does not permit it any more to go on alone"))
	}
}

// alone reports whether this server is a quorum of two voters by itself. A follower that is being
// synchronized, or is, ends that: from then on it acknowledges what is committed.
func (c *Core) alone() bool {
	if !c.permitted {
		return false
	}
	for _, l := range c.leader.learners {
		if l.state >= synced && c.votes(l) {
			return false
		}
	}
	return true
}

// countVotes derives which sets of servers are quorums at present.
func (c *Core) countVotes() {
	c.system = c.members.System()
	if c.cfg.Oracle && c.alone() {
		c.system = quorum.Alone(c.system, c.cfg.ID)
	}
}

// recount derives the quorums again, if an oracle can have changed them.
func (c *Core) recount() {
	if c.cfg.Oracle {
		c.countVotes()
		c.election.SetElectorate(c.electorate())
	}
}

// trustsLeader reports whether this server joins a leader by that one's word: the oracle does not
// permit this server, so it may have permitted the other voter, which then leads without a follower.
func (c *Core) trustsLeader() bool {
	return c.cfg.Oracle && !c.permitted && len(c.system.Voters()) == 2
}

// epochAlone returns the first epoch from e on that no other voter begins alone. Should the oracle
// break its second rule, the histories of the two voters differ from some epoch on. They must not
// begin the same one: equal zxids would hide the difference. So one begins even epochs alone, the
// other one odd ones. What both begin together is later than what either has accepted.
func (c *Core) epochAlone(e uint32) uint32 {
	i, _ := c.system.Index(c.cfg.ID)
	if c.cfg.Oracle && c.alone() && int(e%2) != i && e < maxEpoch {
		e++
	}
	return e
}
