package storage

import (
	"fmt"

	"github.com/pinfold-zk/pinfold/zk"
)

// joins checks that no transaction is missing between the first entry of the current
// file and the last entry read (or the zxid that the reader was opened after). It
// returns what is wrong, for the operator; "" if nothing is.
//
// An entry whose zxid is greater by one joins. The first entry of a newer epoch may
// join, but the older epoch may have had more transactions: either a lost file held
// them, or they came in a snapshot from a leader and were never in this log. These
// decide, in this order:
//
//  1. The header of the file, if it says which zxid the file follows. Every file that
//     Pinfold starts with a newer epoch says so (docs/formats.md).
//  2. For a file of Apache, which never says so: a snapshot, valid or not, of a zxid in
//     between. It had transactions that are not in the log.
//
// After zxid 0, which follows nothing, a file must begin with the first transaction of
// an epoch. The exception is a directory without any snapshot: snapshot.trust.empty has
// told the server to trust it.
//
// A strict reader reports a gap wherever it is not certain that there is none. It needs
// a header that says what the file follows, or, after zxid 0, a snapshot of 0, which
// exists as long as nothing was purged.
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
		base = 0 // Apache's file, or not valid
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
		// The snapshot's zxid is not that of a transaction: it is later than
		// the last transaction before this file.
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

// missing describes to the operator that transactions are missing before zxid, up to
// upto.
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
