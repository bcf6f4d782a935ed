package storage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"sync/atomic"

	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/zk"
)

// Defaults and bounds of a log.
const (
	// DefaultPreallocBytes is Apache's preAllocSize.
	DefaultPreallocBytes = 64 << 20
	// DefaultMaxEntryBytes is what Apache reads back by default: jute.maxbuffer
	// twice.
	DefaultMaxEntryBytes = 2 * 0xFFFFF
	// maxWriteBytes bounds what is written before it is synced, except for a single
	// entry that is larger. So it bounds how much a crash can tear, and with it the
	// part of a log in which the reader takes holes for a torn write.
	maxWriteBytes = 4 << 20
	// growMargin is how close to the end of its file an entry may come before the
	// file is extended. It is Apache's figure.
	growMargin = 4096
	// zeroAheadBytes is the step in which direct writes turn reserved space into
	// written zeros: a write that passes a multiple of it is padded up to the next
	// multiple. docs/adr/0003-log-direct-io.md has the measurements.
	zeroAheadBytes = 256 << 10
	// minBufferBytes is the smallest capacity of a log's buffer. It has room for
	// the padding after small batches.
	minBufferBytes = 512 << 10
)

// LogOptions configures a log; the zero value is Apache's default.
type LogOptions struct {
	// PreallocBytes is the step in which a file is extended (preAllocSize × 1024);
	// 0 means DefaultPreallocBytes. With a negative value a file grows by what is
	// written.
	PreallocBytes int64
	// MaxFileBytes is the length from which the next flush ends the file
	// (txnLogSizeLimitInKb × 1024); 0 or less means no limit.
	MaxFileBytes int64
	// MaxEntryBytes is the largest payload that is written or read; 0 means
	// DefaultMaxEntryBytes.
	MaxEntryBytes int
	// NoSync leaves it to the operating system when entries are synced
	// (forceSync=no): a failure of the machine may lose acknowledged entries. A new
	// file is still synced once, before it gets its name. Writes go through the
	// page cache, because that returns at once.
	NoSync bool
	// Discard drops every entry after checking it: there is no log, and Flush does
	// nothing. It is for an observer with syncEnabled=false, which gets its state
	// from the leader at every start.
	Discard bool
}

func (o LogOptions) withDefaults() LogOptions {
	if o.PreallocBytes == 0 {
		o.PreallocBytes = DefaultPreallocBytes
	}
	if o.MaxEntryBytes <= 0 {
		o.MaxEntryBytes = DefaultMaxEntryBytes
	}
	return o
}

// Log appends transactions to the newest log file. One goroutine owns it.
//
// Entries gather in a buffer, which Flush writes and syncs as a whole. The first flush
// of a file creates it under a temporary name and renames it once it is durable, so a
// log never appears empty.
//
// Where the system supports it, files are written by direct I/O, in whole blocks. The
// block that the last entry ends in stays in the buffer; the next flush writes it
// again, with the same bytes followed by new ones. The page cache does the same: a
// sector with an acknowledged entry is overwritten by the same bytes, so a disk that
// writes sectors atomically cannot lose it. The space after the last entry is written
// as zeros, which is how the format ends a file.
//
// The first error of the disk sticks: from then on every method returns it, and nothing
// reaches the disk. After a failed sync the content of the page cache cannot be
// trusted, so the process has to end, and to read its log again when it restarts.
type Log struct {
	d    *Dir
	fs   vfs.FS
	dir  string
	o    LogOptions
	err  error
	last zk.Zxid // of the last entry appended; 0 if any may follow

	file   vfs.File // nil: the next flush creates one
	name   string   // of the file, with its directory
	pos    int64    // end of the last entry written
	size   int64    // length of the file, zeros included
	zeroed int64    // the file is written up to here, with zeros after pos
	end    *openEnd // pos, for concurrent readers

	restored string // the file that was removed and written again; cleared by Restored

	// buf holds the part of the block before pos, followed by the entries that are
	// not written yet. For a new file the header comes first. It is memory of
	// vfs.AlignedBytes. Invariant: len(buf) > kept exactly if there is
	// an entry to write.
	buf   []byte
	kept  int     // how much of buf is in the file; 0 without direct I/O
	first zk.Zxid // zxid of the first entry in buf that is not written

	unchecked int // writes since the file's name was last checked
}

