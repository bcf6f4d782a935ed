package replica

import (
	"errors"
	"fmt"

	"github.com/pinfold-zk/pinfold/internal/storage"
	"github.com/pinfold-zk/pinfold/internal/zab"
	"github.com/pinfold-zk/pinfold/internal/znode"
	"github.com/pinfold-zk/pinfold/zk"
)

// smallBatch is how many transactions a goroutine takes through the next stage
// by itself if that is idle. Waking the stage's own goroutine would cost a lone
// request more than the work; with more, the stages run side by side.
const smallBatch = 32

// job is something that must become durable. In an ensemble the Zab core has
// given it a number, and learns when it is done; on a standalone server a batch
// goes on to be applied.
type job struct {
	b     *batch // of WriteEntries
	write zab.Write
	term  uint64      // of the role that wants it
	tree  *znode.Tree // of WriteInstall

	// synced are syncs of a standalone server, which are answered when what was
	// asked for before them is applied. Nothing is written for them.
	synced []Request
}

// toWriter takes a job on. False means that the disk has failed.
func (r *Replica) toWriter(j job) bool {
	r.unlogged.Add(1)
	if r.mayWrite && r.alone(&j) && r.toLog.own() {
		r.lone, r.mayWrite = append(r.lone, j), false
		return true
	}
	if len(r.lone) > 0 && r.toLog.full() {
		// Nobody makes room as long as we own the queue, and we write at the end of the turn.
		r.toLog.giveUp(r.lone[0])
		clear(r.lone)
		r.lone = r.lone[:0]
	}
	return r.toLog.put(j, !r.writing, r.failed)
}

// alone reports whether a job is small and, on a server of an ensemble, nothing
// else is under way: then who does the loop's work may block in the disk, for
// there is nothing to do meanwhile.
func (r *Replica) alone(j *job) bool {
	return j.synced != nil || j.b != nil && len(j.b.txns) <= smallBatch && len(r.proposed) <= 1
}

// writeLone makes durable what toWriter has left to who helps.
func (r *Replica) writeLone(lone []job) {
	if len(lone) == 0 {
		return
	}
	if r.makeDurable(lone) {
		r.unlogged.Add(int64(-len(lone)))
		r.durable(lone)
	}
	r.toLog.done()
}

// writeLog makes jobs durable: one write and one fsync for all that wait. A
// failure of the disk is the end (protocol page, section 17.1: 3701, 4882).
func (r *Replica) writeLog() {
	defer close(r.toApply)
	var group []job
	for {
		clear(group)
		group = r.toLog.take(group[:0])
		if len(group) == 0 {
			break
		}
		if !r.makeDurable(group) {
			return
		}
		r.unlogged.Add(int64(-len(group)))
		r.durable(group)
		r.toLog.done()
	}
	if err := r.wal.Close(); err != nil {
		r.fail(fmt.Errorf("replica: close the transaction log: %w", err))
	}
}

// durable passes on what is on the disk: to the applier, or to the Zab core.
// REQUIRES: to be the writer.
func (r *Replica) durable(group []job) {
	if r.o.Ensemble != nil {
		r.inbox.putEvent(event{kind: writesDone, seq: group[len(group)-1].write.Seq})
		r.helpAs(true)
		return
	}
	for _, j := range group {
		if j.synced != nil {
			r.toApplier(step{synced: j.synced})
			continue
		}
		r.toApplier(step{b: j.b, end: len(j.b.txns)})
	}
}

// makeDurable logs the group; false means that the disk has failed.
// REQUIRES: to be the writer.
func (r *Replica) makeDurable(group []job) bool {
	err := r.logGroup(group)
	if err != nil {
		r.fail(fmt.Errorf("replica: transaction log: %w", err))
	}
	return err == nil
}

