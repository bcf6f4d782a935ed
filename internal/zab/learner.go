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

// learnerState is what a follower or observer keeps.
type learnerState struct {
	leader int64
	before uint32        // the current epoch when the role was taken
	link   LinkID        // to the leader; 0 until Dialing
	heard  time.Duration // when the leader last gave a sign of life

	epochSeq  uint64 // ACKEPOCH waits for this write; 0: it does not
	chosen    bool   // DIFF, TRUNC or SNAP has come
	newSeq    uint64 // the ACK of NEWLEADER waits for this write; 0: no NEWLEADER yet
	newAcked  bool
	upToDate  zk.Zxid // serving begins when this is committed
	activated bool    // UPTODATE has come

	pending []Entry // appended, not committed
	unacked []Entry // proposals whose ACK waits for the disk
	ackSeqs []uint64

	// needSnap is kept over roles: what is on the disk cannot be made the
	// leader's history by a DIFF or TRUNC.
	needSnap bool
}

// follow takes the role of a learner: the leader is dialled.
func (c *Core) follow(r Role, v election.Result) {
	c.learner = learnerState{leader: v.Leader, before: c.currentEpoch, heard: c.now, needSnap: c.learner.needSnap}
	c.setPhase(r, connecting)
	c.closeEarly(c.now)
	c.settleVote(v.PeerEpoch)
	c.ready.Events = append(c.ready.Events, Event{Kind: EventElected, Peer: v.Leader})
	c.ready.Dial = v.Leader
}

// settleVote tells the election what others are to be told.
func (c *Core) settleVote(epoch int64) {
	switch c.role {
	case Leading:
		c.election.Settle(election.Leading, c.cfg.ID, epoch)
	case Following:
		c.election.Settle(election.Following, c.learner.leader, epoch)
	case Observing:
		c.election.Settle(election.Observing, c.learner.leader, epoch)
	}
}

// introduce sends the first packet.
func (c *Core) introduce() {
	c.setPhase(c.role, discovery)
	c.learner.heard = c.now
	kind := FollowerInfo
	if c.role == Observing {
		kind = ObserverInfo
	}
	info := binary.BigEndian.AppendUint64(nil, uint64(c.cfg.ID))
	info = binary.BigEndian.AppendUint32(info, ProtocolVersion)
	info = binary.BigEndian.AppendUint64(info, 0) // version of the configuration
	c.send(c.learner.link, Packet{Type: kind, Zxid: zk.MakeZxid(c.acceptedEpoch, 0), Data: info})
}

// learnerTick leaves a leader that is silent for too long, or too slow.
func (c *Core) learnerTick() {
	limit, since := c.cfg.InitLimit, c.learner.heard
	switch c.phase {
	case connecting:
		limit, since = c.cfg.ConnectLimit, c.since
	case acked, uptodate, broadcast:
		limit = c.cfg.SyncLimit
	}
	if silence := c.now - since; silence > time.Duration(limit)*c.cfg.Tick {
		c.leave(fmt.Errorf("nothing heard from leader %d for %v", c.learner.leader, silence))
	}
}

// stepLearner takes one packet of the leader.
func (c *Core) stepLearner(p *Packet) {
	c.learner.heard = c.now
	var err error
	switch c.phase {
	case discovery:
		err = c.acceptEpoch(p)
	case syncing, acked, uptodate:
		err = c.synchronize(p)
	case broadcast:
		err = c.follower(p)
	default:
		err = fmt.Errorf("%v before anything was sent", p.Type)
	}
	if err != nil {
		c.leave(err)
	}
}

// acceptEpoch takes LEADERINFO.
func (c *Core) acceptEpoch(p *Packet) error {
	if p.Type != LeaderInfo {
		return fmt.Errorf("the leader sent %v, not LEADERINFO", p.Type)
	}
	epoch := p.Zxid.Epoch()
	switch {
	case epoch < c.acceptedEpoch:
		return fmt.Errorf("the leader's epoch is %d, %d is accepted already", epoch, c.acceptedEpoch)
	case epoch > c.acceptedEpoch:
		c.writeAcceptedEpoch(epoch)
		c.learner.epochSeq = c.seq
	default:
		c.learner.epochSeq = 0
	}
	c.setPhase(c.role, syncing)
	c.epoch = epoch
	if c.learner.epochSeq == 0 {
		c.ackEpoch(-1) // it was accepted before: count me once only
	}
	return nil
}

