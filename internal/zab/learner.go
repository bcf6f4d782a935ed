package zab

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/pinfold-zk/pinfold/internal/fifo"
	"github.com/pinfold-zk/pinfold/internal/zab/election"
	"github.com/pinfold-zk/pinfold/zk"
)

// learnerState is the state of a follower or observer.
type learnerState struct {
	leader   int64
	master   int64         // the server to which it connects: the leader, or the one that serves an observer
	link     LinkID        // to the master; 0 until Dialing
	dialled  bool          // Ready.Dial has been given
	dialAt   time.Duration // when the leader is to be dialled
	patience time.Duration // how long it may take from then until the link is up
	gone     bool          // the leader could not be reached on its election port either
	heard    time.Duration // when the leader last gave a sign of life

	epochSeq   uint64 // ACKEPOCH waits for this write; 0: it does not
	epochAcked bool
	wantsSnap  bool // ACKEPOCH was made to get a snapshot
	chosen     bool // DIFF, TRUNC or SNAP has come
	newLeader  bool // NEWLEADER has come
	newSeq     uint64
	newAcked   bool // newSeq is durable, and NEWLEADER acknowledged
	upToDate   bool // UPTODATE has come
	serveAt    zk.Zxid
	sure       bool // when the role began, this server knew which memberships count
	sawChange  bool // a transaction that came since has changed the membership

	designated []byte // while a COMMITANDACTIVATE is passed on to observers: the leader that it names

	// Of a server that heals (heal.go).
	established bool    // the leader has a quorum without it
	proposed    zk.Zxid // by the leader when it first told so
	freed       bool    // no leader can count on a promise that this server has forgotten

	pending fifo.Queue[Entry] // appended, not committed
	unacked fifo.Queue[owed]  // proposals whose ACK waits for the disk
}

// queueSpare is what an empty queue of proposals keeps: 16,000 that were under way together.
const queueSpare = 512 << 10

// owed is an ACK that waits for a write.
type owed struct {
	zxid zk.Zxid
	seq  uint64
}

// Pauses of a server whose leader turns it away, again and again: before the
// leader is dialled once more, up to half a tick, and how long it may take to
// reach it. Both double. The election itself is not put off: others may wait for
// this server's vote.
const (
	firstPause    = 10 * time.Millisecond
	firstPatience = time.Second
	maxMisses     = 8
)

// whyRefused says why a leader may have closed the link before it has told its epoch, or
// when it was told this server's history: it closes it without a word. It is "" at other times.
func (c *Core) whyRefused() string {
	elected := c.election.Vote().PeerEpoch
	switch l := &c.learner; {
	case c.phase == discovery && int64(c.acceptedEpoch) > elected:
		return fmt.Sprintf("; this server has accepted epoch %d, and leader %d is known to be in epoch %d: a leader refuses a server that has accepted a later epoch than its own", c.acceptedEpoch, l.leader, elected)
	case c.phase == discovery:
		return fmt.Sprintf("; leader %d has not told its epoch: if it refuses this server, its log says why (peer_refused)", l.leader)
	case c.phase == syncing && l.epochAcked && !l.chosen:
		return fmt.Sprintf("; leader %d was told this server's history, of epoch %d and up to %v: if it refuses that, its log says why (peer_refused)", l.leader, c.currentEpoch, c.last)
	}
	return ""
}

// follow takes the role of a learner: the leader is dialled.
func (c *Core) follow(r Role, v election.Result) {
	c.learner = learnerState{leader: v.Leader, master: c.chooseMaster(r, v.Leader), heard: c.now, dialAt: c.now, sure: !c.members.Unsure}
	l := &c.learner
	l.pending.Spare, l.unacked.Spare = queueSpare, queueSpare
	if c.misses > 0 {
		l.dialAt += min(firstPause<<(c.misses-1), c.cfg.Tick/2)
	}
	l.patience = min(firstPatience<<c.misses, c.ticks(c.cfg.ConnectLimit))
	c.setPhase(r, connecting)
	c.closeWaiting(c.now)
	c.settleVote(v.PeerEpoch)
	c.event(Event{Kind: EventElected, Peer: v.Leader})
	c.dial()
}

// dial asks for the link to the leader once it is time.
func (c *Core) dial() {
	if l := &c.learner; !l.dialled && c.now >= l.dialAt {
		l.dialled = true
		c.ready.Dial, c.ready.DialMaster = l.master, c.usesMaster(c.role)
	}
}

// connectAt is when Tick has something to do while the leader is not reached.
func (l *learnerState) connectAt() time.Duration {
	if !l.dialled {
		return l.dialAt
	}
	return l.dialAt + l.patience
}

