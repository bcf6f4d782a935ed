// Package replica is the state of one server and what changes it: requests become
// transactions, these are logged, applied to the tree, and answered (design, section 2).
//
//	standalone  Bring -> order: prepare -> log: write, fsync -> apply: tree, watches, answers
//	leader      Bring, or REQUEST of a learner -> order: prepare, propose -> log, here and on
//	            followers -> order: count ACKs, commit -> apply
//	learner     Bring -> order: REQUEST to the leader; PROPOSAL -> log -> ACK; COMMIT -> apply
//
// Three stages own all mutable state, each its part: Order (type orderer), Log (logger)
// and Apply (applier). The machine of package pipeline decides which goroutine runs
// which stage; Next and Run in pipe.go are all there is between them.
//
//	pipe.go      the queues between the stages, and how a stage is run: start here
//	batch.go     a run of requests on its way
//	drive.go     the goroutines of the stages
//	hold.go      the lock of the tree, and for how long it is held
//	clients.go   what the replica calls on its server's connections
//	order.go     Order: requests are prepared, forwarded or refused
//	sessions.go  Order: sessions, their owners and their ends
//	syncs.go     Order: syncs that are not answered
//	ensemble.go  Order: the Zab core, what goes in, and what is done with what comes out
//	leader.go    Order: what a leader does for its learners
//	handover.go  Order: a leader that is asked to leave
//	restore.go   the state is replaced by a snapshot from outside
//	forwarded.go Order: how many bytes of their requests a leader holds
//	learner.go   Order: what a learner asks of its leader
//	local.go     Order: sessions that live on this server alone; read-only mode
//	log.go       Log: the disk
//	apply.go     Apply: the tree
//	diverged.go  a tree that is not what the log leads to
//	snapshot.go  fuzzy snapshots, written beside the stages
//	recount.go   the usage of quotas of large subtrees, counted beside the stages
//	transfer.go  the log and the tree on their way to a learner, and from a leader
//	room.go      a disk that is nearly full
//	recover.go   the state at the start
//	heal.go      a server whose disk is damaged, or has lost its files
//
// A batch of requests passes the stages as one. While Log waits for the disk the next
// batches gather, and one fsync carries them all.
//
// Invariants; tests have the same names:
//
//	P2  nothing is applied, and so no client is told, before it is durable: here on a
//	    standalone server, on a quorum's disks in an ensemble
//	P3  transactions apply in zxid order, without a gap
//	P4  events of zxid z reach a connection before any reply that shows a state
//	    at or after z: applying, firing and replying happen under the tree's
//	    write lock, reading and replying under its read lock
//	P6  what waits is bounded: requests by Outstanding, packets by maxPackets and maxPacketBytes, what
//	    is not durable by the Zab core
package replica

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pinfold-zk/pinfold/internal/auth"
	"github.com/pinfold-zk/pinfold/internal/prep"
	"github.com/pinfold-zk/pinfold/internal/rawio"
	"github.com/pinfold-zk/pinfold/internal/session"
	"github.com/pinfold-zk/pinfold/internal/storage"
	"github.com/pinfold-zk/pinfold/internal/watch"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/internal/zab"
	"github.com/pinfold-zk/pinfold/internal/znode"
	"github.com/pinfold-zk/pinfold/zk"
)

