package zab

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/pinfold-zk/pinfold/internal/zab/election"
	"github.com/pinfold-zk/pinfold/zk"
)

// leaderState is what a leader keeps.
type leaderState struct {
	links    map[LinkID]*learner
	learners []*learner // of links, as they came
	voters   []*learner // by the index of the voter, nil if it is not there
	self     uint64     // this server's bit

	stage    stage
	epochSeq uint64 // of the write of the stage's epoch file
	accepted uint64 // voters that have accepted the epoch, and whose history counts

	zxid        zk.Zxid // last proposed
	outstanding proposals
	quorums     map[uint64]bool // acks that are known to be a quorum, or not
	lastAcks    uint64          // of which lastIs was worked out last
	lastIs      bool

	locked      bool // a voter is locked out by its accepted epoch
	lockedSince time.Duration

	lastPing  time.Duration
	leaseEnd  time.Duration // before this no learner is silent for too long
	syncs     queue[pendingSync]
	round     uint64 // of pings, that began last
	pingDue   bool   // by the clock
	wantRound bool   // by a sync
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
	voter    int           // its index among the voters, -1 if it has no vote
	since    time.Duration // when it connected, or was sent a snapshot's piece
	accepted uint32        // what it had accepted when it came

	state    learnerStage
	last     zk.Zxid // of its history, from ACKEPOCH
	snapFrom zk.Zxid
	current  int32
	newAcked bool
	contact  time.Duration // when what it last answered was sent
	pings    queue[ping]   // not answered
	round    uint64        // of pings, that it has answered

	// COMMITs between NEWLEADER and UPTODATE: of all in (heldAfter, heldUpto].
	heldAfter, heldUpto zk.Zxid

	acked zk.Zxid // last proposal acknowledged
	owes  bool    // an ACK
	lag   time.Duration

	send, sendOf int // in which Send of which Ready its packets go
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
	awaiting                     // its snapshot is sent when snapFrom is applied
	synced                       // has been sent everything up to NEWLEADER, and gets proposals
	current                      // has been sent UPTODATE
)

// lead takes the role of the leader: a quorum has to come.
func (c *Core) lead(v election.Result) {
	c.setPhase(Leading, discovery)
	c.settleVote(v.PeerEpoch)
	c.event(Event{Kind: EventElected, Peer: c.cfg.ID})
	s := &c.leader
	s.links, s.quorums = map[LinkID]*learner{}, map[uint64]bool{}
	s.voters = make([]*learner, len(c.cfg.System.Voters()))
	if i, ok := c.cfg.System.Index(c.cfg.ID); ok {
		s.self = 1 << i
	}
	s.lastPing = c.now
	term := c.term
	c.admitEarly()
	if c.term == term {
		c.advance()
	}
}

func (c *Core) addLearner(k LinkID) {
	s := &c.leader
	l := &learner{link: k, id: noServer, voter: -1, since: c.now, contact: c.now, sendOf: -1}
	s.links[k] = l
	s.learners = append(s.learners, l)
}

