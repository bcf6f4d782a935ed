package replica

import (
	"errors"
	"fmt"
	"time"

	"github.com/pinfold-zk/pinfold/internal/metric"
	"github.com/pinfold-zk/pinfold/internal/pipeline"
	"github.com/pinfold-zk/pinfold/internal/storage"
	"github.com/pinfold-zk/pinfold/internal/zab"
	"github.com/pinfold-zk/pinfold/internal/znode"
	"github.com/pinfold-zk/pinfold/zk"
)

// logger is the state of the stage Log, owned by the worker that runs it.
type logger struct {
	*Replica
	turn *Turn // the present one, which collects what follows from a write

	wal       *storage.Log
	failedCut uint64 // the term in which a truncation failed; 0 is none
	took      bool   // a server that heals has replaced what was damaged

	unflushed int                  // transactions that are appended and not durable
	lastFlush time.Duration        // how long the last flush took
	flushedAt time.Duration        // when the last flush ended
	inARow    int                  // flushes between which there was no pause of LookEvery, while they are seldom
	reported  *metric.Distribution // of the flushes up to the last one that was logged as slow; nil: none
}

// promptBytes is how much room for the next write the log's file must have for a Caller to
// make it: more than loneBytes. promptTime is how long the last write may have taken for that.
const (
	promptBytes = 32 << 10
	promptTime  = 2 * time.Millisecond
)

// write is a turn of Log: one write and one fsync for all jobs that it was given. A
// failure of the disk ends the server (protocol page, section 17.1: 3701, 4882).
func (l *logger) write(t *Turn) {
	if t.Closing {
		if err := l.wal.Close(); err != nil {
			l.fail(fmt.Errorf("replica: close the transaction log: %w", err))
		}
		return
	}
	l.turn = t
	err := l.append(t.group)
	if err == nil {
		err = l.flush()
	}
	if err != nil {
		l.markDamage(err)
		l.fail(fmt.Errorf("replica: transaction log: %w", err))
		return
	}
	t.prompt = l.wal.Prompt(promptBytes) && l.lastFlush < promptTime && !l.rollLog.Load() && !l.seldom.Load()
	if l.o.Ensemble != nil {
		t.events = append(t.events, event{kind: writesDone, seq: t.group[len(t.group)-1].write.Seq})
	}
	for i := range t.group {
		j := &t.group[i]
		if l.o.Ensemble == nil { // what is durable is committed
			s := step{b: j.b, synced: j.synced}
			if j.b != nil {
				s.end = len(j.b.txns)
			}
			t.steps = append(t.steps, s)
		}
		if j.b != nil {
			l.pool.done(j.b)
		}
	}
}

// skips reports whether a job is not to be logged: it builds on a truncation that
// failed.
func (l *logger) skips(j *job) bool { return l.failedCut != 0 && j.term == l.failedCut }

// append appends all transactions of the group to the log's buffer. Other writes of the
// group are done in order between them.
func (l *logger) append(group []job) error {
	if l.turn.Worker == pipeline.Writer && l.rollLog.Swap(false) {
		if err := l.wal.Roll(); err != nil {
			return err
		}
	}
	for i := range group {
		j := &group[i]
		switch {
		case l.skips(j) || j.synced != nil:
			continue
		case j.b == nil:
			if err := l.flush(); err != nil {
				return err
			}
			if err := l.writeOther(j); err != nil {
				return err
			}
			continue
		}
		for k := range j.b.txns {
			if err := l.wal.Append(j.b.txns[k].Zxid, j.b.encoded(k)); err != nil {
				return err
			}
		}
		l.unflushed += len(j.b.txns)
	}
	return nil
}

// flush makes the appended transactions durable.
func (l *logger) flush() error {
	if l.unflushed == 0 {
		return nil
	}
	began := l.clock.Now()
	var err error
	switch {
	case l.turn.Worker == pipeline.Caller:
		err = l.wal.FlushSmall()
	case l.seldom.Load() && l.wal.Prompt(0):
		err = l.wal.FlushAside()
	case l.quick():
		err = l.wal.FlushSmall()
	default:
		err = l.wal.Flush()
	}
	if err != nil {
		return err
	}
	l.noteFlush(began)
	l.logged.Store(int64(l.wal.LastZxid()))
	if name := l.wal.Restored(); name != "" {
		l.log.Error("the file of the transaction log was removed while it was in use: it has been written again, nothing is lost; "+
			"find out which program removes files there", "file", name)
	}
	took := l.lastFlush
	l.stats.Fsync.Add(took)
	l.stats.Synced.Add(int64(l.unflushed))
	l.unflushed = 0
	if l.o.FsyncWarnAfter > 0 && took > l.o.FsyncWarnAfter {
		l.noteSlow(took)
	}
	return nil
}

// noteFlush notes a flush that began at a time and has ended. If there are some in a row while they are seldom, it tells so.
func (l *logger) noteFlush(began time.Duration) {
	if !l.seldom.Load() || began-l.flushedAt > LookEvery {
		l.inARow = 0
	}
	if l.inARow++; l.inARow == busyFlushes {
		nudge(l.busy)
	}
	l.flushedAt = l.clock.Now()
	l.lastFlush = l.flushedAt - began
	l.flushes.Add(1)
}

