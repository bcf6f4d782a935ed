package replica

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/pinfold-zk/pinfold/internal/storage"
	"github.com/pinfold-zk/pinfold/internal/zab"
	"github.com/pinfold-zk/pinfold/internal/znode"
	"github.com/pinfold-zk/pinfold/zk"
)

// A restore replaces the state of a running server, or of an ensemble, by that of a
// snapshot (ADR 26). The snapshot is read into a second tree, and that is written to the
// disk, while the server works on. Then Order proposes nothing more; when everything that
// was proposed is committed and applied, the tree becomes the state at the next zxid: its
// file gets the name of that zxid, and readers the tree, in one step.
//
// A leader thereby leaves its role, with a history that is longer by this one zxid, which
// no log has. It is elected again, because it has the longest history, and its followers
// are sent the tree, because the log does not lead there. Should another server be elected
// all the same, the restore is taken back, as a proposal is that no quorum has.

// Why a state is not restored.
var (
	ErrRestoring   = errors.New("replica: a restore or a hand-over is under way")
	ErrNotRestored = errors.New("replica: another server was elected, which has the state from before: nothing is restored")
	ErrFarEpoch    = errors.New("replica: no epoch is later than those of the snapshot")
)

// restoring is a restore that is under way. Order owns it from Restore's notify on.
type restoring struct {
	tree   *znode.Tree
	job    *snapshotJob // its file, complete but for the trailer
	newest zk.Zxid      // that the snapshot says it has, or that a znode has
	config string       // content of /zookeeper/config in the tree
	zxid   zk.Zxid      // of the state once it is replaced; 0: not replaced yet
	done   func(error)  // must not block
}

// Restore reads a snapshot from src and makes it the state of this server, or of the
// ensemble that it leads. It returns the zxid of the snapshot when the state is durable and
// served: in an ensemble by a quorum. All connections of clients end then; a session
// goes on if the snapshot has it. The state has a later zxid than everything before.
//
// What is wrong with the snapshot is a *storage.Error of storage.ErrCorrupt; then and after
// an error of src nothing has changed. The other errors are ErrNotLeader, ErrNotDrained,
// ErrRestoring, ErrNotRestored, ErrFarEpoch, or say that the file cannot be written. If ctx
// ends first, the restore goes on.
func (r *Replica) Restore(ctx context.Context, src io.Reader) (zk.Zxid, error) {
	if !r.restoring.CompareAndSwap(false, true) {
		return 0, ErrRestoring
	}
	x, said, err := r.readRestore(src)
	if err != nil {
		r.restoring.Store(false)
		return 0, err
	}
	answer := make(chan error, 1)
	x.done = func(err error) {
		r.driver.Spawn(func() bool {
			if e := x.job.w.Abort(); e != nil { // after Commit it does nothing
				r.log.Warn("a snapshot that was given up cannot be removed; the next start removes it", "err", e)
			}
			r.restoring.Store(false)
			answer <- err
			return false
		})
	}
	r.notify(func(p *pipe) {
		p.restores = append(p.restores, x)
		p.machine.Arrived(1)
	})
	select {
	case err := <-answer:
		return said, err
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	case <-r.failed:
		return 0, r.failure
	}
}

// readRestore reads a snapshot into a tree, and writes that to a file that is not
// visible yet. said is the zxid that the snapshot names.
func (r *Replica) readRestore(src io.Reader) (x *restoring, said zk.Zxid, err error) {
	sr, err := storage.ReadSnapshotFrom(src, "the snapshot to be restored")
	if err != nil {
		return nil, 0, err
	}
	l, err := readSnapshot(sr, 0, r.o.Tree, r.o.MaxRecordBytes)
	if err = errors.Join(err, sr.Close()); err != nil {
		return nil, 0, err
	}
	if l.hasDigest && r.o.Prep.DigestEnabled && l.digest != l.tree.Digest() {
		r.log.Warn("the snapshot to be restored was written while transactions were applied: it is not the state at one moment", "zxid", l.digestZxid)
	}
	l.tree.FinishRecount()
	for _, path := range l.tree.DropOrphans() {
		r.log.Warn("an ephemeral of a session that the snapshot lacks is not restored", "path", path)
	}
	said = max(l.said, l.digestZxid)
	if said == 0 {
		said = l.newest
	}
	x = &restoring{tree: l.tree, newest: max(said, l.newest)}
	if x.newest.Epoch() >= math.MaxInt32 {
		return nil, 0, ErrFarEpoch
	}
	x.config = r.keepConfig(x.tree)
	x.job, err = r.snap.prepareTree(x.tree)
	return x, said, err
}

// keepConfig gives a tree that is restored the membership of this ensemble.
func (r *Replica) keepConfig(tree *znode.Tree) string {
	var config []byte
	r.View(func(v View) { config = append(config, v.Data(v.Lookup(znode.ConfigPath))...) })
	if r.o.ConfigText != nil {
		tree.SetConfig(config, r.clock.UnixMilli())
	}
	return string(config)
}

