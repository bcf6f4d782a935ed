// Package zab agrees on the order of transactions among the servers of an
// ensemble: discovery, synchronization and broadcast, on Apache ZooKeeper's own
// quorum protocol (paper, section 4.2; protocol page, sections 12 to 14).
//
// A Core is the part of one server. It is a state machine without clock, goroutine,
// socket or disk: its inputs are events, its output is a Ready, and the same inputs give
// the same outputs. To the core a transaction is a zxid and opaque bytes.
//
//	election -> discovery -> synchronization -> broadcast
//
//	zab.go        the core: its settings and inputs
//	role.go       taking and leaving a role, and the election in between
//	disk.go       writes, and which transactions may be applied
//	ready.go      the output
//	waiting.go    links that are accepted during an election
//	learner.go    a follower or observer: from the first packet to UPTODATE
//	follower.go   a follower or observer: transactions, and their acknowledgement
//	leader.go     a leader: from its election to its quorum
//	admission.go  a leader: which servers may follow it, and with what history
//	sync.go       a leader: how a learner gets what it lacks
//	broadcast.go  a leader: proposals, acknowledgements, commits, syncs
//	losing.go     a leader: when it closes a link, and when it leaves its role
//	handover.go   a leader that is asked to leave
//	master.go     a follower that serves observers, and which server an observer uses
//	stall.go      a disk that finishes no write
//	progress.go   silence while something waits
//	diverged.go   a server whose tree is not what its log leads to
//	heal.go       a server whose disk has lost what it held
//	oracle.go     one of two voters that goes on alone
//	membership.go the servers of the ensemble, and changes of it
//	hear.go       what votes of others tell of changes
//	window.go     recent transactions, kept for learners
//
// Links are first in, first out; the end of a link is an input. Notifications of the
// election may be lost, repeated and reordered.
//
// The disk is asynchronous. The core issues writes in the order in which they must become
// durable, each with a number; Persisted tells up to which number they are. The core
// holds back what other servers may conclude from a write (ACKEPOCH, the ACK of
// NEWLEADER, each ACK) until then; no other code keeps this order (protocol page,
// section 17.1: 4643, 4646, 4685, 4712).
//
// Invariants, asserted:
//
//  1. Transactions are appended without a gap, and once.
//  2. Nothing is acknowledged, or counted for a quorum, before it is durable here.
//  3. A server that serves applies nothing before it is durable on a quorum's
//     disks; any other applies nothing before it is durable on its own.
//  4. The accepted epoch and the current epoch never go back, the current one is
//     not later than the accepted one, and the log never ahead of either.
//  5. A vote tells of durable history alone.
//
// If an invariant is broken, the process stops: this package or its owner has a bug. No
// packet and no notification can break one.
package zab

import (
	"errors"
	"fmt"
	"time"

	"github.com/pinfold-zk/pinfold/internal/fifo"
	"github.com/pinfold-zk/pinfold/internal/zab/election"
	"github.com/pinfold-zk/pinfold/internal/zab/quorum"
	"github.com/pinfold-zk/pinfold/zk"
)

// MaxVoters is how many voters an ensemble may have. It bounds the work that an
// acknowledgement causes.
const MaxVoters = 64