// countMisses notes whether the role that ends was of use.
func (c *Core) countMisses() {
	switch {
	case c.role == Leading:
	case c.phase == broadcast && c.now-c.since >= c.cfg.Tick:
		c.misses = 0
	default:
		c.misses = min(c.misses+1, maxMisses)
	}
}

// When a leader is set aside: after so many attempts without success in a row, each of which has
// lasted for a while, and for how long. All voters that cannot follow a leader find it out
// within milliseconds of each other: if one looks again, the leader that does not lead yet does
// too, and with it the others (abandoned); a leader of Apache's, which does not, looks when
// initLimit is over.
//
// If that has not helped, each time after it is half as long, down to leastAside, which is less than an attempt lasts: two voters,
// both of which a leader needs, must not wait for it in turns for ever.
const (
	vainTillAside = 2
	vainAfter     = firstPatience / 2
	asideFor      = 4 * time.Second
	leastAside    = asideFor / 16
)

// setAside has this server vote for others for a while if its leader was again not reached, or has
// found no followers: it may never be otherwise. A leader that closes the link at once refuses
// this server alone, and one that looks again at once has other reasons: that does not count.
// A leader that has found no followers itself makes way in the same manner: voters of Apache's,
// which set no one aside, elect another one then.
func (c *Core) setAside() {
	l, inVain := &c.learner, false
	switch {
	case c.role == Leading && c.leader.stage == gatherInfo:
		inVain = c.now-c.since >= vainAfter && c.leader.refusedEpoch == 0 // then it has to lead, see approachEpoch
	case c.role == Leading && c.leader.stage == gatherEpochs:
		// it has reached no server, others have reached it
	case c.role != Following:
		c.vain, c.asides = 0, 0
	case c.phase == connecting:
		inVain = l.gone || l.dialled && c.now-l.dialAt >= vainAfter
	case c.phase == discovery:
		inVain = c.now-c.since >= vainAfter
	default:
		if c.vain, c.asides = 0, 0; c.phase == syncing && !l.chosen {
			c.unfitUntil = 0 // this server's history is too long for another one to lead it
		}
	}
	if !inVain {
		return
	}
	if c.role == Following {
		c.missed = missed{l.leader, c.now + asideFor}
	}
	if c.vain++; c.vain < vainTillAside {
		return
	}
	until := c.now + max(asideFor>>min(c.asides, 8), leastAside)
	c.asides++
	if c.role == Leading {
		c.unfitUntil = until
	} else {
		c.election.SetAside(l.leader, until)
	}
}

// settleVote tells the election the role and the epoch that it reports to other servers.
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
	version := zk.Zxid(0)
	if c.dynamic() {
		version = c.members.Committed.version
	}
	info = binary.BigEndian.AppendUint64(info, uint64(version))
	*c.packet() = Packet{Type: kind, Zxid: zk.MakeZxid(c.acceptedEpoch, 0), Data: info}
}

// learnerTick leaves a leader that is silent for too long, or too slow.
func (c *Core) learnerTick() {
	l := &c.learner
	var limit time.Duration
	switch {
	case c.phase == connecting:
		if c.dial(); c.now-l.dialAt >= l.patience {
			c.leave(fmt.Errorf("%s is not reached within %v", c.masterName(), l.patience))
		}
		return
	case c.phase == discovery, c.phase == syncing:
		limit = c.ticks(c.cfg.InitLimit)
	case !l.newAcked:
		return // it is the own disk that is waited for; the leader knows when to give up
	case c.overfull():
		c.leave(fmt.Errorf("its disk has finished no write for %v, and %d bytes wait for it", c.now-c.diskSince, c.unsynced))
		return
	case c.phase == acked:
		// The leader waits for others, for InitLimit at most, and thinks from then
		// on that this server is there for SyncLimit.
		limit = c.ticks(c.cfg.InitLimit + c.cfg.SyncLimit)
	default:
		limit = c.ticks(c.cfg.SyncLimit)
		if c.waits() && !c.wasAway {
			limit = c.cfg.ProgressLimit - 1 // it is over at the Deadline
		}
	}
	if silence := c.now - l.heard; silence > limit {
		c.leave(fmt.Errorf("nothing heard from %s for %v", c.masterName(), silence))
		return
	}
	if c.teaches() && c.tickLearners() {
		c.tickPing()
	}
}

// stepLearner takes one packet of the leader.
func (c *Core) stepLearner(p *Packet) {
	c.learner.heard = c.now
	term := c.term
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
	switch {
	case err != nil:
		c.leave(err)
	case c.term == term && c.role != Looking:
		c.noteLeader(p)
	}
}