// Options configures a replica.
type Options struct {
	Dir        *storage.Dir
	Tree       znode.Options
	Prep       prep.Config // its MaxTxnBytes is at most what the log accepts
	Auth       *auth.Authority
	Clients    Clients
	ServerID   uint8
	Tick       time.Duration // of session expiry
	ConfigText []byte        // content of /zookeeper/config

	SnapCount      int   // transactions between snapshots, before randomising
	SnapBytes      int64 // of log between snapshots, before randomising; <= 0 is no limit
	LastZxidBlock  bool  // snapshots say at their end which zxid they reach
	TrustEmpty     bool  // a log without a snapshot is believed
	DBAutoCreate   bool  // an empty directory is a new database
	NoHealing      bool  // a server of an ensemble refuses to start with damaged files, as a standalone one does
	MaxRecordBytes int   // of a znode or session list in a snapshot
	Prefetch       bool  // recovery has goroutines that read snapshot and log beside it

	SweepInterval  time.Duration // of containers and TTL znodes
	SweepPerMinute int
	NeverUsed      time.Duration
	PurgeInterval  time.Duration // 0 is never
	PurgeRetain    int
	PurgeAge       time.Duration // of snapshots, 0 is any; see storage.Retention
	PurgeBytes     int64         // of snapshots and logs, 0 is any
	FsyncWarnAfter time.Duration
	// DiskReserve is how many bytes of the disk are to be free, or a twentieth of it if that is
	// less; with less, writes of clients are refused. 0: the disk is not looked at.
	DiskReserve int64
	// MaxSessions is how many sessions the requests of learners may make; 0 is no limit.
	// Learners of ours refuse their clients before.
	MaxSessions int
	// ThrottledOpWait is how long a request may have waited when it comes to be
	// prepared; one that waited longer is answered ErrThrottledOp. 0 is for ever.
	ThrottledOpWait time.Duration
	InitialCounter  int64 // first zxid of a new database, for tests of the rollover; 0 is 1
	Logger          *slog.Logger

	// MemoryLeft returns how many bytes of memory the process may still take. A learner that
	// receives a tree asks it again and again, and leaves the leader if the answer is 0 or less.
	// nil: a tree of any size is received. Any goroutine may call it.
	MemoryLeft func() int64

	// ForwardedBytes bounds the requests of learners that a leader holds; 0 is no limit.
	ForwardedBytes int64

	Ensemble *zab.Config // nil: standalone. New sets what the core knows of the disk
	// NextMembers is a membership later than Ensemble.Members that was proposed and is not
	// known to be committed, from Apache's file zoo.cfg.dynamic.next; nil: there is none.
	NextMembers *zab.Membership
	// Reconfigure returns the membership that a reconfig leads to, with the given version;
	// it is pure. Only an ensemble with Ensemble.Reader calls it.
	Reconfigure func(from *zab.Membership, req *wire.ReconfigRequest, version zk.Zxid) (*zab.Membership, zk.Code)
	// MembersSaved is called by Log after what the core knows of the membership is on
	// the disk, and before the transaction that it comes from is. nil: not called.
	MembersSaved func(m zab.Memberships)
	// LocalSessions makes the new sessions of a server of an ensemble local; a
	// createSession with the id of one makes it global.
	LocalSessions bool
	ReadOnly      bool // a server of an ensemble without a quorum serves clients that only read
	// ReadOnlyAfter is how long a server looks for a leader before it is ReadOnly, at
	// least a tick; 0 is two seconds.
	ReadOnlyAfter time.Duration

	Clock  Clock  // nil is the machine's; the simulator has its own
	Driver Driver // nil is goroutines; the simulator has its own
	Seed   uint64 // of the snapshots' randomness
	// Group chooses how many of the jobs that fit into one write are made durable by it;
	// nil is all. The simulator has its own.
	Group func(jobs int) int
	// PieceDone is called with the work under each hold of the tree's write lock, in units
	// of package znode. Tests set it; nil is allowed.
	PieceDone func(work int)
	// Saw is shown what the Zab core wants, before it is done; nil: not called.
	Saw func(*zab.Ready)
	// Scrub overwrites the memory of requests and transactions before it is used again, so
	// that a test fails if someone still reads it. Tests set it.
	Scrub bool
}