// errLogClosed is the error of a log after Close.
var errLogClosed = errors.New("storage: the log is closed")

// newLog returns a log whose first entry has to follow last.
func (d *Dir) newLog(last zk.Zxid) *Log {
	return &Log{d: d, fs: d.fs, dir: d.logDir, last: last, o: d.o.Log}
}

// openEnd is the end of the file that is being written, for concurrent readers.
type openEnd struct {
	name  string       // with its directory
	bytes atomic.Int64 // written and synced (with NoSync: written)
}

// openEnd returns up to where a file is durable, if it is the file that is being
// written. If it is not (open is false) and the file was listed before, it is complete.
func (d *Dir) openEnd(name string) (bytes int64, open bool) {
	end := d.end.Load()
	if end == nil || end.name != name {
		return 0, false
	}
	return end.bytes.Load(), true
}

// Append appends an entry. The payload begins with a TxnHeader that has the given zxid,
// which follows that of the last entry. Append first writes and syncs the earlier entries
// if the next write would otherwise be larger than maxWriteBytes.
//
// Append drops an entry that it refuses (ErrGap, a payload shorter than a TxnHeader or
// longer than MaxEntryBytes, another zxid in the payload); the log continues without
// it. Other errors stick.
func (l *Log) Append(zxid zk.Zxid, payload []byte) error {
	if l.err != nil {
		return l.err
	}
	if err := l.check(zxid, payload); err != nil {
		return err
	}
	if l.o.Discard {
		l.last = zxid
		return nil
	}
	need := len(l.buf) + frameBytes + len(payload)
	if need > maxWriteBytes && len(l.buf) > l.kept {
		if err := l.Flush(); err != nil {
			return err
		}
		need = len(l.buf) + frameBytes + len(payload)
	}
	if need += headerBytes; need > cap(l.buf) {
		l.buf = append(vfs.AlignedBytes(max(2*need, minBufferBytes))[:0], l.buf...)
	}
	b := l.buf
	if len(b) == l.kept {
		l.first = zxid
	}
	if l.file == nil && len(b) == 0 {
		before := zk.Zxid(0)
		if zxid != l.last+1 {
			// In a newer epoch, only the header can say that nothing is missing
			// before the file.
			before = l.last
		}
		b = appendFileHeader(b, logMagic, int64(before))
	}
	// The sum is of the payload, not of its copy: bytes that were just stored are read late,
	// after all stores before them.
	b = binary.BigEndian.AppendUint64(b, uint64(sumAdler(adlerInit, payload)))
	b = binary.BigEndian.AppendUint32(b, uint32(len(payload)))
	l.buf = append(append(b, payload...), entryEnd)
	l.last = zxid
	return nil
}

// check refuses an entry that the reader would not accept.
func (l *Log) check(zxid zk.Zxid, payload []byte) error {
	n := len(payload)
	if n < txnHeadBytes {
		return fmt.Errorf("storage: append %v: the payload has %d bytes, the header of a transaction alone has %d",
			zxid, n, txnHeadBytes)
	}
	if n > l.o.MaxEntryBytes {
		return fmt.Errorf("storage: append %v: the transaction has %d bytes, more than the %d that the log reads back "+
			"(jute.maxbuffer and zookeeper.jute.maxbuffer.extrasize together)", zxid, n, l.o.MaxEntryBytes)
	}
	if got := payloadZxid(payload); got != zxid {
		return fmt.Errorf("storage: append %v: the payload says %v", zxid, got)
	}
	if zxid <= 0 || l.last != 0 && !follows(l.last, zxid) {
		return fmt.Errorf("storage: append %v after %v: %w", zxid, l.last, ErrGap)
	}
	return nil
}

