package storage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"sync"

	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/zk"
)

// syncedName is the file in the log's directory that says up to where the log is
// durable.
const syncedName = "synced"

// syncedBytes is the length of that file: magic number (8), zxid (8), acceptedEpoch (8;
// -1 if that file does not exist), checksum (8).
const syncedBytes = 32

var syncedMagic = [8]byte{'P', 'F', 'S', 'Y', 'N', 'C', 'E', 'D'}

// syncedMark is a lower bound of what the log has synced: all entries up to zxid. It
// distinguishes a torn write, whose zxids are above it, from damage, which may be
// below.
//
// The log's owner writes the mark after each sync, through the page cache and without a
// sync of its own. After small ones, which take little longer than this write, it leaves out at most mostMarksLeft in a row, and the
// last of them is written within a second (WriteMark). So the file is older than the log by as much after the end of a
// process; after a power failure it may be half a minute old. It is never more than what is durable.
//
// Invariants:
//
//  1. A valid mark is on the disk before this server's first log file is.
//  2. The mark is durably lowered before anything up to its zxid is removed.
//
// The mark is valid as long as the acceptedEpoch file has the value that it had when
// the mark was written. If another program cuts the log, it does so for a leader of a
// newer epoch, and then replaces that file.
type syncedMark struct {
	mu     sync.Mutex
	loaded bool
	valid  bool // there is a mark, and acceptedEpoch is the one it was written for
	zxid   zk.Zxid
	left   int   // how often zxid has changed since it was written
	epoch  int64 // acceptedEpoch
	file   vfs.File
	buf    [syncedBytes]byte
}

func (d *Dir) markName() string { return path.Join(d.logDir, syncedName) }

// syncedZxid returns the mark; ok is false if there is none. The log of a directory
// without a mark was written by another program.
func (d *Dir) syncedZxid() (z zk.Zxid, ok bool, err error) {
	d.mark.mu.Lock()
	defer d.mark.mu.Unlock()
	if err := d.loadMark(); err != nil {
		return 0, false, err
	}
	return d.mark.zxid, d.mark.valid, nil
}

// loadMark reads the mark on its first call. A file that is missing or not valid is no
// error. REQUIRES: d.mark.mu.
func (d *Dir) loadMark() error {
	m := &d.mark
	if m.loaded {
		return nil
	}
	epoch, err := d.markedEpoch()
	if err != nil {
		return err
	}
	m.epoch = epoch
	z, written, ok, err := d.readMark()
	if err != nil {
		return err
	}
	m.loaded = true
	if ok && written == m.epoch {
		m.valid, m.zxid = true, z
	}
	return nil
}