// Replica is the state of one server and what changes it. Make one with Open.
type Replica struct {
	o   Options
	log *slog.Logger

	// mu guards tree. The applier holds it to write, in short batches; readers
	// hold it to read, and watchMu within it to register watches.
	mu       sync.RWMutex
	_        [64]byte // each reader writes to mu: what it only reads is not in that cache line
	tree     *znode.Tree
	partial  zk.Zxid       // of the closeSession that is being applied in pieces, 0: none
	changing *changing     // the multi that is being applied in pieces, nil: none
	turn     chan struct{} // has an element while a View has the turn, after its first piece of work; acquired before mu

	watchMu sync.Mutex
	watches watch.Tables

	clock  Clock
	driver Driver
	busy   chan struct{} // Busy
	looked int64         // flushes at the last look; the goroutine that calls Look owns it
	net    Network       // nil until Join
	pool   *batchPool

	pipe  pipe    // between the stages
	order orderer // the stage Order
	disk  logger  // the stage Log
	tip   applier // the stage Apply

	incomingTrees incomingTrees
	ballots       ballots

	applied    atomic.Int64 // zxid of the last transaction in the tree
	logged     atomic.Int64 // zxid of the last transaction that is durable
	inProcess  atomic.Int64 // requests submitted and not yet applied
	serving    atomic.Bool  // the mode is writable
	mode       atomic.Int32
	since      atomic.Int64 // when the mode began
	diskAway   atomic.Bool  // the mode is Idle, and began because the disk stalls
	decides    atomic.Bool  // this server makes the transactions: it leads, or is alone
	restoring  atomic.Bool  // Restore is being executed
	fuzzy      atomic.Bool  // the tree may be ahead of its zxid: it came from the leader
	diverged   atomic.Bool  // the tree is not what the log leads to, see giveUpTree
	healing    atomic.Bool  // the server has no vote, see heal.go
	status     atomic.Pointer[zab.Status]
	recounting atomic.Bool // the task of recountQuotas runs
	room       room
	rollLog    atomic.Bool // the snapshotter asks the writer for a new file
	seldom     atomic.Bool // writes are taken for seldom, see Look
	flushes    atomic.Int64
	stats      Stats
	started    time.Time
	zero       int64 // the wall clock, in milliseconds, at the zero of Now

	stopping chan struct{} // closed by Close: the stages drain and end
	stopOnce sync.Once
	failOnce sync.Once
	failed   chan struct{}
	failure  error // set before failed is closed

	snap snapshots
}

// Start recovers the state from the directory and starts the goroutines.
// nowMillis is the server's wall clock. The report says what was recovered.
func Start(o Options, nowMillis int64) (*Replica, Report, error) {
	o.Tree.Populate = rawio.Populate
	r := &Replica{
		o: o, log: o.Logger, clock: o.Clock, driver: o.Driver, pool: newBatchPool(o.Scrub),
		stopping: make(chan struct{}), failed: make(chan struct{}), started: time.Now(),
	}
	if most := o.Dir.MaxEntryBytes(); o.Prep.MaxTxnBytes <= 0 || o.Prep.MaxTxnBytes > most {
		r.o.Prep.MaxTxnBytes = most // what the log refuses must not be prepared
	}
	r.turn, r.busy = make(chan struct{}, 1), make(chan struct{}, 1)
	r.stats.init()
	r.order = orderer{Replica: r, sessions: sessions{Replica: r, owners: map[zk.SessionID]owner{}}}
	r.disk, r.tip = logger{Replica: r}, applier{Replica: r}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	if r.clock == nil {
		r.clock = wallClock{r.started}
	}
	if r.driver == nil {
		r.driver = new(goroutines)
	}
	r.pipe.init(r.pool, o.Group)
	if o.Ensemble == nil {
		r.pipe.machine.Alone()
	}
	r.snap.init(r)
	report, err := r.begin(nowMillis)
	if err != nil {
		return nil, report, err
	}
	snapshotDue := r.snap.applied(report.Replayed, 0)
	r.driver.Start(r)
	r.snap.start(snapshotDue)
	return r, report, nil
}

// ErrClosed is the failure of a replica that was closed in order.
var ErrClosed = errors.New("replica: closed")

// Failed is closed when the replica can go on no more, Failure says why. The
// process must end: what is not acknowledged may or may not be durable.
func (r *Replica) Failed() <-chan struct{} { return r.failed }

// Failure is the reason, once Failed is closed.
func (r *Replica) Failure() error { return r.failure }

// fail stops everything: nothing is acknowledged from here on.
func (r *Replica) fail(err error) {
	r.failOnce.Do(func() {
		r.failure = err
		close(r.failed)
		r.notify(func(p *pipe) {
			p.machine.Fail()
			p.room.Broadcast()
		})
	})
}

