package storage

import (
	"errors"
	"fmt"
	"io"
	"path"

	"github.com/pinfold-zk/pinfold/zk"
)

// Truncate makes zxid the last transaction. It durably removes all later transactions
// from the log and all later snapshots, so that the next read of the directory gives
// the state at zxid. No log or snapshot may be open.
//
// It changes nothing and returns ErrNoZxid if the directory cannot give that state:
// there is no valid snapshot of zxid, and either the log does not hold zxid or no valid
// snapshot is at or before it. A crash in between leaves a history that ends at zxid or
// later, without a gap.
func (d *Dir) Truncate(zxid zk.Zxid) error {
	d.removal.Lock()
	defer d.removal.Unlock()
	snaps, err := listSnapshots(d.fs, d.snapDir)
	if err != nil {
		return err
	}
	base, ok, err := d.newestValid(snaps, zxid)
	if err != nil {
		return err
	}
	if !ok {
		return fmt.Errorf("storage: truncate to %v: no valid snapshot at or before it: %w", zxid, ErrNoZxid)
	}
	logs, err := listLogs(d.fs, d.logDir)
	if err != nil {
		return err
	}
	p, err := d.findCut(logs, zxid)
	if err != nil {
		return err
	}
	if p.before != zxid && base.Zxid != zxid {
		return fmt.Errorf("storage: truncate to %v: %w", zxid, ErrNoZxid)
	}
	if err := d.drop(snaps, logs, zxid, zxid, p); err != nil {
		return fmt.Errorf("storage: truncate to %v: %w", zxid, err)
	}
	return nil
}

// Retire makes the history end at the greatest zxid that is not above upto, whether or
// not upto is part of it: it durably removes all later transactions from the log and
// all later snapshots. No log or snapshot may be open. It is the first half of
// SnapshotWriter.Install, which is what most callers need.
//
// A crash in between leaves a history that ends there or later, without a gap; if no
// snapshot is as old as upto, it may leave no history at all. Retire changes nothing if
// it meets damage before that place, which is an *Error.
func (d *Dir) Retire(upto zk.Zxid) error {
	d.removal.Lock()
	defer d.removal.Unlock()
	snaps, logs, p, err := d.survey(upto)
	if err == nil {
		err = d.drop(snaps, logs, upto, p.before, p)
	}
	if err != nil {
		return fmt.Errorf("storage: retire what is after %v: %w", upto, err)
	}
	return nil
}

// install publishes a snapshot of zxid and removes everything later than zxid, in an
// order in which the directory never shows one history with the state of the other. The
// later part is removed first if some history remains without it. Otherwise the
// snapshot is published first: it is ignored as long as there is a later one.
//
// REQUIRES: d.removal.
func (d *Dir) install(zxid zk.Zxid, publish func() error) error {
	snaps, logs, p, err := d.survey(zxid)
	if err != nil {
		return err
	}
	newest, some, err := d.newestValid(snaps, maxZxid)
	if err != nil {
		return err
	}
	_, base, err := d.newestValid(snaps, zxid)
	if err != nil {
		return err
	}
	first, second := func() error { return d.drop(snaps, logs, zxid, p.before, p) }, publish
	if some && newest.Zxid > zxid && !base {
		first, second = second, first
	}
	if err := first(); err != nil {
		return err
	}
	if err := second(); err != nil {
		return err
	}
	if p.before != zxid {
		d.broken.Store(int64(p.before)) // what leads from there to the snapshot is in no log
	}
	return nil
}

// drop removes everything later than zxid, whose place in the log is p. Each of its
// steps leaves a history that can be read. It removes snapshots from the newest on,
// each before the log that leads up to it and on from it, because a fuzzy snapshot
// needs that log. For two kinds of snapshot it first removes the log after them: a
// snapshot whose zxid the log does not hold (it came from a leader), because without
// the snapshot there would be a gap; and the last valid snapshot.
//
// stays is where the history ends that stays, as far as it is known to be durable: the mark goes on promising it.
func (d *Dir) drop(snaps []Snapshot, logs []numbered, zxid, stays zk.Zxid, p place) error {
	if err := d.lowerMark(stays); err != nil {
		return err
	}
	for i, s := range snaps {
		if s.Zxid <= zxid {
			break
		}
		end, needed, err := d.logBehind(snaps[i:], logs, p)
		if err == nil && !needed {
			logs, err = d.cutLog(logs, end)
		}
		if err == nil {
			err = d.fs.Remove(path.Join(d.snapDir, s.Name))
		}
		if err == nil {
			err = d.syncDir(d.snapDir)
		}
		if err != nil {
			return err
		}
	}
	d.broken.Store(0)
	_, err := d.cutLog(logs, p)
	return err
}

