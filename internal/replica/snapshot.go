package replica

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/storage"
	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/znode"
	"github.com/pinfold-zk/pinfold/zk"
)

// snapshots writes fuzzy snapshots. It decides when the next one is due: by chance, after
// between half and the whole of what is configured, so that the servers of an ensemble
// do not all write one at the same time.
type snapshots struct {
	*Replica
	maxTxns  int
	maxBytes int64 // 0 or less: never for its size
	rand     *rand.Rand

	mu struct {
		sync.Mutex
		task     *snapshotTask  // that writes a snapshot, at most one; nil if none does
		wanted   []chan<- taken // of TakeSnapshot; the next task answers them
		held     bool           // none may be written
		cancels  int            // calls of cancel
		txns     int            // since the newest snapshot began
		bytes    int64
		dueTxns  int
		dueBytes int64
	}
}

func (p *snapshots) init(r *Replica) {
	o := &r.o
	p.Replica = r
	p.maxTxns, p.maxBytes = o.SnapCount, o.SnapBytes
	p.rand = rand.New(rand.NewPCG(o.Seed, uint64(o.ServerID)))
	p.draw()
}

// draw resets the count, with new random limits between half and the whole of the
// configured ones.
func (p *snapshots) draw() {
	p.mu.txns, p.mu.bytes = 0, 0
	half := p.maxTxns / 2
	p.mu.dueTxns = half + p.rand.IntN(half+1)
	if p.maxBytes > 0 {
		p.mu.dueBytes = p.maxBytes/2 + p.rand.Int64N(p.maxBytes/2+1)
	}
}

// applied counts, and returns the task that is to write a snapshot now, nil if none
// is due.
func (p *snapshots) applied(txns, bytes int) *snapshotTask {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.txns += txns
	p.mu.bytes += int64(bytes)
	if p.mu.task != nil {
		return nil
	}
	return p.newTask()
}

// finished ends a task, and returns the next one if that is due at once.
func (p *snapshots) finished(t *snapshotTask) *snapshotTask {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.task != t {
		return nil // hold has ended it
	}
	p.mu.task = nil
	return p.newTask()
}

// newTask makes a task if a snapshot is due. REQUIRES: p.mu, and that there is none.
func (p *snapshots) newTask() *snapshotTask {
	due := p.mu.txns > p.mu.dueTxns || p.maxBytes > 0 && p.mu.bytes > p.mu.dueBytes || len(p.mu.wanted) > 0
	if p.mu.held || !due {
		return nil
	}
	p.draw()
	p.mu.task = &snapshotTask{cancels: p.mu.cancels, wanted: p.mu.wanted}
	p.mu.wanted = nil
	return p.mu.task
}

// late reports whether so much was logged since the snapshot began that it must
// be finished soon.
func (p *snapshots) late() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.maxBytes > 0 && p.mu.bytes > p.maxBytes
}

// hold ends the snapshot that is being written, if any, and lets none begin:
// the log and the tree are about to be replaced. It waits for the piece that is being
// written.
func (p *snapshots) hold() {
	p.mu.Lock()
	p.mu.held = true
	t := p.mu.task
	p.mu.task = nil
	p.refuseLocked()
	p.mu.Unlock()
	if t != nil {
		p.giveUp(t)
	}
}

// release ends hold. The count is reset.
func (p *snapshots) release() {
	p.mu.Lock()
	p.mu.held = false
	p.draw()
	p.mu.Unlock()
}

// cancel makes sure that a snapshot that is being written never becomes visible,
// and that none begins before allow. It is called before transactions are applied
// that are not committed: in a snapshot that does not end with them they would
// outlive a TRUNC that its name survives. The log has everything.
func (p *snapshots) cancel() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.cancels++
	p.mu.held = true
	p.refuseLocked()
}

// allow ends cancel.
func (p *snapshots) allow() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.held = false
}

// canceled reports whether cancel was called since a task was made, which is before
// its walk begins.
func (p *snapshots) canceled(t *snapshotTask) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return t.cancels != p.mu.cancels
}

func (p *snapshots) isHeld() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.held
}

// snapshotTask writes one snapshot, a piece at a time, beside the stages.
type snapshotTask struct {
	cancels int            // of the plan, when the task was made
	wanted  []chan<- taken // by these calls of TakeSnapshot

	mu    sync.Mutex // held while a piece is written
	job   *snapshotJob
	ended bool
}