// Config is what a core is set up with.
type Config struct {
	ID      int64
	Members *Membership // that the server's configuration gives; State may hold a later one
	// Reader reads the memberships in transactions; nil: the membership never changes.
	Reader MembershipReader

	Tick         time.Duration
	InitLimit    int // ticks until a learner is synchronized
	SyncLimit    int // ticks of silence that end a link
	ConnectLimit int // ticks until a learner has reached its leader; 0 is InitLimit
	// ProgressLimit is the silence that ends a role while something waits (progress.go), if it is
	// less than SyncLimit; 0: none does.
	ProgressLimit time.Duration

	// Window is how many committed transactions are kept for learners that come
	// back (commitLogCount).
	Window int
	// WindowBytes bounds the data of these, but for the last one and for those that are not applied
	// or not durable; 0 is DefaultWindowBytes (observerMaster.sizeLimit). A learner that lacks more is
	// sent the log, or a snapshot.
	WindowBytes int
	// SizeFactor bounds what of the log is sent instead of a snapshot, as a
	// multiple of the snapshot's size; 0 is no bound, negative is never.
	SizeFactor float64
	ForceSnap  bool // every learner is sent a snapshot (forceSnapshotSync)
	// MaxSnapSyncs and MaxDiffSyncs are how many learners may be sent a snapshot, and
	// how many transactions, before a further observer is refused; 0 is no limit
	// (leader.maxConcurrentSnapSyncs, leader.maxConcurrentDiffSyncs).
	MaxSnapSyncs, MaxDiffSyncs int

	// LookDelay bounds how long an observer that has lost its leader waits before it
	// looks for one again (observer.reconnectDelayMs, observer.election.DelayMs).
	LookDelay time.Duration

	// ObserverMasters says that every voter serves observers (observerMasterPort), and that
	// an observer uses any of them (master.go).
	ObserverMasters bool

	// Oracle says that this server has an oracle (oracle.go), which permits nothing until
	// ConsultOracle has said so.
	Oracle bool

	// StallAfter is how long this server's disk may finish no write before it hands
	// its leadership over (stall.go); 0 is DefaultStallAfter.
	StallAfter time.Duration
	// StallBytes is how much memory the transactions that wait for this server's disk
	// may take before it gives its role up; 0 is DefaultStallBytes.
	StallBytes int64
	// Accept is called, in order, with each transaction that the leader has sent and that is next in
	// the history, before it becomes part of that. An error says why it cannot, and this server
	// leaves its leader. What was accepted is in a Write, unless TruncateFailed drops that. nil:
	// every one is accepted.
	Accept func(e Entry) error
	// Weigh returns the memory that a transaction takes while it waits for the disk;
	// nil: the length of its data.
	Weigh func(data []byte) int64

	FinalizeWait, MinNotify, MaxNotify time.Duration // of the election; 0 is Apache's

	// LastCounter is the last counter of an epoch, for tests of what comes then;
	// 0 is the last that there is.
	LastCounter uint32
}

// State is what a server has on its disk when it starts.
type State struct {
	AcceptedEpoch, CurrentEpoch uint32
	Last                        zk.Zxid     // of the log
	Recent                      []Entry     // the end of the log, without a gap; it may be empty
	Diverged                    bool        // the tree is not what the log leads to, see TreeDiverged
	Members                     Memberships // as the last WriteMembers said; zero if there was none
	// MembersShown is the text of the latest membership that transactions have made of the tree at
	// Last; nil if the tree does not tell. It is not changed.
	MembersShown []byte
	// Heals tells that the disk may have lost what it held (heal.go): the history is empty then,
	// and so is CurrentEpoch. Forgot tells that AcceptedEpoch is lost too.
	Heals, Forgot bool
}

// Entry is a transaction. Data is kept, and must not be changed before Core.Kept has
// reached Zxid.
type Entry struct {
	Zxid zk.Zxid
	Data []byte
}

// Role is what a server is in the ensemble.
type Role int

// The roles. A server that is Looking takes part in no agreement.
const (
	Looking Role = iota
	Leading
	Following
	Observing
)

// String is what the four-letter words call the role.
func (r Role) String() string {
	return [...]string{"looking", "leader", "follower", "observer"}[r]
}

// phase is how far a role has got.
type phase int

const (
	electing   phase = iota
	settling         // left a role: what was logged becomes durable before the vote
	connecting       // learner: the link to the leader is being made
	discovery        // an epoch is being agreed on
	syncing          // learner: the history is being made the leader's
	acked            // learner: has acknowledged NEWLEADER, or will when it is durable
	uptodate         // learner: waits until what came before UPTODATE is committed
	broadcast        // serving
	draining         // leader: serves no more, and commits what it has proposed (diverged.go)
)

