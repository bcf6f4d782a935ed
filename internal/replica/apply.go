package replica

import (
	"slices"

	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/watch"
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
	turn   *Turn // the present one
	result znode.Result
	fired  []watch.ID
	agreed DigestAt // what the tree's digest is known to be; its zxid is 0 if that is not known
}

// apply is a turn of Apply: it applies the steps that it was given, in order.
func (a *applier) apply(t *Turn) {
	a.turn = t
	for i := range t.due {
		a.applyStep(&t.due[i])
	}
}

// applyStep applies a step and answers the requests in it.
func (a *applier) applyStep(s *step) {
	switch {
	case s.tree != nil:
		a.swapTree(s)
		return
	case a.diverged.Load():
		a.drop(s, s.start)
		return
	case s.b == nil:
		a.tellSynced(s.synced)
		a.finish(s)
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
	a.o.Clients.Flush()
	a.snapshot(a.snap.applied(s.end-s.start, bytes))
	a.finish(s)
}

// finish counts what is done with a step.
func (a *applier) finish(s *step) {
	switch {
	case s.b == nil:
		a.inProcess.Add(int64(-len(s.synced)))
	case s.end == len(s.b.txns):
		a.inProcess.Add(int64(-s.b.own))
		a.pool.done(s.b)
	}
}

// swapTree puts another tree in the place of the present one: what the leader's
// history is, where it was not ours. Nobody is served meanwhile.
func (a *applier) swapTree(s *step) {
	a.mu.Lock()
	a.tree, a.agreed = s.tree, DigestAt{}
	a.diverged.Store(s.diverged)
	a.applied.Store(int64(s.tree.LastZxid()))
	a.mu.Unlock()
	if s.diverged {
		a.turn.events = append(a.turn.events, event{kind: treeDiverged, zxid: s.tree.LastZxid()})
	}
}

// tellSynced answers syncs: everything that was committed when they were asked
// for is applied.
func (a *applier) tellSynced(reqs []Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range reqs {
		reqs[i].Origin.Synced(&reqs[i], View{a.tree, a.Replica})
	}
}

// applyRun applies a run of transactions. It returns the index of the first one that
// was not answered, because the tree is wrong after it; end if there is none.
func (a *applier) applyRun(b *batch, start, end int) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := start; i < end; i++ {
		tx := &b.txns[i]
		last := zk.Zxid(a.applied.Load())
		check(tx.Zxid == last+1 || tx.Zxid.Epoch() > last.Epoch(), "%v is to be applied after %v", tx.Zxid, last)
		a.tree.Apply(tx, &a.result)
		a.applied.Store(int64(tx.Zxid))
		if !a.agrees(tx) {
			a.diverged.Store(true)
			return i
		}
		a.stats.recordDigest(a.tree)
		a.fire(tx)
		if a.result.Err == zk.OK {
			a.o.Clients.Carried(tx)
		}
		if o := b.reqs[i].Origin; o != nil {
			o.Applied(&b.reqs[i], tx, &a.result, View{a.tree, a.Replica})
		}
	}
	if a.decides.Load() {
		a.stats.Commits.Add(int64(end - start))
	}
	addAges(&a.stats.Propagation, b.txns[start:end], a.clock.UnixMilli())
	return end
}

// fire triggers the watches for what the transaction changed.
func (a *applier) fire(tx *txn.Txn) {
	for i := range a.result.Events {
		ch := &a.result.Events[i]
		a.watchMu.Lock()
		a.fired = a.watches.Trigger(ch.Type, ch.Path, a.fired[:0])
		a.watchMu.Unlock()
		if len(a.fired) > 0 {
			a.stats.told(ch.Type, len(a.fired))
			a.o.Clients.Fired(tx.Zxid, ch, a.fired)
		}
	}
	if cap(a.fired) > 1<<16 {
		a.fired = slices.Clip(a.fired[:0])
	}
}