// start has a task write its snapshot, and others that are due when it is done.
func (p *snapshots) start(t *snapshotTask) {
	if t == nil {
		return
	}
	p.driver.Spawn(func() (again bool) {
		if pause, more := p.step(t); more {
			if pause > 0 {
				p.driver.Rest(pause)
			}
			return true
		}
		t = p.finished(t)
		return t != nil && !p.Stopping()
	})
}

// step writes a piece, and says how long the task is to rest then. False
// means that the snapshot is written or given up.
func (p *snapshots) step(t *snapshotTask) (pause time.Duration, more bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return 0, false
	}
	var err error
	if t.job == nil {
		p.rollLog.Store(true)
		t.job, err = p.newJob(p.tree)
		more = true
	} else {
		pause, more, err = t.job.step(t)
	}
	switch {
	case errors.Is(err, errStopping), errors.Is(err, errCanceled):
		p.log.Info("snapshot given up; the log has everything", "err", err)
	case err != nil:
		p.stats.SnapshotErrors.Add(1)
		p.log.Error("snapshot failed; the log has everything, the next one will be tried", "err", err)
	}
	if t.ended = err != nil || !more; t.ended {
		t.answer(err)
	}
	return pause, !t.ended
}

// giveUp ends a task whatever it has written. What is left of its file is removed.
func (p *snapshots) giveUp(t *snapshotTask) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.ended && t.job != nil {
		if err := t.job.w.Abort(); err != nil {
			p.log.Warn("a snapshot that was given up cannot be removed; the next start removes it", "err", err)
		}
	}
	if !t.ended {
		t.answer(errCanceled)
	}
	t.ended = true
}

// A snapshot rests snapshotRest times as long as it has worked, each time after
// snapshotStretch bytes, while transactions are being applied: it takes a tenth
// of a processor and of the disk from them, no more. Nothing waits for it;
// until it is done the log is longer, and so is a restart.
const (
	snapshotRest    = 9
	snapshotStretch = 1 << 20
	longestRest     = 200 * time.Millisecond
)

// pace makes a snapshot rest.
type pace struct {
	r     *Replica
	zxid  zk.Zxid       // applied when the last rest ended
	since time.Duration // when that was
	bytes int           // written since
}

// rest counts what was written, and returns how long to rest.
func (p *pace) rest(bytes int) (pause time.Duration) {
	if p.bytes += bytes; p.bytes < snapshotStretch {
		return 0
	}
	now := p.r.clock.Now()
	if z := p.r.LastApplied(); z != p.zxid && !p.r.snap.late() {
		pause = min(snapshotRest*(now-p.since), longestRest)
	}
	p.zxid, p.since, p.bytes = p.r.LastApplied(), now+pause, 0
	return pause
}

// snapshotPiece is how much of the tree is written under one read lock: about
// a third of a millisecond.
const snapshotPiece = 64 << 10

// snapshotJob is a fuzzy snapshot that is being written while transactions go on
// being applied. It becomes visible once the log is durable up to the last transaction
// that it may hold: what a quorum has made durable is applied before this server's own
// log has it, and a snapshot must not be ahead of its log (docs/zab.md).
type snapshotJob struct {
	r     *Replica
	tree  *znode.Tree
	walk  *znode.Walk
	buf   []byte
	w     *storage.SnapshotWriter
	pace  pace
	began time.Duration

	walked bool    // all of the tree is written
	last   zk.Zxid // of the tree then: the snapshot may hold what it did up to here
	digest uint64  // of the tree then
}

// newJob begins a snapshot of a tree: it creates the file.
func (p *snapshots) newJob(tree *znode.Tree) (*snapshotJob, error) {
	j := &snapshotJob{r: p.Replica, tree: tree, began: p.clock.Now()}
	j.pace = pace{r: p.Replica, zxid: p.LastApplied(), since: j.began}
	since := p.lockRead()
	j.walk = tree.Walk()
	p.unlockRead(since)
	var err error
	j.w, err = p.o.Dir.CreateSnapshot(j.walk.Zxid())
	return j, err
}

// logPoll is how often a snapshot that is written looks whether the log has come as
// far as the snapshot.
const logPoll = 5 * time.Millisecond

