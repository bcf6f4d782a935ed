package replica

import (
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

// snapshotPlan decides when the next snapshot is due: by chance, after between
// half and the whole of what is configured, so that the servers of an ensemble
// do not all write one at the same time.
type snapshotPlan struct {
	maxTxns  int
	maxBytes int64 // 0 or less: never for its size

	mu struct {
		sync.Mutex
		writing  bool // a snapshotter is at work: at most one is
		txns     int  // since the newest snapshot began
		bytes    int64
		dueTxns  int
		dueBytes int64
	}
}

func (p *snapshotPlan) init(o Options, replayed int) {
	p.maxTxns, p.maxBytes = o.SnapCount, o.SnapBytes
	p.draw()
	p.mu.txns = replayed
}

// draw starts the count anew, with new limits between half and the whole of
// what is configured.
func (p *snapshotPlan) draw() {
	p.mu.txns, p.mu.bytes = 0, 0
	half := p.maxTxns / 2
	p.mu.dueTxns = half + rand.IntN(half+1)
	if p.maxBytes > 0 {
		p.mu.dueBytes = p.maxBytes/2 + rand.Int64N(p.maxBytes/2+1)
	}
}

// applied counts, and reports whether a snapshot is to be begun now.
func (p *snapshotPlan) applied(txns, bytes int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.txns += txns
	p.mu.bytes += int64(bytes)
	return !p.mu.writing && p.begin()
}

// finished ends a snapshot, and reports whether another is to be begun at once.
func (p *snapshotPlan) finished() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.writing = false
	return p.begin()
}

// begin begins a snapshot if one is due. REQUIRES: p.mu, and that none is being
// written.
func (p *snapshotPlan) begin() bool {
	if p.mu.txns <= p.mu.dueTxns && (p.maxBytes <= 0 || p.mu.bytes <= p.mu.dueBytes) {
		return false
	}
	p.draw()
	p.mu.writing = true
	return true
}

// late reports whether so much was logged since the snapshot began that it must
// be finished soon.
func (p *snapshotPlan) late() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.maxBytes > 0 && p.mu.bytes > p.maxBytes
}

// snapshot writes snapshots until none is due.
func (r *Replica) snapshot() {
	for again := true; again; again = r.snap.finished() && !r.Stopping() {
		r.rollLog.Store(true)
		switch err := r.writeSnapshot(); {
		case errors.Is(err, errStopping):
			r.log.Info("snapshot given up; the log has everything", "err", err)
		case err != nil:
			r.stats.SnapshotErrors.Add(1)
			r.log.Error("snapshot failed; the log has everything, the next one will be tried", "err", err)
		}
	}
}

// A snapshot rests snapshotRest times as long as it has worked, each time after
// snapshotStretch bytes, while transactions are being applied: it takes a tenth
// of a processor and of the disk from them, no more. Nobody waits for it; what
// it costs is a longer log, and with that a longer restart, until it is done.
const (
	snapshotRest    = 9
	snapshotStretch = 1 << 20
	longestRest     = 200 * time.Millisecond
)

// pace makes a snapshot rest.
type pace struct {
	r     *Replica
	zxid  zk.Zxid   // applied when the last rest ended
	since time.Time // when that was
	bytes int       // written since
}

// rest counts what was written, and rests if it is time to.
func (p *pace) rest(bytes int) {
	if p.bytes += bytes; p.bytes < snapshotStretch {
		return
	}
	if z := p.r.LastApplied(); z != p.zxid && !p.r.snap.late() {
		pause := min(snapshotRest*time.Since(p.since), longestRest)
		select {
		case <-time.After(pause):
		case <-p.r.stopping:
		case <-p.r.failed:
		}
	}
	p.zxid, p.since, p.bytes = p.r.LastApplied(), time.Now(), 0
}

// snapshotPiece is how much of the tree is written under one read lock: about
// a third of a millisecond.
const snapshotPiece = 64 << 10

