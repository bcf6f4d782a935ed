package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"path"

	"github.com/pinfold-zk/pinfold/zk"
)

// Location is where in a server's history the zxid of a learner belongs: what its
// leader needs to know to choose between a part of the log and a snapshot
// (protocol page, section 14.3). The zero value is that of a server without log
// and snapshot.
type Location struct {
	Present bool    // the log holds the zxid itself
	Before  zk.Zxid // the greatest zxid at or before it that the log holds, 0 if none
	After   zk.Zxid // the next zxid in the log, 0 if none
	// LogBytes is how much of the log lies behind Before, or the length of all of it
	// if that is 0. It counts what is written, not what is reserved.
	LogBytes int64
	// SnapshotBytes is the length of the newest valid snapshot, 0 if none.
	SnapshotBytes int64
}

// locateTries is how often Locate starts again because a file has vanished.
const locateTries = 3

// Locate looks the zxid of a learner up in the log. It reads the one file that
// can hold it, up to there, so it may take as long as reading that.
//
// It may run beside the log's owner and Purge, not beside Truncate, Retire and
// Install. What is appended meanwhile may or may not count, only what is durable
// does. Damage before the place is an *Error of ErrCorrupt or ErrGap; the other
// errors are the file system's.
//
// Where a RangeReader has met damage or a gap, the log is taken to begin behind
// it: else a leader would try the same part of it again and again.
func (d *Dir) Locate(peer zk.Zxid) (loc Location, err error) {
	for range locateTries {
		loc, err = d.locate(peer)
		if !errors.Is(err, fs.ErrNotExist) {
			break // not a purge
		}
	}
	if err != nil {
		return Location{}, fmt.Errorf("storage: locate %v: %w", peer, err)
	}
	return loc, nil
}

func (d *Dir) locate(peer zk.Zxid) (Location, error) {
	logs, err := listLogs(d.fs, d.logDir)
	if err != nil {
		return Location{}, err
	}
	p, err := d.findPlace(logs, peer)
	if err != nil {
		return Location{}, err
	}
	if peer <= zk.Zxid(d.broken.Load()) {
		p.before, p.end = 0, 0
	}
	loc := Location{Present: p.before == peer && peer != 0, Before: p.before, After: p.after}
	for i := max(p.file, 0); i < len(logs); i++ {
		size, err := d.logBytes(path.Join(d.logDir, logs[i].name))
		if err != nil {
			return Location{}, err
		}
		loc.LogBytes += size
	}
	loc.LogBytes -= p.end
	snaps, err := listSnapshots(d.fs, d.snapDir)
	if err != nil {
		return Location{}, err
	}
	s, ok, err := d.newestValid(snaps, maxZxid)
	if err != nil || !ok {
		return loc, err
	}
	loc.SnapshotBytes, err = d.fs.Size(path.Join(d.snapDir, s.Name))
	return loc, err
}

// logBytes returns how far a log file is written.
func (d *Dir) logBytes(name string) (int64, error) {
	if end, open := d.openEnd(name); open {
		return end, nil
	}
	return d.fs.Size(name)
}
