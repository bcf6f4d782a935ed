package replica

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/pinfold-zk/pinfold/internal/storage"
	"github.com/pinfold-zk/pinfold/internal/zab"
	"github.com/pinfold-zk/pinfold/internal/znode"
	"github.com/pinfold-zk/pinfold/zk"
)

// A server of an ensemble whose disk is damaged, or has lost its files, heals: it marks its
// directory, starts with nothing, takes the leader's snapshot, and has its vote again when
// package zab says so (ADR 29). The damaged files stay until the snapshot has come whole.
// The mark survives a crash: the next start heals again, from the beginning.

// errDamaged is wrapped by what recovery reports about files that a leader's snapshot
// makes good.
var errDamaged = errors.New("the data directory is damaged")

// isDamage reports whether an error of recovery or of the log says that the disk has lost
// what it held.
func isDamage(err error) bool {
	for _, kind := range []error{errDamaged, storage.ErrCorrupt, storage.ErrGap, storage.ErrEpochs, ErrNoDatabase, ErrNoSnapshot} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}

// heals reports whether the server may heal: the others can be a quorum without it. If the membership
// changes, this server's list may be an old one, and it suffices that there are others.
func (r *Replica) heals() bool {
	e := r.o.Ensemble
	other := func(id int64) bool { return id != e.ID }
	switch {
	case e == nil || r.o.NoHealing:
		return false
	case r.dynamic():
		return slices.ContainsFunc(e.Members.System().Voters(), other)
	}
	return e.Members.System().Quorum(other)
}

// begin recovers the state from the disk, or begins to heal. The permission to begin with an empty
// database ends here, whether it was needed or not: a directory that is emptied later is damaged.
func (r *Replica) begin(nowMillis int64) (Report, error) {
	report, err := r.beginAny(nowMillis)
	if err == nil {
		err = r.o.Dir.EndInitialize()
	}
	return report, err
}

// beginAny is begin but for that permission.
func (r *Replica) beginAny(nowMillis int64) (Report, error) {
	h, marked, err := r.o.Dir.Healing()
	switch {
	case err != nil:
		return Report{}, err
	case marked && !r.heals(): // what is there is not the server's history: it must not vote with that
		return Report{}, fmt.Errorf("replica: %w: the member was healing from %q when it stopped, and may not with this configuration "+
			"(healing.enabled=false, or too few other voters): start it with the one with which it began to heal, "+
			"or remove it from the ensemble, empty its data directory, and add it again", errDamaged, h.Reason)
	case !r.heals():
		return r.beginWhole(nowMillis)
	case !marked:
		report, err := r.beginWhole(nowMillis)
		if err == nil || !isDamage(err) {
			return report, err
		}
		h = storage.Healing{Reason: err.Error(), Forgot: errors.Is(err, ErrNoDatabase)}
	}
	return r.beginHealing(h, nowMillis)
}

// beginWhole is begin for a directory that is not damaged.
func (r *Replica) beginWhole(nowMillis int64) (Report, error) {
	report, err := r.recover(nowMillis)
	if err != nil {
		return report, err
	}
	last := r.noteRecovered(nowMillis)
	if err := r.order.start(last, &report); err != nil || r.o.Ensemble == nil {
		return report, err
	}
	return report, r.o.Dir.NoteHistory(last) // after a crash the disk may have an older mark
}

// noteRecovered notes that the tree is there, and returns its last zxid.
func (r *Replica) noteRecovered(nowMillis int64) zk.Zxid {
	r.zero = nowMillis - r.clock.Now().Milliseconds()
	last := r.tree.LastZxid()
	r.applied.Store(int64(last))
	r.logged.Store(int64(last))
	return last
}

