package storage

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/zk"
)

// Options says where a server's data is and how the server writes it.
type Options struct {
	// DataDir holds snapshots and epoch files, in its subdirectory version-2.
	DataDir string
	// DataLogDir holds the log, in its subdirectory version-2; "" means DataDir.
	DataLogDir string
	// AutoCreate creates missing directories (datadir.autocreate).
	AutoCreate bool
	// Compression is how new snapshots are compressed. Reading accepts every kind.
	Compression Compression
	// SnapshotBuffer is how many bytes of a snapshot are written at once; 0 means 1
	// MiB.
	SnapshotBuffer int
	// Log configures the transaction log.
	Log LogOptions
}

// Dir is the data directory of one server, locked against other processes that use this
// package. Several goroutines may call its methods at once if they work on different
// parts: the log, the snapshots, the epoch files. CutTail, Truncate and Purge do their
// own locking; their comments say what may run at the same time.
type Dir struct {
	fs      vfs.FS
	o       Options
	snapDir string // DataDir/version-2
	logDir  string // DataLogDir/version-2
	locks   []io.Closer

	// end is the end of the log file that is being written; nil if there is none.
	end atomic.Pointer[openEnd]
	// broken is the last zxid before the newest place in the log that a RangeReader
	// could not read past, or that Install has left a gap after.
	broken atomic.Int64
	// mark says up to which zxid the log is durable.
	mark syncedMark
	// missed tells the log that there was no file of its name.
	missed atomic.Bool
	// removal is held while snapshots and logs are removed. The code that removes
	// them decides by what exists, which must not change until it is done. The
	// owner of the log may wait here for a purge.
	removal sync.Mutex
}

// MaxSnapshotCandidates is how many of the newest snapshots a server tries to load
// before it gives up.
const MaxSnapshotCandidates = 100

// Open opens the directories, creates them if AutoCreate is set, locks them, and
// removes temporary files that a crash has left.
//
// It returns an error that wraps vfs.ErrLocked if another process has locked them, and
// fs.ErrNotExist if a directory is missing and AutoCreate is not set. If DataDir and
// DataLogDir differ, it refuses a log in the directory of snapshots and a snapshot in
// the directory of logs: the two were exchanged, or one of them was moved.
func Open(fsys vfs.FS, o Options) (*Dir, error) {
	d := newDir(fsys, o)
	if err := d.open(); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

func newDir(fsys vfs.FS, o Options) *Dir {
	if o.DataLogDir == "" {
		o.DataLogDir = o.DataDir
	}
	o.Log = o.Log.withDefaults()
	return &Dir{
		fs: fsys, o: o,
		snapDir: path.Join(o.DataDir, versionDir),
		logDir:  path.Join(o.DataLogDir, versionDir),
	}
}

func (d *Dir) open() error {
	dirs := []string{d.snapDir}
	if d.logDir != d.snapDir {
		dirs = append(dirs, d.logDir)
	}
	for _, dir := range dirs {
		if err := d.makeDir(dir); err != nil {
			return err
		}
		lock, err := d.fs.Lock(path.Join(path.Dir(dir), lockName))
		if err != nil {
			return fmt.Errorf("storage: lock %s: %w", path.Dir(dir), err)
		}
		d.locks = append(d.locks, lock)
	}
	for _, dir := range dirs {
		if err := d.clean(dir); err != nil {
			return err
		}
	}
	return nil
}

// makeDir creates a version-2 directory if it is missing and AutoCreate is set.
func (d *Dir) makeDir(dir string) error {
	_, err := d.fs.List(dir)
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("storage: open %s: %w", dir, err)
	case !d.o.AutoCreate:
		return fmt.Errorf("storage: %s is missing and datadir.autocreate is off: %w", dir, err)
	}
	if err := d.fs.MkdirAll(dir); err != nil {
		return fmt.Errorf("storage: create %s: %w", dir, err)
	}
	return nil
}

// clean removes unfinished files, and refuses a directory that has files of the other
// one.
func (d *Dir) clean(dir string) error {
	names, err := d.fs.List(dir)
	if err != nil {
		return fmt.Errorf("storage: list %s: %w", dir, err)
	}
	for _, name := range names {
		switch {
		case strings.HasPrefix(name, tmpPrefix+logPrefix), strings.HasPrefix(name, tmpPrefix+snapshotPrefix):
			if err := d.fs.Remove(path.Join(dir, name)); err != nil {
				return fmt.Errorf("storage: remove an unfinished file: %w", err)
			}
		case d.logDir == d.snapDir:
		case dir == d.snapDir && strings.HasPrefix(name, logPrefix):
			return fmt.Errorf("storage: %s is for snapshots but has the log file %s", dir, name)
		case dir == d.logDir && strings.HasPrefix(name, snapshotPrefix):
			return fmt.Errorf("storage: %s is for logs but has the snapshot %s", dir, name)
		}
	}
	return nil
}

// Room returns how much can still be written, and how much in all, of the file system of
// the log or that of the snapshots: the one with less room.
func (d *Dir) Room() (free, all int64, err error) {
	free, all, err = d.fs.Room(d.logDir)
	if err != nil || d.snapDir == d.logDir {
		return free, all, err
	}
	other, allOther, err := d.fs.Room(d.snapDir)
	if other < free {
		free, all = other, allOther
	}
	return free, all, err
}

