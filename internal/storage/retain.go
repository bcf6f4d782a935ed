package storage

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/pinfold-zk/pinfold/zk"
)

// MinRetainedSnapshots is the smallest number of snapshots that Purge keeps.
const MinRetainedSnapshots = 3

// Retention says which snapshots Purge keeps. It never keeps fewer than
// MinRetainedSnapshots, and never fewer than all if there are no more valid ones.
type Retention struct {
	Snapshots int       // at most this many
	NotBefore time.Time // none that was written before; zero: whatever its age
	Bytes     int64     // as many as fit, with their logs; 0: whatever their size
}

// Purge removes what the snapshots that are kept make unnecessary: older snapshots, valid or
// not, and logs whose transactions are all in the oldest snapshot kept. Purge may run while
// the server writes; Truncate, Retire and Install wait for it, and it waits for them. It
// returns the names of the files that it removed.
//
// A snapshot counts as valid if OpenSnapshot accepts it.
func (d *Dir) Purge(keep Retention) (removed []string, err error) {
	d.removal.Lock()
	defer d.removal.Unlock()
	snaps, err := listSnapshots(d.fs, d.snapDir)
	if err != nil {
		return nil, err
	}
	logs, err := listLogs(d.fs, d.logDir)
	if err != nil {
		return nil, err
	}
	oldest, kept, err := d.oldestToKeep(snaps, logs, keep)
	if err != nil || !kept {
		return nil, err
	}
	// Snapshots go first, oldest first: a remaining snapshot always has the log
	// after it.
	for _, s := range slices.Backward(snaps) {
		if s.Zxid < oldest {
			if err := d.fs.Remove(path.Join(d.snapDir, s.Name)); err != nil {
				return removed, fmt.Errorf("storage: purge: %w", err)
			}
			removed = append(removed, s.Name)
		}
	}
	for _, l := range logs[:before(logs, oldest)] {
		if err := d.fs.Remove(path.Join(d.logDir, l.name)); err != nil {
			return removed, fmt.Errorf("storage: purge: %w", err)
		}
		removed = append(removed, l.name)
	}
	return removed, errors.Join(d.syncDir(d.snapDir), d.syncDir(d.logDir))
}

// before returns how many logs have no transaction after zxid: the first zxid of the next
// file shows how far a log goes.
func before(logs []numbered, zxid zk.Zxid) (n int) {
	for n+1 < len(logs) && logs[n+1].zxid <= zxid+1 {
		n++
	}
	return n
}

// oldestToKeep returns the zxid of the oldest valid snapshot that is kept. It is not kept if
// there are too few to remove any.
func (d *Dir) oldestToKeep(snaps []Snapshot, logs []numbered, keep Retention) (zxid zk.Zxid, kept bool, err error) {
	n, bytes := 0, int64(0) // valid snapshots that are kept, and the bytes of all kept ones
	for _, s := range snaps {
		valid, err := d.valid(s)
		if err != nil {
			return 0, false, err
		}
		written, err := d.fs.ModTime(path.Join(d.snapDir, s.Name))
		if err != nil {
			return 0, false, fmt.Errorf("storage: purge: %w", err)
		}
		size, err := d.fs.Size(path.Join(d.snapDir, s.Name))
		if err != nil {
			return 0, false, fmt.Errorf("storage: purge: %w", err)
		}
		bytes += size
		if !valid {
			continue
		}
		logBytes, err := d.bytesOf(logs[before(logs, s.Zxid):])
		if err != nil {
			return 0, false, err
		}
		tooMany := n >= max(keep.Snapshots, MinRetainedSnapshots)
		tooOld := !written.IsZero() && written.Before(keep.NotBefore)
		tooLarge := keep.Bytes > 0 && bytes+logBytes > keep.Bytes
		if n >= MinRetainedSnapshots && (tooMany || tooOld || tooLarge) {
			return zxid, true, nil
		}
		n++
		zxid = s.Zxid
	}
	return zxid, n >= MinRetainedSnapshots && n >= keep.Snapshots, nil
}

// bytesOf sums up the lengths of logs.
func (d *Dir) bytesOf(logs []numbered) (bytes int64, err error) {
	for _, l := range logs {
		n, err := d.logBytes(path.Join(d.logDir, l.name))
		if err != nil {
			return 0, fmt.Errorf("storage: purge: %w", err)
		}
		bytes += n
	}
	return bytes, nil
}

// valid reports whether a snapshot opens. Failures other than damage are errors.
func (d *Dir) valid(s Snapshot) (bool, error) {
	r, err := d.OpenSnapshot(s)
	if errors.Is(err, ErrCorrupt) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, r.Close()
}
