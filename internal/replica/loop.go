package replica

import (
	"encoding/binary"
	"time"

	"github.com/pinfold-zk/pinfold/internal/prep"
	"github.com/pinfold-zk/pinfold/internal/session"
	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// prepareRun is how many requests are prepared under one read lock, so that the
// applier gets in between.
const prepareRun = 64

// loop prepares requests and expires sessions until Close, or a failure.
func (r *Replica) loop() {
	defer close(r.toLog)
	expiry := time.NewTimer(r.untilTick())
	defer expiry.Stop()
	for {
		select {
		case <-r.inbox.wake:
		case <-expiry.C:
			r.expire()
			expiry.Reset(r.untilTick())
		case <-r.failed:
			return
		case <-r.stopping:
			r.work()
			return
		}
		if !r.work() {
			return
		}
	}
}

// work does all that is in the inbox; false means that the writer has failed.
func (r *Replica) work() bool {
	b, resumes, calls := r.inbox.take()
	r.forgetClosed()
	for _, s := range resumes {
		r.resume(s)
	}
	for _, f := range calls {
		f(r.tracker, r.heard)
	}
	if b == nil {
		r.stats.Sessions.Store(int64(r.tracker.Len()))
		return true
	}
	r.prepare(b)
	r.stats.Sessions.Store(int64(r.tracker.Len()))
	return r.toWriter(b)
}

// prepare makes the transactions of a batch.
func (r *Replica) prepare(b *batch) {
	now := time.Now().UnixMilli()
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
		r.beginSession(req)
	}
	if r.throttled(req) {
		r.stats.Throttled.Add(1)
		prep.Refuse(&req.Request, z, nowMillis, zk.ErrThrottledOp, tx)
		return
	}
	r.prep.Prepare(&req.Request, z, nowMillis, tx)
	if req.Op == wire.OpCloseSession && tx.Header.Type == wire.OpCloseSession {
		r.closing = append(r.closing, closingSession{z, req.Session})
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
	return r.o.ThrottledOpWait > 0 && req.Session != 0 &&
		req.Op != wire.OpCreateSession && req.Op != wire.OpCloseSession &&
		r.Now()-req.Received > r.o.ThrottledOpWait
}

// beginSession gives a createSession its session.
func (r *Replica) beginSession(req *Request) {
	req.Session = r.tracker.NextID()
	r.tracker.Add(req.Session, int32(binary.BigEndian.Uint32(req.Body)), r.Millis(r.Now()))
	r.tracker.SetOwner(req.Session, req.Owner)
	r.owners[req.Session] = req.Origin
}

// forgetClosed drops the sessions whose end has been applied.
func (r *Replica) forgetClosed() {
	applied, n := zk.Zxid(r.applied.Load()), 0
	for ; n < len(r.closing) && r.closing[n].zxid <= applied; n++ {
		r.tracker.Remove(r.closing[n].id)
		delete(r.owners, r.closing[n].id)
	}
	r.closing = r.closing[n:]
	if len(r.closing) == 0 {
		r.closing = nil
	}
}

func (r *Replica) resume(s resume) {
	ok := r.tracker.SetOwner(s.id, s.owner) == zk.OK && r.tracker.Touch(s.id, s.timeoutMillis, r.Millis(r.Now()))
	if ok {
		r.owners[s.id] = s.origin
	}
	s.origin.Resumed(ok, s.id, s.timeoutMillis)
}

// heard is when the session's client was last heard of, by its connection.
func (r *Replica) heard(id zk.SessionID) (int64, bool) {
	if o := r.owners[id]; o != nil {
		return r.Millis(o.LastHeard()), true
	}
	return 0, false
}

// expire submits the end of every session that is due.
func (r *Replica) expire() {
	due := r.tracker.Due(r.Millis(r.Now()), r.heard)
	if len(due) == 0 {
		return
	}
	reqs := make([]Request, len(due))
	for i, id := range due {
		r.log.Info("session expired", "session", id)
		reqs[i] = Request{
			Request:  prep.Request{Session: id, Op: wire.OpCloseSession, Owner: session.NoOwner},
			Origin:   r.owners[id],
			Received: r.Now(),
		}
	}
	r.stats.Expired.Add(int64(len(due)))
	r.Submit(reqs)
}

// untilTick is the time to the next multiple of the tick, by the sessions' clock.
func (r *Replica) untilTick() time.Duration {
	now := time.Duration(r.started.UnixNano()) + r.Now()
	return r.o.Tick - now%r.o.Tick
}