// Close releases the locks. The caller closes logs, snapshots and readers first.
func (d *Dir) Close() error {
	errs := []error{d.mark.close()}
	for _, l := range d.locks {
		errs = append(errs, l.Close())
	}
	d.locks = nil
	return errors.Join(errs...)
}

// Snapshots returns the snapshot files, newest first, at most MaxSnapshotCandidates.
// They need not be valid: OpenSnapshot and the seals check that.
func (d *Dir) Snapshots() ([]Snapshot, error) {
	snaps, err := listSnapshots(d.fs, d.snapDir)
	return snaps[:min(len(snaps), MaxSnapshotCandidates)], err
}

// OpenSnapshot opens one of Snapshots. A file that cannot be a complete snapshot is an
// *Error of ErrCorrupt; the caller should then try the next older one.
func (d *Dir) OpenSnapshot(s Snapshot) (*SnapshotReader, error) {
	return openSnapshot(d.fs, d.snapDir, s)
}

// CreateSnapshot starts to write a snapshot of the state at zxid.
func (d *Dir) CreateSnapshot(zxid zk.Zxid) (*SnapshotWriter, error) {
	return d.createSnapshot(zxid, d.o.Compression)
}

// MaxEntryBytes returns the length of the longest payload that the log accepts.
func (d *Dir) MaxEntryBytes() int { return d.o.Log.MaxEntryBytes }

// HasLog reports whether there is any log file, even one without a transaction.
func (d *Dir) HasLog() (bool, error) {
	logs, err := listLogs(d.fs, d.logDir)
	return len(logs) > 0, err
}

// ReadLog reads the transactions after a zxid; see LogReader. No entry may be appended
// meanwhile, or the reader may report a torn write. At the end of the log the reader
// returns an *Error of ErrCorrupt if transactions are missing that the log had synced.
func (d *Dir) ReadLog(after zk.Zxid) (*LogReader, error) {
	logs, err := listLogs(d.fs, d.logDir)
	if err != nil {
		return nil, err
	}
	synced, known, err := d.syncedZxid()
	if err != nil {
		return nil, err
	}
	r := d.newLogReader(filesAfter(logs, after), after)
	r.foreign = !known
	if known {
		r.synced = synced
	}
	return r, nil
}

// ReadLogFrom is ReadLog, but does not read the file with the transaction after up to the end of that, if the caller knows
// that the entry of after ends at a byte of that file. If the file does not have the payload there, ok is false.
func (d *Dir) ReadLogFrom(after zk.Zxid, payload []byte, end int64) (r *LogReader, ok bool, err error) {
	r, err = d.ReadLog(after)
	if err != nil || len(r.files) == 0 || end < headerBytes+int64(len(payload))+frameBytes {
		return nil, false, err
	}
	f, err := d.fs.Open(path.Join(d.logDir, r.files[0].name))
	if err != nil {
		return nil, false, fmt.Errorf("storage: open log: %w", err)
	}
	want := AppendEntry(nil, payload)
	have := make([]byte, len(want))
	_, err = f.ReadAt(have, end-int64(len(want)))
	ok = err == nil && bytes.Equal(have, want)
	if err == io.EOF {
		err = nil
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, false, fmt.Errorf("storage: read log: %w", err)
	}
	r.start = end
	return r, ok, nil
}

// NewLog returns a log that continues in a new file. Its first transaction has to
// follow last; 0 allows any. The caller calls CutTail before the first Flush, and
// closes any other open log before.
//
// last is the zxid at the end of this server's history: that of the last transaction in
// the log, or of a newer snapshot (one from a leader). If the first transaction belongs
// to a newer epoch, the file's header says that it follows last, and the next reader
// checks that.
func (d *Dir) NewLog(last zk.Zxid) *Log { return d.newLog(last) }

// CutTail removes what a reader has found after the last entry: a torn write, or zeros.
// It removes a file without entries. When it returns, this and the log before it are
// durable: if only the process was killed, the reader may have read bytes that were
// never synced.
func (d *Dir) CutTail(t Tail) error {
	if t.Name == "" {
		return nil
	}
	if t.Bytes == 0 {
		if err := d.fs.Remove(t.Name); err != nil {
			return fmt.Errorf("storage: remove a log without transactions: %w", err)
		}
		return d.syncDir(d.logDir)
	}
	return d.cutFile(t.Name, t.Bytes)
}

// cutFile truncates a file, durably.
func (d *Dir) cutFile(name string, bytes int64) error {
	f, err := d.fs.OpenReadWrite(name)
	if err != nil {
		return fmt.Errorf("storage: cut log: %w", err)
	}
	err = f.Truncate(bytes)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("storage: cut log %s at %d: %w", name, bytes, err)
	}
	return d.syncDir(d.logDir)
}

func (d *Dir) syncDir(dir string) error {
	if err := d.fs.SyncDir(dir); err != nil {
		return fmt.Errorf("storage: sync %s: %w", dir, err)
	}
	return nil
}