// stepLeader takes one packet of a learner.
func (c *Core) stepLeader(l *learner, p *Packet) {
	var err error
	switch {
	case l.state == told:
		err = c.takeInfo(l, p)
	case p.Type == AckEpoch && l.state == asked:
		err = c.takeAckEpoch(l, p)
	case l.state < synced, l.state == synced && p.Type != Ack:
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
		if l.pings.len() > 0 {
			answered := *l.pings.at(0)
			l.pings.drop(1)
			l.contact, l.round = max(l.contact, answered.sent), answered.round
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
	if c.leader.stage > acceptOwn {
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
			s.accepted = s.self
			for _, l := range c.snapshotOfLearners() {
				if l.state == informed {
					c.inform(l)
				}
			}
		case gatherEpochs:
			if !c.isQuorum(s.accepted) {
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
			for _, l := range c.snapshotOfLearners() {
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
// accepted. What an observer has accepted does not count: anybody can say that
// he is one.
func (c *Core) beginEpoch() {
	epoch := max(c.acceptedEpoch, c.atLeast)
	for _, l := range c.leader.voters {
		if l != nil && l.state >= informed {
			epoch = max(epoch, l.accepted)
		}
	}
	if epoch >= maxEpoch {
		c.leave(fmt.Errorf("epoch %d is accepted, which is the last that there is", epoch))
		return
	}
	epoch++
	c.epoch = epoch
	c.writeAcceptedEpoch(epoch)
	c.leader.epochSeq, c.leader.stage = c.seq, acceptOwn
	c.event(Event{Kind: EventEpoch, Epoch: epoch})
}

// establish begins to serve: a quorum has the leader's history.
func (c *Core) establish() {
	s := &c.leader
	s.stage, s.zxid = leading, zk.MakeZxid(c.epoch, 0)
	s.pingDue, s.leaseEnd = true, math.MaxInt64
	c.needSnap, c.misses = false, 0
	c.setPhase(Leading, broadcast)
	c.event(Event{Kind: EventServing, Peer: c.cfg.ID, Epoch: c.epoch})
	for _, l := range s.learners {
		if l.newAcked {
			c.bringUpToDate(l)
		}
	}
}

// bringUpToDate lets a learner serve.
func (c *Core) bringUpToDate(l *learner) {
	l.state, l.contact, l.lag = current, c.now, c.now
	c.leader.leaseEnd = min(c.leader.leaseEnd, c.now+c.ticks(c.cfg.SyncLimit))
	c.sendTo(l, Packet{Type: UpToDate, Zxid: -1})
	for l.heldAfter < l.heldUpto {
		l.heldAfter++
		c.sendTo(l, Packet{Type: Commit, Zxid: l.heldAfter})
	}
	c.event(Event{Kind: EventJoined, Peer: l.id, Link: l.link})
}

// quorum reports whether this server and the voters that has holds for are one.
func (c *Core) quorum(has func(*learner) bool) bool {
	return c.cfg.System.Quorum(func(id int64) bool {
		if id == c.cfg.ID {
			return true
		}
		i, _ := c.cfg.System.Index(id)
		l := c.leader.voters[i]
		return l != nil && has(l)
	})
}

// isQuorum reports whether a set of voters, as bits, is a quorum. It remembers
// what it has worked out: few sets come up.
func (c *Core) isQuorum(acks uint64) bool {
	s := &c.leader
	if acks == s.lastAcks {
		return s.lastIs
	}
	is, known := s.quorums[acks]
	if !known {
		is = c.cfg.System.Quorum(func(id int64) bool {
			i, _ := c.cfg.System.Index(id)
			return acks&(1<<i) != 0
		})
		if len(s.quorums) > 1<<10 {
			clear(s.quorums)
		}
		s.quorums[acks] = is
	}
	s.lastAcks, s.lastIs = acks, is
	return is
}

// snapshotOfLearners returns the learners as they are now, in the order in which
// they came.
func (c *Core) snapshotOfLearners() []*learner {
	return append([]*learner(nil), c.leader.learners...)
}

// refuse closes the link of a peer that breaks the protocol or does not belong
// here.
func (c *Core) refuse(l *learner, err error) {
	c.event(Event{Kind: EventRefused, Peer: l.id, Link: l.link, Reason: err.Error()})
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
	for i := range s.learners {
		if s.learners[i] == l {
			s.learners = append(s.learners[:i:i], s.learners[i+1:]...)
			break
		}
	}
	if l.voter >= 0 {
		s.voters[l.voter] = nil
	}
	if l.id != noServer {
		c.event(Event{Kind: EventGone, Peer: l.id, Link: k, Reason: err.Error()})
	}
	if l.voter >= 0 && s.stage == leading && !c.quorum(func(l *learner) bool { return l.newAcked }) {
		c.leave(errors.New("no quorum of followers is left"))
	}
}

// leaderTick pings, and gives up learners and in the end itself when nothing is
// heard. A follower leaves a leader that it has not heard of for syncLimit; what
// counts here is when that which it last answered was sent, so that the leader has
// stepped down before its followers elect another.
func (c *Core) leaderTick() {
	s, term := &c.leader, c.term
	for _, l := range c.snapshotOfLearners() {
		if err := c.overdue(l); err != nil {
			c.refuse(l, err)
		}
		if c.role != Leading || c.term != term {
			return
		}
	}
	if s.stage != leading {
		if c.now-c.since > c.ticks(c.cfg.InitLimit) {
			c.leave(errors.New("no quorum has come within initLimit"))
		}
		return
	}
	s.leaseEnd = math.MaxInt64
	for _, l := range s.learners {
		if l.state == current {
			s.leaseEnd = min(s.leaseEnd, l.contact+c.ticks(c.cfg.SyncLimit))
		}
	}
	if c.now-s.lastPing >= c.cfg.Tick/2 {
		s.lastPing, s.pingDue = c.now, true
	}
}

// overdue returns why a learner is given up, nil if it is not.
func (c *Core) overdue(l *learner) error {
	initLimit, syncLimit := c.ticks(c.cfg.InitLimit), c.ticks(c.cfg.SyncLimit)
	switch {
	case l.state < synced && c.now-l.since > initLimit,
		l.state == synced && !l.newAcked && c.now-l.since > initLimit+syncLimit:
		return errors.New("not synchronized within initLimit")
	case l.state == current && c.now-l.contact >= syncLimit:
		return fmt.Errorf("nothing heard for %v", c.now-l.contact)
	case l.state == current && l.owes && c.now-l.lag > syncLimit:
		return fmt.Errorf("it acknowledges nothing for %v", c.now-l.lag)
	}
	return nil
}