// readMark reads the file, with the acceptedEpoch for which it was written. ok is false if it
// is missing or damaged.
func (d *Dir) readMark() (z zk.Zxid, epoch int64, ok bool, err error) {
	f, err := d.fs.Open(d.markName())
	if errors.Is(err, fs.ErrNotExist) {
		return 0, 0, false, nil
	}
	if err != nil {
		return 0, 0, false, fmt.Errorf("storage: open %s: %w", d.markName(), err)
	}
	b, err := io.ReadAll(io.LimitReader(f, syncedBytes+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return 0, 0, false, fmt.Errorf("storage: read %s: %w", d.markName(), err)
	}
	if len(b) != syncedBytes {
		return 0, 0, false, nil
	}
	m := syncedMark{epoch: int64(binary.BigEndian.Uint64(b[16:]))}
	z = zk.Zxid(binary.BigEndian.Uint64(b[8:]))
	m.encode(z)
	return z, m.epoch, string(b) == string(m.buf[:]), nil
}

// markedEpoch returns the content of the acceptedEpoch file, -1 if there is none, and
// none if it cannot be parsed: LoadEpochs reports that.
func (d *Dir) markedEpoch() (int64, error) {
	const none = 1 << 31 // never an epoch
	epoch, err := d.readEpoch(acceptedEpochName, none)
	if errors.Is(err, errNotEpoch) || epoch == none {
		return -1, nil
	}
	return int64(epoch), err
}

// encode stores the content of the file in m.buf.
func (m *syncedMark) encode(z zk.Zxid) {
	b := append(m.buf[:0], syncedMagic[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(z))
	b = binary.BigEndian.AppendUint64(b, uint64(m.epoch))
	binary.BigEndian.AppendUint64(b, uint64(sumAdler(adlerInit, b)))
}

// establishMark makes sure that a valid mark is on the disk, and open for noteSynced.
// An existing valid mark keeps its zxid.
func (d *Dir) establishMark() error {
	d.mark.mu.Lock()
	defer d.mark.mu.Unlock()
	if err := d.loadMark(); err != nil {
		return err
	}
	if d.mark.file != nil && d.mark.valid {
		return nil
	}
	return d.setMark(d.mark.zxid)
}

// mostMarksLeft is how many marks in a row are not written.
const mostMarksLeft = 64

// noteSynced records that the log is durable up to z. With later it may leave the mark to WriteMark. REQUIRES: establishMark has
// returned nil.
func (d *Dir) noteSynced(z zk.Zxid, later bool) error {
	d.mark.mu.Lock()
	defer d.mark.mu.Unlock()
	if m := &d.mark; later && m.left < mostMarksLeft {
		m.zxid = z
		m.left++
		return nil
	}
	return d.mark.write(z)
}

// WriteMark writes the mark that Log.FlushSmall has left, if there is one. Any goroutine may call it.
func (d *Dir) WriteMark() error {
	d.mark.mu.Lock()
	defer d.mark.mu.Unlock()
	return d.mark.writeLeft()
}

// writeLeft writes a mark that was left. REQUIRES: m.mu.
func (m *syncedMark) writeLeft() error {
	if m.left == 0 {
		return nil
	}
	if err := m.write(m.zxid); err != nil {
		return fmt.Errorf("storage: write %s: %w", syncedName, err)
	}
	return nil
}

// lowerMark durably lowers the mark to z, because entries of the log after z are about to be
// removed. What is before stays promised: the loss of a file right after a TRUNC is noticed.
func (d *Dir) lowerMark(z zk.Zxid) error {
	d.mark.mu.Lock()
	defer d.mark.mu.Unlock()
	err := d.loadMark()
	if err != nil || !d.mark.valid || d.mark.zxid <= z {
		return err
	}
	return d.setMark(z)
}

// markEpoch durably binds the mark to a new acceptedEpoch.
func (d *Dir) markEpoch(epoch uint32) error {
	d.mark.mu.Lock()
	defer d.mark.mu.Unlock()
	if d.mark.epoch = int64(epoch); !d.mark.valid {
		return nil
	}
	return d.setMark(d.mark.zxid)
}

// setMark writes the mark and syncs it; it creates or opens the file if necessary.
// REQUIRES: d.mark.mu.
func (d *Dir) setMark(z zk.Zxid) error {
	m := &d.mark
	created := false
	if m.file == nil {
		f, err := d.fs.OpenReadWrite(d.markName())
		if errors.Is(err, fs.ErrNotExist) {
			created = true
			f, err = d.fs.Create(d.markName())
		}
		if err != nil {
			return err
		}
		m.file = f
	}
	err := m.file.Truncate(syncedBytes) // of any other length
	if err == nil {
		err = m.write(z)
	}
	if err == nil {
		err = m.file.Sync()
	}
	if err == nil && created {
		err = d.fs.SyncDir(d.logDir)
	}
	return err
}

// write replaces the file's content. REQUIRES: m.mu.
func (m *syncedMark) write(z zk.Zxid) error {
	m.encode(z)
	if _, err := m.file.WriteAt(m.buf[:], 0); err != nil {
		return err
	}
	m.valid, m.zxid, m.left = true, z, 0
	return nil
}

// close writes a mark that was left, and closes the file.
func (m *syncedMark) close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.file == nil {
		return nil
	}
	err := errors.Join(m.writeLeft(), m.file.Close())
	m.file = nil
	return err
}
