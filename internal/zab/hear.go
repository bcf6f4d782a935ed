package zab

import (
	"github.com/pinfold-zk/pinfold/internal/zab/election"
	"github.com/pinfold-zk/pinfold/zk"
)

// hear notes a change of the membership that another server has seen, and that may come into
// this server's history: it is not in what this server has, nor was its epoch over when
// this server got that. A server that has the change may have to lead, because its history is
// the longest; then this server votes for it, even if only the change gives it a vote. And
// if the change gives this server a vote, it follows. Quorums are counted here as if nothing had been
// heard: it adds candidates and peers, and an observer may become a follower. Safety needs
// none of these.
func (c *Core) hear(text []byte) {
	if !c.dynamic() || c.role != Looking || len(text) == 0 || c.heard != nil && string(c.heard.text) == string(text) {
		return
	}
	to := c.cfg.Reader.OfText(text)
	if to == nil || !c.mayFollow(to) || c.heard != nil && to.version <= c.heard.version {
		return
	}
	c.heard = to
	c.deriveMembers(c.members)
	c.lookAgain()
}

// mayFollow reports whether a change that is not in this server's history may come to be.
func (c *Core) mayFollow(to *Membership) bool {
	return to.version > max(c.last, c.members.Seen.version) && to.version.Epoch() >= c.currentEpoch
}

// forgetHeard forgets a change that was heard of and is in the history, or cannot come into it
// any more.
func (c *Core) forgetHeard() {
	if c.heard != nil && !c.mayFollow(c.heard) {
		c.heard = nil
		c.deriveMembers(c.members)
	}
}

// lookAgain begins the election again.
func (c *Core) lookAgain() {
	c.setPhase(Looking, settling)
	c.withdraw()
	c.settle()
}

// adoptMembers takes the committed membership that another server tells in an
// election: a server that was away while the membership changed would wait for ever for
// members that are gone. If the other server has seen the same change as this one, or its history ends just before that, the
// committed membership that it tells is the one before, so this server is unsure no
// longer.
func (c *Core) adoptMembers(n *election.Notification) {
	if !c.dynamic() || c.role != Looking || len(n.Config) == 0 {
		return
	}
	to := c.cfg.Reader.OfText(n.Config)
	m := c.members
	resolves := m.Unsure && !m.Blind && (n.Seen == m.Seen.version || endsBefore(n, m.Seen.version))
	if to == nil || to.version <= m.Committed.version && !resolves && !c.joins(n, to) || to.version < m.Committed.version {
		return
	}
	m.Committed, m.Unsure, m.Own = to, m.Unsure && !resolves, false
	if m.Seen.version <= to.version {
		m.Seen, m.Unsure = to, m.Blind
	}
	c.setMembers(m)
	c.event(Event{Kind: EventMembers, Zxid: to.version})
	c.lookAgain()
}

// endsBefore reports whether another server is a candidate with a history that ends with the transaction before z, in z's epoch,
// and says that it has no change later than the configuration that it tells, as no server of Apache's does. That history is a part
// of each one that has z, since an epoch has one leader.
func endsBefore(n *election.Notification, z zk.Zxid) bool {
	return n.State == election.Looking && n.Leader == n.From && n.SeenText != nil && len(n.SeenText) == 0 &&
		n.Zxid+1 == z && n.Zxid.Epoch() == z.Epoch() && n.Zxid.Counter() > 0
}

// joins reports whether another server leads the ensemble that this server is to join, by the membership to,
// and this server could not know that: its own list has those members and itself, and by it they are no
// quorum. It would wait for its own vote. NEWLEADER replaces its list anyway. A server that has a history
// has joined before, and keeps its list: a stranger that claims to be the leader cannot take its vote.
func (c *Core) joins(n *election.Notification, to *Membership) bool {
	own := c.members.Committed
	if n.State != election.Leading || c.last != 0 || c.members.Seen != own || c.members.Unsure || to.version != own.version {
		return false
	}
	_, listed := to.Member(c.cfg.ID)
	return !listed && to.system.Weight(n.From) > 0 && countAlike(own.without(c.cfg.ID), to.members) && !own.system.Quorum(to.system.Voter)
}
