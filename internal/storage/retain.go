package storage

import (
	"errors"
	"fmt"
	"io"
	"path"
	"slices"

	"github.com/pinfold-zk/pinfold/zk"
)

// MinRetainedSnapshots is the least that Purge keeps.
const MinRetainedSnapshots = 3

// Purge removes what the newest retain valid snapshots make superfluous: older
// snapshots, valid or not, and logs all of whose transactions are in the oldest
// snapshot kept. retain is raised to MinRetainedSnapshots; with fewer valid
// snapshots nothing is removed. It may run while the server writes. It returns
// the names of the files that it removed.
//
// A snapshot counts as valid if OpenSnapshot takes it.
func (d *Dir) Purge(retain int) (removed []string, err error) {
	snaps, err := listSnapshots(d.fs, d.snapDir)
	if err != nil {
		return nil, err
	}
	oldest, kept, err := d.oldestToKeep(snaps, max(retain, MinRetainedSnapshots))
	if err != nil || !kept {
		return nil, err
	}
	// Snapshots go first, oldest first: none is ever left without its log.
	for _, s := range slices.Backward(snaps) {
		if s.Zxid < oldest {
			if err := d.remove(d.snapDir, s.Name, &removed); err != nil {
				return removed, err
			}
		}
	}
	logs, err := listLogs(d.fs, d.logDir)
	if err != nil {
		return removed, err
	}
	// The next file's first zxid tells how far a log goes.
	for i := 0; i+1 < len(logs) && logs[i+1].zxid <= oldest+1; i++ {
		if err := d.remove(d.logDir, logs[i].name, &removed); err != nil {
			return removed, err
		}
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

// valid reports whether a snapshot opens; other failures than damage are errors.
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

func (d *Dir) remove(dir, name string, removed *[]string) error {
	if err := d.fs.Remove(path.Join(dir, name)); err != nil {
		return fmt.Errorf("storage: purge: %w", err)
	}
	*removed = append(*removed, name)
	return nil
}

// Truncate makes zxid the last transaction: it removes all later ones from the
// log and all later snapshots, durably, so that reading the directory again
// gives the state at zxid. No log or snapshot may be open.
//
// It changes nothing and returns ErrNoZxid if that state cannot be had: the log
// does not hold zxid itself, or there is no valid snapshot at or before it. A
// crash in between leaves a history that ends at zxid or later, without a gap.
func (d *Dir) Truncate(zxid zk.Zxid) error {
	snaps, err := listSnapshots(d.fs, d.snapDir)
	if err != nil {
		return err
	}
	if err := d.checkBase(snaps, zxid); err != nil {
		return err
	}
	logs, err := listLogs(d.fs, d.logDir)
	if err != nil {
		return err
	}
	name, end, err := d.find(zxid)
	if err != nil {
		return err
	}
	// Newest first, and snapshots before the log that leads up to them.
	var removed []string
	for _, s := range snaps {
		if s.Zxid > zxid {
			if err := d.remove(d.snapDir, s.Name, &removed); err != nil {
				return err
			}
		}
	}
	if err := d.syncDir(d.snapDir); err != nil {
		return err
	}
	for _, l := range slices.Backward(logs) {
		if l.zxid > zxid {
			if err := d.remove(d.logDir, l.name, &removed); err != nil {
				return err
			}
			// One by one: a gap may not survive.
			if err := d.syncDir(d.logDir); err != nil {
				return err
			}
		}
	}
	return d.cutFile(name, end)
}

// checkBase makes sure that the state at zxid can be built.
func (d *Dir) checkBase(snaps []Snapshot, zxid zk.Zxid) error {
	for _, s := range snaps {
		if s.Zxid > zxid {
			continue
		}
		if valid, err := d.valid(s); err != nil || valid {
			return err
		}
	}
	return fmt.Errorf("storage: truncate to %v: no valid snapshot at or before it: %w", zxid, ErrNoZxid)
}

// find returns the file that holds zxid and where its entry ends.
func (d *Dir) find(zxid zk.Zxid) (name string, end int64, err error) {
	r, err := d.ReadLog(zxid - 1)
	if err != nil {
		return "", 0, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if _, err := r.Next(); err != nil && err != io.EOF && !errors.Is(err, ErrGap) {
		return "", 0, err
	}
	if r.LastZxid() != zxid || r.file == nil {
		return "", 0, fmt.Errorf("storage: truncate to %v: %w", zxid, ErrNoZxid)
	}
	return r.name, r.win.off + int64(r.advance), nil
}
