package zab

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/pinfold-zk/pinfold/internal/fifo"
	"github.com/pinfold-zk/pinfold/internal/zab/election"
	"github.com/pinfold-zk/pinfold/internal/zab/quorum"
	"github.com/pinfold-zk/pinfold/zk"
)

// leaderState is the state of a leader. A follower that serves observers has it too, with these as
// its only learners (master.go).
type leaderState struct {
	links    map[LinkID]*learner
	learners []*learner         // of links, as they came
	holders  map[int64]*learner // by the server id that the learner holds

	stage        stage
	hopeless     error      // why there can be no epoch
	refusedEpoch uint32     // the latest for which a voter was refused before the epoch began, see approachEpoch
	epochSeq     uint64     // of the write of its own epoch file: from then on it is one of the stage's quorum
	accepted     quorum.Set // followers that have accepted the epoch, and whose history counts
	spared       spared     // a voter without which a quorum is waited for

	zxid        zk.Zxid           // last proposed
	outstanding fifo.Queue[Entry] // not committed, of one epoch without a gap
	acks        []*ack            // of followers, each server id once
	oldestSince time.Duration     // when the oldest of them became the oldest

	lastPing  time.Duration
	leaseEnd  time.Duration // before this no learner is silent for too long
	syncs     fifo.Queue[pendingSync]
	round     uint64 // of pings, that began last
	pingDue   bool   // by the clock
	wantRound bool   // by a sync, or by Drained
	farewell  uint64 // the round of pings that follows the last COMMIT, see Drained; 0: none was asked for
}

// stage is the progress of a leader.
type stage int

const (
	gatherInfo   stage = iota // waits for the accepted epochs of a quorum
	gatherEpochs              // waits until a quorum has accepted the epoch
	gatherAcks                // waits until a quorum has its history
	leading                   // serves
)

// ack is what a follower has acknowledged since it was synchronized last: all
// proposals up to upto. It outlives the follower's link.
type ack struct {
	id   int64
	upto zk.Zxid
}

// learner is a link to the leader, and the server at its other end.
type learner struct {
	link      LinkID
	id        int64 // noServer until FOLLOWERINFO or OBSERVERINFO
	observer  bool
	holds     bool          // the id counts as this link's
	acks      *ack          // of a follower that holds its id, nil otherwise
	claimed   time.Duration // when it claimed an id that another link has
	claimedIn uint64        // the round of pings that had begun last then
	since     time.Duration // when it connected, or was sent a snapshot's piece
	accepted  uint32        // what it had accepted when it came

	state        learnerStage
	sync         syncKind
	last         zk.Zxid // of its history, from ACKEPOCH
	snapFrom     zk.Zxid
	currentEpoch int32
	newAcked     bool
	base         zk.Zxid          // up to where it has the leader's history when it has acknowledged NEWLEADER
	contact      time.Duration    // when what it last answered was sent; while it is synchronized, when bytes moved last
	pings        fifo.Queue[ping] // not answered
	round        uint64           // of pings, that it has answered
	cameIn       uint64           // the round of pings that had begun last when it got its id

	// COMMITs between NEWLEADER and UPTODATE: of all in (heldAfter, heldUpto].
	heldAfter, heldUpto zk.Zxid

	send, sendOf int // in which Send of which Ready its packets go
}

type ping struct {
	round uint64
	sent  time.Duration
}

// learnerStage is the progress of a learner with its leader.
type learnerStage int

const (
	connected learnerStage = iota // has connected
	informed                      // has sent its accepted epoch
	asked                         // has been sent LEADERINFO
	claiming                      // has acknowledged the epoch, but another link has its id
	accepted                      // has acknowledged the epoch
	locating                      // its place in the log is being looked up
	awaiting                      // its snapshot is sent when snapFrom is applied
	synced                        // has been sent everything up to NEWLEADER, and gets proposals
	upToDate                      // has been sent UPTODATE
)

// lead makes this server the leader. It then waits for a quorum of followers.
func (c *Core) lead(v election.Result) {
	c.check(!c.members.Unsure, "a server that does not know who votes leads")
	c.check(!c.heals, "a server that heals leads")
	c.setPhase(Leading, discovery)
	c.settleVote(v.PeerEpoch)
	c.event(Event{Kind: EventElected, Peer: c.cfg.ID})
	c.teach()
	term := c.term
	c.admitWaiting()
	if c.term == term {
		c.advance()
	}
}

// teach begins to take learners. It ends with the role.
func (c *Core) teach() {
	s := &c.leader
	s.links, s.holders = map[LinkID]*learner{}, map[int64]*learner{}
	s.lastPing = c.now
}

// teaches reports whether this server takes learners.
func (c *Core) teaches() bool { return c.leader.links != nil }

func (c *Core) addLearner(k LinkID) {
	s := &c.leader
	l := &learner{link: k, id: noServer, since: c.now, contact: c.now, sendOf: -1}
	s.links[k] = l
	s.learners = append(s.learners, l)
}

