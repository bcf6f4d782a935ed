package replica

import (
	"slices"

	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/zk"
)

// applyRun is how many transactions are applied under one write lock, so that
// readers get in between.
const applyRun = 64

// toApplier takes a durable batch on: to the applier or, if it is small and all
// before it is applied, into the tree at once.
// REQUIRES: to be the writer, or the loop while nothing is unlogged.
func (r *Replica) toApplier(b *batch) {
	if len(b.txns) <= smallBatch && r.unapplied.Load() == 0 {
		r.applyBatch(b)
		return
	}
	r.unapplied.Add(1)
	r.toApply <- b
}

// apply applies durable batches in order, until the writer ends.
func (r *Replica) apply() {
	for b := range r.toApply {
		r.applyBatch(b)
		r.unapplied.Add(-1)
	}
}

// applyBatch applies a batch and tells who waits.
// REQUIRES: to be the applier, or the one that feeds it while nothing is
// unapplied.
func (r *Replica) applyBatch(b *batch) {
	for start := 0; start < len(b.txns); start += applyRun {
		r.applyRun(b, start, min(start+applyRun, len(b.txns)))
	}
	r.inProcess.Add(int64(-len(b.txns)))
	r.o.Clients.Flush()
	if r.snap.applied(len(b.txns), len(b.enc)) {
		r.wg.Go(r.snapshot)
	}
	r.pool.put(b)
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
		if tx.HasDigest && tx.Digest != r.tree.Digest() {
			r.digestMismatch(tx)
		}
		r.stats.recordDigest(r.tree)
		r.fire(tx)
		if o := b.reqs[i].Origin; o != nil {
			o.Applied(&b.reqs[i], tx, &r.result)
		}
	}
	r.stats.Commits.Add(int64(end - start))
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
