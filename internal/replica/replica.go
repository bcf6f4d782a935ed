// Package replica drives the state of a server: it prepares requests, logs the
// transactions, applies them and tells who waits (design, section 2).
//
//	Submit -> inbox -> loop: prepare -> writer: log+fsync -> applier: apply, notify, respond
//
// On a server of an ensemble the loop also owns the Zab core, and what is applied
// is what the core has committed:
//
//	leader    Submit, or REQUEST of a learner -> prepare -> propose -> log+fsync, here and there -> commit -> apply
//	learner   Submit -> REQUEST -> leader; PROPOSAL -> log+fsync -> ACK; COMMIT -> apply, respond
//
// The way of a request, one file each:
//
//	inbox.go     what the loop is told
//	loop.go      requests: prepared, forwarded or refused; sessions
//	ensemble.go  the Zab core: what goes in, and what is done with what comes out
//	leader.go    what a leader does for its learners
//	learner.go   what a learner asks of its leader
//	writer.go    the disk
//	applier.go   the tree
//	transfer.go  the log and the tree on their way to a learner, and from a leader
//
// A batch of requests goes through the stages as one. While the writer waits
// for the disk the next batches gather, and one fsync carries them all.
//
// Goroutines, each the only owner of its part:
//
//	loop      the preparer, the session tracker, the zxid counter, the Zab core
//	writer    the transaction log
//	applier   the only one that changes the tree and fires watches
//	tasks     a snapshot that is written, at most one, or a place in the log that is looked up
//	sweeper and purger, by the clock
//
// A small batch that finds the next stage idle is taken through it by the
// goroutine that has it, which owns the stage meanwhile: a lone request is
// logged, applied and answered by the loop.
//
// Invariants, tests have the same names:
//
//	P2  nothing is applied, and so nobody is told, before it is durable
//	P3  transactions apply in zxid order, without a gap
//	P4  events of zxid z reach a connection before any reply that shows a state
//	    at or after z: applying, firing and replying happen under the tree's
//	    write lock, reading and replying under its read lock
//	P6  the inbox is bounded by its users, see Outstanding; the stages hold at
//	    most stageBatches batches between them
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
	"github.com/pinfold-zk/pinfold/internal/session"
	"github.com/pinfold-zk/pinfold/internal/storage"
	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/watch"
	"github.com/pinfold-zk/pinfold/internal/zab"
	"github.com/pinfold-zk/pinfold/internal/znode"
	"github.com/pinfold-zk/pinfold/zk"
)

// Origin is who sent a request: a client's connection. Its methods must not
// block: who applies, or the loop, calls them.
type Origin interface {
	// Applied tells of the transaction that a request became. It is called with
	// the tree's write lock held, after the events of tx have been fired. Request,
	// transaction and result are valid during the call only.
	Applied(req *Request, tx *txn.Txn, r *znode.Result)
	// Synced answers a request of OpSync on a server of an ensemble: all that was
	// committed when it was asked is applied. As Applied it is called with the
	// tree's write lock held.
	Synced(req *Request)
	// Dropped tells that a request will not be answered: the server has left its
	// role. Whether it takes effect is not known.
	Dropped(req *Request)
	// Resumed answers Resume. timeoutMillis is what the session has now.
	Resumed(ok bool, id zk.SessionID, timeoutMillis int32)
	// ResumedLocal answers Resume, or the createSession of a session that is new,
	// for a session that lives on this server alone.
	ResumedLocal(id zk.SessionID, timeoutMillis int32)
	// Leave ends the connection at once: its session is over, or somebody else's,
	// or cannot be had here.
	Leave(reason string)
	// LastHeard is when the client last gave a sign of life, by Replica.Now.
	LastHeard() time.Duration
}

