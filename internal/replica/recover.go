package replica

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/pinfold-zk/pinfold/internal/storage"
	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/zab"
	"github.com/pinfold-zk/pinfold/internal/znode"
	"github.com/pinfold-zk/pinfold/zk"
)

// Report says what recovery has found.
type Report struct {
	Snapshot  string   // name of the snapshot that was loaded, "" if none
	Skipped   []string // newer snapshots that could not be read, with the reason
	Lost      zk.Zxid  // of the newest that could not be read, 0 if none
	Replayed  int      // transactions from the log
	Tail      storage.Tail
	Orphans   []string // ephemerals of sessions that do not exist, removed
	Znodes    int
	Sessions  int
	Zxid      zk.Zxid
	Took      time.Duration
	LoadTook  time.Duration
	Mismatch  int      // transactions after which the digest was not the logged one
	Refused   []string // readable snapshots from which the log leads to another tree than it names
	Diverged  bool     // no snapshot leads to the tree that the log names: it is the newest one's
	NewServer bool
	Healing   string // the damage; "" if there is none. The rest is empty then
}

// ErrNoDatabase is returned for an empty directory where db.autocreate is off
// and no file "initialize" says that it may be so.
var ErrNoDatabase = errors.New("there is no database, and db.autocreate is false")

// ErrNoSnapshot is returned for a log without any snapshot.
var ErrNoSnapshot = errors.New("there is a transaction log but no snapshot: files are missing; set snapshot.trust.empty=true to start from the log alone")

// recover loads the newest snapshot that is whole and replays the log over it
// (protocol page, section 11.6).
func (r *Replica) recover(nowMillis int64) (Report, error) {
	began := time.Now()
	var rep Report
	var err error
	if r.tree, r.order.recent, err = (&recovery{r, &rep}).load(); err != nil {
		return rep, err
	}
	r.tree.FinishRecount()
	if err := r.checkReport(&rep); err != nil {
		return rep, err
	}
	if r.o.Ensemble == nil {
		rep.Orphans = r.tree.DropOrphans()
	}
	r.order.shown = r.shownMembers(r.tree)
	r.setConfig(r.tree, nowMillis)
	r.disk.wal = r.o.Dir.NewLog(r.tree.LastZxid())
	if !rep.Diverged && (rep.NewServer || len(rep.Orphans) > 0 || rep.Snapshot == "" || len(rep.Refused) > 0) {
		if err := r.snap.writeTree(r.tree, (*storage.SnapshotWriter).Commit); err != nil {
			return rep, fmt.Errorf("replica: first snapshot: %w", err)
		}
	}
	rep.Znodes, rep.Zxid = r.tree.Count(), r.tree.LastZxid()
	r.tree.Sessions(func(zk.SessionID, int32) { rep.Sessions++ })
	rep.Took = time.Since(began)
	r.stats.startup = rep
	return rep, nil
}

// A recovery reads the state from the disk: a snapshot, and the log after it.
type recovery struct {
	*Replica
	rep *Report // what it has found
}

// load reads the newest snapshot that is complete and the log after it. A snapshot from
// which the log leads to another tree than its digests name was made of a wrong tree:
// then the ones before are tried. recent is the end of the log, for a server of an
// ensemble.
func (r *recovery) load() (tree *znode.Tree, recent []zab.Entry, err error) {
	began := time.Now()
	loaded, older, err := r.newestSnapshot()
	if err != nil {
		return nil, nil, err
	}
	r.rep.LoadTook = time.Since(began)
	if err := r.replay(&loaded); err != nil {
		return nil, nil, err
	}
	if loaded.diverged {
		r.loadOlder(&loaded, older)
	}
	if r.o.Ensemble != nil && !loaded.hasDigest && !loaded.agreed {
		r.fuzzy.Store(true) // it may be a leader's, and the log end before what it is ahead by
	}
	return loaded.tree, loaded.recent.entries(), nil
}

// loadOlder replaces l, whose tree is not what the log leads to, by one from an older
// snapshot that is. If there is none, l stays.
func (r *recovery) loadOlder(l *loadedSnapshot, older []storage.Snapshot) {
	r.rep.Refused = append(r.rep.Refused, r.rep.Snapshot)
	for _, s := range older {
		r.log.Warn("the snapshot was made of a wrong tree, trying the one before", "snapshot", r.rep.Refused[len(r.rep.Refused)-1], "before", s.Name)
		o, err := r.loadBesideLog(s)
		if err == nil {
			err = r.replay(&o)
		}
		switch {
		case err != nil:
			r.log.Warn("snapshot cannot be used", "snapshot", s.Name, "err", err)
		case !o.diverged && o.tree.LastZxid() == l.tree.LastZxid():
			r.rep.Snapshot = s.Name
			*l = o
			return
		}
		r.rep.Refused = append(r.rep.Refused, s.Name)
	}
	r.rep.Diverged = true
}

