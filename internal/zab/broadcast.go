package zab

import (
	"slices"

	"github.com/pinfold-zk/pinfold/zk"
)

// NextZxid is the zxid that the next entry given to Propose must have, and how
// many the epoch has from there on. Before it has too few the leader has to step
// down (protocol page, section 5).
func (c *Core) NextZxid() (z zk.Zxid, left int) {
	return c.leader.zxid + 1, int(c.cfg.LastCounter) - int(c.leader.zxid.Counter())
}

// Propose proposes transactions: they are logged here, sent to the followers,
// and committed once a quorum has them. Their zxids begin at NextZxid.
// REQUIRES: the last Ready was Serving as Leading, and is of the present term.
func (c *Core) Propose(es []Entry) error {
	if c.role != Leading || c.leader.stage != leading {
		return errLeading
	}
	for _, e := range es {
		c.append(e)
		c.leader.outstanding.push(e)
		c.leader.zxid = e.Zxid
	}
	for _, k := range c.leader.order {
		l := c.leader.links[k]
		if l.state < synced || l.observer {
			continue
		}
		for _, e := range es {
			c.send(k, Packet{Type: Proposal, Zxid: e.Zxid, Data: e.Data})
		}
		if l.lag == 0 {
			l.lag = c.now
		}
	}
	return nil
}

// takeProposalAck counts the acknowledgement of a proposal. One of what is
// committed, or was never proposed, is ignored, as by Apache.
func (c *Core) takeProposalAck(l *learner, z zk.Zxid) {
	l.acked = max(l.acked, z)
	if l.acked >= c.leader.zxid {
		l.lag = 0
	} else {
		l.lag = c.now
	}
	if p := c.leader.outstanding.find(z); p != nil && l.voter {
		p.acks |= c.leader.bits[l.id]
		c.commitProposals()
	}
}

// commitProposals commits, in the order of zxids, what a quorum has.
func (c *Core) commitProposals() {
	s := &c.leader
	before := c.committed
	for s.outstanding.len() > 0 {
		p := s.outstanding.front()
		acks := p.acks
		if p.Zxid <= c.persistedZxid {
			acks |= s.self
		}
		if !c.acksAreQuorum(acks) {
			break
		}
		c.committed = p.Zxid
		c.window.add(p.Entry)
		c.tellCommitted(p.Entry)
		s.outstanding.pop()
	}
	if c.committed != before {
		c.publish()
		c.answerSyncs()
	}
}

// acksAreQuorum remembers what it has worked out: there are few combinations.
func (c *Core) acksAreQuorum(acks uint64) bool {
	is, known := c.leader.majority[acks]
	if !known {
		is = c.cfg.System.Quorum(func(id int64) bool { return acks&c.leader.bits[id] != 0 })
		c.leader.majority[acks] = is
	}
	return is
}

// tellCommitted sends COMMIT to followers and INFORM to observers. To a learner
// that has not been sent UPTODATE it is held back: up to 3.8 Apache's followers
// fail on a COMMIT in between (4394).
func (c *Core) tellCommitted(e Entry) {
	for _, k := range c.leader.order {
		l := c.leader.links[k]
		p := Packet{Type: Commit, Zxid: e.Zxid}
		if l.observer {
			p = Packet{Type: Inform, Zxid: e.Zxid, Data: e.Data}
		}
		switch l.state {
		case synced:
			l.held = append(l.held, p)
		case current:
			c.send(k, p)
		}
	}
}

// pendingSync is a sync that waits until everything proposed before it is
// committed, and until a quorum has confirmed after it came that this server
// still leads (paper, section 4.4, where an idle leader proposes a null
// transaction for that; here it is a round of pings, which costs no zxid and no
// disk: a follower answers a ping only as long as it has not left for another
// leader).
type pendingSync struct {
	after zk.Zxid
	round uint64
}

// Sync asks for a sync, of this server's client or of a learner's. Ready.Synced
// counts those that are done, in the order in which they were asked for; they are
// forgotten when the role is left.
func (c *Core) Sync() error {
	s := &c.leader
	if c.role != Leading || s.stage != leading {
		return errLeading
	}
	s.syncs = append(s.syncs, pendingSync{s.zxid, s.round + 1})
	s.wantRound = true
	return nil
}

// beginRound pings every learner, if that is due or a sync waits for it.
func (c *Core) beginRound() {
	s := &c.leader
	if !s.wantRound || s.stage != leading {
		return
	}
	s.wantRound = false
	s.round++
	for _, k := range s.order {
		l := s.links[k]
		if l.state == current {
			l.pings = append(l.pings, ping{s.round, c.now})
			c.send(k, Packet{Type: Ping, Zxid: s.zxid})
		}
	}
	c.answerSyncs()
}

// answerSyncs answers the syncs whose time has come, in their order.
func (c *Core) answerSyncs() {
	s := &c.leader
	n := 0
	for n < len(s.syncs) && s.syncs[n].after <= max(c.committed, zk.MakeZxid(c.epoch, 0)) && c.confirmed(s.syncs[n].round) {
		n++
	}
	s.syncs = slices.Delete(s.syncs, 0, n)
	c.ready.Synced += n
	c.ready.SyncedAt = c.committed
}

// confirmed reports whether a quorum has answered a ping of that round or later.
func (c *Core) confirmed(round uint64) bool {
	return c.leader.round >= round && c.quorum(func(l *learner) bool { return l.round >= round })
}
