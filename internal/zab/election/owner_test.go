package election

import (
	"slices"
	"time"

	"github.com/pinfold-zk/pinfold/zk"
)

// owner is what a process does with the result of its elections: a sketch of
// discovery, enough for elections to be judged by. It looks at other servers
// directly. The epochs are durable, the rest is of one life.
type owner struct {
	accepted int64         // acceptedEpoch
	reigns   bool          // it leads, and discovery is over
	since    time.Duration // when the role began, or was last in order
}

// Patience of owners, as initLimit and syncLimit are.
const (
	discoveryLimit = 1500 * time.Millisecond
	syncLimit      = 400 * time.Millisecond
	ownerPause     = 20 * time.Millisecond
)

// settle takes the role of a result.
func (c *cluster) settle(s *server, r Result) {
	s.reigns = false
	s.since = c.now
	s.e.Settle(s.e.State(), r.Leader, r.PeerEpoch)
}

// attend lets every owner do what it does from time to time.
func (c *cluster) attend() {
	for _, s := range c.living() {
		switch s.e.State() {
		case Leading:
			c.attendLeader(s)
		case Following, Observing:
			c.attendLearner(s)
		}
	}
}

// attendLearner leaves a leader that is not there.
func (c *cluster) attendLearner(s *server) {
	leader := c.servers[s.e.Vote().Leader]
	if leader.e != nil && leader.e.State() == Leading && c.linked(s.cfg.ID, leader.cfg.ID) {
		s.since = c.now
	}
	if c.now-s.since > syncLimit {
		c.look(s)
	}
}

// learners returns the servers that have settled on the leader and see it, the
// leader included.
func (c *cluster) learners(leader *server) []*server {
	var out []*server
	for _, s := range c.living() {
		if s == leader || s.e.State() != Looking && s.e.Vote().Leader == leader.cfg.ID && c.linked(s.cfg.ID, leader.cfg.ID) {
			out = append(out, s)
		}
	}
	return out
}

// attendLeader finds a quorum, refuses to lead who knows more, fixes the epoch
// and brings all to its own history. It leaves when it has no quorum for long.
func (c *cluster) attendLeader(leader *server) {
	learners := c.learners(leader)
	quorum := c.system.Quorum(func(id int64) bool {
		return slices.ContainsFunc(learners, func(s *server) bool { return s.cfg.ID == id && !s.cfg.Observer })
	})
	if quorum {
		if !leader.reigns && !c.discover(leader, learners) {
			return
		}
		leader.since = c.now
		for _, s := range learners {
			if s.epoch != leader.epoch || s.e.Vote().PeerEpoch != leader.epoch {
				c.synchronize(s, leader)
			}
		}
	}
	limit := discoveryLimit
	if leader.reigns {
		limit = syncLimit
	}
	if c.now-leader.since > limit {
		c.look(leader)
	}
}

// discover is discovery with a quorum. It fails if a voter knows more.
func (c *cluster) discover(leader *server, learners []*server) bool {
	accepted := int64(0)
	for _, s := range learners {
		more := s.epoch > leader.epoch || s.epoch == leader.epoch && s.last > leader.last
		if more && c.system.Weight(s.cfg.ID) > 0 {
			c.refused++
			c.look(leader)
			return false
		}
		accepted = max(accepted, s.accepted)
	}
	leader.reigns = true
	leader.epoch, leader.accepted = accepted+1, accepted+1
	if other, ok := c.reigns[leader.epoch]; ok {
		c.breaks("%d and %d both reign in epoch %d", other, leader.cfg.ID, leader.epoch)
	}
	c.reigns[leader.epoch] = leader.cfg.ID
	c.synchronize(leader, leader)
	return true
}

// synchronize makes a learner's history the leader's.
func (c *cluster) synchronize(s, leader *server) {
	s.last, s.epoch, s.accepted = leader.last, leader.epoch, leader.epoch
	state := s.e.State()
	c.do(s, func(e *Election) { e.Settle(state, leader.cfg.ID, leader.epoch) })
}

// write logs a transaction on some of the leader's followers: it may commit.
func (c *cluster) write(leader *server, some func() bool) {
	if !leader.reigns || leader.e.State() != Leading {
		return
	}
	before := leader.last
	z := max(before+1, zk.MakeZxid(uint32(leader.epoch), 1))
	for _, s := range c.learners(leader) {
		inStep := s.epoch == leader.epoch && s.last == before
		if s == leader || inStep && some() {
			s.last = z
		}
	}
}
