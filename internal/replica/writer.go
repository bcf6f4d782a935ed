package replica

import (
	"fmt"
	"time"
)

// smallBatch is how many transactions a goroutine takes through the next stage
// by itself if that is idle. Waking the stage's own goroutine would cost a lone
// request more than the work; with more, the stages run side by side.
const smallBatch = 8

// toWriter takes a prepared batch on: to the writer or, if it is small and all
// before it is durable, to the disk at once. False means that the disk has
// failed. Only the loop calls it.
func (r *Replica) toWriter(b *batch) bool {
	if len(b.txns) <= smallBatch && r.unlogged.Load() == 0 {
		r.lone[0] = b
		if !r.makeDurable(r.lone[:]) {
			return false
		}
		r.toApplier(b)
		return true
	}
	r.unlogged.Add(1)
	select {
	case r.toLog <- b:
		return true
	case <-r.failed:
		return false
	}
}

// writeLog makes batches durable: one write and one fsync for all that wait. A
// failure of the disk is the end (protocol page, section 17.1: 3701, 4882).
func (r *Replica) writeLog() {
	defer close(r.toApply)
	var group []*batch
	for b := range r.toLog {
		group = append(group[:0], b)
		group = r.gather(group)
		if !r.makeDurable(group) {
			return
		}
		for _, b := range group {
			r.toApplier(b)
		}
		r.unlogged.Add(int64(-len(group)))
	}
	if err := r.wal.Close(); err != nil {
		r.fail(fmt.Errorf("replica: close the transaction log: %w", err))
	}
}

// gather adds the batches that wait already.
func (r *Replica) gather(group []*batch) []*batch {
	for {
		select {
		case b, ok := <-r.toLog:
			if !ok {
				return group
			}
			group = append(group, b)
		default:
			return group
		}
	}
}

// makeDurable logs the group; false means that the disk has failed.
// REQUIRES: to be the writer, or the loop while nothing is unlogged.
func (r *Replica) makeDurable(group []*batch) bool {
	err := r.logGroup(group)
	if err != nil {
		r.fail(fmt.Errorf("replica: transaction log: %w", err))
	}
	return err == nil
}

// logGroup appends all transactions of the group and syncs them.
func (r *Replica) logGroup(group []*batch) error {
	if r.rollLog.Swap(false) {
		if err := r.wal.Roll(); err != nil {
			return err
		}
	}
	for _, b := range group {
		for i := range b.txns {
			if err := r.wal.Append(b.txns[i].Zxid, b.encoded(i)); err != nil {
				return err
			}
		}
	}
	began := time.Now()
	if err := r.wal.Flush(); err != nil {
		return err
	}
	took := time.Since(began)
	r.stats.Fsync.Add(took)
	txns := 0
	for _, b := range group {
		txns += len(b.txns)
	}
	r.stats.Synced.Add(int64(txns))
	if r.o.FsyncWarnAfter > 0 && took > r.o.FsyncWarnAfter {
		r.stats.SlowFsyncs.Add(1)
		r.log.Warn("fsync of the transaction log was slow: is the disk overloaded?", "took", took)
	}
	return nil
}
