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
	result znode.Result
	fired  []watch.ID
}

// apply is a turn of Apply: it applies the steps that it was given, in order.
func (a *applier) apply(t *Turn) {
	for i := range t.due {
		a.applyStep(&t.due[i])
	}
}

// applyStep applies a step and answers the requests in it.
func (a *applier) applyStep(s *step) {
	switch {
	case s.tree != nil:
		a.swapTree(s.tree)
		return
	case s.b == nil:
		a.tellSynced(s.synced)
		a.inProcess.Add(int64(-len(s.synced)))
		a.o.Clients.Flush()
		return
	}
	bytes := 0
	for start := s.start; start < s.end; start += applyRun {
		end := min(start+applyRun, s.end)
		a.applyRun(s.b, start, end)
		for i := start; i < end; i++ {
			bytes += len(s.b.encoded(i))
		}
	}
	done := s.end == len(s.b.txns)
	if done {
		a.inProcess.Add(int64(-s.b.own))
	}
	a.o.Clients.Flush()
	a.snapshot(a.snap.applied(s.end-s.start, bytes))
	if done {
		a.pool.done(s.b)
	}
}

// swapTree puts another tree in the place of the present one: what the leader's
// history is, where it was not ours. Nobody is served meanwhile.
func (a *applier) swapTree(t *znode.Tree) {
	a.mu.Lock()
	a.tree = t
	a.applied.Store(int64(t.LastZxid()))
	a.mu.Unlock()
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

func (a *applier) applyRun(b *batch, start, end int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := start; i < end; i++ {
		tx := &b.txns[i]
		last := zk.Zxid(a.applied.Load())
		check(tx.Zxid == last+1 || tx.Zxid.Epoch() > last.Epoch(), "%v is to be applied after %v", tx.Zxid, last)
		a.tree.Apply(tx, &a.result)
		a.applied.Store(int64(tx.Zxid))
		if tx.HasDigest && tx.Digest != a.tree.Digest() && !a.fuzzy.Load() {
			a.digestMismatch(tx)
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

// digestMismatch notes that preparing and applying disagree: a bug, or damaged
// memory. Like Apache we go on: the log has what was agreed on.
func (a *applier) digestMismatch(tx *txn.Txn) {
	if a.stats.DigestMismatches.Add(1) == 1 {
		a.log.Error("the digest of the tree differs from the transaction's: please report this",
			"zxid", tx.Zxid, "tree", a.tree.Digest(), "transaction", tx.Digest)
	}
}