// Flush writes the buffered entries and makes them durable: when it returns nil, every
// entry up to LastZxid is durable. Without such entries it does nothing. It ends the
// file if that has reached MaxFileBytes.
func (l *Log) Flush() error { return l.flush(vfs.HandOver) }

// FlushSmall is Flush for what will probably take less than a millisecond. Its caller keeps
// its processor (P) of Go meanwhile (vfs.Keep), and Dir.WriteMark is to be called within a second. REQUIRES: Prompt(0) was true after the last flush.
func (l *Log) FlushSmall() error { return l.flush(vfs.Keep) }

// FlushAside is Flush for a write after a pause (vfs.Aside). Dir.WriteMark is to be called within a second. REQUIRES: as for
// FlushSmall.
func (l *Log) FlushAside() error { return l.flush(vfs.Aside) }

// Prompt reports whether what is buffered, and so many bytes more, can be flushed without
// another operation of the file system than a write, a sync, and the write of the mark.
func (l *Log) Prompt(more int) bool {
	if l.file == nil || l.err != nil || l.unchecked >= smallLinkedEvery || l.d.missed.Load() {
		return false
	}
	end := l.pos + int64(l.BufferedBytes()+more)
	return end+growMargin < l.size && (l.o.MaxFileBytes <= 0 || end <= l.o.MaxFileBytes)
}

func (l *Log) flush(w vfs.Wait) error {
	if l.err != nil {
		return l.err
	}
	if len(l.buf) == l.kept {
		return nil
	}
	if err := l.write(w); err != nil {
		l.err = fmt.Errorf("storage: write to the log: %w", err)
		return l.err
	}
	if cap(l.buf) > 2*maxWriteBytes {
		l.buf = append(vfs.AlignedBytes(minBufferBytes)[:0], l.buf...)
	}
	if l.o.MaxFileBytes > 0 && l.pos > l.o.MaxFileBytes {
		return l.endFile()
	}
	return nil
}

// write makes the buffered entries durable at the end of the file; it creates the file
// if there is none. The block that the last entry ends in stays in the buffer.
func (l *Log) write(w vfs.Wait) error {
	tmp, small := "", w != vfs.HandOver
	if l.file == nil {
		if err := l.d.establishMark(); err != nil {
			return err
		}
		tmp = path.Join(l.dir, tmpPrefix+logPrefix+l.first.Hex())
		if err := l.createFile(tmp); err != nil {
			return err
		}
	}
	base := l.pos - int64(l.kept)
	end := base + int64(len(l.buf))
	if step := l.o.PreallocBytes; step > 0 && end+growMargin >= l.size {
		over := end + growMargin - l.size
		l.size += (over/step + 1) * step
		if err := l.file.Preallocate(l.size); err != nil {
			return err
		}
	}
	if err := l.commit(l.pad(base), base, w, tmp != ""); err != nil {
		return err
	}
	l.written()
	if tmp != "" {
		if err := l.publish(tmp); err != nil {
			return err
		}
	}
	if l.unchecked++; !small && (l.unchecked >= linkedEvery || l.d.missed.Load()) {
		if err := l.checkLinked(); err != nil {
			return err
		}
	}
	if l.o.NoSync {
		return nil
	}
	return l.d.noteSynced(l.last, small)
}

// commit writes data at base and makes it durable. With NoSync it does so for a new file alone.
func (l *Log) commit(data []byte, base int64, w vfs.Wait, created bool) error {
	if l.o.NoSync && !created {
		_, err := l.file.WriteAt(data, base)
		return err
	}
	return vfs.Commit(l.file, data, base, w)
}

// linkedEvery is after how many writes the log checks that the file still has its name; smallLinkedEvery is that of small
// ones, which do not check. It does so sooner if LookForLog has missed the file.
const (
	linkedEvery      = 64
	smallLinkedEvery = 1024
)

// LookForLog looks for the file to which the log writes. If there is none of that name any more, the next flush that is not
// small writes the file again; Prompt is false until then. Any goroutine may call it.
func (d *Dir) LookForLog() {
	if end := d.end.Load(); end != nil {
		if _, err := d.fs.Size(end.name); errors.Is(err, fs.ErrNotExist) {
			d.missed.Store(true) // the log makes sure: the file may have ended or not have its name yet
		}
	}
}

