package zab

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/pinfold-zk/pinfold/internal/zab/election"
	"github.com/pinfold-zk/pinfold/zk"
)

// leaderState is what a leader keeps.
type leaderState struct {
	links map[LinkID]*learner
	order []LinkID // of links, as they came

	stage     stage
	epochSeq  uint64 // of the write of the stage's epoch file
	reached   int    // ACKEPOCHs of voters that count, this server's included
	lastTick  time.Duration
	bits      map[int64]uint64 // of the voters in a proposal's acks
	self      uint64
	majority  map[uint64]bool // acks that are known to be a quorum, or not
	zxid      zk.Zxid         // last proposed
	syncs     []pendingSync
	round     uint64 // of pings, that began last
	wantRound bool

	outstanding proposals
}

// stage is how far a leader has got.
type stage int

const (
	gatherInfo   stage = iota // waits for the accepted epochs of a quorum
	acceptOwn                 // writes its own accepted epoch
	gatherEpochs              // waits until a quorum has accepted the epoch
	raiseOwn                  // writes its own current epoch
	gatherAcks                // waits until a quorum has its history
	leading                   // serves
)

// learner is a link to the leader and who is behind it.
type learner struct {
	link     LinkID
	id       int64 // noServer until FOLLOWERINFO or OBSERVERINFO
	observer bool
	voter    bool
	since    time.Duration // when it connected, or was sent a snapshot's piece
	accepted uint32        // what it had accepted when it came

	state    learnerStage
	last     zk.Zxid // of its history, from ACKEPOCH
	current  int32
	held     []Packet // COMMITs between NEWLEADER and UPTODATE
	newAcked bool
	contact  time.Duration // when what it last answered was sent
	pings    []ping        // not answered
	round    uint64        // of pings, that it has answered
	acked    zk.Zxid       // last proposal acknowledged
	lag      time.Duration // since when it owes an ACK; 0: it owes none
}

type ping struct {
	round uint64
	sent  time.Duration
}

// learnerStage is how far a learner has got with its leader.
type learnerStage int

const (
	told     learnerStage = iota // has connected
	informed                     // has sent its accepted epoch
	asked                        // has been sent LEADERINFO
	accepted                     // has acknowledged the epoch
	looking                      // its place in the log is being looked up
	synced                       // has been sent everything up to NEWLEADER, and gets proposals
	current                      // has been sent UPTODATE
)

// lead takes the role of the leader: a quorum has to come.
func (c *Core) lead(v election.Result) {
	c.setPhase(Leading, discovery)
	c.settleVote(v.PeerEpoch)
	c.ready.Events = append(c.ready.Events, Event{Kind: EventElected, Peer: c.cfg.ID})
	s := &c.leader
	s.links, s.bits, s.majority = map[LinkID]*learner{}, map[int64]uint64{}, map[uint64]bool{}
	for i, id := range c.cfg.System.Voters() {
		s.bits[id] = 1 << i
	}
	s.self, s.lastTick = s.bits[c.cfg.ID], c.now
	c.admitEarly()
	c.advance()
}

// stepLeader takes one packet of a learner.
func (c *Core) stepLeader(l *learner, p *Packet) {
	var err error
	switch {
	case l.state == told:
		err = c.takeInfo(l, p)
	case p.Type == AckEpoch && l.state == asked:
		err = c.takeAckEpoch(l, p)
	case l.state < synced:
		err = fmt.Errorf("%v is not due", p.Type)
	default:
		err = c.serveLearner(l, p)
	}
	if err != nil {
		c.refuse(l, err)
		return
	}
	c.advance()
}

// serveLearner takes the packets of a learner that is being synchronized, or
// is.
func (c *Core) serveLearner(l *learner, p *Packet) error {
	switch p.Type {
	case Ack:
		return c.takeAck(l, p.Zxid)
	case Ping:
		if len(l.pings) > 0 {
			l.contact, l.round = max(l.contact, l.pings[0].sent), l.pings[0].round
			l.pings = l.pings[1:]
			c.answerSyncs()
		}
		c.ready.Deliver = append(c.ready.Deliver, Delivery{Link: l.link, Packet: *p})
	case Request, Revalidate:
		c.ready.Deliver = append(c.ready.Deliver, Delivery{Link: l.link, Packet: *p})
	default:
		return fmt.Errorf("%v from a learner", p.Type)
	}
	return nil
}

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
	voter := c.cfg.System.Voter(id)
	switch {
	case id == c.cfg.ID:
		return fmt.Errorf("it says that it is server %d, which is this one", id)
	case p.Type == FollowerInfo && !voter:
		return fmt.Errorf("server %d wants to follow, but has no vote in the configuration", id)
	case p.Zxid.Epoch() > maxEpoch:
		return fmt.Errorf("server %d has accepted epoch %#x: is it of another ensemble?", id, p.Zxid.Epoch())
	}
	c.replaceOlder(l, id)
	l.id, l.observer, l.voter = id, p.Type == ObserverInfo, voter && p.Type == FollowerInfo
	l.accepted, l.state, l.contact = p.Zxid.Epoch(), informed, c.now
	if c.leader.stage > acceptOwn {
		c.inform(l)
	}
	return nil
}

