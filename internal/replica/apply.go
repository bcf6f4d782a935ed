package replica

import (
	"slices"
	"sync/atomic"

	"github.com/pinfold-zk/pinfold/internal/access"
	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/watch"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/internal/znode"
	"github.com/pinfold-zk/pinfold/zk"
)

// applyRun is how many transactions are applied under one write lock, so that
// readers get in between.
const applyRun = 64

// applier is what the owner of the stage Apply keeps: the only one that changes the
// tree and fires watches.
type applier struct {
	*Replica
	turn       *Turn // the present one
	result     znode.Result
	fired      []watch.ID
	agreed     DigestAt // what the tree's digest is known to be; its zxid is 0 if that is not known
	hold       Hold     // the present one of the tree's lock
	recountDue bool     // quotas of large subtrees are to be counted

	spareDue bool                        // a long multi was applied
	spare    atomic.Pointer[znode.Spare] // for the next one
	making   atomic.Bool                 // the task of makeSpare runs
}

// apply applies a step of a turn, and answers the requests in it.
func (a *applier) apply(t *Turn, s *step) {
	a.turn = t
	switch {
	case s.tree != nil:
		a.swapTree(s)
		return
	case a.diverged.Load():
		a.drop(s, s.start)
		return
	case s.b == nil:
		a.tellSynced(s.synced)
		a.count(s)
		a.o.Clients.Flush()
		return
	}
	bytes := 0
	for start := s.start; start < s.end; start += applyRun {
		end := min(start+applyRun, s.end)
		if n := a.applyRun(s.b, start, end); n < end {
			a.giveUpTree(a.turn, a.agreed)
			a.drop(s, n) // without Flush: Suspend ends the connections
			return
		}
		for i := start; i < end; i++ {
			bytes += len(s.b.encoded(i))
		}
	}
	a.count(s)
	a.o.Clients.Flush()
	a.recountQuotas()
	a.makeSpare()
	a.snap.start(a.snap.applied(s.end-s.start, bytes))
	a.finish(s)
}

// count takes the requests of a step out of Outstanding. The applier calls it before
// Flush, which wakes the callers that wait until Outstanding falls, and which sends the
// replies: a client that has its reply finds the request counted.
func (a *applier) count(s *step) {
	switch {
	case s.b == nil:
		a.inProcess.Add(int64(-len(s.synced)))
	case s.end == len(s.b.txns):
		a.inProcess.Add(int64(-s.b.own))
	}
}

// finish gives the batch of a step back when all of it is done.
func (a *applier) finish(s *step) {
	if s.b != nil && s.end == len(s.b.txns) {
		a.pool.done(s.b)
	}
}

// swapTree replaces the tree, after a truncation or with a leader's snapshot. The
// server does not serve at that time.
func (a *applier) swapTree(s *step) {
	since := a.lockWrite()
	a.tree, a.agreed = s.tree, DigestAt{}
	a.diverged.Store(s.diverged)
	a.applied.Store(int64(s.tree.LastZxid()))
	a.unlockWrite(since)
	if s.diverged {
		a.turn.events = append(a.turn.events, event{kind: treeDiverged, zxid: s.tree.LastZxid()})
	}
}

// tellSynced answers syncs: everything that was committed when they were submitted
// is applied.
func (a *applier) tellSynced(reqs []Request) {
	a.beginPiece()
	defer a.endPiece()
	for i := range reqs {
		if a.hold.work >= znode.PieceUnits {
			a.pause(nil)
		}
		reqs[i].Origin.Synced(&reqs[i], a.view())
	}
}

// applyRun applies a run of transactions under the tree's write lock, which it releases
// for a moment after each piece of work. It returns the index of the first one that was
// not answered, because the tree is wrong after it; end if there is none.
func (a *applier) applyRun(b *batch, start, end int) int {
	a.tree.Prepare(b.txns[start:end], a.index)
	a.beginPiece()
	defer a.endPiece()
	for i := start; i < end; i++ {
		if a.hold.work >= znode.PieceUnits {
			a.pause(nil)
		}
		if !a.applyOne(b, i) {
			return i
		}
	}
	if a.decides.Load() {
		a.stats.Commits.Add(int64(end - start))
	}
	a.recountDue = a.tree.RecountDue()
	addAges(&a.stats.Propagation, b.txns[start:end], a.clock.UnixMilli())
	return end
}

