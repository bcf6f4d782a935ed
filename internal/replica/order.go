package replica

import (
	"slices"
	"time"

	"github.com/pinfold-zk/pinfold/internal/pipeline"
	"github.com/pinfold-zk/pinfold/internal/prep"
	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/internal/zab"
	"github.com/pinfold-zk/pinfold/zk"
)

// prepareRun is how many requests are prepared under one read lock, so that the
// applier gets in between.
const prepareRun = 64

// orderer is what the owner of the stage Order keeps: all that decides what happens
// in which order. The machine sees to it that one worker at a time runs it.
type orderer struct {
	*Replica
	turn *Turn // the present one, which collects what is to be logged and applied

	prep     *prep.Preparer
	nextZxid zk.Zxid
	locked   time.Duration // since when, the present hold of the tree's lock
	sessions
	member
}

// start prepares for the first turn: last is where the tree is.
func (o *orderer) start(last zk.Zxid, rep *Report) error {
	o.beginAt(last)
	if o.o.Ensemble != nil {
		return o.loadEpochs(rep)
	}
	o.startAlone()
	o.decides.Store(true)
	return nil
}

// startAlone makes a standalone server serve clients, with a new tracker and the tree.
func (o *orderer) startAlone() {
	o.prep = prep.New(o.o.Prep, o.tree, o.o.Auth, o.tracker)
	o.setMode(Standalone)
}

// beginAt begins with the sessions of the tree, which ends at last.
func (o *orderer) beginAt(last zk.Zxid) {
	o.nextZxid = following(last)
	o.o.Prep.Away, o.o.Prep.OverQuota, o.o.Prep.Room = o.away, o.stats.countOverQuota, o.pool.ops
	if o.dynamic() {
		o.o.Prep.Reconfigure = o.reconfigure
	}
	o.newTracker()
}

// step is a turn of Order: it takes in what has happened, does what is due by the
// clock, and takes up one round of requests.
func (o *orderer) step(t *Turn) {
	o.turn = t
	o.forgetClosed()
	if o.o.Ensemble != nil {
		o.stepCore(&t.mail)
	}
	if o.handing == nil { // the ends of sessions could not be proposed
		o.expireAtTick(t.began)
	}
	o.beginReadOnly()
	for _, f := range t.mail.calls {
		f(o.tracker, o.heard) // before resumes: one may be the end of a session
	}
	for _, s := range t.mail.resumes {
		if o.handing != nil {
			o.handing.resumes = append(o.handing.resumes, s)
		} else {
			o.resume(s)
		}
	}
	o.watchRoom()
	o.beginHandOvers(t.mail.handOvers)
	o.beginRestores(t.mail.restores)
	o.stepHandOver()
	if b := o.takeRound(o.forwards()); b != nil {
		o.beginLocals(b)
		switch {
		case o.handing != nil:
			o.handing.held = append(o.handing.held, b)
		case o.o.Ensemble == nil:
			o.proposeAlone(b)
		case !o.serving.Load():
			o.dropRequests(b.reqs)
			o.pool.put(b)
		case o.role == zab.Leading:
			o.propose(b)
		default:
			o.forward(b)
			o.drive()
		}
	}
	o.reclaim()
	t.deadline, t.forwards, t.lone = o.deadline(), o.forwards(), o.lone()
}

// deadline is when step has something to do by the clock, at the latest.
func (o *orderer) deadline() time.Duration {
	switch {
	case o.core == nil && o.handing != nil:
		return o.Now() + restorePoll
	case o.core == nil:
		return o.nextExpiry
	}
	at := o.core.Deadline()
	if o.handing != nil {
		return min(at, o.handing.until)
	}
	at = min(at, o.nextExpiry)
	if o.readOnlyAt > 0 {
		at = min(at, o.readOnlyAt)
	}
	return at
}