// beginHealing begins with an empty tree. The mark is durable before anything else is
// written.
func (r *Replica) beginHealing(h storage.Healing, nowMillis int64) (Report, error) {
	accepted, known, err := r.o.Dir.AcceptedEpoch()
	if err != nil {
		return Report{}, err
	}
	if h.Forgot = h.Forgot || !known; h.Forgot {
		accepted = 0
	}
	if err := r.o.Dir.BeginHealing(h); err != nil {
		return Report{}, err
	}
	next := "this member has no vote until a leader that a quorum follows without it has sent its state"
	if h.Forgot {
		next += ", and until a client has written something"
	}
	r.log.Error("the data directory is damaged: the member heals", "damage", h.Reason, "next", next)
	r.healing.Store(true)
	r.diverged.Store(false)
	r.fuzzy.Store(true) // no client may see the empty tree
	r.tree, r.order.recent = znode.New(r.o.Tree), nil
	r.setConfig(r.tree, nowMillis)
	r.disk.wal = r.o.Dir.NewLog(0)
	report := Report{Healing: h.Reason}
	r.stats.startup = report
	r.noteRecovered(nowMillis)
	return report, r.order.startHealing(accepted, h.Forgot)
}

// startHealing is start for a server that heals.
func (o *orderer) startHealing(accepted uint32, forgot bool) (err error) {
	o.beginAt(0)
	o.recovered = zab.State{AcceptedEpoch: accepted, Heals: true, Forgot: forgot}
	if o.recovered.Members, err = o.loadMembers(); err != nil {
		return err
	}
	o.shown = nil
	o.released = 0
	o.pipe.unjoined = true
	return nil
}

// Healing reports whether this server heals: it has no vote.
func (r *Replica) Healing() bool { return r.healing.Load() }

// isHealing is Healing as a metric.
func (r *Replica) isHealing() int64 {
	if r.Healing() {
		return 1
	}
	return 0
}

// takeOver makes tree the durable state of a server that heals, in the place of all damaged
// files.
func (l *logger) takeOver(tree *znode.Tree) error {
	err := l.snap.writeTree(tree, func(w *storage.SnapshotWriter) error {
		return errors.Join(l.o.Dir.Clear(), w.Commit())
	})
	if err == nil {
		l.took = true
		l.log.Info("the damaged files are replaced by the leader's snapshot", "zxid", tree.LastZxid(), "znodes", tree.Count())
	}
	return err
}

// replaces reports whether what the leader sends is to replace everything in the directory.
func (l *logger) replaces() bool { return l.healing.Load() && !l.took }

// endHealing removes the mark: the server has its vote again.
func (l *logger) endHealing() error {
	if err := l.o.Dir.EndHealing(); err != nil {
		return err
	}
	l.healing.Store(false)
	l.stats.Healed.Add(1)
	return nil
}

// markDamage marks the directory if the failure of the log is damage: the next start heals.
func (l *logger) markDamage(failure error) {
	if !l.heals() || !isDamage(failure) {
		return
	}
	if err := l.o.Dir.BeginHealing(storage.Healing{Reason: failure.Error()}); err != nil {
		l.log.Error("the data directory is damaged, and cannot be marked", "err", err)
	}
}

// tellHealing tells the operator what a server that heals waits for, and what helps if there
// are not enough others.
func (o *orderer) tellHealing(e *zab.Event) {
	dir, first := path.Dir(path.Dir(o.o.Dir.HealingName())), ""
	if strings.Contains(o.stats.startup.Healing, ErrNoDatabase.Error()) {
		first = fmt.Sprintf("if the ensemble is new, stop this member, `rm %s`, `touch %s`, and start it; otherwise ", o.o.Dir.HealingName(), o.o.Dir.InitializeName())
	}
	o.log.Warn("the member heals, and waits", "reason", e.Reason, "leader", e.Peer, "help", first+fmt.Sprintf(
		"start the other members. If a majority is damaged there is nothing to heal from: see what is left with "+
			"`pinfold data verify %s`; then restore all members from a backup with `pinfold restore`, or mend the member with the latest data with "+
			"`pinfold data recover` or `pinfold data chop`, and then `rm %s`, which gives it its vote", dir, o.o.Dir.HealingName()))
}