// hasFailed reports whether fail has been called.
func (r *Replica) hasFailed() bool {
	select {
	case <-r.failed:
		return true
	default:
		return false
	}
}

// Close finishes what was submitted, closes the log and waits for the
// goroutines. The directory stays with its owner.
func (r *Replica) Close() error {
	r.stopOnce.Do(func() {
		close(r.stopping)
		r.notify(func(p *pipe) { p.machine.Close() })
	})
	r.driver.Wait()
	select {
	case <-r.failed:
		return r.failure
	default:
		r.fail(ErrClosed)
		return nil
	}
}

// Now is the time since the replica was started: the clock of requests and
// sessions. It does not jump when the wall clock is set.
func (r *Replica) Now() time.Duration { return r.clock.Now() }

// Millis is how the session tracker tells a time of Now: in milliseconds since
// 1970, as the wall clock was when the replica started.
func (r *Replica) Millis(t time.Duration) int64 { return r.zero + t.Milliseconds() }

// View is the tree while its lock is held: the state at LastZxid. It is valid during the
// call that it was passed to.
type View struct {
	*znode.Tree
	r *Replica
	h *Hold
}

// AddWatch registers a watch. No change falls between what the View shows and the watch.
// It reports false if there is no room for the watch. It keeps path if it is long (watch.LongPath).
func (v View) AddWatch(w watch.ID, path string, k watch.Kind) bool {
	v.r.watchMu.Lock()
	defer v.r.watchMu.Unlock()
	return v.r.watches.Add(w, path, k)
}

// Watches calls f with the watch tables, under their lock, a leaf: f must not wait and
// must not keep the tables.
func (r *Replica) Watches(f func(*watch.Tables)) {
	r.watchMu.Lock()
	defer r.watchMu.Unlock()
	f(&r.watches)
}

// Outstanding is the number of requests submitted and not yet applied. Callers of Submit
// and Bring must wait while it is above the limit of the server.
func (r *Replica) Outstanding() int { return int(r.inProcess.Load()) }

// countOut takes n requests that are not applied out of Outstanding.
func (r *Replica) countOut(n int) {
	r.inProcess.Add(int64(-n))
	r.o.Clients.Released()
}

// LastApplied is the zxid of the last transaction in the tree.
func (r *Replica) LastApplied() zk.Zxid { return zk.Zxid(r.applied.Load()) }

// LastLogged is the zxid of the last transaction that is durable here. It may be
// less than LastApplied: what a quorum has made durable is applied.
func (r *Replica) LastLogged() zk.Zxid { return zk.Zxid(r.logged.Load()) }

// Drained reports whether everything that is committed is applied.
func (r *Replica) Drained() bool {
	r.pipe.Lock()
	defer r.pipe.Unlock()
	return r.pipe.machine.Unapplied() == 0
}

// Fuzzy reports whether the tree may be ahead of its zxid: it came from the leader,
// and what it is ahead by is on its way.
func (r *Replica) Fuzzy() bool { return r.fuzzy.Load() }

// Serving reports whether the mode is Writable.
func (r *Replica) Serving() bool { return r.serving.Load() }

// Ensemble reports whether this is a server of an ensemble.
func (r *Replica) Ensemble() bool { return r.o.Ensemble != nil }

// SessionDump lists sessions by the time of their expiry.
type SessionDump struct {
	Global     []session.Bucket
	Local      []session.Bucket // those that live on this server alone
	KeepsLocal bool             // this server may have local sessions
}

// DumpSessions has the stage Order call f, which must not block, between two rounds. It
// does not wait. A replica that has failed never calls f.
func (r *Replica) DumpSessions(f func(SessionDump)) {
	r.putCall(func(t *session.Tracker, heard func(zk.SessionID) (int64, bool)) {
		d := SessionDump{Global: t.Buckets(heard)}
		if l := t.Locals(); l != nil {
			d.KeepsLocal, d.Local = true, l.Buckets(heard)
		}
		f(d)
	})
}

// check stops the process for a broken invariant: a stopped server is better than a
// state that the ensemble has not agreed on.
func check(ok bool, format string, args ...any) {
	if !ok {
		panic("replica: broken invariant: " + fmt.Sprintf(format, args...))
	}
}