// Core is one server's part in the agreement. It is owned by one goroutine.
type Core struct {
	cfg      Config
	members  Memberships
	heard    *Membership    // a change that others have seen, see hear; nil: none
	system   *quorum.System // of members
	election *election.Election
	now      time.Duration
	ticked   time.Duration // when Tick was called last
	wasAway  bool          // the last Tick came late: this process may have been stopped, and not the others
	awaits   bool          // as Await has told

	role  Role
	phase phase
	since time.Duration // when the phase began
	term  uint64        // counts the roles that were taken

	lookAt      time.Duration // when the next election may begin, while settling
	defersUntil time.Duration // until then this server is no candidate: it has handed over, see HandOver

	// What is on the disk, or on its way there.
	acceptedEpoch, currentEpoch uint32
	last                        zk.Zxid // appended
	seq, persisted              uint64  // of writes
	persistedZxid               zk.Zxid
	appends                     fifo.Queue[appended] // not known to be durable
	unsynced                    int64                // their memory
	diskSince                   time.Duration        // when the oldest write that is pending became the oldest
	tookEpoch                   uint32               // the current epoch when the role was taken
	tookMembers                 Memberships          // likewise
	yields                      bool                 // in this election, if this server is a newcomer

	committed zk.Zxid // of the log; what is later waits in pending or outstanding
	applied   zk.Zxid // of committed, as the owner has told
	window    window

	diverged bool   // the tree is not what the log leads to, see TreeDiverged
	cure     uint64 // the pending write of another tree, which ends that; 0: there is none

	heals, forgot bool          // see heal.go
	healSeq       uint64        // the pending write that ends it; 0: there is none
	tellAt        time.Duration // when the operator is told again what it waits for

	// needSnap is kept over roles: a TRUNC or DIFF could not make what is on the
	// disk the leader's history.
	needSnap   bool
	retry      int64         // go back to this leader, for the snapshot; 0: elect one
	approaches int           // steps of approachEpoch since this server has served
	misses     int           // roles of a learner in a row in which it did not serve
	attempts   uint64        // to connect to a master
	vain       int           // roles in a row in which it waited for its leader or its followers without success, see setAside
	asides     int           // how often it has set its leader aside since vain was 0
	missed     missed        // the leader that it has waited for last without success
	unfitUntil time.Duration // until then this server leaves it to others to lead, see setAside

	permitted      bool          // by the oracle to go on alone, see ConsultOracle
	permittedUntil time.Duration // if permitted

	// epoch is the one that is being established, or was; 0 while that is open.
	epoch   uint32
	learner learnerState
	leader  leaderState
	waiting []waitingLink // links to this server while it looks, as they came

	ready, out Ready
	readies    uint64 // how often Ready was called
}

// appended is a run of entries whose write has a number.
type appended struct {
	seq   uint64
	last  zk.Zxid
	bytes int64 // their memory, by Config.Weigh
}

// New returns a core that starts its first election at now.
func New(cfg Config, s State, now time.Duration) *Core {
	if cfg.ConnectLimit == 0 {
		cfg.ConnectLimit = cfg.InitLimit
	}
	if cfg.LastCounter == 0 {
		cfg.LastCounter = 1<<32 - 1
	}
	if cfg.StallAfter == 0 {
		cfg.StallAfter = DefaultStallAfter
	}
	if cfg.StallBytes == 0 {
		cfg.StallBytes = DefaultStallBytes
	}
	if cfg.WindowBytes == 0 {
		cfg.WindowBytes = DefaultWindowBytes
	}
	if cfg.Weigh == nil {
		cfg.Weigh = func(data []byte) int64 { return int64(len(data)) }
	}
	c := &Core{
		cfg: cfg, now: now, ticked: now,
		acceptedEpoch: s.AcceptedEpoch, currentEpoch: s.CurrentEpoch,
		last: s.Last, persistedZxid: s.Last, committed: s.Last, applied: s.Last,
		diverged: s.Diverged, members: recoverMembers(&cfg, &s),
		heals: s.Heals, forgot: s.Forgot, needSnap: s.Heals, tellAt: now + time.Duration(cfg.InitLimit)*cfg.Tick,
	}
	c.countVotes()
	c.window.reset(s.Recent, s.Last)
	c.election = election.New(election.Config{
		ID: cfg.ID, Electorate: c.electorate(),
		FinalizeWait: cfg.FinalizeWait, MinNotify: cfg.MinNotify, MaxNotify: cfg.MaxNotify,
		EarlyFinish: true,
	})
	c.ready.Commit = s.Last
	if c.members.Committed != cfg.Members || c.members.Seen != cfg.Members {
		c.ready.Members = c.members.Members()
	}
	if s.Members.Committed == nil || c.members == s.Members {
		c.look("start")
	} else {
		// What the disk holds is replaced first: a change that the log lost in a crash must not
		// count again when the log has grown past it.
		c.setPhase(Looking, settling)
		c.write(WriteMembers).Members = c.members
	}
	if pending := s.Members.Seen; s.Heals && pending != nil {
		c.hear(pending.text) // its members may be those in office
	}
	return c
}

// ErrLost is wrapped by the reasons for which a server leaves its role.
var ErrLost = errors.New("zab")

