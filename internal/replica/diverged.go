package replica

import (
	"errors"
	"fmt"

	"github.com/pinfold-zk/pinfold/internal/txn"
)

// A transaction carries the digest that the tree has after it, computed by the server
// that made the transaction. A tree with another digest has diverged: memory was damaged,
// or preparing and applying disagree. The log is right, because it holds what was agreed
// on; the tree is wrong, and so is every snapshot that was made of it since.
//
//   - No request is answered from the tree any more: not that of the transaction, no
//     later one, no read. No snapshot of it becomes visible, and no learner gets it.
//   - A server of an ensemble leaves its role, and takes a snapshot from the next leader
//     (zab.Core.TreeDiverged). Until that is installed it neither serves nor leads.
//   - A standalone server fails: at its next start it reads the state from the log.
//   - A start does not use a snapshot from which the log leads to another tree than the
//     logged digests name, but one before (load). If there is none, a standalone server
//     refuses to start; a server of an ensemble waits for a leader's snapshot, as above.

// ErrDiverged is the failure of a standalone server whose tree is not what its log
// leads to.
var ErrDiverged = errors.New("the tree is not what the log leads to")

// Diverged reports whether the tree is known to be wrong: no client must be answered
// from it.
func (v View) Diverged() bool { return v.r.diverged.Load() }

// agrees reports whether the tree has the digest that the last transaction names, and
// notes it. Where no digest is known it is true.
func (a *applier) agrees(tx *txn.Txn) bool {
	switch {
	case !a.o.Prep.DigestEnabled || a.fuzzy.Load():
		a.agreed = DigestAt{}
	case tx.HasDigest:
		a.agreed = DigestAt{tx.Zxid, tx.Digest}
		return a.tree.Digest() == tx.Digest
	case tx.Failed() && a.agreed.Zxid == tx.Zxid-1:
		a.agreed.Zxid = tx.Zxid // it changes nothing
	}
	return true
}

// verifyTree reports whether the tree still has the digest that it had after the last
// transaction. A leader computes digests from its tree, so a wrong one would make all
// others' look wrong. REQUIRES: all that was handed to the applier is applied.
func (o *orderer) verifyTree() bool {
	known := o.tip.agreed
	if known.Zxid == 0 || known.Zxid != o.LastApplied() || known.Digest == o.tree.Digest() {
		return true
	}
	o.diverged.Store(true)
	o.giveUpTree(o.turn, known)
	return false
}

// giveUpTree says that the tree has another digest than it should, and sees to what
// follows. The caller has set diverged.
func (r *Replica) giveUpTree(t *Turn, want DigestAt) {
	r.stats.DigestMismatches.Add(1)
	next := "clients are disconnected, and the state is taken from the leader anew"
	if r.o.Ensemble == nil {
		next = "the server stops; its next start reads the state from the log"
	}
	r.log.Error("the tree is not what the log leads to: damaged memory, or a bug that we would like to hear of",
		"zxid", want.Zxid, "tree_digest", r.tree.Digest(), "log_digest", want.Digest, "next", next)
	r.snap.cancel()
	if r.o.Ensemble == nil {
		r.fail(fmt.Errorf("replica: %w: its digest at %v is %d, the transaction's %d", ErrDiverged, want.Zxid, r.tree.Digest(), want.Digest))
		return
	}
	t.events = append(t.events, event{kind: treeDiverged, zxid: want.Zxid})
}

// drop passes over the rest of a step, from a transaction on: the tree is wrong, and
// no request is answered from it.
func (a *applier) drop(s *step, from int) {
	reqs := s.synced
	if s.b != nil {
		reqs = s.b.reqs[from:s.end]
	}
	for i := range reqs {
		if by := reqs[i].Origin; by != nil {
			by.Dropped(&reqs[i])
		}
	}
	a.count(s)
	a.o.Clients.Released()
	a.finish(s)
}

// checkReport refuses what recovery has found to be wrong, where no leader can help.
func (r *Replica) checkReport(rep *Report) error {
	switch {
	case !rep.Diverged:
		return nil
	case r.o.Ensemble == nil:
		return fmt.Errorf("replica: %w: from each of its snapshots the transactions lead to another digest than they name, the last at %v; restore the directory, or accept the tree that the newest snapshot and the log make with digest.enabled=false", ErrDiverged, r.tree.LastZxid())
	}
	r.diverged.Store(true)
	r.log.Error("the tree is not what the log leads to, from whichever snapshot: this server neither serves nor leads until a leader has sent it a snapshot",
		"zxid", r.tree.LastZxid())
	return nil
}
