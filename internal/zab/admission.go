package zab

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/pinfold-zk/pinfold/zk"
)

// maxEpoch is the last epoch that fits the signed zxids of Java.
const maxEpoch = 1<<31 - 1

// takeInfo takes FOLLOWERINFO or OBSERVERINFO.
func (c *Core) takeInfo(l *learner, p *Packet) error {
	if p.Type != FollowerInfo && p.Type != ObserverInfo {
		return fmt.Errorf("the first packet is %v", p.Type)
	}
	if len(p.Data) < 8 {
		return fmt.Errorf("%v without a server id", p.Type)
	}
	id := int64(binary.BigEndian.Uint64(p.Data))
	if len(p.Data) >= 20 {
		if v := int64(binary.BigEndian.Uint64(p.Data[12:])); v > 0 {
			return fmt.Errorf("its configuration has version %#x, ours is static: is it of another ensemble?", v)
		}
	}
	index, voter := c.cfg.System.Index(id)
	switch {
	case id == c.cfg.ID || id == noServer:
		return fmt.Errorf("it says that it is server %d, which is not possible", id)
	case p.Type == FollowerInfo && !voter:
		return fmt.Errorf("server %d wants to follow, but has no vote in the configuration", id)
	case p.Zxid.Epoch() >= maxEpoch:
		return fmt.Errorf("server %d has accepted epoch %#x: is it of another ensemble?", id, p.Zxid.Epoch())
	}
	term := c.term
	if c.replaceOlder(l, id); c.role != Leading || c.term != term {
		return nil // it has left this server, and its leaving was the end
	}
	l.id, l.observer = id, p.Type == ObserverInfo
	if !l.observer {
		l.voter = index
		c.leader.voters[index] = l
	}
	l.accepted, l.state, l.contact = p.Zxid.Epoch(), informed, c.now
	if c.leader.stage >= gatherEpochs {
		c.inform(l)
	}
	return nil
}

// replaceOlder closes the link that the same server had before.
func (c *Core) replaceOlder(l *learner, id int64) {
	for _, old := range c.leader.learners {
		if old != l && old.id == id && id >= 0 {
			c.dropLearner(old.link, fmt.Errorf("server %d has connected anew", id))
			c.close(old.link, fmt.Errorf("%w: server %d has connected anew", ErrLost, id))
			return
		}
	}
}

// inform sends LEADERINFO.
func (c *Core) inform(l *learner) {
	if l.accepted > c.epoch {
		c.refuse(l, fmt.Errorf("it has accepted epoch %d, this one is %d", l.accepted, c.epoch))
		c.lockedOut(l)
		return
	}
	l.state = asked
	c.sendTo(l, Packet{
		Type: LeaderInfo, Zxid: zk.MakeZxid(c.epoch, 0), Data: binary.BigEndian.AppendUint32(nil, ProtocolVersion),
	})
}

// lockedOut ends this server's leadership for the sake of a voter that cannot
// come back before there is a later epoch: it has accepted one from a leader that
// got no further. It may wait for initLimit, since it is of no use yet. Only one
// whose vote is no better than this server's own is let in like that: another
// ensemble's server would win the election.
func (c *Core) lockedOut(l *learner) {
	s := &c.leader
	if l.voter < 0 || s.stage != leading || !c.standings[l.voter].behind(int64(c.epoch), c.last) {
		return
	}
	switch {
	case !s.locked:
		s.locked, s.lockedSince = true, c.now
	case c.now-s.lockedSince >= c.ticks(c.cfg.InitLimit):
		c.atLeast = max(c.atLeast, l.accepted)
		c.leave(fmt.Errorf("server %d has accepted epoch %d and needs a later one", l.id, l.accepted))
	}
}

// standing is what a voter stood for when it last looked for a leader.
type standing struct {
	known bool
	epoch int64
	zxid  zk.Zxid
}

// behind reports whether it is known to be no better than an epoch and a zxid.
func (s standing) behind(epoch int64, z zk.Zxid) bool {
	return s.known && (s.epoch < epoch || s.epoch == epoch && s.zxid <= z)
}

// takeAckEpoch takes a learner's history. While a quorum is gathered, one that is
// later than ours ends this server's leadership: it may hold what is committed.
func (c *Core) takeAckEpoch(l *learner, p *Packet) error {
	if len(p.Data) < 4 {
		return errors.New("ACKEPOCH without an epoch")
	}
	l.current, l.last = int32(binary.BigEndian.Uint32(p.Data)), p.Zxid
	end := max(c.leader.zxid, zk.MakeZxid(c.epoch, 0))
	if l.last < -1 || l.last > end || l.current < -1 || int64(l.current) >= int64(c.epoch) {
		return fmt.Errorf("its history is of epoch %d and ends at %v, this epoch is %d: is it of another ensemble?", l.current, l.last, c.epoch)
	}
	l.state, l.contact = accepted, c.now
	if c.leader.stage >= gatherAcks {
		c.synchronizeLearner(l)
		return nil
	}
	if c.leader.stage != gatherEpochs || l.voter < 0 || l.current == -1 || l.last == -1 {
		return nil
	}
	if c.moreRecent(l) {
		c.leave(fmt.Errorf("server %d has a longer history: epoch %d, zxid %v; this one's is %d, %v",
			l.id, l.current, l.last, c.currentEpoch, c.last))
		return nil
	}
	c.leader.accepted |= 1 << l.voter
	return nil
}

// moreRecent reports whether the learner's history is later than ours. A zxid
// with counter 0 says that the learner has what its epoch began with, which
// every server with that current epoch has.
func (c *Core) moreRecent(l *learner) bool {
	mine := int64(c.currentEpoch)
	if int64(l.current) != mine {
		return int64(l.current) > mine
	}
	return l.last > c.last && !(l.last.Counter() == 0 && int64(l.last.Epoch()) == mine)
}