// quick reports whether the Writer keeps its processor (P) of Go during a flush, because it will probably be short: what is
// written is small, and the last flush was quick. To hand the processor over wakes another thread.
func (l *logger) quick() bool {
	return l.lastFlush < promptTime && l.wal.BufferedBytes() <= loneBytes && l.wal.Prompt(0)
}

// tendEvery is how old a mark is at most that a small flush has left.
const tendEvery = time.Second

// tendLog does what small flushes have left: it writes their marks, and looks for the file. It has a goroutine of its own,
// because it may wait for the disk.
func (r *Replica) tendLog() {
	tick := time.NewTicker(tendEvery)
	defer tick.Stop()
	for r.ticks(tick.C) {
		r.o.Dir.LookForLog()
		if err := r.o.Dir.WriteMark(); err != nil {
			r.fail(fmt.Errorf("replica: transaction log: %w", err))
			return
		}
	}
}

// noteSlow logs a slow flush, with the distribution of the flushes since the last one that
// was logged.
func (l *logger) noteSlow(took time.Duration) {
	l.stats.SlowFsyncs.Add(1)
	all := l.stats.Fsync.Distribution()
	since := all
	if l.reported != nil && l.reported.Count <= all.Count {
		since = all.Since(l.reported)
	}
	l.reported = all
	at := func(q float64) time.Duration { return time.Duration(since.Quantile(q)) }
	l.log.Warn("fsync of the transaction log was slow: is the disk overloaded?", "took", took,
		"fsyncs", since.Count, "p50", at(0.5), "p90", at(0.9), "p99", at(0.99), "slow_in_all", l.stats.SlowFsyncs.Load())
}

// writeOther carries out a write that is not of log entries.
func (l *logger) writeOther(j *job) error {
	w := &j.write
	switch w.Kind {
	case zab.WriteAcceptedEpoch:
		return l.o.Dir.SetAcceptedEpoch(w.Epoch)
	case zab.WriteCurrentEpoch:
		return l.o.Dir.SetCurrentEpoch(w.Epoch)
	case zab.WriteMembers:
		return l.saveMembers(&w.Members)
	case zab.WriteHealed:
		return l.endHealing()
	case zab.WriteTruncate:
		return l.truncate(j)
	case zab.WriteInstall:
		if j.restore != nil {
			return l.installRestored(j.restore)
		}
		return l.install(w, j.tree)
	}
	return fmt.Errorf("replica: a write of kind %d without entries", w.Kind)
}

// truncate cuts the log to w.Zxid and reads the state again. If the log does not hold
// that zxid, nothing changes, and the core is told.
func (l *logger) truncate(j *job) error {
	w := &j.write
	l.snap.hold()
	defer l.snap.release()
	last := l.wal.LastZxid()
	if err := l.wal.Close(); err != nil {
		return err
	}
	if l.replaces() { // the leader has no transaction
		tree := znode.New(l.o.Tree)
		if err := l.takeOver(tree); err != nil {
			return err
		}
		l.replaceTree(tree, 0)
		return nil
	}
	switch err := l.o.Dir.Truncate(w.Zxid); {
	case errors.Is(err, storage.ErrNoZxid):
		l.wal = l.o.Dir.NewLog(last)
		l.failedCut = j.term
		l.turn.events = append(l.turn.events, event{kind: cutFailed, zxid: last, err: err})
		return nil
	case err != nil:
		return err
	}
	began := l.clock.Now()
	var rep Report
	tree, _, err := (&recovery{l.Replica, &rep}).load()
	if err != nil {
		return err
	}
	check(tree.LastZxid() == w.Zxid, "the log was cut to %v and reads to %v", w.Zxid, tree.LastZxid())
	l.log.Info("the log was cut to what the leader has, and the state read again",
		"from", last, "to", w.Zxid, "znodes", tree.Count(), "took", l.clock.Now()-began)
	l.replaceTree(tree, w.Zxid)
	l.turn.steps[len(l.turn.steps)-1].diverged = rep.Diverged
	return nil
}

// install makes the leader's tree that was received over w.Link the durable state.
func (l *logger) install(w *zab.Write, tree *znode.Tree) error {
	l.snap.hold()
	defer l.snap.release()
	check(tree != nil && tree.LastZxid() == w.Zxid, "there is no snapshot at %v of link %d", w.Zxid, w.Link)
	if err := l.wal.Close(); err != nil {
		return err
	}
	var err error
	if l.replaces() {
		err = l.takeOver(tree)
	} else {
		err = l.snap.writeTree(tree, (*storage.SnapshotWriter).Install)
	}
	if err == nil {
		err = l.o.Dir.NoteHistory(w.Zxid)
	}
	if err != nil {
		return fmt.Errorf("the leader's snapshot: %w", err)
	}
	l.replaceTree(tree, w.Zxid)
	return nil
}

// replaceTree hands a new tree to the applier; the log continues after its zxid.
func (l *logger) replaceTree(tree *znode.Tree, z zk.Zxid) {
	l.setConfig(tree, l.clock.UnixMilli())
	l.wal = l.o.Dir.NewLog(z)
	l.logged.Store(int64(z))
	l.turn.steps = append(l.turn.steps, step{tree: tree})
}