// Tick tells the time. It must be called at Deadline, and may be at any time.
func (c *Core) Tick(now time.Duration) {
	c.at(now)
	c.wasAway, c.ticked = c.now-c.ticked > c.cfg.Tick, c.now
	c.tellHealing()
	c.expirePermission()
	switch {
	case c.role == Leading:
		c.leaderTick()
	case c.role != Looking:
		c.learnerTick()
	default:
		c.closeWaiting(c.now - c.ticks(c.cfg.InitLimit))
		switch c.phase {
		case electing:
			c.election.Tick(c.now)
			if c.takeElected(); c.phase == electing && c.newcomer() && c.now-c.since > c.ticks(c.cfg.InitLimit) {
				c.look("no leader was elected within initLimit")
			}
		case settling:
			c.settle()
		}
	}
}

// Deadline is when Tick wants to be called next.
func (c *Core) Deadline() time.Duration {
	next := c.ticked + c.cfg.Tick/2
	switch {
	case c.phase == electing:
		if d, ok := c.election.Deadline(); ok {
			next = d
		}
	case c.phase == settling && c.now < c.lookAt:
		next = min(next, c.lookAt)
	case c.phase == connecting:
		next = min(next, c.learner.connectAt())
	case c.role == Leading && c.leader.stage == leading:
		next = min(next, c.leader.leaseEnd)
	case c.phase == broadcast && c.waits():
		if end := c.learner.heard + c.cfg.ProgressLimit; end > c.ticked {
			next = min(next, end)
		}
	}
	if c.permitted {
		next = min(next, c.permittedUntil)
	}
	return next
}

func (c *Core) at(now time.Duration) { c.now = max(c.now, now) }

func (c *Core) ticks(n int) time.Duration { return time.Duration(n) * c.cfg.Tick }

// Notification takes a message of the election.
func (c *Core) Notification(now time.Duration, n election.Notification) {
	c.at(now)
	c.adoptMembers(&n)
	c.hear(n.SeenText)
	c.election.Step(c.now, n)
	c.takeElected()
	if n.State == election.Looking {
		c.abandoned(&n)
	}
}

// PeerUp and PeerDown tell that the election link to a server is there or not:
// an election does not wait for the vote of a server that cannot be reached.
func (c *Core) PeerUp(now time.Duration, id int64) {
	c.at(now)
	c.election.Reachable(id)
	c.takeElected()
}

// PeerDown is the opposite of PeerUp. A leader that has not been reached by then
// is given up.
func (c *Core) PeerDown(now time.Duration, id int64) {
	c.at(now)
	c.election.Unreachable(id)
	c.takeElected()
	if c.phase == connecting && id == c.learner.master {
		c.learner.gone = true
		c.leave(fmt.Errorf("%s is gone", c.masterName()))
	}
}

// LinkUp tells that a learner has connected, or that the link that Ready.Dial
// asked for is there.
func (c *Core) LinkUp(now time.Duration, l LinkID) {
	c.at(now)
	switch {
	case c.teaches():
		c.addLearner(l)
	case c.phase == connecting && l == c.learner.link:
		c.introduce()
	case c.role == Looking:
		c.keepWaiting(l)
	default:
		c.close(l, fmt.Errorf("%w: this server does not lead", ErrLost))
	}
}

// Dialing names the link of the connection that Ready.Dial asked for. It must
// come before any other input.
func (c *Core) Dialing(l LinkID) {
	if c.phase == connecting && c.learner.link == 0 {
		c.learner.link = l
		return
	}
	c.close(l, fmt.Errorf("%w: no leader is wanted any more", ErrLost))
}

// LinkDown tells that a link is gone; err says why.
func (c *Core) LinkDown(now time.Duration, l LinkID, err error) {
	c.at(now)
	if i := c.waitingIndex(l); i >= 0 {
		c.dropWaiting(i)
		return
	}
	switch {
	case c.leader.links[l] != nil:
		c.dropLearner(l, err)
		c.commitProposals()
	case c.role != Looking && l == c.learner.link && l != 0:
		c.learner.link = 0
		c.leave(fmt.Errorf("the link to the leader is lost: %w%s", err, c.whyRefused()))
	}
}

// Alive tells that bytes go through a link although no packet does: a snapshot,
// or a part of the log.
func (c *Core) Alive(now time.Duration, l LinkID) {
	c.at(now)
	switch ln := c.leader.links[l]; {
	case ln != nil && ln.state == synced:
		ln.since, ln.contact = c.now, c.now
	case l == c.learner.link && c.phase == syncing:
		c.learner.heard = c.now
	}
}