// checkLinked writes the file again if another program has removed its name.
func (l *Log) checkLinked() error {
	l.unchecked = 0
	l.d.missed.Store(false)
	linked, err := l.file.Linked()
	if err != nil || linked {
		return err
	}
	return l.restore()
}

// written notes that the entries in the buffer are durable.
func (l *Log) written() {
	end := l.pos - int64(l.kept) + int64(len(l.buf))
	l.pos = end
	l.kept = int(end % int64(l.file.Alignment()))
	l.buf = l.buf[:copy(l.buf, l.buf[len(l.buf)-l.kept:])]
	l.end.bytes.Store(end)
}

// publish renames a new, durable file to its name.
func (l *Log) publish(tmp string) error {
	// A reader that lists the file must find its end.
	l.d.end.Store(l.end)
	if err := l.fs.Rename(tmp, l.name); err != nil {
		return err
	}
	return l.fs.SyncDir(l.dir)
}

// createFile creates the file whose first entry is l.first, under the name tmp.
func (l *Log) createFile(tmp string) error {
	l.name = path.Join(l.dir, logPrefix+l.first.Hex())
	if _, err := l.fs.Size(l.name); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is there already (%w)", l.name, errors.Join(fs.ErrExist, err))
	}
	create := l.fs.CreateDirect
	if l.o.NoSync {
		create = l.fs.Create
	}
	f, err := create(tmp)
	if err != nil {
		return err
	}
	l.file, l.pos, l.size, l.zeroed = f, 0, headerBytes, 0
	l.end = &openEnd{name: l.name}
	return nil
}

// pad returns the data to write at base: the buffer, padded with zeros to whole blocks.
// A direct write into space that is only reserved costs the file system a transaction
// of its own. So the first write into such space also writes zeros for the following
// ones, as far as file and buffer reach.
func (l *Log) pad(base int64) []byte {
	align := int64(l.file.Alignment())
	if align == 1 {
		return l.buf
	}
	n := int64(len(l.buf))
	padded := roundUp(n, align)
	if end := base + padded; end > l.zeroed {
		ahead := min(roundUp(end, zeroAheadBytes), l.size/align*align, base+int64(cap(l.buf)))
		l.zeroed = max(end, ahead)
		padded = l.zeroed - base
	}
	b := l.buf[:padded]
	clear(b[n:])
	return b
}

func roundUp(n, step int64) int64 { return (n + step - 1) / step * step }

// Roll flushes and ends the file; the next entry starts a new one.
func (l *Log) Roll() error {
	if err := l.Flush(); err != nil {
		return err
	}
	return l.endFile()
}

// endFile cuts off the zeros after the last entry and closes the file.
func (l *Log) endFile() error {
	if l.file == nil {
		return nil
	}
	err := l.file.Truncate(l.pos)
	err = errors.Join(err, l.file.Close())
	l.file, l.kept, l.buf = nil, 0, l.buf[:0]
	if err != nil {
		l.err = fmt.Errorf("storage: end log %s: %w", l.name, err)
		return l.err
	}
	l.d.end.CompareAndSwap(l.end, nil)
	return nil
}

// Close flushes, ends the file and releases it. It does so after an error too, and
// returns that error. The log accepts nothing after it.
func (l *Log) Close() error {
	if l.err == errLogClosed {
		return nil
	}
	err := l.Roll()
	if l.file != nil {
		err = errors.Join(err, l.file.Close())
		l.file = nil
	}
	l.err = errLogClosed
	return err
}

// Err returns the error that sticks; nil if there is none.
func (l *Log) Err() error { return l.err }

// LastZxid returns the zxid of the last entry that End or Append accepted, durable or
// not; before the first entry, the zxid that NewLog was given.
func (l *Log) LastZxid() zk.Zxid { return l.last }

// BufferedBytes returns how much Flush would write.
func (l *Log) BufferedBytes() int { return len(l.buf) - l.kept }
