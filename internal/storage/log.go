package storage

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"sync/atomic"
	"syscall"

	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/zk"
)

// Defaults and bounds of a log.
const (
	// DefaultPreallocBytes is Apache's preAllocSize.
	DefaultPreallocBytes = 64 << 20
	// DefaultMaxEntryBytes is what Apache's defaults let it read back:
	// jute.maxbuffer and as much again.
	DefaultMaxEntryBytes = 2 * 0xFFFFF
	// maxWriteBytes bounds what is written before it is synced, save for a single
	// entry that is larger. It bounds how much a crash can tear, and with it the
	// part of a log where the reader takes holes for a torn write.
	maxWriteBytes = 4 << 20
	// growMargin is how close to the end of its file an entry may come before the
	// file is extended; Apache's figure.
	growMargin = 4096
	// zeroAheadBytes is the step in which direct writes turn reserved space into
	// written zeros: the write that goes past a multiple of it is padded up to the
	// next one. docs/adr/0003-log-direct-io.md has the measurements.
	zeroAheadBytes = 256 << 10
	// minBufferBytes is the least capacity of a log's buffer. It leaves room for
	// the padding behind small batches.
	minBufferBytes = 512 << 10
)

// LogOptions configures a log; the zero value is Apache's default.
type LogOptions struct {
	// PreallocBytes is the step in which a file is extended (preAllocSize × 1024);
	// 0 is DefaultPreallocBytes, a negative one extends by what is written.
	PreallocBytes int64
	// MaxFileBytes is the length from which the next flush ends a file
	// (txnLogSizeLimitInKb × 1024); 0 or less is no limit.
	MaxFileBytes int64
	// MaxEntryBytes is the largest payload that is written or read; 0 is
	// DefaultMaxEntryBytes.
	MaxEntryBytes int
	// NoSync leaves the syncing of entries to the operating system
	// (forceSync=no): acknowledged entries may be lost when the machine fails. A
	// new file is synced once even so, before it appears. Writes then go through
	// the page cache, which is what returns at once.
	NoSync bool
	// Discard drops every entry once it is checked: there is no log, and Flush does
	// nothing. It is for an observer with syncEnabled=false, which takes its state from
	// the leader whenever it starts.
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

// Log appends transactions to the newest log file. It is owned by one goroutine.
//
// Entries gather in a buffer that is written and synced as one by Flush. The
// first flush of a file makes it under a temporary name and renames it once it
// is durable, so that a log never appears empty.
//
// Files are written by direct I/O where there is such a thing, in whole blocks.
// The block that the last entry ends in stays in the buffer, and the next flush
// writes it again, the same bytes and what has come behind. So does the page
// cache: a sector with an acknowledged entry is overwritten by itself, and a disk
// that writes sectors atomically cannot lose it. All other space behind the last
// entry is written as zeros, which is how the format ends a file.
//
// The first error of the disk sticks: from then on everything returns it, and
// nothing reaches the disk. After a failed sync the page cache cannot be
// believed, so the process has to end and read its log again.
type Log struct {
	d    *Dir
	fs   vfs.FS
	dir  string
	o    LogOptions
	err  error
	last zk.Zxid // appended; 0 if anything may follow

	file   vfs.File // nil: the next flush makes one
	name   string   // of file, with its directory
	pos    int64    // end of the last entry written
	size   int64    // length of the file, zeros included
	zeroed int64    // the file is written up to here, with zeros behind pos
	end    *openEnd // pos, for readers beside

	restored string // the file that was removed and written anew; Restored forgets it

	// buf holds the block that pos is in, up to there, and behind it the entries
	// that are not written yet. For a new file the header comes first. It is
	// memory of vfs.AlignedBytes. Invariant: len(buf) > kept exactly if there is
	// an entry to write, outside of Begin and End.
	buf   []byte
	kept  int     // how much of buf is in the file; 0 without direct I/O
	first zk.Zxid // of the entries in buf
	start int     // where in buf the entry of Begin starts
	begun bool

	going  []byte // what the write that is under way has been given; nil if none is
	beside bool   // the last write was made beside the caller
	unseen int    // writes since the file's name was seen to be there
	slow   int    // quick writes to come before Prompt, as one took long
	mark   [syncedBytes]byte
}

// errLogClosed is what a log returns after Close.
var errLogClosed = errors.New("storage: the log is closed")

// newLog returns a log whose next entry has to follow last.
func (d *Dir) newLog(last zk.Zxid) *Log {
	return &Log{d: d, fs: d.fs, dir: d.logDir, last: last, o: d.o.Log}
}

// openEnd is the end of the file that is being written, for those who read it
// meanwhile.
type openEnd struct {
	name  string       // with its directory
	bytes atomic.Int64 // all of them synced (NoSync: written)
}

// openEnd returns how far a file is durable, if it is the one that is being
// written. A file of which it says that it is not, and that was listed before, is
// complete.
func (d *Dir) openEnd(name string) (bytes int64, open bool) {
	end := d.end.Load()
	if end == nil || end.name != name {
		return 0, false
	}
	return end.bytes.Load(), true
}

// Begin starts an entry. The caller appends the payload to the slice that it
// returns, leaving what is in it alone, and hands the result to End; nothing
// else of the log may be called in between, except Begin, which starts anew.
//
// Begin may write and sync earlier entries, if many are waiting; an error of
// that is returned by End.
func (l *Log) Begin() []byte {
	if len(l.buf) >= maxWriteBytes {
		_ = l.Flush() // sticks
	}
	if cap(l.buf) == 0 {
		l.buf = vfs.AlignedBytes(minBufferBytes)[:0]
	}
	l.begun, l.start = true, len(l.buf)
	b := l.buf
	if l.file == nil && len(b) == 0 {
		b = appendFileHeader(b, logMagic, 0)
	}
	return append(b, make([]byte, prefixBytes)...)
}

// End completes the entry: buf is what Begin returned with the payload behind
// it, and belongs to the log again. The payload begins with a TxnHeader whose
// zxid is the given one and follows the last entry's. Where it would make the
// next write larger than a crash may tear, End writes and syncs what came before.
//
// An entry that is refused (ErrGap, a payload shorter than a TxnHeader or longer
// than MaxEntryBytes, another zxid in it) is dropped; the log goes on without
// it. Other errors stick.
func (l *Log) End(zxid zk.Zxid, buf []byte) error {
	if l.err != nil {
		return l.err
	}
	if !l.begun {
		return fmt.Errorf("storage: append %v: End without Begin", zxid)
	}
	l.begun = false
	start := l.start
	frame := start
	if l.file == nil && start == 0 {
		frame = headerBytes
	}
	if err := l.check(zxid, buf, frame); err != nil {
		return err
	}
	if l.o.Discard {
		l.last = zxid
		return nil
	}
	payload := buf[frame+prefixBytes:]
	binary.BigEndian.PutUint64(buf[frame:], uint64(sumAdler(adlerInit, payload)))
	binary.BigEndian.PutUint32(buf[frame+8:], uint32(len(payload)))
	buf = append(buf, entryEnd)
	if start > l.kept && len(buf) > maxWriteBytes {
		// Too much for one write: what came before goes out by itself, padded, so
		// the entry has to step aside.
		entry := bytes.Clone(buf[start:])
		l.take(buf[:start])
		if _, err := l.write(false); err != nil {
			return err
		}
		start = l.kept
		buf = append(l.buf, entry...)
	}
	if start == l.kept {
		l.first = zxid
	}
	if start == 0 && l.file == nil && zxid != l.last+1 {
		// A newer epoch: that nothing is missing before it only the header can tell.
		binary.BigEndian.PutUint64(buf[headerBytes-8:], uint64(l.last))
	}
	l.take(buf)
	l.last = zxid
	return nil
}

// take makes buf the buffer. If it has outgrown the present one, it is copied to
// aligned memory of twice its length.
func (l *Log) take(buf []byte) {
	if &buf[:1][0] != &l.buf[:1][0] {
		buf = append(vfs.AlignedBytes(2 * len(buf))[:0], buf...)
	}
	l.buf = buf
}

// check refuses an entry that could not be read back.
func (l *Log) check(zxid zk.Zxid, buf []byte, frame int) error {
	n := len(buf) - frame - prefixBytes
	if n < txnHeadBytes {
		return fmt.Errorf("storage: append %v: the payload has %d bytes, the header of a transaction alone has %d",
			zxid, n, txnHeadBytes)
	}
	if n > l.o.MaxEntryBytes {
		return fmt.Errorf("storage: append %v: the transaction has %d bytes, more than the %d that the log reads back "+
			"(jute.maxbuffer and zookeeper.jute.maxbuffer.extrasize together)", zxid, n, l.o.MaxEntryBytes)
	}
	if got := payloadZxid(buf[frame+prefixBytes:]); got != zxid {
		return fmt.Errorf("storage: append %v: the payload says %v", zxid, got)
	}
	if zxid <= 0 || l.last != 0 && !follows(l.last, zxid) {
		return fmt.Errorf("storage: append %v after %v: %w", zxid, l.last, ErrGap)
	}
	return nil
}

// Append is Begin, a copy of payload, and End.
func (l *Log) Append(zxid zk.Zxid, payload []byte) error {
	return l.End(zxid, append(l.Begin(), payload...))
}

// Flush writes the entries that are waiting and makes them durable: when it
// returns nil, LastZxid is. Without such entries it does nothing. It ends the
// file if that has reached MaxFileBytes.
func (l *Log) Flush() error {
	_, err := l.flush(false)
	return err
}

// FlushSoon is Flush for an owner that must not wait for a slow disk. If it reports
// that it is not done, the write goes on, and Flush is to be called next, which
// waits for it.
//
// REQUIRES: Prompt.
func (l *Log) FlushSoon() (done bool, err error) { return l.flush(true) }

// The bounds of Prompt.
const (
	promptBytes = 32 << 10 // more are worth a goroutine that waits
	promptAfter = 16       // quick writes that have to follow a slow one
)

// Prompt reports whether FlushSoon can be used for the next promptBytes: the disk has
// been quick of late, and the write needs no other operation of the file system.
func (l *Log) Prompt() bool {
	if !l.beside || l.slow > 0 || l.unseen >= linkedEvery || l.file == nil || l.err != nil {
		return false
	}
	end := l.pos + promptBytes
	return end+growMargin < l.size && (l.o.MaxFileBytes <= 0 || end <= l.o.MaxFileBytes)
}

func (l *Log) flush(bounded bool) (done bool, err error) {
	if l.err != nil {
		return true, l.err
	}
	l.begun = false
	if len(l.buf) == l.kept {
		return true, nil
	}
	if done, err = l.write(bounded); err != nil || !done {
		return done, err
	}
	if cap(l.buf) > 2*maxWriteBytes {
		l.buf = append(vfs.AlignedBytes(minBufferBytes)[:0], l.buf...)
	}
	if l.o.MaxFileBytes > 0 && l.pos > l.o.MaxFileBytes {
		return true, l.endFile()
	}
	return true, nil
}

// write makes the entries in the buffer durable at the end of the file, which it
// makes if there is none. What stays in the buffer is the block that they end in.
// If bounded it may report that it is not done, and is to be called again.
func (l *Log) write(bounded bool) (done bool, err error) {
	if l.going == nil {
		err = l.beginWrite()
	}
	if err == nil && l.going != nil {
		if done, err = l.awaitWrite(bounded); !done && err == nil {
			return false, nil
		}
	}
	if err != nil {
		l.err = fmt.Errorf("storage: write to the log: %w", err)
	}
	return true, l.err
}

// beginWrite writes what is in the buffer. If the file can do it beside, it is only
// begun, and awaitWrite ends it.
func (l *Log) beginWrite() error {
	tmp := ""
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
	data := l.pad(base)
	c, ok := l.file.(vfs.Committer)
	if l.beside = ok && tmp == "" && !l.o.NoSync && c.Commit(data, base, l.d.mark.file, l.markFor(l.last)); l.beside {
		l.going = data
		return nil
	}
	return l.writeHere(data, tmp)
}

// writeHere writes data on the calling goroutine, and gives a new file its name.
func (l *Log) writeHere(data []byte, tmp string) error {
	base := l.pos - int64(l.kept)
	if _, err := l.file.WriteAt(data, base); err != nil {
		return err
	}
	if !l.o.NoSync || tmp != "" {
		if err := l.file.Sync(); err != nil {
			return err
		}
	}
	l.written()
	if tmp != "" {
		if err := l.publish(tmp); err != nil {
			return err
		}
	}
	if err := l.checkLinked(); err != nil {
		return err
	}
	if l.o.NoSync {
		return nil
	}
	return l.d.noteSynced(l.last)
}

// markFor is the content of the file "synced" when the log is durable up to z.
func (l *Log) markFor(z zk.Zxid) []byte {
	l.d.mark.mu.Lock()
	defer l.d.mark.mu.Unlock()
	l.d.mark.encode(z)
	l.mark = l.d.mark.buf
	return l.mark[:]
}

// awaitWrite waits for what beginWrite has begun.
func (l *Log) awaitWrite(bounded bool) (done bool, err error) {
	c := l.file.(vfs.Committer)
	if bounded || l.slow == 0 && len(l.going) <= promptBytes { // else there is other work for the processor
		if done, err = c.Await(true); !done && err == nil && bounded {
			l.slow = promptAfter
			return false, nil
		}
	}
	for !done && err == nil {
		done, err = c.Await(false)
	}
	switch {
	case !c.Quick():
		l.slow = promptAfter
	case l.slow > 0:
		l.slow--
	}
	data := l.going
	l.going = nil
	if errors.Is(err, syscall.EINVAL) {
		// The file system has taken direct writes, and refuses this one.
		return true, l.writeHere(data, "")
	}
	if err != nil {
		return true, err
	}
	l.written()
	l.d.marked(l.last)
	if l.unseen++; !bounded && l.unseen >= linkedEvery {
		return true, l.checkLinked()
	}
	return true, nil
}

// linkedEvery is how many writes may be made beside the caller before the file's name
// is looked for.
const linkedEvery = 64

// checkLinked writes the file anew if its name was removed.
func (l *Log) checkLinked() error {
	l.unseen = 0
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

// publish gives a new file, which is durable, its name.
func (l *Log) publish(tmp string) error {
	// A reader that lists the file has to find its end.
	l.d.end.Store(l.end)
	if err := l.fs.Rename(tmp, l.name); err != nil {
		return err
	}
	return l.fs.SyncDir(l.dir)
}

// createFile makes the file whose first entry is l.first, under the name tmp.
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

// pad returns what a write of the buffer at base has to be: whole blocks, zeros
// at the end. Direct writes into space that is only reserved cost the file system
// a transaction of its own each, so the first one in it takes zeros with it for
// those to come, as far as file and buffer reach.
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

// Roll flushes and ends the file; the next entry starts another one.
func (l *Log) Roll() error {
	if err := l.Flush(); err != nil {
		return err
	}
	return l.endFile()
}

// endFile cuts the zeros behind the last entry off and closes the file.
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

// Close flushes, ends the file and releases it, also after an error, which it
// returns. The log accepts nothing after it.
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

// Err returns the error that sticks, nil if the log works.
func (l *Log) Err() error { return l.err }

// LastZxid returns the zxid of the last entry that End or Append accepted,
// durable or not; before the first, the one that NewLog was given.
func (l *Log) LastZxid() zk.Zxid { return l.last }

// FileBytes returns how long the present file is up to its last written entry;
// 0 if none is open.
func (l *Log) FileBytes() int64 {
	if l.file == nil {
		return 0
	}
	return l.pos
}

// BufferedBytes returns how much Flush would write.
func (l *Log) BufferedBytes() int { return len(l.buf) - l.kept }
