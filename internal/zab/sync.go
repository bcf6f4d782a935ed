package zab

import (
	"fmt"
	"time"

	"github.com/pinfold-zk/pinfold/zk"
)

// Location says where in the log on the disk a zxid is.
type Location struct {
	Exact         bool    // the log holds it
	Before        zk.Zxid // the greatest one before it that the log holds, 0 if none
	After         zk.Zxid // the first one after it, 0 if none
	LogBytes      int64   // of the log from there on
	SnapshotBytes int64   // of the newest snapshot, 0 if none
}

// synchronizeLearner makes the learner's history the leader's: DIFF, TRUNC or
// SNAP, as Apache chooses (protocol page, section 14.3). What is chosen, the
// transactions after it, and the learner's place among the receivers of proposals, are
// one step, so that no transaction is left out (3104).
func (c *Core) synchronizeLearner(l *learner) {
	c.forgetAcks(l)
	peer, last := l.last, c.committed
	// Counter 0 is the beginning of an epoch, where no transaction is.
	began := peer.Counter() == 0
	first, kept := c.window.first()
	switch {
	case c.cfg.ForceSnap:
		c.sendSnapshot(l)
	case peer == last:
		c.sendDiff(l, Packet{Type: Diff, Zxid: peer}, nil)
	case peer > last && began:
		c.sendDiff(l, Packet{Type: Diff, Zxid: last}, nil)
	case peer > last:
		c.sendDiff(l, Packet{Type: Trunc, Zxid: last}, nil)
	case kept && first <= peer:
		c.syncFromWindow(l, began)
	case c.cfg.SizeFactor >= 0:
		l.state = locating
		c.ready.Lookups = append(c.ready.Lookups, Lookup{Link: l.link, Zxid: peer})
	default:
		c.sendSnapshot(l)
	}
}

// forgetAcks makes what a learner has acknowledged over an earlier link count no
// more: of what is not committed it may have to give everything up, and gets it
// again. (Apache goes on to count it.)
func (c *Core) forgetAcks(l *learner) {
	if l.acks != nil {
		l.acks.upto = 0
	}
}

func (c *Core) syncFromWindow(l *learner, began bool) {
	exact, before := c.window.find(l.last)
	rest := c.window.after(l.last)
	first, ok := cutTo(l.last, exact || began, before, rest[0].Zxid, c.committed)
	if !ok {
		c.sendSnapshot(l)
		return
	}
	c.sendDiff(l, first, rest)
}

// cutTo returns the packet that begins the synchronization of a learner at peer,
// whose last transaction the leader has or, if not has, follows before and
// precedes after. A learner that has something else after before cuts that off;
// ok is false if it is of another epoch than after, when only a snapshot is sure.
func cutTo(peer zk.Zxid, has bool, before, after, last zk.Zxid) (p Packet, ok bool) {
	switch {
	case has:
		return Packet{Type: Diff, Zxid: last}, true
	case peer.Epoch() != after.Epoch() || before == 0:
		return Packet{}, false
	}
	return Packet{Type: Trunc, Zxid: before}, true
}

// Located answers a Lookup. An error means that the log cannot be used.
func (c *Core) Located(now time.Duration, k LinkID, at Location, err error) {
	c.at(now)
	l := c.leader.links[k]
	if l == nil || l.state != locating {
		return
	}
	l.since = c.now
	began := l.last.Counter() == 0 && at.Before != 0
	large := c.cfg.SizeFactor > 0 && at.SnapshotBytes > 0 &&
		float64(at.LogBytes) > c.cfg.SizeFactor*float64(at.SnapshotBytes)
	// What the log does not hold may yet be of this history: where a leader's
	// snapshot was installed the log has a hole. So nothing is cut off (TRUNC) for
	// not being there.
	if err != nil || large || !at.Exact && !began || at.After == 0 {
		c.sendSnapshot(l)
		return
	}
	if !c.admitSync(l, diffSync) {
		return
	}
	first := Packet{Type: Diff, Zxid: c.committed}
	from, upto := l.last, min(c.committed, c.persistedZxid)
	if !at.Exact {
		from = at.Before
	}
	c.explain(l, fmt.Sprintf("%v %v and the log from %v to %v", first.Type, first.Zxid, from, upto))
	c.sendTo(l, first)
	c.stream(l, SendRange, from, upto)
	c.finishSync(l, c.window.after(upto))
}