// stepLeader takes one packet of a learner.
func (c *Core) stepLeader(l *learner, p *Packet) {
	var err error
	switch {
	case l.state == connected:
		err = c.takeInfo(l, p)
	case p.Type == AckEpoch && l.state == asked:
		err = c.takeAckEpoch(l, p)
	case l.state < synced, l.state == synced && p.Type != Ack:
		err = fmt.Errorf("%v is not due", p.Type)
	default:
		err = c.serveLearner(l, p)
	}
	switch {
	case errors.Is(err, errElsewhere): // nothing is wrong with the learner
		c.close(l.link, fmt.Errorf("%w: %w", ErrLost, err))
		c.dropLearner(l.link, err)
		return
	case err != nil:
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
		if l.pings.Len() > 0 {
			answered := *l.pings.At(0)
			l.pings.Drop(1)
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

// advance goes on to the next stage once a quorum is there. This server is one of
// it when its own epoch file is durable. The others write theirs at the same time,
// and a quorum of them suffices.
func (c *Core) advance() {
	s := &c.leader
	for c.role == Leading {
		own := c.persisted >= s.epochSeq
		switch s.stage {
		case gatherInfo:
			if !c.gathered(math.MaxUint32) {
				return
			}
			if !c.beginEpoch() {
				return
			}
		case gatherEpochs:
			if own || !c.cfg.Oracle {
				c.informAll()
			}
			if !c.system.Quorum(func(id int64) bool { return id == c.cfg.ID && own || s.accepted.Has(id) }) {
				return
			}
			c.beginSync()
		case gatherAcks:
			if !c.quorum(own, func(l *learner) bool { return l.newAcked }) {
				return
			}
			c.establish()
		case leading:
			return
		}
	}
}

// beginEpoch fixes the new epoch: the first that a quorum can accept. Of what others
// say it believes no more than it has to: if a quorum is there without those that
// have accepted the latest epochs, they are left to follow in a later one. What an
// observer has accepted does not count. It returns false if there is no later epoch.
func (c *Core) beginEpoch() bool {
	s := &c.leader
	said := []uint32{c.acceptedEpoch}
	for _, l := range s.learners {
		if l.state >= informed && l.accepted > c.acceptedEpoch {
			said = append(said, l.accepted)
		}
	}
	slices.Sort(said)
	epoch := said[slices.IndexFunc(said, c.gathered)]
	if epoch >= maxEpoch {
		s.hopeless = fmt.Errorf("epoch %d is accepted, which is the last that there is", epoch)
		return false
	}
	epoch = c.epochAlone(epoch + 1)
	c.epoch = epoch
	c.writeAcceptedEpoch(epoch)
	s.stage, s.epochSeq = gatherEpochs, c.seq
	c.event(Event{Kind: EventEpoch, Epoch: epoch})
	return true
}

// informAll sends LEADERINFO to the learners that wait for it. With an oracle it does so when the
// epoch is on the disk here: otherwise a crash could leave a learner with an epoch that is later than
// the next one (epochAlone), so that it is refused.
func (c *Core) informAll() {
	for _, l := range c.snapshotOfLearners() {
		if l.state == informed {
			c.inform(l)
		}
	}
}

// beginSync begins to make the histories of all learners this server's own.
func (c *Core) beginSync() {
	s := &c.leader
	c.writeCurrentEpoch(c.epoch)
	s.stage, s.epochSeq = gatherAcks, c.seq
	c.setPhase(Leading, syncing)
	c.settleVote(int64(c.epoch))
	for _, l := range c.snapshotOfLearners() {
		if l.state == accepted {
			c.synchronizeLearner(l)
		}
	}
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
	c.forgetHeard()
	if m := c.members; m.Own { // a quorum of its own list follows: that is the ensemble's
		m.Own = false
		c.setMembers(m)
	}
	if err := c.commitMembers(c.committed); err != nil {
		c.leave(err)
	}
}

// bringUpToDate lets a learner serve.
func (c *Core) bringUpToDate(l *learner) {
	l.state, l.contact = upToDate, c.now
	c.leader.leaseEnd = min(c.leader.leaseEnd, c.now+c.ticks(c.cfg.SyncLimit))
	c.sendTo(l, Packet{Type: UpToDate, Zxid: -1})
	for l.heldAfter < l.heldUpto {
		l.heldAfter++
		c.sendTo(l, c.commitPacket(l.heldAfter))
	}
	c.event(Event{Kind: EventJoined, Peer: l.id, Link: l.link})
}

// quorum reports whether the voters that has holds for are a quorum, together with
// this server if own is true.
func (c *Core) quorum(own bool, has func(*learner) bool) bool {
	return c.system.Quorum(func(id int64) bool {
		if id == c.cfg.ID {
			return own
		}
		l := c.leader.holders[id]
		return l != nil && !l.observer && has(l)
	})
}

// snapshotOfLearners returns the learners as they are now, in the order in which
// they came.
func (c *Core) snapshotOfLearners() []*learner {
	return append([]*learner(nil), c.leader.learners...)
}