// prepareTree writes all of a snapshot but for its trailer, under a name that no other one
// has.
func (p *snapshots) prepareTree(tree *znode.Tree) (*snapshotJob, error) {
	tree.MoveTo(math.MaxInt64)
	j := &snapshotJob{r: p.Replica, tree: tree, began: p.clock.Now(), walk: tree.Walk()}
	w, err := p.o.Dir.CreateSnapshot(tree.LastZxid())
	if err != nil {
		return nil, err
	}
	j.w = w
	for done := false; !done && err == nil; j.buf = j.buf[:0] {
		j.buf, done = j.walk.Next(j.buf, snapshotPiece)
		_, err = w.Write(j.buf)
	}
	if err == nil {
		err = w.Sync()
	}
	if err != nil {
		return nil, errors.Join(err, w.Abort())
	}
	return j, nil
}

// beginRestores takes up what Restore has asked for: from now on no request is prepared.
func (o *orderer) beginRestores(asked []*restoring) {
	for _, x := range asked {
		switch {
		case o.handing != nil:
			x.done(ErrRestoring)
		case o.o.Ensemble != nil && (o.role != zab.Leading || !o.serving.Load()):
			x.done(ErrNotLeader)
		default:
			o.handing = &handing{until: o.Now() + handOverWithin, restore: x}
		}
	}
}

// restorePoll is how often a standalone server looks whether everything is applied.
const restorePoll = time.Millisecond

// stepRestore replaces the state when everything that was proposed is applied here and, if
// possible, known to the others.
func (o *orderer) stepRestore(h *handing) {
	x := h.restore
	alone := o.core == nil
	switch {
	case o.turn.Closing:
		o.giveUpRestore(h, errStopping)
	case alone && x.zxid != 0:
		if o.LastApplied() >= x.zxid {
			o.serveRestored(h)
		}
	case alone && following(o.LastApplied()) == o.nextZxid:
		o.replaceAlone(x)
	case alone: // the log or the applier lags
	case o.core.Settled() && o.allApplied(true) && (!o.core.Replaceable() || o.core.Drained()):
		o.replaceLeading(h)
	case o.Now() >= h.until:
		o.giveUpRestore(h, ErrNotDrained)
	default:
		o.drive() // pings
	}
}

// giveUpRestore goes on with the state as it is.
func (o *orderer) giveUpRestore(h *handing, err error) {
	o.log.Warn("the state is not restored; the server goes on with what it has", "err", err)
	o.handing = nil
	if o.core != nil {
		o.allApplied(false)
		o.core.Resume()
	}
	for len(h.held) > 0 && o.serving.Load() {
		b := h.held[0]
		h.held = h.held[1:]
		if o.core == nil {
			o.proposeAlone(b)
		} else {
			o.propose(b)
		}
	}
	o.endHandOver(h, err)
	h.restore.done(err)
}

// replaceAlone has Log and Apply replace the state of a standalone server, which serves no
// client meanwhile.
func (o *orderer) replaceAlone(x *restoring) {
	x.zxid = max(o.nextZxid, x.newest)
	o.nextZxid = following(x.zxid)
	x.tree.MoveTo(x.zxid)
	o.setMode(Idle)
	o.owners = map[zk.SessionID]owner{}
	o.o.Clients.Suspend()
	o.toLog(job{write: zab.Write{Kind: zab.WriteInstall, Zxid: x.zxid}, restore: x})
}

// serveRestored serves the clients of a standalone server again.
func (o *orderer) serveRestored(h *handing) {
	o.handing = nil
	o.closing = nil
	o.newTracker()
	o.startAlone()
	o.endHandOver(h, nil)
	o.noteRestored(h.restore, nil)
}

// replaceLeading leaves the leadership with the restored state.
func (o *orderer) replaceLeading(h *handing) {
	x := h.restore
	z, left := o.core.NextZxid()
	if left < 1 || o.dynamic() && x.config != o.configText() {
		o.giveUpRestore(h, ErrNotDrained)
		return
	}
	o.handing = nil
	x.zxid = z
	x.tree.MoveTo(z)
	o.restored = x
	o.core.Replace(o.Now(), z, x.newest.Epoch())
	o.drive()
	o.endHandOver(h, nil)
}

// configText is the content of /zookeeper/config.
func (o *orderer) configText() (config string) {
	since := o.lockRead()
	defer o.unlockRead(since)
	return string(o.tree.Data(o.tree.Lookup(znode.ConfigPath)))
}

// endRestore tells the outcome of a restore when this server has another role.
func (o *orderer) endRestore() {
	x := o.restored
	if x == nil {
		return
	}
	o.restored = nil
	if o.role != zab.Leading {
		o.noteRestored(x, ErrNotRestored)
		return
	}
	o.noteRestored(x, nil)
}

func (o *orderer) noteRestored(x *restoring, err error) {
	if err == nil {
		o.log.Warn("the state was replaced by a snapshot that was restored", "zxid", x.zxid, "znodes", x.tree.Count())
	}
	x.done(err)
}

// installRestored makes the restored tree the durable state. Nothing in the history is
// later, so nothing has to be removed.
func (l *logger) installRestored(x *restoring) error {
	l.snap.hold()
	defer l.snap.release()
	if err := l.wal.Close(); err != nil {
		return err
	}
	x.job.w.MoveTo(x.zxid)
	x.job.last, x.job.digest = x.zxid, x.tree.Digest()
	if err := x.job.finish((*storage.SnapshotWriter).Commit); err != nil {
		return fmt.Errorf("the restored snapshot: %w", err)
	}
	l.replaceTree(x.tree, x.zxid)
	return nil
}