// logBehind decides what to do with the log after the first of snaps, before that
// snapshot is removed. needed: the log also continues from an older valid snapshot, so
// it must stay. Otherwise end is where to cut it first: right after the first of snaps
// if an older one is valid, else at the final place.
func (d *Dir) logBehind(snaps []Snapshot, logs []numbered, final place) (end place, needed bool, err error) {
	_, older, err := d.newestValid(snaps[1:], maxZxid)
	if err != nil || !older {
		return final, false, err
	}
	end, err = d.findPlace(logs, snaps[0].Zxid)
	if errors.Is(err, ErrCorrupt) || errors.Is(err, ErrGap) {
		return end, false, nil
	}
	return end, end.before == snaps[0].Zxid, err
}

// maxZxid is the greatest that a file name can have.
const maxZxid zk.Zxid = 1<<63 - 1

// survey lists the files and finds the place of upto in the log.
func (d *Dir) survey(upto zk.Zxid) (snaps []Snapshot, logs []numbered, p place, err error) {
	if snaps, err = listSnapshots(d.fs, d.snapDir); err != nil {
		return nil, nil, place{}, err
	}
	if logs, err = listLogs(d.fs, d.logDir); err != nil {
		return nil, nil, place{}, err
	}
	p, err = d.findCut(logs, upto)
	return snaps, logs, p, err
}

// findCut is findPlace for a caller that does not care about damage or a gap right
// after the place.
func (d *Dir) findCut(logs []numbered, zxid zk.Zxid) (place, error) {
	p, err := d.findPlace(logs, zxid)
	if p.before == zxid && (errors.Is(err, ErrCorrupt) || errors.Is(err, ErrGap)) {
		err = nil
	}
	return p, err
}

// newestValid returns the newest valid snapshot of snaps, which is sorted, that is not
// later than a zxid.
func (d *Dir) newestValid(snaps []Snapshot, zxid zk.Zxid) (s Snapshot, ok bool, err error) {
	for _, s := range snaps {
		if s.Zxid > zxid {
			continue
		}
		if valid, err := d.valid(s); err != nil || valid {
			return s, valid, err
		}
	}
	return Snapshot{}, false, nil
}

// cutLog durably makes the log end at a place: it removes the later files, newest
// first, and then cuts the file of the place. It returns the remaining files.
func (d *Dir) cutLog(logs []numbered, p place) ([]numbered, error) {
	keep := p.file + 1
	if keep > 0 && p.before == 0 {
		keep-- // a file without a transaction
	}
	for i := len(logs) - 1; i >= keep; i-- {
		if err := d.fs.Remove(path.Join(d.logDir, logs[i].name)); err != nil {
			return nil, err
		}
		// One by one: a crash must not leave a gap.
		if err := d.syncDir(d.logDir); err != nil {
			return nil, err
		}
	}
	if keep == p.file+1 && p.file >= 0 {
		if err := d.cutFile(path.Join(d.logDir, logs[p.file].name), p.end); err != nil {
			return nil, err
		}
	}
	return logs[:min(keep, len(logs))], nil
}

// place is the place of a zxid in a log.
type place struct {
	file   int     // index of the newest file that begins at or before the zxid; -1 if there is none
	before zk.Zxid // the greatest zxid in that file that is not above it; 0 if there is none
	end    int64   // end of the entry of before, in that file
	after  zk.Zxid // the next zxid in the log; 0 if there is none
}

// findPlace finds the place of a zxid. It reads one file, up to the zxid. A log that is
// being written is seen as it was at some moment since logs was listed. With an error
// of the file it returns the place that it has reached.
func (d *Dir) findPlace(logs []numbered, zxid zk.Zxid) (p place, err error) {
	p.file = -1
	for i, l := range logs {
		if l.zxid <= zxid {
			p.file = i
		}
	}
	if next := p.file + 1; next < len(logs) {
		p.after = logs[next].zxid
	}
	if p.file < 0 {
		return p, nil
	}
	r := d.newLogReader(logs[p.file:p.file+1], 0)
	r.live, r.alone, r.more = true, true, p.file+1 < len(logs)
	defer func() { err = errors.Join(err, r.Close()) }()
	for {
		_, err = r.Next()
		p.end = r.win.off
		switch {
		case err == io.EOF:
			return p, nil
		case err != nil:
			return p, err
		case r.LastZxid() > zxid:
			p.after = r.LastZxid()
			return p, nil
		}
		p.before = r.LastZxid()
	}
}