// ackEpoch tells the leader of this server's history.
func (c *Core) ackEpoch(current int32) {
	last := c.last
	if c.learner.needSnap {
		last = 0
	}
	c.send(c.learner.link, Packet{
		Type: AckEpoch, Zxid: last, Data: binary.BigEndian.AppendUint32(nil, uint32(current)),
	})
}

// learnerPersisted sends what has waited for the disk.
func (c *Core) learnerPersisted() {
	l := &c.learner
	if l.epochSeq != 0 && c.persisted >= l.epochSeq {
		l.epochSeq = 0
		c.ackEpoch(int32(c.currentEpoch))
	}
	if l.newSeq != 0 && !l.newAcked && c.persisted >= l.newSeq {
		l.newAcked = true
		c.send(l.link, Packet{Type: Ack, Zxid: zk.MakeZxid(c.epoch, 0)})
		if c.phase == acked && l.activated {
			c.activate()
		}
	}
	c.ackProposals()
}

// ackProposals acknowledges the proposals that are durable, once NEWLEADER is.
func (c *Core) ackProposals() {
	l := &c.learner
	if !l.newAcked || c.role != Following {
		return
	}
	n := 0
	for n < len(l.unacked) && l.ackSeqs[n] <= c.persisted {
		c.send(l.link, Packet{Type: Ack, Zxid: l.unacked[n].Zxid})
		n++
	}
	l.unacked = l.unacked[:copy(l.unacked, l.unacked[n:])]
	l.ackSeqs = l.ackSeqs[:copy(l.ackSeqs, l.ackSeqs[n:])]
}

// synchronize takes what makes this history the leader's, up to UPTODATE.
func (c *Core) synchronize(p *Packet) error {
	l := &c.learner
	if !l.chosen {
		return c.choose(p)
	}
	switch p.Type {
	case Proposal:
		return c.takeProposal(p)
	case Commit, CommitAndActivate:
		return c.takeCommit(p)
	case Inform, InformAndActivate:
		return c.takeInform(p)
	case NewLeader:
		if p.Zxid != zk.MakeZxid(c.epoch, 0) {
			return fmt.Errorf("NEWLEADER of epoch %d, LEADERINFO was of %d", p.Zxid.Epoch(), c.epoch)
		}
		if l.newSeq != 0 {
			return errors.New("a second NEWLEADER")
		}
		c.writeCurrentEpoch(c.epoch)
		l.newSeq = c.seq
		c.setPhase(c.role, acked)
		c.settleVote(int64(c.epoch))
	case UpToDate:
		if l.newSeq == 0 {
			return errors.New("UPTODATE before NEWLEADER")
		}
		l.activated, l.upToDate = true, c.last
		if c.role == Observing {
			l.upToDate = c.committed // proposals are not committed for it one by one
		}
		if l.newAcked {
			c.activate()
		}
	case Ping:
		c.deliver(l.link, p)
	case Revalidate, Sync:
		// Of a role that is over: nobody waits.
	default:
		return fmt.Errorf("%v during synchronization", p.Type)
	}
	return nil
}

// choose takes the first packet of the synchronization.
func (c *Core) choose(p *Packet) error {
	l := &c.learner
	l.chosen = true
	if l.needSnap && p.Type != Snap {
		return fmt.Errorf("this server needs a snapshot, the leader sent %v", p.Type)
	}
	switch p.Type {
	case Diff:
	case Trunc:
		if p.Zxid > c.last {
			return fmt.Errorf("TRUNC to %v, the log ends at %v", p.Zxid, c.last)
		}
		if p.Zxid < c.last {
			c.reset(WriteTruncate, p.Zxid)
		}
	case Snap:
		c.reset(WriteInstall, p.Zxid)
		l.needSnap = false
	default:
		return fmt.Errorf("%v, not DIFF, TRUNC or SNAP", p.Type)
	}
	return nil
}

// TruncateFailed tells that the log does not hold what a TRUNC wanted it to end
// with. Nothing is guessed: a snapshot will be asked for.
// What was to be written behind it was not; last is what the log ends with.
func (c *Core) TruncateFailed(now time.Duration, last zk.Zxid) {
	c.at(now)
	c.last, c.committed, c.persistedZxid = last, last, last
	c.currentEpoch = c.learner.before
	c.appends, c.learner.pending = nil, nil
	c.persisted = c.seq
	c.window.reset(nil, last)
	c.resync(fmt.Sprintf("the log cannot be cut to what the leader wants; it stays at %v until a snapshot has come", last))
	if c.role != Looking {
		c.leave(errors.New("the log cannot be cut"))
	}
}