// Clients is all connections together.
type Clients interface {
	// Fired tells that the watches of ws fired for ch, which happened at z. It is
	// called with the tree's write lock held and must not block.
	Fired(z zk.Zxid, ch *znode.Change, ws []watch.ID)
	// Carried tells of every transaction that was carried out without an error,
	// whoever asked for it. As Fired it is called with the tree's write lock held;
	// tx is valid during the call only.
	Carried(tx *txn.Txn)
	// Flush sends what Applied and Fired have made, after a batch. No lock is held.
	Flush()
	// Suspend ends all connections: the server has left its role.
	Suspend()
	// Admit tells that the mode is not Idle any more.
	Admit()
}

// Request is a request to change the state, and who waits for it.
type Request struct {
	prep.Request
	Origin   Origin        // nil: nobody waits
	Received time.Duration // when it was read, by Replica.Now
}

// Options configures a replica.
type Options struct {
	Dir      *storage.Dir
	Tree     znode.Options
	Prep     prep.Config // its MaxTxnBytes is at most what the log accepts
	Auth     *auth.Authority
	Clients  Clients
	ServerID uint8
	Tick     time.Duration // of session expiry
	// MinSession and MaxSession bound what Resume may set a timeout to.
	MinSession, MaxSession time.Duration
	ConfigText             []byte // content of /zookeeper/config

	SnapCount      int   // transactions between snapshots, before randomising
	SnapBytes      int64 // of log between snapshots, before randomising; <= 0 is no limit
	LastZxidBlock  bool  // snapshots say at their end which zxid they reach
	TrustEmpty     bool  // a log without a snapshot is believed
	DBAutoCreate   bool  // an empty directory is a new database
	MaxRecordBytes int   // of a znode or session list in a snapshot
	Prefetch       bool  // recovery has goroutines that read snapshot and log beside it

	SweepInterval  time.Duration // of containers and TTL znodes
	SweepPerMinute int
	NeverUsed      time.Duration
	PurgeInterval  time.Duration // 0 is never
	PurgeRetain    int
	FsyncWarnAfter time.Duration
	// ThrottledOpWait is how long a request may have waited when it comes to be
	// prepared; one that waited longer is answered ErrThrottledOp. 0 is for ever.
	ThrottledOpWait time.Duration
	InitialCounter  int64 // first zxid of a new database, for tests of the rollover; 0 is 1
	Logger          *slog.Logger

	Ensemble *zab.Config // nil: standalone. New sets what the core knows of the disk
	// LocalSessions makes the new sessions of a server of an ensemble local; a
	// createSession with the id of one makes it global.
	LocalSessions bool
	ReadOnly      bool // a server of an ensemble without a quorum serves who only reads

	// For the simulator: a clock of its own; Stepped starts no goroutines, the
	// owner calls StepLoop, StepWriter, StepApplier and StepTask.
	Clock   Clock
	Stepped bool
	Seed    uint64 // of the snapshots' randomness
	// Saw is shown what the Zab core wants, before it is done; nil: nobody looks.
	Saw func(*zab.Ready)
}

// stageBatches bounds the batches that wait between two stages.
const stageBatches = 4

// steppedBatches is the same for a Stepped replica, which cannot wait.
const steppedBatches = 1 << 9

