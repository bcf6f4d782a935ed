package zab

import (
	"errors"
	"fmt"

	"github.com/pinfold-zk/pinfold/zk"
)

// errLeading is why nothing can be proposed.
var errLeading = errors.New("zab: this server does not lead")

// NextZxid is the zxid that the next entry given to Propose must have, and how
// many the epoch has from there on. Before it has too few the leader has to step
// down (protocol page, section 5).
func (c *Core) NextZxid() (z zk.Zxid, left int) {
	return c.leader.zxid + 1, int(c.cfg.LastCounter) - int(c.leader.zxid.Counter())
}

// Propose proposes transactions: they are logged here, sent to the followers,
// and committed once a quorum has them. Their zxids begin at NextZxid. es is the
// caller's again when it returns. If one of them changes the membership and that
// cannot be now, the error wraps ErrChanging or ErrNoQuorum, and nothing is proposed.
// REQUIRES: the last Ready was Serving as Leading, and is of the present term.
func (c *Core) Propose(es []Entry) error {
	s := &c.leader
	if c.role != Leading || s.stage != leading {
		return errLeading
	}
	if len(es) == 0 {
		return nil
	}
	if err := c.seeProposed(es); err != nil {
		return err
	}
	if s.outstanding.Len() == 0 {
		s.oldestSince = c.now
	}
	s.outstanding.Push(es...)
	for i := range es {
		c.append(es[i])
	}
	s.zxid = c.last
	for _, l := range s.learners {
		if l.state < synced || l.observer {
			continue
		}
		ps := c.packetsTo(l)
		for i := range es {
			*ps = append(*ps, Packet{Type: Proposal, Zxid: es[i].Zxid, Data: es[i].Data})
		}
	}
	return nil
}

// sendTo puts a packet on a learner's link.
func (c *Core) sendTo(l *learner, p Packet) {
	ps := c.packetsTo(l)
	*ps = append(*ps, p)
}

// packetsTo returns the slice to which packets for a learner are appended.
func (c *Core) packetsTo(l *learner) *[]Packet {
	if l.sendOf != int(c.readies) || c.ready.Sends[l.send].Kind != SendPackets {
		l.send, l.sendOf = c.ready.newSend(l.link, SendPackets), int(c.readies)
	}
	return &c.ready.Sends[l.send].Packets
}

// stream sends a range of the log or a snapshot on a learner's link.
func (c *Core) stream(l *learner, kind SendKind, after, upto zk.Zxid) {
	l.send, l.sendOf = c.ready.newSend(l.link, kind), int(c.readies)
	s := &c.ready.Sends[l.send]
	s.After, s.Upto = after, upto
}

// takeProposalAck counts the acknowledgement of a proposal. A follower acknowledges
// one after the other; what is committed it may leave out, and that is ignored, as by
// Apache. The caller calls commitProposals afterwards.
func (c *Core) takeProposalAck(l *learner, z zk.Zxid) error {
	if l.acks == nil {
		return nil
	}
	if before := max(l.acks.upto, c.committed, zk.MakeZxid(c.epoch, 0)); z > before+1 {
		return fmt.Errorf("it acknowledges %v, and has acknowledged nothing after %v", z, before)
	}
	l.acks.upto = max(l.acks.upto, z)
	return nil
}

// acknowledged is the last proposal that a server has on its disk.
func (c *Core) acknowledged(id int64) int64 {
	if id == c.cfg.ID {
		return int64(c.persistedZxid)
	}
	if a := c.leader.acksOf(id); a != nil {
		return int64(a.upto)
	}
	return 0
}

// acksOf returns what a follower has acknowledged, nil if it has not been here. There are
// few, so a search is faster than a map.
func (s *leaderState) acksOf(id int64) *ack {
	for _, a := range s.acks {
		if a.id == id {
			return a
		}
	}
	return nil
}

// commitProposals commits, in the order of zxids, what a quorum has. A change of the
// membership ends a run: what follows it needs a quorum of the new voters only.
func (c *Core) commitProposals() {
	s := &c.leader
	if c.role != Leading || s.stage != leading {
		return
	}
	for s.outstanding.Len() > 0 {
		upto := zk.Zxid(c.system.Reached(c.acknowledged))
		change, changes := c.members.Seen.version, c.members.Seen != c.members.Committed
		if changes {
			upto = min(upto, change)
		}
		first := s.outstanding.At(0).Zxid
		if upto < first {
			return
		}
		c.commitOldest(min(int(upto-first)+1, s.outstanding.Len()))
		if !changes || c.committed < change {
			return
		}
		if err := c.commitMembers(c.committed); err != nil {
			c.retryAt(c.designatedID())
			c.leave(err)
			return
		}
	}
}