// forwards is the number of learners' requests that wait to be proposed here.
func (o *orderer) forwards() int {
	if o.role != zab.Leading || !o.serving.Load() || o.handing != nil {
		return 0
	}
	return len(o.incoming)
}

// loneBytes is how much a job may write that a worker other than the Writer may start.
const loneBytes = 16 << 10

// lone reports whether this turn has made a single small job, and what was proposed
// before it is committed: then there is little to do while the disk works.
func (o *orderer) lone() bool {
	if len(o.turn.jobs) != 1 || len(o.proposed) > 1 {
		return false
	}
	b := o.turn.jobs[0].b
	return b != nil && len(b.txns) <= pipeline.SmallBatch && b.size() <= loneBytes
}

// toLog queues a job for the next stage.
func (o *orderer) toLog(j job) {
	if j.b != nil {
		j.b.owed.Store(owners(o.o.Ensemble != nil))
	}
	o.turn.jobs = append(o.turn.jobs, j)
}

// toApply queues a step for the last stage.
func (o *orderer) toApply(s step) { o.turn.steps = append(o.turn.steps, s) }

// proposeAlone makes the transactions of a batch on a standalone server, and queues them
// for the log. Syncs are queued after them: a session that has lost its connection syncs
// over its next one, and must see the writes that it has sent over the lost one.
func (o *orderer) proposeAlone(b *batch) {
	var synced []Request
	if slices.ContainsFunc(b.reqs, func(q Request) bool { return q.Op == wire.OpSync }) {
		o.takeSyncs(b)
		synced = o.syncs.take()
	}
	if len(b.reqs) == 0 {
		o.pool.put(b)
	} else {
		o.prepare(b)
		o.toLog(job{b: b})
	}
	if synced != nil {
		o.toLog(job{synced: synced})
	}
}

// dropRequests tells that requests will not be answered.
func (o *orderer) dropRequests(reqs []Request) {
	for i := range reqs {
		if by := reqs[i].Origin; by != nil {
			by.Dropped(&reqs[i])
		}
	}
	o.countOut(len(reqs))
}

// prepare makes the transactions of a batch: each request gets the next zxid.
func (o *orderer) prepare(b *batch) {
	now := o.clock.UnixMilli()
	if cap(b.txns) < len(b.reqs) {
		b.txns = make([]txn.Txn, 0, cap(b.reqs))
	}
	for start := 0; start < len(b.reqs); start += prepareRun {
		end := min(start+prepareRun, len(b.reqs))
		o.prep.Applied(zk.Zxid(o.applied.Load())) // without the lock: a large multi has left much
		o.locked = o.lockRead()
		for i := start; i < end; i++ {
			b.txns = b.txns[:i+1]
			req, tx, z := &b.reqs[i], &b.txns[i], o.nextZxid
			o.nextZxid = following(z)
			if req.Op == wire.OpCreateSession {
				o.beginSession(req, z)
			}
			if o.throttled(req) {
				req.Refused = zk.ErrThrottledOp
			}
			if req.Refused != zk.OK {
				o.stats.Throttled.Add(1)
				prep.Refuse(&req.Request, z, now, req.Refused, tx)
				continue
			}
			o.prep.Prepare(&req.Request, z, now, tx)
			switch tx.Header.Type {
			case wire.OpCloseSession:
				o.endSession(req, z)
			case wire.OpReconfig:
				o.reconfig = z
			}
		}
		o.unlockRead(o.locked)
	}
	b.encode(o.pool)
	o.stats.Proposals.Add(int64(len(b.txns)))
}

// away releases the tree's lock within prepare, and calls work meanwhile (prep.Config).
func (o *orderer) away(work func()) {
	o.unlockRead(o.locked)
	if work != nil {
		work()
	}
	o.locked = o.lockRead()
}

// following is the zxid after z. When the counter is used up another epoch
// begins, as an ensemble would begin one by an election; its first counter is 1.
func following(z zk.Zxid) zk.Zxid {
	z++
	if z.Counter() == 0 {
		z++
	}
	return z
}

