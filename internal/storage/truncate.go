package storage

import (
	"errors"
	"fmt"
	"io"
	"path"

	"github.com/pinfold-zk/pinfold/zk"
)

// Truncate makes zxid the last transaction: it removes all later ones from the
// log and all later snapshots, durably, so that reading the directory again
// gives the state at zxid. No log or snapshot may be open.
//
// It changes nothing and returns ErrNoZxid if that state cannot be had: neither
// does the log hold zxid itself, with a valid snapshot at or before it, nor is
// there a valid snapshot of zxid. A crash in between leaves a history that ends
// at zxid or later, without a gap.
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
	if err := d.drop(snaps, logs, zxid, p); err != nil {
		return fmt.Errorf("storage: truncate to %v: %w", zxid, err)
	}
	return nil
}

// Retire makes the history end at the greatest zxid that is not above upto,
// whether or not upto is in it: it removes all later transactions from the log
// and all later snapshots, durably. No log or snapshot may be open. It is the
// first half of SnapshotWriter.Install, which most callers want.
//
// A crash in between leaves a history that ends there or later, without a gap;
// only where no snapshot is as old as upto it may leave none at all. It changes
// nothing if it meets damage before that place, which is an *Error.
func (d *Dir) Retire(upto zk.Zxid) error {
	d.removal.Lock()
	defer d.removal.Unlock()
	snaps, logs, p, err := d.survey(upto)
	if err == nil {
		err = d.drop(snaps, logs, upto, p)
	}
	if err != nil {
		return fmt.Errorf("storage: retire what is after %v: %w", upto, err)
	}
	return nil
}

// install publishes a snapshot of zxid and makes what this server has after zxid
// vanish, so that no moment shows the one with the other. What is later goes
// first, if something is left without it. Else the snapshot is published first:
// it does not count as long as there is a later one.
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
	if some && newest.Zxid > zxid && !base {
		if err := publish(); err != nil {
			return err
		}
		return d.drop(snaps, logs, zxid, p)
	}
	if err := d.drop(snaps, logs, zxid, p); err != nil {
		return err
	}
	return publish()
}

// drop removes what is later than zxid, whose place in the log is p, so that each
// of its steps leaves a history that can be read: snapshots from the newest on,
// each before the log that leads up to it and on from it, for it may be fuzzy and
// need that. Two kinds of snapshot are an exception, and lose the log behind them
// first: one that the log does not hold, as it came from a leader, since without
// it there would be a gap; and the last one that is valid.
func (d *Dir) drop(snaps []Snapshot, logs []numbered, zxid zk.Zxid, p place) error {
	if err := d.lowerMark(); err != nil {
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

// logBehind says whether the log behind the first of snaps leads on from the
// others, too, so that it is needed when that one goes; and if not, where to cut
// it before: if others are valid, behind that snapshot, else at the final place.
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

// survey lists what there is and finds the place in the log behind upto.
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

// findCut is findPlace where what is right behind the place does not matter, be
// it damaged.
func (d *Dir) findCut(logs []numbered, zxid zk.Zxid) (place, error) {
	p, err := d.findPlace(logs, zxid)
	if p.before == zxid && (errors.Is(err, ErrCorrupt) || errors.Is(err, ErrGap)) {
		err = nil
	}
	return p, err
}

// newestValid returns the newest of snaps, which is sorted, that is valid and not
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

// cutLog makes the log end at a place, durably: the files behind it go, newest
// first, then the end of the one that it is in. It returns the files that are
// left.
func (d *Dir) cutLog(logs []numbered, p place) ([]numbered, error) {
	keep := p.file + 1
	if keep > 0 && p.before == 0 {
		keep-- // a file without a transaction
	}
	for i := len(logs) - 1; i >= keep; i-- {
		if err := d.fs.Remove(path.Join(d.logDir, logs[i].name)); err != nil {
			return nil, err
		}
		// One by one: a gap may not survive.
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

// place is where in a log a zxid belongs.
type place struct {
	file   int     // index of the newest file that begins at or before it; -1 if there is none
	before zk.Zxid // the greatest zxid in that file that is not above it, 0 if there is none
	end    int64   // in that file, of the entry of before
	after  zk.Zxid // the next zxid in the log, 0 if there is none
}

// findPlace looks a zxid up. It reads one file, up to the zxid. A log that is
// being written is seen as it was at some moment since logs was listed. With an
// error of the file it returns the place that it has come to.
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