func (c *Core) resync(reason string) {
	c.learner.needSnap = true
	c.ready.Events = append(c.ready.Events, Event{Kind: EventResync, Reason: reason})
}

// activate begins to serve when all that came before UPTODATE is committed: a
// snapshot is fuzzy, and the tree must not show what is later than its zxid.
func (c *Core) activate() {
	c.setPhase(c.role, uptodate)
	c.send(c.learner.link, Packet{Type: Ack, Zxid: zk.MakeZxid(c.epoch, 0)})
	c.serveIfReady()
}

func (c *Core) serveIfReady() {
	if c.phase == uptodate && c.committed >= c.learner.upToDate {
		c.setPhase(c.role, broadcast)
		c.ready.Events = append(c.ready.Events, Event{Kind: EventServing, Peer: c.learner.leader, Epoch: c.epoch})
	}
}

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
		c.deliver(c.learner.link, p)
		return nil
	case UpToDate:
		return nil // Apache ignores a second one
	}
	return fmt.Errorf("%v during broadcast", p.Type)
}

func (c *Core) deliver(l LinkID, p *Packet) {
	c.ready.Deliver = append(c.ready.Deliver, Delivery{Link: l, Packet: *p, At: c.committed})
}

// takeEntry appends a transaction that the leader has sent.
func (c *Core) takeEntry(e Entry) error {
	if !follows(c.last, e.Zxid) {
		c.resync(fmt.Sprintf("the leader sent %v behind %v", e.Zxid, c.last))
		return fmt.Errorf("%v is not the transaction after %v", e.Zxid, c.last)
	}
	c.append(e)
	return nil
}

func (c *Core) takeProposal(p *Packet) error {
	e := Entry{p.Zxid, p.Data}
	if err := c.takeEntry(e); err != nil {
		return err
	}
	l := &c.learner
	l.pending = append(l.pending, e)
	if c.role == Following {
		l.unacked = append(l.unacked, e)
		l.ackSeqs = append(l.ackSeqs, c.seq)
	}
	return nil
}

// takeCommit commits the oldest pending transaction, which it must be.
func (c *Core) takeCommit(p *Packet) error {
	l := &c.learner
	if p.Type == CommitAndActivate {
		c.ready.Events = append(c.ready.Events, Event{Kind: EventDesignation, Peer: l.leader, Zxid: p.Zxid})
	}
	if len(l.pending) == 0 || l.pending[0].Zxid != p.Zxid {
		return fmt.Errorf("COMMIT of %v, which is not the oldest proposal; %d are pending", p.Zxid, len(l.pending))
	}
	c.commitEntry(l.pending[0])
	l.pending = l.pending[1:]
	if !l.newAckedOrUnknown() {
		l.dropUnacked(p.Zxid)
	}
	return nil
}

// newAckedOrUnknown reports whether proposals are acknowledged one by one by
// now. What was committed before NEWLEADER came is covered by its ACK.
func (l *learnerState) newAckedOrUnknown() bool { return l.newSeq != 0 }

// dropUnacked forgets to acknowledge what is committed.
func (l *learnerState) dropUnacked(z zk.Zxid) {
	for len(l.unacked) > 0 && l.unacked[0].Zxid <= z {
		l.unacked, l.ackSeqs = l.unacked[1:], l.ackSeqs[1:]
	}
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
		c.ready.Events = append(c.ready.Events, Event{Kind: EventDesignation, Peer: c.learner.leader, Zxid: p.Zxid})
	}
	if len(c.learner.pending) > 0 {
		return fmt.Errorf("INFORM of %v while %v is not committed", p.Zxid, c.learner.pending[0].Zxid)
	}
	if err := c.takeEntry(e); err != nil {
		return err
	}
	c.commitEntry(e)
	return nil
}

func (c *Core) commitEntry(e Entry) {
	c.committed = e.Zxid
	c.window.add(e)
	c.publish()
	c.serveIfReady()
}

// noServer is the id of a learner that has not told it.
const noServer = math.MinInt64