// acceptEpoch handles LEADERINFO. A server accepts an epoch once. If it is offered the
// same epoch again, by any leader, its acknowledgement does not count.
func (c *Core) acceptEpoch(p *Packet) error {
	if p.Type != LeaderInfo {
		return fmt.Errorf("the leader sent %v, not LEADERINFO", p.Type)
	}
	epoch := p.Zxid.Epoch()
	switch {
	case epoch > maxEpoch || epoch == 0:
		return fmt.Errorf("the leader's epoch is %#x: is it a leader?", epoch)
	case epoch > farEpoch && epoch > c.acceptedEpoch+maxEpochLead:
		return fmt.Errorf("the leader's epoch is %d, far from %d, which is accepted here, and near the last one: is it a leader?", epoch, c.acceptedEpoch)
	case epoch < c.acceptedEpoch:
		return fmt.Errorf("the leader's epoch is %d, %d is accepted already", epoch, c.acceptedEpoch)
	}
	c.epoch = epoch
	c.setPhase(c.role, syncing)
	if epoch == c.acceptedEpoch {
		c.ackEpoch(-1)
		return nil
	}
	c.writeAcceptedEpoch(epoch)
	c.learner.epochSeq = c.seq
	return nil
}

// ackEpoch sends ACKEPOCH with this server's history. A leader whose history is earlier
// steps down, if the acknowledgement counts. So this server may hide its history, to get a
// snapshot, only where it does not count: when it comes to the same leader again in the
// same epoch.
func (c *Core) ackEpoch(currentEpoch int32) {
	l := &c.learner
	last := c.last
	if l.wantsSnap = c.needSnap && currentEpoch == -1; l.wantsSnap {
		last = 0
	}
	l.epochSeq, l.epochAcked, l.heard = 0, true, c.now
	*c.packet() = Packet{Type: AckEpoch, Zxid: last, Data: binary.BigEndian.AppendUint32(nil, uint32(currentEpoch))}
}

// learnerPersisted sends what has waited for the disk.
func (c *Core) learnerPersisted() {
	l := &c.learner
	if l.epochSeq != 0 && c.persisted >= l.epochSeq {
		c.ackEpoch(c.countedEpoch())
	}
	c.ackNewLeader()
	c.ackProposals()
	c.publish()
	c.serveIfReady()
	c.regainVote()
}

// countedEpoch is the current epoch that ACKEPOCH names: -1, which does not count, if the server
// heals.
func (c *Core) countedEpoch() int32 {
	if c.heals {
		return -1
	}
	return int32(c.currentEpoch)
}

// synchronize takes what makes this history the leader's, up to UPTODATE and
// until what came before that is committed.
func (c *Core) synchronize(p *Packet) error {
	l := &c.learner
	switch {
	case !l.epochAcked:
		return fmt.Errorf("%v before ACKEPOCH was sent", p.Type)
	case !l.chosen:
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
		return c.takeNewLeader(p)
	case UpToDate:
		return c.takeUpToDate()
	case Ping:
		if c.role == Following || l.upToDate { // the leader does not count an earlier one, see pingHealing
			c.deliver(p)
		}
	case Revalidate, Sync:
		// An answer to a request of an earlier role: no request waits for it.
	default:
		return fmt.Errorf("%v during synchronization", p.Type)
	}
	return nil
}

// choose takes the first packet of the synchronization.
func (c *Core) choose(p *Packet) error {
	l, z := &c.learner, p.Zxid
	l.chosen = true
	switch {
	case p.Type == Snap:
	case l.wantsSnap && p.Type == Diff && z == 0:
		// The leader has no transaction, as this server says of itself: it is to have none.
		c.reset(WriteTruncate, 0)
		c.cure = c.seq
		return nil
	case l.wantsSnap:
		return fmt.Errorf("this server needs a snapshot, the leader sent %v", p.Type)
	case c.diverged:
		c.resync(divergedReason)
		return fmt.Errorf("%s, and %v would not change that", divergedReason, p.Type)
	}
	if z < 0 || z.Epoch() > c.epoch {
		return fmt.Errorf("%v to %v in epoch %d: is it of another ensemble?", p.Type, z, c.epoch)
	}
	switch p.Type {
	case Diff:
		// Nothing is cut off.
	case Trunc:
		if z > c.last {
			return fmt.Errorf("TRUNC to %v, the log ends at %v", z, c.last)
		}
		if z < c.last {
			c.reset(WriteTruncate, z)
			c.cutMembers(z)
		}
	case Snap:
		c.doubtMembers()
		c.reset(WriteInstall, z)
		c.takeShown(p.Data, z)
		c.raiseEpoch(z)
	default:
		return fmt.Errorf("%v, not DIFF, TRUNC or SNAP", p.Type)
	}
	return nil
}

