package replica

import (
	"slices"

	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/znode"
	"github.com/pinfold-zk/pinfold/zk"
)

// applyRun is how many transactions are applied under one write lock, so that
// readers get in between.
const applyRun = 64

// step is what the applier is given: transactions of a batch, start up to end;
// or syncs whose time has come; or a tree that takes the place of the present one.
type step struct {
	b          *batch
	start, end int
	synced     []Request
	tree       *znode.Tree
}

// toApplier takes a durable step on: to the applier or, if it is small and all
// before it is applied, into the tree at once.
// REQUIRES: to be the one that feeds the applier: the writer, or on a server of an
// ensemble the loop.
func (r *Replica) toApplier(s step) {
	if s.end-s.start <= smallBatch && !r.o.Stepped && r.unapplied.Load() == 0 {
		r.applyStep(s)
		return
	}
	r.unapplied.Add(1)
	select {
	case r.toApply <- s:
	case <-r.failed:
	}
}

// apply applies durable steps in order, until who feeds it ends.
func (r *Replica) apply() {
	for s := range r.toApply {
		r.applyStep(s)
		if r.unapplied.Add(-1) == 0 && r.awaiting.Load() {
			r.inbox.signal()
		}
	}
}

// applyStep applies a step and tells who waits.
// REQUIRES: to be the applier, or the one that feeds it while nothing is
// unapplied.
func (r *Replica) applyStep(s step) {
	switch {
	case s.tree != nil:
		r.swapTree(s.tree)
		return
	case s.b == nil:
		r.tellSynced(s.synced)
		r.inProcess.Add(int64(-len(s.synced)))
		r.o.Clients.Flush()
		return
	}
	bytes := 0
	for start := s.start; start < s.end; start += applyRun {
		end := min(start+applyRun, s.end)
		r.applyRun(s.b, start, end)
		for i := start; i < end; i++ {
			bytes += len(s.b.encoded(i))
		}
	}
	done := s.end == len(s.b.txns)
	if done {
		r.inProcess.Add(int64(-s.b.own))
	}
	r.o.Clients.Flush()
	if r.snap.applied(s.end-s.start, bytes) {
		r.snapshot()
	}
	if done {
		r.pool.put(s.b)
	}
}

// swapTree puts another tree in the place of the present one: what the leader's
// history is, where it was not ours. Nobody is served meanwhile.
func (r *Replica) swapTree(t *znode.Tree) {
	r.mu.Lock()
	r.tree = t
	r.applied.Store(int64(t.LastZxid()))
	r.mu.Unlock()
}

// tellSynced answers syncs: everything that was committed when they were asked
// for is applied.
func (r *Replica) tellSynced(reqs []Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range reqs {
		reqs[i].Origin.Synced(&reqs[i])
	}
}

func (r *Replica) applyRun(b *batch, start, end int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := start; i < end; i++ {
		tx := &b.txns[i]
		last := zk.Zxid(r.applied.Load())
		check(tx.Zxid == last+1 || tx.Zxid.Epoch() > last.Epoch(), "%v is to be applied after %v", tx.Zxid, last)
		r.tree.Apply(tx, &r.result)
		r.applied.Store(int64(tx.Zxid))
		if tx.HasDigest && tx.Digest != r.tree.Digest() && !r.fuzzy.Load() {
			r.digestMismatch(tx)
		}
		r.stats.recordDigest(r.tree)
		r.fire(tx)
		if r.result.Err == zk.OK {
			r.o.Clients.Carried(tx)
		}
		if o := b.reqs[i].Origin; o != nil {
			o.Applied(&b.reqs[i], tx, &r.result)
		}
	}
	if r.decides.Load() {
		r.stats.Commits.Add(int64(end - start))
	}
	addAges(&r.stats.Propagation, b.txns[start:end], r.clock.UnixMilli())
}

// fire triggers the watches for what the transaction changed.
func (r *Replica) fire(tx *txn.Txn) {
	for i := range r.result.Events {
		ch := &r.result.Events[i]
		r.watchMu.Lock()
		r.fired = r.watches.Trigger(ch.Type, ch.Path, r.fired[:0])
		r.watchMu.Unlock()
		if len(r.fired) > 0 {
			r.stats.told(ch.Type, len(r.fired))
			r.o.Clients.Fired(tx.Zxid, ch, r.fired)
		}
	}
	if cap(r.fired) > 1<<16 {
		r.fired = slices.Clip(r.fired[:0])
	}
}

// digestMismatch notes that preparing and applying disagree: a bug, or damaged
// memory. Like Apache we go on: the log has what was agreed on.
func (r *Replica) digestMismatch(tx *txn.Txn) {
	if r.stats.DigestMismatches.Add(1) == 1 {
		r.log.Error("the digest of the tree differs from the transaction's: please report this",
			"zxid", tx.Zxid, "tree", r.tree.Digest(), "transaction", tx.Digest)
	}
}
