package zab

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// With Config.ObserverMasters a follower that serves is an observer master: it takes observers as
// learners, synchronizes them from its own history, and informs them of what it learns to be
// committed. To them it is a leader of the epoch in which it follows. It needs nothing of a leader that
// concerns quorums: an observer acknowledges no proposal, and promises nothing that counts.
//
// What an observer is told is committed, for its master is. When the master leaves its role, its
// observers' links are closed: so an observer's leader is the one of its master, as long as it has
// one. An observer that knows more than a follower to be committed is not cut back: the follower
// refuses it, and it goes to the next server, at last to the leader.
//
// Requests of observers' clients, their answers and what is heard of their sessions pass through the
// owners of the cores.

// errElsewhere is why an observer master does not serve a learner that another server can serve.
var errElsewhere = errors.New("this server does not lead, and does not serve")

// openMaster begins to take observers, on a follower that serves.
func (c *Core) openMaster() {
	if c.role == Following && c.cfg.ObserverMasters && !c.teaches() {
		c.teach()
		c.leader.stage = leading
	}
}

// informObservers tells observers of the oldest pending transaction, which p commits.
func (c *Core) informObservers(p *Packet) {
	if !c.teaches() {
		return
	}
	l := &c.learner
	if p.Type == CommitAndActivate && len(p.Data) >= 8 {
		l.designated = p.Data[:8]
	}
	c.tellCommitted(l.pending.All()[:1])
	l.designated = nil
}

// usesMaster reports whether a learner connects to any voter, not to the leader. A server that heals needs
// the leader, and so does one that asks for a snapshot: it does not say what it knows to be committed, and a
// follower's may be earlier.
func (c *Core) usesMaster(r Role) bool {
	return r == Observing && c.cfg.ObserverMasters && !c.heals && !c.needSnap
}

// chooseMaster returns the server to which a learner connects. An observer goes through all voters
// before it tries one again. Each observer has its own order, and another one each time: so observers
// spread over the voters.
func (c *Core) chooseMaster(r Role, leader int64) int64 {
	if !c.usesMaster(r) {
		return leader
	}
	voters := slices.Clone(c.members.Committed.system.Voters())
	n := uint64(len(voters))
	place := func(id int64) uint64 { return mix(mix(uint64(c.cfg.ID)^c.attempts/n<<32) ^ uint64(id)) }
	slices.SortFunc(voters, func(a, b int64) int { return cmp.Compare(place(a), place(b)) })
	master := voters[c.attempts%n]
	c.attempts++
	return master
}

// masterName names the server to which a learner connects, for the reasons for which it leaves.
func (c *Core) masterName() string {
	if l := &c.learner; l.master != l.leader {
		return fmt.Sprintf("observer master %d", l.master)
	}
	return fmt.Sprintf("leader %d", c.learner.leader)
}