// logGroup appends all transactions of the group and syncs them; what else is in
// it is done in its place.
func (r *Replica) logGroup(group []job) error {
	if r.rollLog.Swap(false) {
		if err := r.wal.Roll(); err != nil {
			return err
		}
	}
	txns := 0
	for i := range group {
		if r.failedCut != 0 && group[i].term == r.failedCut {
			continue // it builds on a truncation that could not be
		}
		b := group[i].b
		if group[i].synced != nil {
			continue
		}
		if b == nil {
			if err := r.flushLog(&txns); err != nil {
				return err
			}
			if err := r.writeOther(&group[i]); err != nil {
				return err
			}
			continue
		}
		for k := range b.txns {
			if err := r.wal.Append(b.txns[k].Zxid, b.encoded(k)); err != nil {
				return err
			}
		}
		txns += len(b.txns)
	}
	return r.flushLog(&txns)
}

// flushLog makes the appended transactions durable, and sets their number to 0.
func (r *Replica) flushLog(txns *int) error {
	if *txns == 0 {
		return nil
	}
	began := r.clock.Now()
	if err := r.wal.Flush(); err != nil {
		return err
	}
	took := r.clock.Now() - began
	r.stats.Fsync.Add(took)
	r.stats.Synced.Add(int64(*txns))
	*txns = 0
	if r.o.FsyncWarnAfter > 0 && took > r.o.FsyncWarnAfter {
		r.stats.SlowFsyncs.Add(1)
		r.log.Warn("fsync of the transaction log was slow: is the disk overloaded?", "took", took)
	}
	return nil
}

// writeOther does what is not an entry of the log.
func (r *Replica) writeOther(j *job) error {
	w := &j.write
	switch w.Kind {
	case zab.WriteAcceptedEpoch:
		return r.o.Dir.SetAcceptedEpoch(w.Epoch)
	case zab.WriteCurrentEpoch:
		return r.o.Dir.SetCurrentEpoch(w.Epoch)
	case zab.WriteTruncate:
		return r.truncate(j)
	case zab.WriteInstall:
		return r.install(w, j.tree)
	}
	return fmt.Errorf("replica: a write of kind %d without entries", w.Kind)
}

// truncate makes the log end at w.Zxid and reads the state anew. If the log does
// not hold that zxid nothing changes, and the core is told.
func (r *Replica) truncate(j *job) error {
	w := &j.write
	r.holdSnapshots()
	defer r.releaseSnapshots()
	last := r.wal.LastZxid()
	if err := r.wal.Close(); err != nil {
		return err
	}
	switch err := r.o.Dir.Truncate(w.Zxid); {
	case errors.Is(err, storage.ErrNoZxid):
		r.wal = r.o.Dir.NewLog(last)
		r.failedCut = j.term
		r.inbox.putEvent(event{kind: cutFailed, zxid: last, err: err})
		return nil
	case err != nil:
		return err
	}
	began := r.clock.Now()
	var rep Report
	tree, _, err := r.load(&rep)
	if err != nil {
		return err
	}
	check(tree.LastZxid() == w.Zxid, "the log was cut to %v and reads to %v", w.Zxid, tree.LastZxid())
	r.log.Info("the log was cut to what the leader has, and the state read anew",
		"from", last, "to", w.Zxid, "znodes", tree.Count(), "took", r.clock.Now()-began)
	r.replaceTree(tree, w.Zxid)
	return nil
}

// install makes the tree that came over w.Link the state, durably.
func (r *Replica) install(w *zab.Write, tree *znode.Tree) error {
	r.holdSnapshots()
	defer r.releaseSnapshots()
	check(tree != nil && tree.LastZxid() == w.Zxid, "there is no snapshot at %v of link %d", w.Zxid, w.Link)
	if err := r.wal.Close(); err != nil {
		return err
	}
	if err := r.writeTree(tree, (*storage.SnapshotWriter).Install); err != nil {
		return fmt.Errorf("the leader's snapshot: %w", err)
	}
	r.replaceTree(tree, w.Zxid)
	return nil
}

// replaceTree hands a new tree to the applier; the log goes on behind it.
func (r *Replica) replaceTree(tree *znode.Tree, z zk.Zxid) {
	if r.o.ConfigText != nil {
		tree.SetConfig(r.o.ConfigText, r.clock.UnixMilli())
	}
	r.wal = r.o.Dir.NewLog(z)
	r.toApplier(step{tree: tree})
}