// recentEntries keeps the last entries of a log that is replayed.
type recentEntries struct {
	ring []zab.Entry
	next int
}

func (e *recentEntries) keep(size int, z zk.Zxid, payload []byte) {
	if size <= 0 {
		return
	}
	if len(e.ring) < size {
		e.ring = append(e.ring, zab.Entry{Zxid: z, Data: bytes.Clone(payload)})
		return
	}
	old := &e.ring[e.next]
	*old = zab.Entry{Zxid: z, Data: append(old.Data[:0], payload...)}
	e.next = (e.next + 1) % size
}

// entries returns what was kept, in order: the longest end without a gap.
func (e *recentEntries) entries() []zab.Entry {
	es := append(slices.Clone(e.ring[e.next:]), e.ring[:e.next]...)
	for i := len(es) - 1; i > 0; i-- {
		if before, z := es[i-1].Zxid, es[i].Zxid; z != before+1 && (z.Epoch() <= before.Epoch() || z.Counter() != 1) {
			return es[i:]
		}
	}
	return es
}

// newestSnapshot loads the newest snapshot that can be read, and returns those before
// it; an empty tree if there is none and that is allowed.
func (r *recovery) newestSnapshot() (l loadedSnapshot, older []storage.Snapshot, err error) {
	candidates, err := r.o.Dir.Snapshots()
	if err != nil {
		return loadedSnapshot{}, nil, err
	}
	for i, s := range candidates {
		l, err := r.loadBesideLog(s)
		if err == nil {
			r.rep.Snapshot = s.Name
			if l.unlisted > 0 {
				r.log.Warn("znodes with an unknown ACL are open to all clients until the log sets it", "snapshot", s.Name, "znodes", l.unlisted)
			}
			return l, candidates[i+1:], nil
		}
		if !errors.Is(err, storage.ErrCorrupt) {
			return loadedSnapshot{}, nil, err
		}
		r.log.Warn("snapshot cannot be used, trying the one before", "snapshot", s.Name, "err", err)
		r.rep.Skipped = append(r.rep.Skipped, err.Error())
		r.rep.Lost = max(r.rep.Lost, s.Zxid)
	}
	if len(candidates) > 0 {
		return loadedSnapshot{}, nil, fmt.Errorf("replica: %w: none of %d snapshots can be read, the newest: %s", errDamaged, len(candidates), r.rep.Skipped[0])
	}
	l, err = r.emptyDatabase()
	return l, nil, err
}

// loadBesideLog loads a snapshot, and opens the log after it. With Options.Prefetch two
// goroutines read ahead: one reads the snapshot and checks its sum, one reads the log.
func (r *recovery) loadBesideLog(s storage.Snapshot) (loadedSnapshot, error) {
	if !r.o.Prefetch {
		l, err := loadSnapshot(r.o.Dir, s, r.o.Tree, r.o.MaxRecordBytes, false)
		if err == nil {
			l.log, err = r.o.Dir.ReadLog(s.Zxid)
		}
		return l, err
	}
	log, err := r.o.Dir.ReadLogAhead(s.Zxid)
	if err != nil {
		return loadedSnapshot{}, err
	}
	l, err := loadSnapshot(r.o.Dir, s, r.o.Tree, r.o.MaxRecordBytes, true)
	if err != nil {
		return loadedSnapshot{}, errors.Join(err, log.Close())
	}
	l.log = log
	return l, nil
}

// txnSource is the log after a snapshot: a storage.LogReader or a
// storage.LogAhead.
type txnSource interface {
	Next() ([]byte, error)
	Tail() storage.Tail
	Gaps() (count int, first storage.Gap)
	Close() error
}

func (r *recovery) emptyDatabase() (loadedSnapshot, error) {
	hasLog, err := r.o.Dir.HasLog()
	if err != nil {
		return loadedSnapshot{}, err
	}
	if hasLog && !r.o.TrustEmpty {
		return loadedSnapshot{}, fmt.Errorf("replica: %w", ErrNoSnapshot)
	}
	if used, err := r.o.Dir.HasEpochs(); err != nil || used && !hasLog && r.o.Ensemble != nil {
		return loadedSnapshot{}, errors.Join(err, fmt.Errorf("replica: %w: there is neither a snapshot nor a log, but the server has accepted an epoch", errDamaged))
	}
	if !hasLog {
		marked, err := r.o.Dir.MayInitialize()
		if err != nil {
			return loadedSnapshot{}, err
		}
		if !marked && !r.o.DBAutoCreate {
			return loadedSnapshot{}, fmt.Errorf("replica: %w; to start with an empty one, create the file %s", ErrNoDatabase, r.o.Dir.InitializeName())
		}
		r.rep.NewServer = true
	}
	l := loadedSnapshot{tree: znode.New(r.o.Tree), agreed: true}
	if r.rep.NewServer && r.o.InitialCounter > 0 {
		if l, err = r.startAt(l.tree, zk.Zxid(r.o.InitialCounter)-1); err != nil {
			return l, err
		}
	}
	l.log, err = r.o.Dir.ReadLog(l.zxid)
	return l, err
}