// step writes a piece. After an error the snapshot's file is removed.
func (j *snapshotJob) step(t *snapshotTask) (pause time.Duration, more bool, err error) {
	r, done := j.r, j.walked
	if !done {
		since := r.lockRead()
		j.buf, done = j.walk.Next(j.buf, snapshotPiece)
		// A transaction that is half applied is in none of the two.
		whole := r.partial == 0 && r.changing == nil
		j.last, j.digest, j.walked = j.tree.LastZxid(), j.tree.Digest(), done && whole
		r.unlockRead(since)
		_, err = j.w.Write(j.buf)
	}
	switch {
	case err != nil:
	case r.snap.canceled(t), r.diverged.Load(): // after Next: it may have seen what it must not
		err = errCanceled
	case j.walked && r.LastLogged() >= j.last:
		if err = j.finish((*storage.SnapshotWriter).Commit); err == nil {
			return 0, false, nil
		}
	case r.Stopping() || r.snap.isHeld():
		err = errStopping
	case done: // the log lags, or a transaction is half applied
		j.buf = j.buf[:0]
		return logPoll, true, nil
	default:
		pause = j.pace.rest(len(j.buf))
		j.buf = j.buf[:0]
		return pause, true, nil
	}
	return 0, false, errors.Join(err, j.w.Abort())
}

// finish writes the trailer, and makes the snapshot visible.
func (j *snapshotJob) finish(commit func(*storage.SnapshotWriter) error) error {
	r := j.r
	if err := j.w.Seal(); err != nil {
		return err
	}
	zxid, digest := j.last, j.digest
	if r.fuzzy.Load() {
		// No digest is known. The block is there all the same, as Apache writes it
		// then: it would take the next block for it.
		zxid, digest = 0, 0
	}
	if r.o.Prep.DigestEnabled {
		if err := writeSealed(j.w, appendDigest(j.buf[:0], zxid, digest)); err != nil {
			return err
		}
	}
	if r.o.LastZxidBlock {
		if err := writeSealed(j.w, jute.AppendLong(j.buf[:0], int64(j.last))); err != nil {
			return err
		}
	}
	if err := commit(j.w); err != nil {
		return err
	}
	took := r.clock.Now() - j.began
	r.stats.Snapshot.Add(took)
	r.log.Info("snapshot written", "zxid", j.w.Snapshot().Zxid, "znodes", j.walk.Nodes(), "bytes", j.w.Bytes(), "took", took.Round(time.Millisecond))
	return nil
}

// writeTree writes a snapshot of a tree that does not change, without pauses.
func (p *snapshots) writeTree(tree *znode.Tree, commit func(*storage.SnapshotWriter) error) error {
	j, err := p.newJob(tree)
	if err != nil {
		return err
	}
	for done := false; !done; j.buf = j.buf[:0] {
		j.buf, done = j.walk.Next(j.buf, snapshotPiece)
		if _, err := j.w.Write(j.buf); err != nil {
			return errors.Join(err, j.w.Abort())
		}
	}
	j.last, j.digest = tree.LastZxid(), tree.Digest()
	if err := j.finish(commit); err != nil {
		return errors.Join(err, j.w.Abort())
	}
	return nil
}

// errCanceled ends a snapshot that might contain what is not committed.
var errCanceled = errors.New("replica: the server has left its role")

// errStopping ends a snapshot when the server stops.
var errStopping = errors.New("replica: the server is stopping")

// Stopping reports whether Close was called or the replica has failed.
func (r *Replica) Stopping() bool {
	select {
	case <-r.stopping:
		return true
	case <-r.failed:
		return true
	default:
		return false
	}
}

func appendDigest(b []byte, z zk.Zxid, digest uint64) []byte {
	b = jute.AppendLong(b, int64(z))
	b = jute.AppendInt(b, txn.DigestVersion)
	return jute.AppendLong(b, int64(digest))
}

func writeSealed(w *storage.SnapshotWriter, block []byte) error {
	if _, err := w.Write(block); err != nil {
		return err
	}
	return w.Seal()
}

// loadedSnapshot is a tree read from a snapshot, and what its trailer says: the
// digest that the tree will have once the log is replayed up to digestZxid. A
// leader's snapshot has none: how far it is ahead is not known.
type loadedSnapshot struct {
	tree       *znode.Tree
	zxid       zk.Zxid
	hasDigest  bool
	digestZxid zk.Zxid
	digest     uint64
	agreed     bool // the tree's digest was a logged one, or nothing is in it
	diverged   bool // when it was compared last, it was not
	undecided  bool // it was not, and may have effects of later transactions: a later digest decides
	unlisted   int
	newest     zk.Zxid       // in the snapshot
	said       zk.Zxid       // the zxid that its last block names, 0 if there is none
	log        txnSource     // after the snapshot; replay closes it
	recent     recentEntries // of that
}