// writeSnapshot writes a fuzzy snapshot while transactions go on being applied.
func (r *Replica) writeSnapshot() error {
	began := time.Now()
	r.mu.RLock()
	walk, buf := r.tree.Walk(nil)
	r.mu.RUnlock()
	w, err := r.o.Dir.CreateSnapshot(walk.Zxid())
	if err != nil {
		return err
	}
	if err := r.fillSnapshot(w, walk, buf); err != nil {
		return errors.Join(err, w.Abort())
	}
	if err := w.Commit(); err != nil {
		return err
	}
	took := time.Since(began)
	r.stats.Snapshot.Add(took)
	r.log.Info("snapshot written", "zxid", walk.Zxid(), "znodes", walk.Nodes(), "bytes", w.Bytes(), "took", took.Round(time.Millisecond))
	return nil
}

func (r *Replica) fillSnapshot(w *storage.SnapshotWriter, walk *znode.Walk, buf []byte) error {
	pace := pace{r: r, zxid: r.LastApplied(), since: time.Now()}
	for done := false; !done; {
		r.mu.RLock()
		buf, done = walk.Next(buf, snapshotPiece)
		r.mu.RUnlock()
		if _, err := w.Write(buf); err != nil {
			return err
		}
		pace.rest(len(buf))
		buf = buf[:0]
		if r.Stopping() {
			return errStopping
		}
	}
	if err := w.Seal(); err != nil {
		return err
	}
	r.mu.RLock()
	zxid, digest := r.tree.LastZxid(), r.tree.Digest()
	r.mu.RUnlock()
	if r.o.Prep.DigestEnabled {
		if err := writeSealed(w, appendDigest(buf[:0], zxid, digest)); err != nil {
			return err
		}
	}
	if r.o.LastZxidBlock {
		return writeSealed(w, jute.AppendLong(buf[:0], int64(zxid)))
	}
	return nil
}

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
// digest that the tree will have once the log is replayed up to digestZxid.
type loadedSnapshot struct {
	tree       *znode.Tree
	zxid       zk.Zxid
	hasDigest  bool
	digestZxid zk.Zxid
	digest     uint64
	unlisted   int
}

// loadSnapshot reads one snapshot whole. maxRecord bounds the memory that a
// damaged length can cost.
func loadSnapshot(dir *storage.Dir, s storage.Snapshot, opts znode.Options, maxRecord int) (loadedSnapshot, error) {
	sr, err := dir.OpenSnapshot(s)
	if err != nil {
		return loadedSnapshot{}, err
	}
	l, err := readSnapshot(sr, s.Zxid, opts, maxRecord)
	return l, errors.Join(err, sr.Close())
}

func readSnapshot(sr *storage.SnapshotReader, zxid zk.Zxid, opts znode.Options, maxRecord int) (loadedSnapshot, error) {
	loader := znode.NewLoader(opts)
	for b, done := sr.Buffered(), false; !done; {
		n, end, err := loader.Load(b)
		if err != nil {
			return loadedSnapshot{}, sr.Corrupt(err.Error())
		}
		sr.Discard(n)
		if done = end; done {
			break
		}
		left := len(b) - n
		if left > maxRecord {
			return loadedSnapshot{}, sr.Corrupt(fmt.Sprintf("a record of more than %d bytes", maxRecord))
		}
		b, err = sr.Fill(left + 1)
		if err == io.EOF {
			return loadedSnapshot{}, sr.Corrupt("the snapshot ends within a record")
		}
		if err != nil {
			return loadedSnapshot{}, err
		}
	}
	if err := sr.CheckSeal(); err != nil {
		if err == io.EOF {
			err = sr.Corrupt("the snapshot has no checksum")
		}
		return loadedSnapshot{}, err
	}
	l := loadedSnapshot{zxid: zxid, unlisted: loader.Unlisted}
	if err := l.readTrailer(sr); err != nil {
		return loadedSnapshot{}, err
	}
	l.tree = loader.Tree(zxid)
	return l, nil
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
		l.hasDigest = d.Int() == txn.DigestVersion
		l.digest = uint64(d.Long())
		sr.Discard(digestBlockBytes)
		if err := sr.CheckSeal(); err != nil {
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
	sr.Discard(zxidBlockBytes)
	if err := sr.CheckSeal(); err != nil {
		return err
	}
	return sr.CheckEnd()
}