// commitOldest commits the n oldest proposals.
func (c *Core) commitOldest(n int) {
	s := &c.leader
	es := s.outstanding.All()[:n]
	c.window.add(es...)
	s.oldestSince = c.now
	for len(es) > 0 {
		c.passSyncs(es[0].Zxid)
		run := 1
		for run < len(es) && (s.syncs.Len() == 0 || s.syncs.At(0).after >= es[run].Zxid) {
			run++
		}
		c.tellCommitted(es[:run])
		c.committed = es[run-1].Zxid
		es = es[run:]
	}
	s.outstanding.Drop(n)
	c.publish()
	c.answerSyncs()
	c.leaveDrained()
}

// tellCommitted sends COMMIT to followers and INFORM to observers. To a follower
// that has not been sent UPTODATE it is held back: up to 3.8 Apache's fail on a
// COMMIT in between (4394).
func (c *Core) tellCommitted(es []Entry) {
	for _, l := range c.leader.learners {
		switch {
		case l.state < synced:
		case l.observer:
			out := c.packetsTo(l)
			for i := range es {
				*out = append(*out, c.informPacket(&es[i]))
			}
		case l.state == synced:
			l.heldUpto = es[len(es)-1].Zxid
		default:
			out := c.packetsTo(l)
			for i := range es {
				*out = append(*out, c.commitPacket(es[i].Zxid))
			}
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
	link  LinkID // of the learner whose client asked; 0 for one of this server's
}

// Sync requests a sync, for a client of the learner on link, or with link 0 for a client
// of this server. The learner is sent SYNC when the sync is done; Ready.Synced counts the
// syncs of this server's clients that are done, in the order of the requests. Pending
// syncs are dropped when the server leaves its role.
func (c *Core) Sync(link LinkID) error {
	s := &c.leader
	if c.role != Leading || s.stage != leading {
		return errLeading
	}
	s.syncs.Push(pendingSync{s.zxid, s.round + 1, link})
	s.wantRound = true
	return nil
}

// beginRound pings every learner, if that is due, or a sync waits for it. All
// syncs that come while a round for syncs is under way share the next one.
func (c *Core) beginRound() {
	s := &c.leader
	if s.stage != leading || !s.pingDue && !(s.wantRound && c.confirmed(s.round)) {
		return
	}
	s.pingDue, s.wantRound = false, false
	s.round++
	for _, l := range s.learners {
		if l.state == upToDate {
			l.pings.Push(ping{s.round, c.now})
		}
		switch {
		case c.isHealing(l) && l.state >= synced:
			c.pingHealing(l)
		case l.state == upToDate:
			c.sendTo(l, Packet{Type: Ping, Zxid: max(s.zxid, c.last)})
		}
	}
	c.answerSyncs()
}

// answerSyncs answers the syncs whose time has come, in their order.
func (c *Core) answerSyncs() {
	s := &c.leader
	committed := max(c.committed, zk.MakeZxid(c.epoch, 0))
	for s.syncs.Len() > 0 && s.syncs.At(0).after <= committed && c.confirmed(s.syncs.At(0).round) {
		c.answerSync()
	}
}

// passSyncs answers the syncs that came before z was proposed, as z is about to
// be committed: the quorum that has z confirms them as a round of pings would.
func (c *Core) passSyncs(z zk.Zxid) {
	s := &c.leader
	for s.syncs.Len() > 0 && s.syncs.At(0).after < z {
		c.answerSync()
	}
}

// answerSync answers the oldest sync. A learner is told among its commits: Apache's
// want the answers in the order of what they have forwarded.
func (c *Core) answerSync() {
	s := &c.leader
	ps := *s.syncs.At(0)
	s.syncs.Drop(1)
	if ps.link == 0 {
		c.ready.Synced++
		c.ready.SyncedAt = c.committed
		return
	}
	if l := s.links[ps.link]; l != nil && l.state == upToDate {
		c.sendTo(l, Packet{Type: Sync})
	}
}

// confirmed reports whether a quorum has answered a ping of that round or later.
func (c *Core) confirmed(round uint64) bool {
	return c.leader.round >= round && c.quorum(true, func(l *learner) bool { return l.round >= round })
}
