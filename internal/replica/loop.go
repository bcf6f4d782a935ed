package replica

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/pinfold-zk/pinfold/internal/prep"
	"github.com/pinfold-zk/pinfold/internal/session"
	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/internal/zab"
	"github.com/pinfold-zk/pinfold/zk"
)

// prepareRun is how many requests are prepared under one read lock, so that the
// applier gets in between.
const prepareRun = 64

// loop does what is in the inbox, and what is due by the clock, until Close or a
// failure; save for what others do in its place, by help.
func (r *Replica) loop() {
	defer r.endLoop()
	r.turn.Lock()
	r.armed = r.deadline()
	r.turn.Unlock()
	timer := time.NewTimer(r.armed - r.Now())
	defer timer.Stop()
	for {
		fired := false
		select {
		case <-r.inbox.wake:
		case <-timer.C:
			fired = true
		case <-r.failed:
			return
		case <-r.stopping:
			r.turn.Lock()
			r.step()
			r.turn.Unlock()
			return
		}
		r.turn.Lock()
		ok := r.step()
		next := r.deadline()
		again := fired || next < r.armed
		if again {
			r.armed = next
		}
		r.turn.Unlock()
		if !ok {
			return
		}
		if again {
			timer.Reset(next - r.Now())
		}
	}
}

// deadline is when step has something to do by the clock, at the latest.
func (r *Replica) deadline() time.Duration {
	if r.core == nil {
		return r.nextExpiry
	}
	at := min(r.nextExpiry, r.core.Deadline())
	if until := r.gathering.until; until > 0 {
		at = min(at, until)
	}
	if r.readOnlyAt > 0 {
		at = min(at, r.readOnlyAt)
	}
	return at
}

// step does all that is in the inbox, and what is due; false means that the disk
// has failed.
func (r *Replica) step() bool {
	m := r.inbox.take(r.holdsBack() - len(r.incoming))
	r.gathering.held = m.held
	defer r.inbox.done(&m)
	r.forgetClosed()
	if now := r.Now(); now >= r.nextExpiry {
		r.nextExpiry = now + r.untilTick()
		r.expire()
	}
	if r.o.Ensemble != nil && !r.stepCore(&m) {
		return false
	}
	r.beginReadOnly()
	for _, f := range m.calls {
		f(r.tracker, r.heard) // first: one may be the end of a session
	}
	for _, s := range m.resumes {
		r.resume(s)
	}
	return r.requests(m.batch)
}

// requests takes the requests of this server's clients on; b may be nil.
func (r *Replica) requests(b *batch) bool {
	if b != nil {
		r.beginLocals(b)
	}
	switch {
	case r.core != nil && r.role == zab.Leading && r.serving.Load():
		return r.propose(b)
	case b == nil:
		return true
	case r.core == nil && r.o.Ensemble == nil:
		return r.proposeAlone(b)
	case r.serving.Load():
		r.forward(b)
		return r.drive()
	}
	r.dropRequests(b.reqs)
	r.pool.put(b)
	return true
}

// proposeAlone makes the transactions of a batch on a standalone server, and has them
// logged. Syncs go behind them: what a session has asked for over a connection that
// it has lost is not in the tree yet, and who syncs over the next must see it.
func (r *Replica) proposeAlone(b *batch) bool {
	var synced []Request
	if slices.ContainsFunc(b.reqs, func(q Request) bool { return q.Op == wire.OpSync }) {
		r.takeSyncs(b)
		synced, r.syncs = r.syncs, nil
	}
	if len(b.reqs) == 0 {
		r.pool.put(b)
	} else {
		r.prepare(b)
		if !r.toWriter(job{b: b}) {
			return false
		}
	}
	return synced == nil || r.toWriter(job{synced: synced})
}

// dropRequests tells that requests will not be answered.
func (r *Replica) dropRequests(reqs []Request) {
	for i := range reqs {
		if o := reqs[i].Origin; o != nil {
			o.Dropped(&reqs[i])
		}
	}
	r.inProcess.Add(int64(-len(reqs)))
}

// prepare makes the transactions of a batch.
func (r *Replica) prepare(b *batch) {
	now := r.clock.UnixMilli()
	if cap(b.txns) < len(b.reqs) {
		b.txns = make([]txn.Txn, 0, cap(b.reqs))
	}
	for start := 0; start < len(b.reqs); start += prepareRun {
		end := min(start+prepareRun, len(b.reqs))
		r.mu.RLock()
		r.prep.Applied(zk.Zxid(r.applied.Load()))
		for i := start; i < end; i++ {
			b.txns = b.txns[:i+1]
			r.prepareOne(&b.reqs[i], &b.txns[i], now)
		}
		r.mu.RUnlock()
	}
	if size := b.encodedSize(); cap(b.enc) < size {
		b.enc = make([]byte, 0, size)
	}
	for i := range b.txns {
		b.enc = b.txns[i].Append(b.enc)
		b.ends = append(b.ends, len(b.enc))
	}
	r.stats.Proposals.Add(int64(len(b.txns)))
}