// applyOne applies a transaction, fires its events and answers its request. It reports
// false if the tree is wrong after it.
func (a *applier) applyOne(b *batch, i int) bool {
	tx := &b.txns[i]
	last := zk.Zxid(a.applied.Load())
	if tx.Zxid != last+1 && tx.Zxid.Epoch() <= last.Epoch() { // else check would allocate for each
		check(false, "%v is to be applied after %v", tx.Zxid, last)
	}
	switch {
	case znode.IsLong(tx):
		a.applyMulti(b, i)
	case !a.applyClose(tx):
		a.hold.work += znode.WorkOf(tx, len(b.encoded(i)))
		a.tree.Apply(tx, &a.result)
		a.hold.work += a.tree.RecountWork()
	}
	a.applied.Store(int64(tx.Zxid))
	if !a.agrees(tx) {
		a.diverged.Store(true)
		return false
	}
	if !a.fuzzy.Load() {
		a.stats.recordDigest(a.tree)
	}
	a.fire(tx)
	if a.result.Err == zk.OK && !znode.IsLong(tx) {
		a.o.Clients.Carried(tx)
	}
	if o := b.reqs[i].Origin; o != nil {
		o.Applied(&b.reqs[i], tx, &a.result, a.view())
	}
	if znode.IsLong(tx) {
		clear(a.result.Multi) // up to znode.PieceUnits of them, which refer to the request
	}
	return true
}

// applyClose applies the end of a session with very many ephemerals in pieces. It reports
// false if tx is another transaction. Between two pieces readers see some of the
// ephemerals, at the zxid of the transaction; handshakes do not count it as applied yet.
func (a *applier) applyClose(tx *txn.Txn) bool {
	if tx.Header.Type != wire.OpCloseSession {
		return false
	}
	c := a.tree.BeginClose(tx)
	if c == nil {
		return false
	}
	a.partial = tx.Zxid
	for !a.closePiece(c) {
		a.fire(tx)
		a.hold.work += znode.PieceUnits
		a.pause(a.o.Clients.Flush)
	}
	a.partial = 0
	return true
}

// closePiece applies a piece of the end of a session. No event is made that concerns no watcher: a session
// can have a million ephemerals.
func (a *applier) closePiece(c *znode.Close) (done bool) {
	if a.o.Clients.WantsEnded() {
		return c.Next(&a.result, func(zk.EventType, string) bool { return true })
	}
	a.watchMu.Lock()
	defer a.watchMu.Unlock()
	if a.watches.Empty() {
		return c.Next(&a.result, nil)
	}
	return c.Next(&a.result, a.watches.Fires)
}

// applyMulti applies a multi of very many operations in pieces. Between two pieces readers
// wait if they look at what it changes (View.Changing). All that needs no lock is done
// without it: what is changed is listed before, and a part of the reply is built after each
// piece.
func (a *applier) applyMulti(b *batch, i int) {
	tx, origin, c := &b.txns[i], b.reqs[i].Origin, &changing{whole: make(chan struct{})}
	a.pause(func() {
		a.takeSpare()
		c.Multi = a.tree.BeginMulti(tx, &a.result, origin != nil, a.index)
	})
	a.changing = c
	for done := false; !done; {
		done = c.Next(&a.result)
		a.fire(tx)
		a.hold.work += znode.PieceUnits
		a.pause(func() {
			a.o.Clients.Flush()
			if origin != nil {
				origin.Applying(&b.reqs[i], tx, &a.result)
			}
			if done {
				a.o.Clients.Carried(tx)
			}
		})
	}
	c.End(&a.result)
	a.changing = nil
	close(c.whole)
	a.spareDue = true
}

// changing is a multi that is being applied in pieces.
type changing struct {
	*znode.Multi
	whole chan struct{} // closed when all of it is applied
}

// index builds the index of a long ACL.
func (a *applier) index(l *access.List) { a.o.Auth.Index(l) }

// view is the tree as the applier shows it.
func (a *applier) view() View { return View{a.tree, a.Replica, &a.hold} }

// beginPiece acquires the tree's write lock, endPiece releases it.
func (a *applier) beginPiece() {
	a.hold.since = a.lockWrite()
	a.hold.work = 0
}

func (a *applier) endPiece() {
	if a.o.PieceDone != nil {
		a.o.PieceDone(a.hold.work)
	}
	a.unlockWrite(a.hold.since)
}

// pause releases the lock, so that waiting readers run first, calls between unless it is
// nil, and acquires the lock again.
func (a *applier) pause(between func()) {
	a.endPiece()
	if between != nil {
		between()
	}
	a.beginPiece()
}

// fire triggers the watches for what the transaction changed.
func (a *applier) fire(tx *txn.Txn) {
	if tx.Header.Type == wire.OpCloseSession && len(a.result.Events) > 0 {
		a.o.Clients.Ended(tx, a.result.Events)
	}
	for i := range a.result.Events {
		ch := &a.result.Events[i]
		a.watchMu.Lock()
		a.fired = a.watches.Trigger(ch.Type, ch.Path, a.fired[:0])
		a.watchMu.Unlock()
		if a.hold.work += len(a.fired); len(a.fired) > 0 {
			a.stats.countNotified(ch.Type, len(a.fired))
			a.o.Clients.Fired(tx.Zxid, ch, a.fired)
		}
	}
	if cap(a.fired) > 1<<16 {
		a.fired = slices.Clip(a.fired[:0])
	}
}
