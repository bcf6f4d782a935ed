package storage

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"

	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/zk"
)

// RangeReader reads a part of the log while its owner goes on writing: what a
// leader sends to a learner that lacks it. It is owned by one goroutine, which
// need not be the log's. Purge may run beside it, Truncate, Retire and Install
// may not.
type RangeReader struct {
	log         *LogReader
	held        heldFiles
	after, upto zk.Zxid
	next        []byte  // read already
	reached     zk.Zxid // what comes after it was read last
	err         error   // sticks
}

// maxHeldFiles is how many log files a RangeReader keeps open, so that a purge
// cannot take them away.
const maxHeldFiles = 64

// heldFiles are open files by name, each for one Open.
type heldFiles struct {
	fs    vfs.FS
	files map[string]vfs.File
}

// Open implements opener.
func (h heldFiles) Open(name string) (vfs.File, error) {
	if f := h.files[name]; f != nil {
		delete(h.files, name)
		return f, nil
	}
	return h.fs.Open(name)
}

func (h heldFiles) close() error {
	var errs []error
	for name, f := range h.files {
		errs = append(errs, f.Close())
		delete(h.files, name)
	}
	return errors.Join(errs...)
}

// ReadRange reads the transactions of (after, upto], which are durable already:
// upto is the zxid of one that Flush has acknowledged, or after itself.
//
// It returns ErrNoZxid if they are not all there: the log does not hold upto; or
// it does not hold after, nor go on right behind it. It does that, for one, after
// the zxid of a snapshot that it was begun behind, after the counter 0 of an epoch
// whose first transaction it has, and after 0 if nothing was ever purged.
//
// The files of the range are open from here on, the first maxHeldFiles of them, so
// that a purge does not end the reading; one beyond that is gone when its turn
// comes makes Next return ErrNoZxid. Other errors are those of Next.
func (d *Dir) ReadRange(after, upto zk.Zxid) (*RangeReader, error) {
	r := &RangeReader{after: after, upto: upto, held: heldFiles{d.fs, map[string]vfs.File{}}}
	if err := r.open(d); err != nil {
		return nil, errors.Join(r.wrap(err), r.Close())
	}
	return r, nil
}

// open opens the files and reads the first transaction.
func (r *RangeReader) open(d *Dir) error {
	if r.after > r.upto {
		return errors.New("the range is upside down")
	}
	logs, err := listLogs(d.fs, d.logDir)
	if err != nil {
		return err
	}
	all := filesAfter(logs, r.after)
	files := all
	for len(files) > 0 && files[len(files)-1].zxid > r.upto {
		files = files[:len(files)-1]
	}
	r.log = d.newLogReader(files, r.after)
	r.log.fs, r.log.live, r.log.strict, r.log.more = r.held, true, true, len(files) < len(all)
	if r.after == r.upto {
		return nil
	}
	for _, f := range files[:min(len(files), maxHeldFiles)] {
		name := path.Join(d.logDir, f.name)
		file, err := d.fs.Open(name)
		if err != nil {
			return err
		}
		r.held.files[name] = file
	}
	r.next, err = r.read()
	if err != nil && (r.log.found || !errors.Is(err, ErrGap)) {
		r.note(err)
		return err
	}
	// The first of a file has been checked against after.
	behind := r.log.found || r.log.win.off == headerBytes ||
		r.after.Counter() == 0 && r.log.LastZxid() == r.after+1
	if err != nil || !behind {
		return errors.Join(ErrNoZxid, err)
	}
	return nil
}

// Next returns the next transaction, its payload valid until the next call; after
// upto, io.EOF. Every zxid follows the one before without a gap. Its errors stick:
// *Error of ErrCorrupt or ErrGap, ErrNoZxid, or what the file system returns.
func (r *RangeReader) Next() (zxid zk.Zxid, payload []byte, err error) {
	if r.err != nil {
		return 0, nil, r.err
	}
	payload, r.next = r.next, nil
	if payload == nil {
		if r.log.LastZxid() == r.upto {
			r.err = io.EOF
			return 0, nil, r.err
		}
		if payload, err = r.read(); err != nil {
			r.note(err)
			r.err = r.wrap(err)
			return 0, nil, r.err
		}
	}
	return r.log.LastZxid(), payload, nil
}

// read returns the next transaction of the log, if it is in the range.
func (r *RangeReader) read() ([]byte, error) {
	r.reached = r.log.LastZxid()
	payload, err := r.log.Next()
	switch {
	case err == io.EOF:
		return nil, fmt.Errorf("the log ends with %v: %w", r.reached, ErrNoZxid)
	case err != nil:
		return nil, err
	case r.log.LastZxid() > r.upto:
		return nil, fmt.Errorf("%v comes after %v: %w", r.log.LastZxid(), r.reached, ErrNoZxid)
	}
	if n, gap := r.log.Gaps(); n > 0 {
		return nil, &Error{gap.Name, gap.Offset, fmt.Sprintf("%v comes after %v", gap.After, gap.Before), ErrGap}
	}
	return payload, nil
}

// note remembers for Locate a place that cannot be read: damage, a gap, or the end
// of a log that holds what comes after and not what comes up to, which is in a
// snapshot alone.
func (r *RangeReader) note(err error) {
	ends := errors.Is(err, ErrNoZxid) && r.log.found
	if !ends && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrGap) {
		return
	}
	broken := &r.log.d.broken
	for at := int64(r.reached); ; {
		if old := broken.Load(); at <= old || broken.CompareAndSwap(old, at) {
			return
		}
	}
}

// wrap adds to an error what was to be read.
func (r *RangeReader) wrap(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: a file was purged: %w", ErrNoZxid, err)
	}
	return fmt.Errorf("storage: read the log from %v to %v: %w", r.after, r.upto, err)
}

// Close releases the files.
func (r *RangeReader) Close() error {
	if r.err == nil {
		r.err = errors.New("storage: the range reader is closed")
	}
	var err error
	if r.log != nil {
		err = r.log.Close()
	}
	return errors.Join(err, r.held.close())
}
