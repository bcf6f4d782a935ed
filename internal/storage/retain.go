package storage

import (
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/pinfold-zk/pinfold/zk"
)

// MinRetainedSnapshots is the smallest number of snapshots that Purge keeps.
const MinRetainedSnapshots = 3

// Purge removes what the newest retain valid snapshots make unnecessary: older
// snapshots, valid or not, and logs whose transactions are all in the oldest snapshot
// kept. retain is raised to MinRetainedSnapshots; with fewer valid snapshots nothing is
// removed. Purge may run while the server writes; Truncate, Retire and Install wait for
// it, and it waits for them. It returns the names of the files that it removed.
//
// A snapshot counts as valid if OpenSnapshot accepts it.
func (d *Dir) Purge(retain int) (removed []string, err error) {
	d.removal.Lock()
	defer d.removal.Unlock()
	snaps, err := listSnapshots(d.fs, d.snapDir)
	if err != nil {
		return nil, err
	}
	oldest, kept, err := d.oldestToKeep(snaps, max(retain, MinRetainedSnapshots))
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
	logs, err := listLogs(d.fs, d.logDir)
	if err != nil {
		return removed, err
	}
	// The first zxid of the next file shows how far a log goes.
	for i := 0; i+1 < len(logs) && logs[i+1].zxid <= oldest+1; i++ {
		if err := d.fs.Remove(path.Join(d.logDir, logs[i].name)); err != nil {
			return removed, fmt.Errorf("storage: purge: %w", err)
		}
		removed = append(removed, logs[i].name)
	}
	return removed, errors.Join(d.syncDir(d.snapDir), d.syncDir(d.logDir))
}

// oldestToKeep returns the zxid of the n-th newest valid snapshot.
func (d *Dir) oldestToKeep(snaps []Snapshot, n int) (zxid zk.Zxid, ok bool, err error) {
	for _, s := range snaps {
		valid, err := d.valid(s)
		if err != nil {
			return 0, false, err
		}
		if valid {
			n--
		}
		if n == 0 {
			return s.Zxid, true, nil
		}
	}
	return 0, false, nil
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
