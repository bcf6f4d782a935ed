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

// RangeReader reads a part of the log while the log's owner continues to write. A
// leader sends this part to a learner that lacks it. One goroutine owns the reader; it
// need not be the log's owner. Purge may run at the same time; Truncate, Retire and
// Install may not.
type RangeReader struct {
	log         *LogReader
	held        heldFiles
	after, upto zk.Zxid
	next        []byte  // the transaction after reached, already read
	reached     zk.Zxid // zxid of the last transaction read
	err         error   // sticks
}

// maxHeldFiles is how many log files a RangeReader keeps open, so that a purge cannot
// remove their content.
const maxHeldFiles = 64

// heldFiles are open files by name; Open returns each of them once.
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

// ReadRange reads the transactions of (after, upto]. They must be durable: upto is the
// zxid of a transaction that Flush has acknowledged, or equal to after.
//
// It returns ErrNoZxid if the log does not hold all of them: if it does not hold upto,
// or if it neither holds after nor has the transaction right after it. The latter is
// the case, for example, after the zxid of the snapshot that the log starts from, after
// counter 0 of an epoch whose first transaction it has, and after 0 if nothing was ever
// purged.
//
// ReadRange opens the files of the range, at most maxHeldFiles of them, so that a purge
// does not end the reading. If a further file is gone when it is needed, Next returns
// ErrNoZxid. The other errors are those of Next.
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
	switch {
	case errors.Is(err, ErrNoZxid) && !r.log.sawAfter:
		return err // nothing says that the log should hold the range
	case err != nil && (r.log.sawAfter || !errors.Is(err, ErrGap)):
		r.note(err)
		return err
	}
	// The reader has checked that the first entry of a file follows after.
	contiguous := r.log.sawAfter || r.log.win.off == headerBytes ||
		r.after.Counter() == 0 && r.log.LastZxid() == r.after+1
	if err != nil || !contiguous {
		return errors.Join(ErrNoZxid, err)
	}
	return nil
}

// Next returns the next transaction; its payload is valid until the next call. After
// upto it returns io.EOF. Every zxid follows the previous one without a gap. Errors
// stick: *Error of ErrCorrupt or ErrGap, ErrNoZxid, or an error of the file system.
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

// note records for Locate a place that cannot be read: damage, a gap, a file that the disk does
// not read, or the end of a log that has the transactions after the zxid after but not those up to
// upto (only a snapshot has them). A file that was purged is no such place.
//
// REQUIRES: the log holds after or the transaction right after it, or it cannot be read there.
func (r *RangeReader) note(err error) {
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	broken := &r.log.d.broken
	for at := int64(r.reached); ; {
		if old := broken.Load(); at <= old || broken.CompareAndSwap(old, at) {
			return
		}
	}
}

// wrap adds the range to an error.
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
