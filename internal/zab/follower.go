package zab

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/pinfold-zk/pinfold/zk"
)

// follower takes a packet of the broadcast phase.
func (c *Core) follower(p *Packet) error {
	switch p.Type {
	case Proposal:
		return c.takeProposal(p)
	case Commit, CommitAndActivate:
		return c.takeCommit(p)
	case Inform, InformAndActivate:
		return c.takeInform(p)
	case Ping, Sync, Revalidate:
		c.deliver(p)
		return nil
	case UpToDate:
		return nil // Apache ignores a second one
	}
	return fmt.Errorf("%v during broadcast", p.Type)
}

func (c *Core) deliver(p *Packet) {
	c.ready.Deliver = append(c.ready.Deliver, Delivery{Link: c.learner.link, Packet: *p, At: c.committed})
}

// takeEntry appends a transaction that the leader has sent.
func (c *Core) takeEntry(e Entry) error {
	z := e.Zxid
	if z < 0 || z.Epoch() > c.epoch {
		return fmt.Errorf("transaction %v in epoch %d: is it of another ensemble?", z, c.epoch)
	}
	if !follows(c.last, z) {
		c.resync(fmt.Sprintf("the leader sent %v behind %v", z, c.last))
		return fmt.Errorf("%v is not the transaction after %v", z, c.last)
	}
	if c.cfg.Accept != nil {
		if err := c.cfg.Accept(e); err != nil {
			return fmt.Errorf("server %d, the leader, sent %v: %w: is it a leader?", c.learner.leader, z, err)
		}
	}
	c.raiseEpoch(z)
	c.seeEntry(e)
	c.append(e)
	return nil
}

func (c *Core) takeProposal(p *Packet) error {
	l := &c.learner
	e := Entry{p.Zxid, p.Data}
	if err := c.takeEntry(e); err != nil {
		return err
	}
	l.pending.Push(e)
	if c.role == Following {
		l.unacked.Push(owed{e.Zxid, c.seq})
	}
	return nil
}

// ackProposals acknowledges the proposals that are durable, once NEWLEADER is.
func (c *Core) ackProposals() {
	l := &c.learner
	if !l.newAcked {
		return
	}
	n := 0
	for n < l.unacked.Len() && l.unacked.At(n).seq <= c.persisted {
		z := l.unacked.At(n).zxid
		if z > c.persistedZxid {
			c.broken("%v is acknowledged, durable is %v", z, c.persistedZxid)
		}
		*c.packet() = Packet{Type: Ack, Zxid: z}
		n++
	}
	if n > 0 {
		l.unacked.Drop(n)
	}
}

// takeCommit commits the oldest pending transaction, which it must be.
func (c *Core) takeCommit(p *Packet) error {
	l := &c.learner
	if p.Type == CommitAndActivate && !c.dynamic() {
		c.event(Event{Kind: EventDesignation, Peer: l.leader, Zxid: p.Zxid})
	}
	if l.pending.Len() == 0 || l.pending.At(0).Zxid != p.Zxid {
		return fmt.Errorf("COMMIT of %v, which is not the oldest proposal; %d are pending", p.Zxid, l.pending.Len())
	}
	c.commitEntry(*l.pending.At(0))
	c.informObservers(p)
	l.pending.Drop(1)
	if !l.newLeader && l.unacked.Len() > 0 {
		l.unacked.Drop(1) // the ACK of NEWLEADER covers it
	}
	return c.obey(c.commitKnown(p.Zxid), p)
}

// commitKnown notes a change of the membership up to z as committed. Before UPTODATE
// the leader's COMMIT does not mean that yet.
func (c *Core) commitKnown(z zk.Zxid) error {
	if !c.learner.upToDate {
		return nil
	}
	return c.commitMembers(z)
}

// obey goes to the leader that COMMITANDACTIVATE or INFORMANDACTIVATE designates, without an
// election, if this server has to leave its role because of err, or if it is not the present
// leader. An Apache leader that is not designated commits nothing any more and stays where it
// is, as long as it has followers. The result says why the role is left; nil if it is not.
func (c *Core) obey(err error, p *Packet) error {
	if p.Type != CommitAndActivate && p.Type != InformAndActivate || !c.dynamic() || !c.learner.upToDate || len(p.Data) < 8 {
		return err
	}
	id := int64(binary.BigEndian.Uint64(p.Data))
	if err == nil && id == c.learner.leader {
		return nil
	}
	if err == nil {
		err = fmt.Errorf("server %d leads from the change of the membership at %v on", id, p.Zxid)
	}
	c.retryAt(id)
	return err
}

// takeInform appends and commits at once: an observer is told of what is
// committed only.
func (c *Core) takeInform(p *Packet) error {
	e := Entry{p.Zxid, p.Data}
	if p.Type == InformAndActivate {
		if len(e.Data) < 8 {
			return errors.New("INFORMANDACTIVATE without a leader's id")
		}
		e.Data = e.Data[8:]
		if !c.dynamic() {
			c.event(Event{Kind: EventDesignation, Peer: c.learner.leader, Zxid: p.Zxid})
		}
	}
	if c.learner.pending.Len() > 0 {
		return fmt.Errorf("INFORM of %v while %v is not committed", p.Zxid, c.learner.pending.At(0).Zxid)
	}
	if err := c.takeEntry(e); err != nil {
		return err
	}
	c.commitEntry(e)
	return c.obey(c.commitKnown(e.Zxid), p)
}

func (c *Core) commitEntry(e Entry) {
	c.committed = e.Zxid
	c.window.add(e)
	c.publish()
	c.serveIfReady()
}