// Replica is the state of one server and what changes it. Make one with Open.
type Replica struct {
	o   Options
	log *slog.Logger

	// mu guards tree. The applier holds it to write, in short batches; readers
	// hold it to read, and watchMu within it to register watches.
	mu   sync.RWMutex
	tree *znode.Tree

	watchMu sync.Mutex
	watches watch.Tables

	clock   Clock
	net     Network // nil until Join
	inbox   inbox
	toLog   logQueue
	toApply chan step
	pool    batchPool
	tasks   []func() bool // of a Stepped replica

	incomingTrees incomingTrees
	ballots       ballots

	applied   atomic.Int64 // zxid of the last transaction in the tree
	inProcess atomic.Int64 // requests submitted and not yet applied
	unlogged  atomic.Int64 // jobs sent to the writer and not yet passed on
	unapplied atomic.Int64 // steps sent to the applier and not yet applied
	serving   atomic.Bool  // the mode is writable
	mode      atomic.Int32
	since     atomic.Int64 // when the mode began
	decides   atomic.Bool  // this server makes the transactions: it leads, or is alone
	awaiting  atomic.Bool  // the loop waits until all is applied
	fuzzy     atomic.Bool  // the tree may be ahead of its zxid: it came from the leader
	status    atomic.Pointer[zab.Status]
	rollLog   atomic.Bool // the snapshotter asks the writer for a new file
	stats     Stats
	started   time.Time
	zero      int64 // the wall clock, in milliseconds, at the zero of Now

	stopping chan struct{} // closed by Close: the loop drains and ends
	stopOnce sync.Once
	wg       sync.WaitGroup
	failOnce sync.Once
	failed   chan struct{}
	failure  error // set before failed is closed

	// turn is held by who does the loop's work: the loop, or who helps. It guards
	// what is the loop's.
	turn     sync.Mutex
	over     bool          // there are no more turns
	armed    time.Duration // when the loop's timer fires
	writing  bool          // the writer does it, which must not wait for itself
	mayWrite bool          // who does it may become the writer for a moment
	lone     []job         // what he is to write

	// Owned by the loop.
	prep     *prep.Preparer
	tracker  *session.Tracker
	nextZxid zk.Zxid
	owners   map[zk.SessionID]owner
	closing  []closingSession
	member

	// Owned by the writer.
	wal       *storage.Log
	failedCut uint64 // the term in which a truncation failed; 0 is none

	// Owned by the applier or, while nothing is unapplied, by who feeds it.
	result znode.Result
	fired  []watch.ID

	snap snapshotPlan
	// snapshotting is the task that writes the present snapshot.
	snapshotting func() bool
}

// owner is the connection through which a session's requests come.
type owner struct {
	Origin
	timeoutMillis int32
}

// closingSession is a session whose closeSession transaction is on its way.
type closingSession struct {
	zxid zk.Zxid
	id   zk.SessionID
}

// Start recovers the state from the directory and starts the goroutines.
// nowMillis is the server's wall clock. The report says what was recovered.
func Start(o Options, nowMillis int64) (*Replica, Report, error) {
	r := &Replica{
		o: o, log: o.Logger, clock: o.Clock, stopping: make(chan struct{}), failed: make(chan struct{}),
		owners: map[zk.SessionID]owner{}, started: time.Now(),
	}
	if most := o.Dir.MaxEntryBytes(); o.Prep.MaxTxnBytes <= 0 || o.Prep.MaxTxnBytes > most {
		r.o.Prep.MaxTxnBytes = most // what the log refuses must not be prepared
	}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	if r.clock == nil {
		r.clock = wallClock{r.started}
	}
	stages := stageBatches
	if o.Stepped {
		stages = steppedBatches
	}
	r.toLog.init(stages)
	r.toApply = make(chan step, stages)
	r.pool = make(batchPool, pooledBatches)
	r.inbox.init(r.pool)
	r.snap.init(o)
	report, err := r.recover(nowMillis)
	if err != nil {
		return nil, report, err
	}
	snapshotDue := r.snap.applied(report.Replayed, 0)
	r.zero = nowMillis - r.clock.Now().Milliseconds()
	last := r.tree.LastZxid()
	r.nextZxid = following(last)
	r.applied.Store(int64(last))
	r.newTracker()
	if o.Ensemble == nil {
		r.prep = prep.New(r.o.Prep, r.tree, o.Auth, r.tracker)
		r.setMode(Standalone)
		r.decides.Store(true)
	} else if err := r.found(&report); err != nil {
		return nil, report, err
	}
	if snapshotDue {
		r.snapshot()
	}
	if o.Stepped {
		return r, report, nil
	}
	r.wg.Go(r.loop)
	r.wg.Go(r.writeLog)
	r.wg.Go(r.apply)
	r.wg.Go(r.sweep)
	if o.PurgeInterval > 0 {
		r.wg.Go(r.purge)
	}
	return r, report, nil
}