// loadSnapshot reads one snapshot whole. maxRecord bounds the memory that a
// damaged length can cost; with ahead the file is read in a goroutine beside.
func loadSnapshot(dir *storage.Dir, s storage.Snapshot, opts znode.Options, maxRecord int, ahead bool) (loadedSnapshot, error) {
	sr, err := dir.OpenSnapshot(s)
	if err != nil {
		return loadedSnapshot{}, err
	}
	if ahead {
		sr.ReadAhead()
	}
	l, err := readSnapshot(sr, s.Zxid, opts, maxRecord)
	return l, errors.Join(err, sr.Close())
}

func readSnapshot(sr *storage.SnapshotReader, zxid zk.Zxid, opts znode.Options, maxRecord int) (loadedSnapshot, error) {
	loader := znode.NewLoader(opts)
	if err := loadBody(loader, sr, maxRecord); err != nil {
		var bad *badBody
		if errors.As(err, &bad) {
			err = sr.Corrupt(bad.reason)
		}
		return loadedSnapshot{}, err
	}
	if err := sr.CheckSeal(); err != nil {
		if err == io.EOF {
			err = sr.Corrupt("the snapshot has no checksum")
		}
		return loadedSnapshot{}, err
	}
	l := loadedSnapshot{zxid: zxid, unlisted: loader.Unlisted, newest: loader.Newest}
	if err := l.readTrailer(sr); err != nil {
		return loadedSnapshot{}, err
	}
	l.tree = loader.Tree(zxid)
	return l, nil
}

// SnapshotSource is where the body of a snapshot is read from: a file, or a link
// to the leader. Fill shows at least n bytes, or what is left and io.EOF.
type SnapshotSource = interface {
	Buffered() []byte
	Fill(n int) ([]byte, error)
	Discard(n int)
}

// badBody says why a body cannot be read.
type badBody struct{ reason string }

func (e *badBody) Error() string { return "replica: snapshot: " + e.reason }

// recordMargin is by how much the record of a znode in a snapshot may be longer
// than the longest transaction: a setData does not carry the znode's Stat.
const recordMargin = 128

// loadBody reads a body whole, and not a byte more. What cannot be decoded is a
// *badBody, and so is a record longer than maxRecord and recordMargin.
func loadBody(loader *znode.Loader, src SnapshotSource, maxRecord int) error {
	for b := src.Buffered(); ; {
		n, done, err := loader.Load(b)
		if err != nil {
			return &badBody{err.Error()}
		}
		src.Discard(n)
		if done {
			return nil
		}
		left := len(b) - n
		if left > maxRecord+recordMargin {
			return &badBody{fmt.Sprintf("a record of more than %d bytes", maxRecord)}
		}
		b, err = src.Fill(left + 1)
		if err == io.EOF {
			return &badBody{"the snapshot ends within a record"}
		}
		if err != nil {
			return err
		}
	}
}

// digestBlockBytes and zxidBlockBytes are the trailers' lengths without seals.
const (
	digestBlockBytes = 8 + 4 + 8
	zxidBlockBytes   = 8
	sealedBytes      = 13
)

// readTrailer reads what may follow the body: the digest block, the block of
// the last zxid, both or neither. They are told apart by their lengths.
func (l *loadedSnapshot) readTrailer(sr *storage.SnapshotReader) error {
	b, err := sr.Fill(digestBlockBytes + sealedBytes)
	if err == nil {
		d := jute.NewDecoder(b)
		l.digestZxid = zk.Zxid(d.Long())
		l.hasDigest = d.Int() == txn.DigestVersion && l.digestZxid > 0
		l.digest = uint64(d.Long())
		sr.Discard(digestBlockBytes)
		if err := sealAfter(sr); err != nil {
			return err
		}
		b, err = sr.Fill(zxidBlockBytes + sealedBytes)
	}
	if err != nil && err != io.EOF {
		return err
	}
	if len(b) == 0 {
		return nil
	}
	if len(b) < zxidBlockBytes {
		return sr.Corrupt("the trailer ends within a record")
	}
	l.said = zk.Zxid(binary.BigEndian.Uint64(b))
	sr.Discard(zxidBlockBytes)
	if err := sealAfter(sr); err != nil {
		return err
	}
	return sr.CheckEnd()
}

// sealAfter reads the seal that must follow a block.
func sealAfter(sr *storage.SnapshotReader) error {
	err := sr.CheckSeal()
	if err == io.EOF {
		return sr.Corrupt("the snapshot ends before the seal of its trailer")
	}
	return err
}