// startAt makes an empty tree one that has come to z.
func (r *recovery) startAt(tree *znode.Tree, z zk.Zxid) (loadedSnapshot, error) {
	walk, b := tree.Walk(), []byte(nil)
	for done := false; !done; {
		b, done = walk.Next(b, snapshotPiece)
	}
	loader := znode.NewLoader(r.o.Tree)
	if _, _, err := loader.Load(b); err != nil {
		return loadedSnapshot{}, err
	}
	return loadedSnapshot{tree: loader.Tree(z), zxid: z, agreed: true}, nil
}

// replay applies the log after the snapshot and cuts a torn tail. The log goes
// on from the tree's last zxid.
func (r *recovery) replay(l *loadedSnapshot) error {
	lr := l.log
	err := r.replayFrom(l)
	r.rep.Tail = lr.Tail()
	if err = errors.Join(err, lr.Close()); err != nil {
		return err
	}
	if n, gap := lr.Gaps(); n > 0 {
		r.log.Warn("zxids are missing between neighbouring entries of the log, as Apache leaves them where a request came to nothing",
			"places", n, "file", gap.Name, "offset", gap.Offset, "before", gap.Before, "after", gap.After)
	}
	if r.rep.Tail.Torn {
		r.log.Warn("the log ends in a write that a crash interrupted; it is cut off, nothing in it is known to have been synced",
			"file", r.rep.Tail.Name, "offset", r.rep.Tail.Bytes, "reason", r.rep.Tail.Reason)
	}
	return r.o.Dir.CutTail(r.rep.Tail)
}

func (r *recovery) replayFrom(l *loadedSnapshot) error {
	progress := time.Now()
	var result znode.Result
	for {
		payload, err := l.log.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		tx, err := txn.Decode(payload)
		if err != nil {
			return fmt.Errorf("replica: replay: %w", err)
		}
		l.tree.Apply(&tx, &result)
		r.compareDigest(&tx, l)
		l.recent.keep(r.window(), tx.Zxid, payload)
		r.rep.Replayed++
		if r.rep.Replayed%10000 == 0 && time.Since(progress) > 5*time.Second {
			progress = time.Now()
			r.log.Info("replaying the log", "transactions", r.rep.Replayed, "zxid", tx.Zxid)
		}
	}
}

// compareDigest compares the tree's digest with the logged ones.
func (r *recovery) compareDigest(tx *txn.Txn, l *loadedSnapshot) {
	if !r.o.Prep.DigestEnabled {
		return
	}
	if want, wrong := l.compareDigest(tx); wrong {
		r.noteMismatch(tx, want, l.tree)
	}
}

// compareDigest compares the tree's digest after tx with the one that the log or the
// snapshot names; wrong means that it is not that. A fuzzy snapshot may contain effects of
// later transactions; then the digest of its tree is unknown until digestZxid. A snapshot
// without digestZxid may be ahead of every transaction before the first one whose digest
// agrees.
//
// Apache reads digestZxid at the end of a snapshot, without waiting for the transaction that
// it is applying: the snapshot may have a part of the transaction after digestZxid, or all of
// it. So another digest at digestZxid is not wrong yet; the next transaction's digest decides.
func (l *loadedSnapshot) compareDigest(tx *txn.Txn) (want uint64, wrong bool) {
	want, known := tx.Digest, tx.HasDigest
	if l.hasDigest && tx.Zxid <= l.digestZxid {
		want, known = l.digest, tx.Zxid == l.digestZxid
	}
	switch {
	case !known:
	case want == l.tree.Digest():
		l.agreed, l.diverged, l.undecided = true, false, false
	case l.hasDigest && tx.Zxid == l.digestZxid:
		l.diverged, l.undecided = true, true
	case l.hasDigest || l.agreed:
		l.diverged, l.undecided = true, false
		return want, true
	default:
		l.undecided = true
	}
	return 0, false
}

func (r *recovery) noteMismatch(tx *txn.Txn, want uint64, tree *znode.Tree) {
	if r.rep.Mismatch == 0 {
		r.log.Error("the tree's digest is not the one that was logged", "zxid", tx.Zxid, "tree", tree.Digest(), "logged", want)
	}
	r.rep.Mismatch++
	r.stats.DigestMismatches.Add(1)
}