// sendDiff sends what begins the synchronization and the committed transactions
// that the learner lacks.
func (c *Core) sendDiff(l *learner, first Packet, es []Entry) {
	if !c.admitSync(l, diffSync) {
		return
	}
	c.explain(l, fmt.Sprintf("%v %v and %d transactions", first.Type, first.Zxid, len(es)))
	c.sendTo(l, first)
	c.finishSync(l, es)
}

// sendSnapshot sends the tree once it has everything that is committed now. A learner
// replaces its history by the tree before the rest has arrived. A tree without
// transactions that this learner has acknowledged would take these back.
func (c *Core) sendSnapshot(l *learner) {
	if !c.admitSync(l, snapSync) {
		return
	}
	if c.applied < c.committed {
		l.state, l.snapFrom = awaiting, c.committed
		return
	}
	c.streamSnapshot(l)
}

// sendAwaited sends the snapshots that are due.
func (c *Core) sendAwaited() {
	for _, l := range c.leader.learners {
		if l.state == awaiting && c.applied >= l.snapFrom {
			c.streamSnapshot(l)
		}
	}
}

// streamSnapshot sends the tree. Its stream begins at the applied state or later;
// the transactions from there on follow, and those that are in the tree already
// change nothing.
func (c *Core) streamSnapshot(l *learner) {
	c.explain(l, fmt.Sprintf("SNAP at %v", c.applied))
	c.sendTo(l, Packet{Type: Snap, Zxid: c.applied})
	c.stream(l, SendSnapshot, 0, c.applied)
	c.finishSync(l, c.window.after(c.applied))
}

func (c *Core) explain(l *learner, what string) {
	c.ready.Events = append(c.ready.Events, Event{Kind: EventSyncing, Peer: l.id, Link: l.link, Zxid: l.last, Reason: what, Running: c.syncing(l.sync)})
}

// finishSync sends committed transactions, those that are not yet, and
// NEWLEADER. From here on the learner is sent every proposal.
func (c *Core) finishSync(l *learner, es []Entry) {
	ps := c.packetsTo(l)
	for i := range es {
		*ps = append(*ps, Packet{Type: Proposal, Zxid: es[i].Zxid, Data: es[i].Data}, Packet{Type: Commit, Zxid: es[i].Zxid})
	}
	if !l.observer {
		out := c.leader.outstanding.All()
		for i := range out {
			*ps = append(*ps, Packet{Type: Proposal, Zxid: out[i].Zxid, Data: out[i].Data})
		}
	}
	*ps = append(*ps, Packet{Type: NewLeader, Zxid: zk.MakeZxid(c.epoch, 0), Data: c.members.Seen.text})
	l.state, l.since = synced, c.now
	if c.votes(l) {
		c.recount()
	}
	c.leader.pingDue = c.leader.pingDue || c.isHealing(l)
	l.base = max(c.last, zk.MakeZxid(c.epoch, 0))
	// What is committed from here on is of this epoch.
	l.heldAfter = max(c.committed, zk.MakeZxid(c.epoch, 0))
	l.heldUpto = l.heldAfter
}

// takeAck takes the ACK of NEWLEADER or of a proposal. Those of proposals may
// come first, from Apache up to 3.8; neither implies the other (4643, 4685).
func (c *Core) takeAck(l *learner, z zk.Zxid) error {
	switch {
	case z.Counter() != 0 && z > c.last || z < 0:
		return fmt.Errorf("it acknowledges %v, which was not proposed", z)
	case z.Counter() != 0:
		return c.takeProposalAck(l, z)
	}
	if z.Epoch() != c.epoch {
		return fmt.Errorf("it acknowledges epoch %d, this one is %d", z.Epoch(), c.epoch)
	}
	if l.newAcked {
		return nil // the second one, after UPTODATE
	}
	l.newAcked, l.contact = true, c.now
	if c.leader.stage == leading {
		c.bringUpToDate(l)
	}
	return nil
}