// newTracker begins to track the sessions that the tree has.
func (r *Replica) newTracker() {
	r.tracker = session.NewTracker(session.Config{
		TickMillis: int32(r.o.Tick.Milliseconds()), Standalone: r.o.Ensemble == nil,
		FirstID: session.InitialID(r.o.ServerID, r.clock.UnixMilli()),
	})
	r.tree.Sessions(func(id zk.SessionID, timeout int32) { r.tracker.Add(id, timeout, r.Millis(r.Now())) })
}

// spawn has a task done in a goroutine of its own: it is called until it returns
// false. A Stepped replica leaves it to StepTask.
func (r *Replica) spawn(task func() (again bool)) {
	if r.o.Stepped {
		r.tasks = append(r.tasks, task)
		return
	}
	r.wg.Go(func() {
		for task() {
		}
	})
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
		r.inbox.release()
		r.toLog.release()
	})
}

// Close finishes what was submitted, closes the log and waits for the
// goroutines. The directory stays with its owner.
func (r *Replica) Close() error {
	r.stopOnce.Do(func() { close(r.stopping) })
	r.wg.Wait()
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

// RLock lets the caller read Tree until RUnlock. What it read is the state at
// Tree().LastZxid().
func (r *Replica) RLock() { r.mu.RLock() }

// RUnlock ends RLock.
func (r *Replica) RUnlock() { r.mu.RUnlock() }

// Tree is the state. REQUIRES: RLock.
func (r *Replica) Tree() *znode.Tree { return r.tree }

// Watches calls f with the watch tables, alone.
func (r *Replica) Watches(f func(*watch.Tables)) {
	r.watchMu.Lock()
	defer r.watchMu.Unlock()
	f(&r.watches)
}

// AddWatch registers a watch. REQUIRES: RLock, so that no change falls between
// what the caller has read and the watch.
func (r *Replica) AddWatch(w watch.ID, path string, k watch.Kind) {
	r.watchMu.Lock()
	r.watches.Add(w, path, k)
	r.watchMu.Unlock()
}

// Outstanding is the number of requests submitted and not yet applied. Who
// submits must wait while it is above the limit of the server.
func (r *Replica) Outstanding() int { return int(r.inProcess.Load()) }

// LastApplied is the zxid of the last transaction in the tree.
func (r *Replica) LastApplied() zk.Zxid { return zk.Zxid(r.applied.Load()) }

// Serving reports whether the mode is Writable.
func (r *Replica) Serving() bool { return r.serving.Load() }

// Ensemble reports whether this is a server of an ensemble.
func (r *Replica) Ensemble() bool { return r.o.Ensemble != nil }

// Submit hands requests over, in order. It copies their bodies and keeps
// nothing else but the Origins. The owner of a createSession is given its id by
// the transaction.
func (r *Replica) Submit(reqs []Request) {
	r.inProcess.Add(int64(len(reqs)))
	r.inbox.put(reqs)
	r.inbox.signal()
}

// Bring is Submit by who may be kept busy, and holds no lock: if nobody else is
// at it, the requests are taken on before it returns.
func (r *Replica) Bring(reqs []Request) {
	r.inProcess.Add(int64(len(reqs)))
	r.inbox.put(reqs)
	if len(reqs) <= smallBatch {
		r.help()
	} else {
		r.inbox.signal()
	}
}

// Resume makes origin the one that speaks for a session from now on, with a new
// timeout. The password is checked already. Origin.Resumed answers.
func (r *Replica) Resume(id zk.SessionID, owner session.Owner, timeoutMillis int32, origin Origin) {
	r.inbox.putResume(resume{id, owner, timeoutMillis, origin})
}

// Do calls f in the loop's goroutine, between two batches, with the session
// tracker. It does not wait.
func (r *Replica) Do(f func(t *session.Tracker, heard func(zk.SessionID) (int64, bool))) {
	r.inbox.putCall(f)
}

// check stops the process for a broken invariant: a stopped server is better
// than a state that nobody agreed on.
func check(ok bool, format string, args ...any) {
	if !ok {
		panic("replica: broken invariant: " + fmt.Sprintf(format, args...))
	}
}