// prepareOne gives the request the next zxid.
func (r *Replica) prepareOne(req *Request, tx *txn.Txn, nowMillis int64) {
	z := r.nextZxid
	r.nextZxid = following(z)
	if req.Op == wire.OpCreateSession {
		r.beginSession(req, z)
	}
	if r.throttled(req) {
		r.stats.Throttled.Add(1)
		prep.Refuse(&req.Request, z, nowMillis, zk.ErrThrottledOp, tx)
		return
	}
	r.prep.Prepare(&req.Request, z, nowMillis, tx)
	if req.Op == wire.OpCloseSession && tx.Header.Type == wire.OpCloseSession {
		r.closing = append(r.closing, closingSession{z, req.Session})
		// A session may be ended over a connection that it has moved away from.
		switch o, ok := r.owners[req.Session]; {
		case !ok:
		case req.Origin == nil: // of another server
			req.Origin, req.Owner = o.Origin, session.NoOwner
		case o.Origin != nil && req.Origin != o.Origin:
			o.Origin.Leave("its session is ended over a connection that it has left")
		}
	}
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
func (r *Replica) throttled(req *Request) bool {
	return r.o.ThrottledOpWait > 0 && req.Session != 0 && req.Received != 0 &&
		req.Op != wire.OpCreateSession && req.Op != wire.OpCloseSession &&
		r.Now()-req.Received > r.o.ThrottledOpWait
}

// beginSession gives a createSession, which is to be transaction z, its session.
// That of a learner's client has its id from there, one that is upgraded its own.
func (r *Replica) beginSession(req *Request, z zk.Zxid) {
	timeout := int32(binary.BigEndian.Uint32(req.Body))
	if req.Session == 0 {
		req.Session = r.newID()
	} else {
		r.noteUpgrade(req.Session, z)
	}
	r.tracker.Add(req.Session, timeout, r.Millis(r.Now()))
	r.tracker.SetOwner(req.Session, req.Owner)
	if req.Origin != nil {
		r.owners[req.Session] = owner{req.Origin, timeout}
	}
}

// forgetClosed drops the sessions whose end has been applied.
func (r *Replica) forgetClosed() {
	applied, n := zk.Zxid(r.applied.Load()), 0
	for ; n < len(r.closing) && r.closing[n].zxid <= applied; n++ {
		r.tracker.Remove(r.closing[n].id)
		delete(r.owners, r.closing[n].id)
		r.decide(r.closing[n].id)
	}
	r.closing = r.closing[n:]
	if len(r.closing) == 0 {
		r.closing = nil
	}
	r.forgetUpgraded()
}

// resume gives a session another connection, or on a learner asks the leader
// whether it may have one.
func (r *Replica) resume(s resume) {
	switch {
	case r.Mode() == Idle:
		s.origin.Dropped(&Request{}) // the session may well be alive
		return
	case r.resumeLocal(s) || r.Mode() == ReadOnly && r.leaveUnknown(s):
		return
	case r.role == zab.Following || r.role == zab.Observing:
		r.revalidate(s)
		return
	}
	ok := r.revive(s.id, s.owner, s.timeoutMillis)
	switch {
	case ok:
		r.owners[s.id] = owner{s.origin, s.timeoutMillis}
	case r.ending(s.id):
		r.undecided = append(r.undecided, question{resume: s})
		return
	}
	s.origin.Resumed(ok, s.id, s.timeoutMillis)
}

// revive makes o the owner of a session that is alive, and counts as a sign of
// life. It reports false if the session is over.
func (r *Replica) revive(id zk.SessionID, o session.Owner, timeoutMillis int32) bool {
	return r.tracker.SetOwner(id, o) == zk.OK && r.tracker.Touch(id, timeoutMillis, r.Millis(r.Now()))
}

// heard is when the session's client was last heard of, by its connection.
func (r *Replica) heard(id zk.SessionID) (int64, bool) {
	if o, ok := r.owners[id]; ok {
		return r.Millis(o.LastHeard()), true
	}
	return 0, false
}

// expire submits the end of every session that is due. Only who decides about
// sessions does: a leader, or a standalone server.
func (r *Replica) expire() {
	r.expireLocals()
	if !r.serving.Load() || r.role == zab.Following || r.role == zab.Observing {
		return
	}
	due := r.tracker.Due(r.Millis(r.Now()), r.heard)
	if len(due) == 0 {
		return
	}
	reqs := make([]Request, len(due))
	for i, id := range due {
		r.log.Info("session expired", "session", id)
		reqs[i] = r.closeRequest(id)
	}
	r.stats.Expired.Add(int64(len(due)))
	r.Submit(reqs)
}

// closeRequest is the server's own request to end a session.
func (r *Replica) closeRequest(id zk.SessionID) Request {
	return Request{
		Request:  prep.Request{Session: id, Op: wire.OpCloseSession, Owner: session.NoOwner},
		Origin:   r.owners[id].Origin,
		Received: r.Now(),
	}
}

// untilTick is the time to the next multiple of the tick, by the sessions' clock.
func (r *Replica) untilTick() time.Duration {
	now := time.Duration(r.zero)*time.Millisecond + r.Now()
	return r.o.Tick - now%r.o.Tick
}