// raiseEpoch makes the current epoch that of a transaction which the log gets. To
// have it is to have all that its leader began with; and a crash must not leave
// a log that is ahead of the current epoch, which Apache does not open.
func (c *Core) raiseEpoch(z zk.Zxid) {
	if z.Epoch() > c.currentEpoch {
		c.writeCurrentEpoch(z.Epoch())
	}
}

// TruncateFailed tells that the log does not have the transaction that a TRUNC names. The
// log is unchanged, and this server will ask for a snapshot. The caller must drop all
// writes after the truncation. last is the end of the log.
func (c *Core) TruncateFailed(now time.Duration, last zk.Zxid) {
	c.at(now)
	c.last, c.committed, c.persistedZxid = last, last, last
	c.currentEpoch = c.tookEpoch
	c.appends.Cut(0)
	c.learner.pending.Cut(0)
	c.learner.unacked.Cut(0)
	c.unsynced = 0
	if c.members != c.tookMembers {
		c.deriveMembers(c.tookMembers)
	}
	c.ready.Writes = c.ready.Writes[:0] // they build on it
	c.persisted = c.seq
	c.window.reset(nil, last)
	c.resync(fmt.Sprintf("the log cannot be cut to what the leader wants; it stays at %v until a snapshot has come", last))
	switch {
	case c.role != Looking:
		c.leave(errors.New("the log cannot be cut"))
	case c.phase == settling:
		c.publish()
		c.settle()
	}
}

// resync asks the present leader for a snapshot, once: should that fail, what the
// next leader wants is tried first.
func (c *Core) resync(reason string) {
	c.needSnap, c.retry = true, c.learner.leader
	c.event(Event{Kind: EventResync, Reason: reason})
}

// takeNewLeader takes NEWLEADER: the history is the leader's, and will be
// acknowledged once it and the epoch are durable, in this order (4643).
func (c *Core) takeNewLeader(p *Packet) error {
	l := &c.learner
	if p.Zxid != zk.MakeZxid(c.epoch, 0) {
		return fmt.Errorf("NEWLEADER of %v, LEADERINFO was of epoch %d", p.Zxid, c.epoch)
	}
	if l.newLeader {
		return errors.New("a second NEWLEADER")
	}
	if err := c.takeMembers(p.Data); err != nil {
		return err
	}
	if c.currentEpoch != c.epoch {
		c.writeCurrentEpoch(c.epoch)
	}
	l.newLeader, l.newSeq = true, c.seq
	c.setPhase(c.role, acked)
	c.settleVote(int64(c.epoch))
	c.ackNewLeader()
	return nil
}

// ackNewLeader acknowledges NEWLEADER when everything is durable.
func (c *Core) ackNewLeader() {
	l := &c.learner
	if !l.newLeader || l.newAcked || c.persisted < l.newSeq || c.regains() && !l.established {
		return
	}
	l.newAcked, l.heard = true, c.now
	*c.packet() = Packet{Type: Ack, Zxid: zk.MakeZxid(c.epoch, 0)}
	if l.upToDate {
		c.activate()
	}
}

// takeUpToDate takes UPTODATE. Serving begins when all that came before it may be
// applied: a snapshot is fuzzy, and the tree must not show what is later than
// its zxid; and a client that another server has told of a transaction may look for it
// here (3023). To an observer proposals are not shown before they are committed.
func (c *Core) takeUpToDate() error {
	l := &c.learner
	switch {
	case !l.newLeader:
		return errors.New("UPTODATE before NEWLEADER")
	case l.upToDate:
		return nil // Apache ignores a second one
	}
	l.upToDate, l.serveAt = true, c.last
	if c.role == Observing {
		l.serveAt = c.committed
	}
	if l.newAcked {
		c.activate()
	}
	c.forgetHeard()
	if err := c.commitMembers(c.committed); err != nil {
		return err
	}
	if c.role == Following && c.observes() {
		c.retry = l.leader
		return errors.New("the change of the membership that gave it a vote is not in the leader's history")
	}
	return nil
}

// activate acknowledges UPTODATE, which Apache's leader expects.
func (c *Core) activate() {
	c.setPhase(c.role, uptodate)
	*c.packet() = Packet{Type: Ack, Zxid: zk.MakeZxid(c.epoch, 0)}
	c.serveIfReady()
}

func (c *Core) serveIfReady() {
	if c.phase == uptodate && c.ready.Commit >= c.learner.serveAt {
		c.setPhase(c.role, broadcast)
		c.needSnap = false
		c.event(Event{Kind: EventServing, Peer: c.learner.leader, Epoch: c.epoch})
		c.openMaster()
		c.regainVote()
	}
}

// noServer is the id of a learner that has sent no packet yet.
const noServer = math.MinInt64
