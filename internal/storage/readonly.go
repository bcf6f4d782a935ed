package storage

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/zk"
)

// OpenReadOnly opens a directory to be inspected or copied: it takes no lock, and creates
// and removes nothing. Only the methods that read may be called, and Purge. A server may be using the
// directory; then the end of the log may look like an interrupted write, and files may be
// removed.
func OpenReadOnly(fsys vfs.FS, o Options) (*Dir, error) {
	d := newDir(fsys, o)
	for _, dir := range []string{d.snapDir, d.logDir} {
		if _, err := fsys.List(dir); err != nil {
			return nil, fmt.Errorf("storage: open %s: %w", dir, err)
		}
	}
	return d, nil
}

// InUse reports whether a server has the directory open, by its lock. It creates nothing. Apache's servers take no lock,
// and a lock that may not be asked for counts as free.
func (d *Dir) InUse() bool {
	for _, dir := range []string{d.snapDir, d.logDir} {
		names, err := d.fs.List(path.Dir(dir))
		if err != nil || !slices.Contains(names, lockName) {
			continue
		}
		lock, err := d.fs.Lock(path.Join(path.Dir(dir), lockName))
		if errors.Is(err, vfs.ErrLocked) {
			return true
		}
		if err == nil {
			_ = lock.Close() // nothing was written
		}
	}
	return false
}

// A LogFile is a file of the log.
type LogFile struct {
	Name string  // with its directory
	Zxid zk.Zxid // of its first transaction
}

// Logs returns the files of the log, oldest first.
func (d *Dir) Logs() ([]LogFile, error) {
	logs, err := listLogs(d.fs, d.logDir)
	files := make([]LogFile, 0, len(logs))
	for _, l := range logs {
		files = append(files, LogFile{path.Join(d.logDir, l.name), l.zxid})
	}
	return files, err
}

// Epochs returns the content of the epoch files as it is. A missing file counts as the
// epoch of last, the end of the history.
func (d *Dir) Epochs(last zk.Zxid) (accepted, current uint32, err error) {
	if current, err = d.readEpoch(currentEpochName, last.Epoch()); err != nil {
		return 0, 0, err
	}
	accepted, err = d.readEpoch(acceptedEpochName, last.Epoch())
	return accepted, current, err
}

// Synced returns up to where the log was durable, 0 if that is not known.
func (d *Dir) Synced() (zk.Zxid, error) {
	z, _, err := d.syncedZxid()
	return z, err
}

// OpenSnapshotFile opens a snapshot file by its name. If that is not the name of a
// snapshot, its end tells the compression, and the zxid is 0.
func OpenSnapshotFile(fsys vfs.FS, name string) (*SnapshotReader, Snapshot, error) {
	dir, base := path.Split(name)
	s, ok := parseSnapshotName(base)
	if !ok {
		s = Snapshot{Name: base}
		for _, c := range []Compression{Gzip, Snappy} {
			if strings.HasSuffix(base, c.suffix()) {
				s.Compression = c
			}
		}
	}
	r, err := openSnapshot(fsys, dir, s)
	return r, s, err
}

// ParseSnapshotName reads the name of a snapshot's file, without a directory.
func ParseSnapshotName(name string) (s Snapshot, ok bool) { return parseSnapshotName(name) }

// ParseLogName reads the name of a log file, without a directory.
func ParseLogName(name string) (first zk.Zxid, ok bool) {
	hex, ok := strings.CutPrefix(name, logPrefix)
	if !ok {
		return 0, false
	}
	return parseHex(hex)
}