// Step takes packets from a link, in order. The transactions in them are kept (Kept); the
// data of others is kept until the next Ready but one, and by what it delivers.
func (c *Core) Step(now time.Duration, l LinkID, ps []Packet) {
	c.at(now)
	if i := c.waitingIndex(l); i >= 0 {
		c.stepWaiting(i, ps)
		return
	}
	for i := range ps {
		switch ln := c.leader.links[l]; {
		case ln != nil:
			c.stepLeader(ln, &ps[i])
		case c.role != Looking && l == c.learner.link && l != 0:
			c.stepLearner(&ps[i])
		default:
			return // closed already
		}
	}
	c.commitProposals()
}

// Persisted tells that every write up to seq is durable.
func (c *Core) Persisted(now time.Duration, seq uint64) {
	c.at(now)
	if seq > c.seq {
		c.broken("write %d is durable, the last was %d", seq, c.seq)
	}
	if seq > c.persisted {
		c.persisted, c.diskSince = seq, c.now
	}
	n := 0
	for n < c.appends.Len() && c.appends.At(n).seq <= seq {
		c.persistedZxid = c.appends.At(n).last
		c.unsynced -= c.appends.At(n).bytes
		n++
	}
	c.appends.Drop(n)
	c.trimWindow()
	if c.cure != 0 && seq >= c.cure {
		c.diverged, c.cure = false, 0
	}
	if c.healSeq != 0 && seq >= c.healSeq {
		c.healed()
	}
	switch {
	case c.phase == settling:
		c.settle()
	case c.role == Leading:
		c.advance()
		c.commitProposals()
	case c.role != Looking:
		c.learnerPersisted()
	}
	c.publish()
}

// Applied tells that everything up to z is in the tree.
func (c *Core) Applied(z zk.Zxid) {
	c.applied = max(c.applied, min(z, c.ready.Commit)) // it may tell of before a truncation
	c.trimWindow()
	c.sendAwaited()
}

// Kept is up to where the core keeps no transaction any more: the data of these is only
// in the present Ready, if at all.
func (c *Core) Kept() zk.Zxid { return min(c.window.base, c.committed) }

// Last is the last transaction that was proposed here, or came from the leader.
func (c *Core) Last() zk.Zxid { return c.last }

// trimWindow drops what the window need not keep: learners that lack it are sent
// the log or a snapshot, so it must be in both.
func (c *Core) trimWindow() {
	c.window.trim(c.cfg.Window, c.cfg.WindowBytes, min(c.applied, c.persistedZxid))
}

// StepDown makes the server leave its role, as when its counter is used up.
func (c *Core) StepDown(now time.Duration, reason string) {
	c.at(now)
	if c.role != Looking {
		c.leave(errors.New(reason))
	}
}

func (c *Core) event(e Event) { c.ready.Events = append(c.ready.Events, e) }

// packet returns the place of the next packet on this learner's link to its leader.
func (c *Core) packet() *Packet {
	r := &c.ready
	if n := len(r.Sends); n == 0 || r.Sends[n-1].Link != c.learner.link {
		r.newSend(c.learner.link, SendPackets)
	}
	s := &r.Sends[len(r.Sends)-1]
	s.Packets = extend(s.Packets)
	return &s.Packets[len(s.Packets)-1]
}

func (c *Core) close(l LinkID, reason error) {
	c.ready.Close = append(c.ready.Close, Closing{l, reason})
}

// check stops the process if an invariant is broken: a stopped server is better
// than a history that differs from the other servers'.
func (c *Core) check(ok bool, format string, args ...any) {
	if !ok {
		c.broken(format, args...)
	}
}

// broken is check where the arguments should cost nothing.
func (c *Core) broken(format string, args ...any) {
	panic(fmt.Sprintf("zab: server %d: broken invariant: ", c.cfg.ID) + fmt.Sprintf(format, args...))
}

// Ready returns what is to be done since the last call. It and its slices are
// valid until the next call of Ready; the data of entries and packets may be kept.
func (c *Core) Ready() *Ready {
	if c.teaches() {
		c.beginRound()
	}
	c.out.reset()
	c.ready, c.out = c.out, c.ready
	out := &c.out
	out.Notify = append(out.Notify, c.election.Messages()...)
	out.Durable = c.persistedZxid
	c.ready.Commit, c.ready.Role, c.ready.Term = out.Commit, out.Role, out.Term
	c.ready.Epoch, c.ready.Serving = out.Epoch, out.Serving
	c.readies++
	return out
}
