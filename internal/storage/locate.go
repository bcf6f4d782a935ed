package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"path"

	"github.com/pinfold-zk/pinfold/zk"
)

// Location is the place of a learner's zxid in this server's history. The leader uses
// it to choose between a part of the log and a snapshot (protocol page, section 14.3).
// The zero value is the Location in a server without log and snapshot.
type Location struct {
	Present bool    // the log holds the zxid itself
	Before  zk.Zxid // the greatest zxid at or before it that the log holds, 0 if none
	After   zk.Zxid // the next zxid in the log, 0 if none
	// LogBytes is the length of the log after Before, or of the complete log if
	// Before is 0. It counts written bytes, not reserved ones.
	LogBytes int64
	// SnapshotBytes is the length of the newest valid snapshot, 0 if none.
	SnapshotBytes int64
}

// locateTries is how often Locate starts again after a file has vanished.
const locateTries = 3

// Locate finds the place of a learner's zxid in the log. It reads the one file that can
// hold it, up to that place, so it may take as long as reading that.
//
// It may run at the same time as the log's owner and Purge, but not with Truncate,
// Retire or Install. An entry that is appended meanwhile may or may not count; only
// durable entries count. Damage before the place is an *Error of ErrCorrupt or ErrGap;
// other errors come from the file system.
//
// If a RangeReader has met damage, a gap, or an error of the disk, or Install has left a gap,
// Locate treats the log as if it began after that place. Otherwise a leader would try the same
// part of the log again and again.
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
	if p.before <= zk.Zxid(d.broken.Load()) {
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