// maxEpoch is the last epoch that fits the signed zxids of Java.
const maxEpoch = 1<<31 - 1

// replaceOlder closes the link that the same server had before.
func (c *Core) replaceOlder(l *learner, id int64) {
	for _, k := range c.leader.order {
		if old := c.leader.links[k]; old != l && old.id == id && id >= 0 {
			c.dropLearner(k, fmt.Errorf("server %d has connected anew", id))
			c.close(k, fmt.Errorf("%w: server %d has connected anew", ErrLost, id))
			return
		}
	}
}

// inform sends LEADERINFO.
func (c *Core) inform(l *learner) {
	if l.accepted > c.epoch {
		c.refuse(l, fmt.Errorf("it has accepted epoch %d, this one is %d", l.accepted, c.epoch))
		return
	}
	l.state = asked
	c.send(l.link, Packet{
		Type: LeaderInfo, Zxid: zk.MakeZxid(c.epoch, 0), Data: binary.BigEndian.AppendUint32(nil, ProtocolVersion),
	})
}

// takeAckEpoch takes a learner's history.
func (c *Core) takeAckEpoch(l *learner, p *Packet) error {
	if len(p.Data) < 4 {
		return errors.New("ACKEPOCH without an epoch")
	}
	l.current, l.last = int32(binary.BigEndian.Uint32(p.Data)), p.Zxid
	if l.last != -1 && l.last > max(c.leader.zxid, zk.MakeZxid(c.epoch, 0)) || int64(l.current) >= int64(c.epoch) {
		return fmt.Errorf("its history is of epoch %d and ends at %v, this epoch is %d: is it of another ensemble?", l.current, l.last, c.epoch)
	}
	l.state, l.contact = accepted, c.now
	if c.leader.stage > gatherEpochs {
		c.synchronizeLearner(l)
		return nil
	}
	if l.voter && l.current != -1 && l.last != -1 && c.moreRecent(l) {
		c.leave(fmt.Errorf("server %d has a longer history: epoch %d, zxid %v; this one's is %d, %v",
			l.id, l.current, l.last, c.currentEpoch, c.last))
	}
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

// advance goes on to the next stage once a quorum is there.
func (c *Core) advance() {
	s := &c.leader
	for c.role == Leading {
		switch s.stage {
		case gatherInfo:
			if !c.quorum(func(l *learner) bool { return l.state >= informed }) {
				return
			}
			c.beginEpoch()
		case acceptOwn:
			if c.persisted < s.epochSeq {
				return
			}
			s.stage = gatherEpochs
			for _, l := range c.learners() {
				if l.state == informed {
					c.inform(l)
				}
			}
		case gatherEpochs:
			if !c.quorum(func(l *learner) bool { return l.state >= accepted && l.current != -1 && l.last != -1 }) {
				return
			}
			c.writeCurrentEpoch(c.epoch)
			s.epochSeq, s.stage = c.seq, raiseOwn
			c.settleVote(int64(c.epoch))
		case raiseOwn:
			if c.persisted < s.epochSeq {
				return
			}
			s.stage = gatherAcks
			c.setPhase(Leading, syncing)
			for _, l := range c.learners() {
				if l.state == accepted {
					c.synchronizeLearner(l)
				}
			}
		case gatherAcks:
			if !c.quorum(func(l *learner) bool { return l.newAcked }) {
				return
			}
			c.establish()
		case leading:
			return
		}
	}
}

// beginEpoch fixes the new epoch: later than every one that a quorum has
// accepted.
func (c *Core) beginEpoch() {
	epoch := c.acceptedEpoch
	for _, l := range c.learners() {
		if l.voter && l.state >= informed {
			epoch = max(epoch, l.accepted)
		}
	}
	epoch++
	c.check(epoch <= maxEpoch, "no epoch is left")
	c.epoch = epoch
	c.writeAcceptedEpoch(epoch)
	c.leader.epochSeq, c.leader.stage = c.seq, acceptOwn
	c.ready.Events = append(c.ready.Events, Event{Kind: EventEpoch, Epoch: epoch})
}

// establish begins to serve: a quorum has the leader's history.
func (c *Core) establish() {
	s := &c.leader
	s.stage, s.zxid = leading, zk.MakeZxid(c.epoch, 0)
	c.setPhase(Leading, broadcast)
	c.ready.Events = append(c.ready.Events, Event{Kind: EventServing, Peer: c.cfg.ID, Epoch: c.epoch})
	for _, l := range c.learners() {
		l.contact = c.now
		if l.newAcked {
			c.bringUpToDate(l)
		}
	}
}

// bringUpToDate lets a learner serve.
func (c *Core) bringUpToDate(l *learner) {
	l.state, l.contact = current, c.now
	c.send(l.link, Packet{Type: UpToDate, Zxid: -1})
	c.send(l.link, l.held...)
	l.held = nil
	c.ready.Events = append(c.ready.Events, Event{Kind: EventJoined, Peer: l.id, Link: l.link})
}

// quorum reports whether this server and the voters that has holds for are one.
func (c *Core) quorum(has func(*learner) bool) bool {
	return c.cfg.System.Quorum(func(id int64) bool {
		if id == c.cfg.ID {
			return true
		}
		l := c.voter(id)
		return l != nil && has(l)
	})
}

// voter returns the learner that is this voter, nil if it is not there.
func (c *Core) voter(id int64) *learner {
	for _, k := range c.leader.order {
		if l := c.leader.links[k]; l.voter && l.id == id {
			return l
		}
	}
	return nil
}

// learners returns the learners in the order in which they came.
func (c *Core) learners() []*learner {
	ls := make([]*learner, 0, len(c.leader.order))
	for _, k := range c.leader.order {
		ls = append(ls, c.leader.links[k])
	}
	return ls
}

func (c *Core) leaderPersisted() {
	c.advance()
	if c.role == Leading && c.leader.stage == leading {
		c.commitProposals()
	}
}

// refuse closes the link of a peer that breaks the protocol or does not belong
// here.
func (c *Core) refuse(l *learner, err error) {
	c.ready.Events = append(c.ready.Events, Event{Kind: EventRefused, Peer: l.id, Link: l.link, Reason: err.Error()})
	c.close(l.link, fmt.Errorf("%w: %w", ErrLost, err))
	c.dropLearner(l.link, err)
}

// dropLearner forgets a link that is closed. Without a quorum the leader leaves
// at once: nobody else can be elected before that.
func (c *Core) dropLearner(k LinkID, err error) {
	s := &c.leader
	l := s.links[k]
	if l == nil {
		return
	}
	delete(s.links, k)
	for i, o := range s.order {
		if o == k {
			s.order = append(s.order[:i:i], s.order[i+1:]...)
			break
		}
	}
	if l.id != noServer {
		c.ready.Events = append(c.ready.Events, Event{Kind: EventGone, Peer: l.id, Link: k, Reason: err.Error()})
	}
	if l.voter && s.stage == leading && !c.quorum(func(l *learner) bool { return l.newAcked }) {
		c.leave(errors.New("no quorum of followers is left"))
	}
}

// leaderTick pings, and gives up learners and in the end itself when nothing is
// heard. A follower leaves a leader that it has not heard of for syncLimit; what
// counts here is when that which it last answered was sent, so that the leader has
// stepped down before its followers elect another.
func (c *Core) leaderTick() {
	s := &c.leader
	initLimit := time.Duration(c.cfg.InitLimit) * c.cfg.Tick
	syncLimit := time.Duration(c.cfg.SyncLimit) * c.cfg.Tick
	lease := syncLimit
	if c.cfg.SyncLimit > 1 {
		lease -= c.cfg.Tick / 2 // the time between two ticks
	}
	for _, l := range c.learners() {
		switch {
		case l.state < synced && c.now-l.since > initLimit, l.state == synced && c.now-l.since > initLimit+syncLimit:
			c.refuse(l, errors.New("not synchronized within initLimit"))
		case l.state == current && c.now-l.contact > lease:
			c.refuse(l, fmt.Errorf("nothing heard for %v", c.now-l.contact))
		case l.state == current && l.lag != 0 && c.now-l.lag > syncLimit:
			c.refuse(l, fmt.Errorf("it acknowledges nothing for %v", c.now-l.lag))
		}
		if c.role != Leading {
			return
		}
	}
	if s.stage != leading {
		if c.now-c.since > initLimit {
			c.leave(errors.New("no quorum has come within initLimit"))
		}
		return
	}
	if c.now-s.lastTick >= c.cfg.Tick/2 {
		s.lastTick, s.wantRound = c.now, true
	}
}