// throttled reports whether a client's request has waited too long. Sessions
// begin and end all the same.
func (o *orderer) throttled(req *Request) bool {
	return o.o.ThrottledOpWait > 0 && req.Session != 0 && req.Received != 0 &&
		req.Op != wire.OpCreateSession && req.Op != wire.OpCloseSession &&
		o.Now()-req.Received > o.o.ThrottledOpWait
}

// resume gives a session another connection, or on a learner asks the leader
// whether it may have one.
func (o *orderer) resume(s resume) {
	switch {
	case o.Mode() == Idle:
		s.origin.Dropped(&Request{}) // the session may well be alive
		return
	case o.resumeLocal(s) || o.Mode() == ReadOnly && o.leaveUnknown(s):
		return
	case o.role == zab.Following || o.role == zab.Observing:
		o.revalidate(s)
		return
	}
	ok := o.revive(s.id, s.owner, s.timeoutMillis)
	switch {
	case ok:
		o.owners[s.id] = owner{s.origin, s.timeoutMillis}
	case o.ending(s.id):
		o.undecided.ask(question{resume: s})
		return
	}
	s.origin.Resumed(ok, s.id, s.timeoutMillis)
}

// propose makes transactions of the learners' requests and of the batch of this
// server's clients, and proposes them.
func (o *orderer) propose(b *batch) {
	asked := o.takeSyncs(b)
	if len(b.reqs) == 0 {
		o.pool.put(b)
	} else {
		z, left := o.core.NextZxid()
		if left < len(b.reqs) {
			o.core.StepDown(o.Now(), "the epoch has no zxids left; another one begins")
			o.dropRequests(b.reqs[:b.own])
			o.pool.put(b)
			o.drive()
			return
		}
		o.nextZxid, o.asker = z, learnerOf(b.reqs[0].Owner)
		o.prepare(b)
		if err := o.core.Propose(o.entriesOf(b)); err != nil {
			o.fail(err)
			return
		}
		o.made = append(o.made, b)
	}
	for _, l := range asked {
		if err := o.core.Sync(l); err != nil {
			o.fail(err)
			return
		}
	}
	o.drive()
}

// takeSyncs appends the learners' requests to those of the batch, and removes the syncs
// from both. It returns the links on which the syncs arrived, 0 for this server's
// clients. Requests that a learner sent after a sync stay for the next batch: Apache's
// learners match replies with their requests in order.
func (o *orderer) takeSyncs(b *batch) []zab.LinkID {
	own := b.reqs[:0]
	var asked []zab.LinkID
	for i := range b.reqs {
		switch {
		case b.reqs[i].Op == wire.OpSync:
			o.syncs.ask(b.reqs[i])
			asked = append(asked, 0)
		case len(own) == i: // no sync so far: it is in its place
			own = b.reqs[:i+1]
		default:
			own = append(own, b.reqs[i])
		}
	}
	clear(b.reqs[len(own):])
	b.reqs, b.own = own, len(own)
	taken, synced := 0, false
	for i := range o.incoming {
		if o.incoming[i].Op == wire.OpSync {
			asked = append(asked, linkOf(o.incoming[i].Owner))
			synced = true
		} else if synced {
			break
		} else {
			b.reqs = append(b.reqs, o.incoming[i])
		}
		taken++
	}
	rest := copy(o.incoming, o.incoming[taken:])
	clear(o.incoming[rest:])
	o.incoming = o.incoming[:rest]
	return asked
}

// entriesOf returns the entries of a prepared batch, valid until the next call.
func (o *orderer) entriesOf(b *batch) []zab.Entry {
	o.entries = o.entries[:0]
	for i := range b.txns {
		o.stats.ProposalSizes.Add(int64(len(b.encoded(i))))
		o.entries = append(o.entries, zab.Entry{Zxid: b.txns[i].Zxid, Data: b.encoded(i)})
	}
	return o.entries
}
