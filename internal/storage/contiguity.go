package storage

import (
	"fmt"

	"github.com/pinfold-zk/pinfold/zk"
)

// joins tells whether the first entry of the present file comes right after the
// last one read, or the zxid that the reader was opened after. It returns why
// not, for the operator, or "".
//
// A zxid that is greater by one does. The first of a newer epoch may, but the
// epoch before may have had more: a file is lost that held them, or they came in
// a snapshot from a leader and were never in this log. What decides is, in this
// order:
//
//  1. The file's header, where it says which zxid the file follows. All files
//     that Pinfold begins with a newer epoch do (docs/formats.md).
//  2. In a file of Apache, which does not say: a snapshot of a zxid in between,
//     whether it can be read or not. It had transactions that are not here.
//
// After 0, which is behind nothing, a file has to begin with the first of an
// epoch, unless there is no snapshot at all: who reads such a directory has been
// told to trust it (snapshot.trust.empty).
//
// For a strict reader, what is not certain is a gap: it needs the first of the
// two, and after 0 a snapshot of 0, which is there as long as nothing was purged.
func (r *LogReader) joins(zxid zk.Zxid) (why string, err error) {
	if zxid == r.last+1 || r.alone {
		return "", nil
	}
	snaps, err := listSnapshots(r.d.fs, r.d.snapDir)
	if err != nil {
		return "", err
	}
	base := r.base
	if base < 0 || base >= zxid {
		base = 0 // not ours
	}
	switch {
	case r.last == 0 && base == 0 && len(snaps) == 0 && !r.strict:
		return "", nil
	case !follows(r.last, zxid):
		return r.missing(zxid, zxid-1), nil
	case base > r.last:
		return r.missing(zxid, base), nil
	case base != 0 && base == r.last:
		return "", nil
	case base != 0 && r.last != r.after:
		return fmt.Sprintf("this file goes on from %v, but the one before, %s, ends with %v", base, r.before, r.last), nil
	case base != 0 && !r.strict:
		// The snapshot's zxid is that of no transaction: it is later than the last
		// one before this file.
		return "", nil
	}
	for _, s := range snaps {
		if s.Zxid > r.last && s.Zxid < zxid {
			return r.missing(zxid, s.Zxid), nil
		}
	}
	if r.strict && (r.last != 0 || len(snaps) == 0 || snaps[len(snaps)-1].Zxid != 0) {
		return fmt.Sprintf("it is not certain that %v comes right after %v", zxid, r.last), nil
	}
	return "", nil
}

// missing tells the operator about transactions that ought to be before zxid, up
// to another one.
func (r *LogReader) missing(zxid, upto zk.Zxid) string {
	const remedy = "if a log file is lost, restore it, or a snapshot of %v or later; " +
		"if Apache wrote these files and none is lost, start Apache once more, which leaves such a snapshot"
	if r.last == r.after {
		return fmt.Sprintf("the snapshot goes up to %v, but the next transaction in the log is %v: "+remedy,
			r.after, zxid, upto)
	}
	if r.prev != 0 {
		return fmt.Sprintf("%v comes after %v", zxid, r.last)
	}
	return fmt.Sprintf("this file begins with %v, but the one before, %s, ends with %v: "+remedy,
		zxid, r.before, r.last, upto)
}
