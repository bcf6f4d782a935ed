package storage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"path"

	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/zk"
)

// Tail is the end of the last log file as a reader has found it. Dir.CutTail cuts the
// file on the disk accordingly.
type Tail struct {
	Name  string // of the file, with its directory; "" if there is no log
	Bytes int64  // length up to the end of the last entry; 0 if the file has none
	Size  int64  // length of the file
	// Torn reports that a crash interrupted the last write: the bytes after Bytes
	// are not all zero. None of them was synced, according to the file "synced".
	Torn   bool
	Reason string // why it is torn, for the operator
}

// Gap is a place in a log file where zxids are missing between two neighbouring
// entries. Apache leaves such gaps: it assigns a zxid to a request and then drops the
// request.
type Gap struct {
	Name   string  // of the file, with its directory
	Offset int64   // of the entry after the gap
	Before zk.Zxid // of the entry before the gap
	After  zk.Zxid // of the entry after the gap
}

// LogReader reads the transactions of a log in the order of their zxids, over all its
// files. One goroutine owns it.
//
// Where no valid entry follows, it distinguishes three cases (docs/formats.md has the
// reasoning). Only zeros follow: this is the end of the file. A crash has torn a write,
// which is possible in the last file only: this is the end of the log, and Tail reports
// it. Anything else is an *Error of ErrCorrupt, and so is a log that ends before what
// it had synced.
type LogReader struct {
	d        *Dir
	fs       opener
	dir      string
	maxEntry int
	files    []numbered // not opened yet
	more     bool       // the log has files after those in files
	live     bool       // the log is being written
	strict   bool       // report a gap unless it is certain that there is none
	alone    bool       // do not check what the first entry follows
	foreign  bool       // there is no mark: another program wrote the log
	synced   zk.Zxid    // the log was durable up to here, and may not end before
	after    zk.Zxid    // skip the entries up to here
	sawAfter bool       // the entry of after was among the skipped ones
	start    int64      // where the entry of after ends in the first file; 0 if that is not known
	last     zk.Zxid    // of the last entry returned or skipped
	recent   [1024]entrySum
	dups     int
	gaps     int
	firstGap Gap
	err      error
	tail     Tail

	file    vfs.File
	name    string
	base    zk.Zxid // the zxid that the header of the file says it follows; 0 if it does not say
	before  string  // name of the last file that had an entry; "" if none was read
	prev    zk.Zxid // of the previous entry in the file; 0 if there is none
	size    int64
	win     *window
	advance int  // length of the entry that Next has returned
	entries bool // the file has had a valid entry
}

// opener is what a reader needs of a file system.
type opener interface {
	Open(name string) (vfs.File, error)
}

// entrySum recognises an entry that occurs twice.
type entrySum struct {
	zxid    zk.Zxid
	adler   uint32
	bytes   int
	session uint64
	cxid    uint32
}

// sameRequest reports whether two entries are the transaction of one multi. Apache's leader
// replaces the operations of a multi that fails by errors once it has applied it, so what it sends
// to a follower a second time, and the follower logs again, has other bytes.
func (s *entrySum) sameRequest(again *entrySum, payload []byte) bool {
	const multiType = 14
	return binary.BigEndian.Uint32(payload[txnTypeOffset:]) == multiType &&
		s.zxid == again.zxid && s.session == again.session && s.cxid == again.cxid
}

// newLogReader returns a reader of the transactions after a zxid in the files.
func (d *Dir) newLogReader(files []numbered, after zk.Zxid) *LogReader {
	return &LogReader{
		d: d, fs: d.fs, dir: d.logDir, maxEntry: d.o.Log.MaxEntryBytes,
		files: files, after: after, last: after, win: &window{},
	}
}

// filesAfter returns the files that may hold transactions after a zxid.
func filesAfter(logs []numbered, after zk.Zxid) []numbered {
	start := 0
	for i, l := range logs {
		if l.zxid <= after+1 {
			start = i
		}
	}
	return logs[start:]
}

// Next returns the payload of the next transaction, valid until the next call, and
// io.EOF at the end of the log. Its errors stick: *Error of ErrCorrupt or ErrGap, or an
// error of the file system.
//
// Contiguity: the zxid of every transaction is that of the previous one plus one, or
// the first of a newer epoch. The same holds for the first transaction and the zxid
// that the reader was opened after. Within a file zxids may be missing between two
// neighbours, because Apache leaves such gaps and a file does not lose entries from its
// middle; Gaps counts them. Between files, and after the zxid that the reader was
// opened after, missing zxids are ErrGap: a file may be lost. Two kinds of entry are
// skipped, and counted: an exact copy of an earlier entry, and an error
// under the zxid of the previous entry. Apache (the second: 3.9) may write them.
//
// The first transaction of a newer epoch does not show whether any is missing before
// it. If a file begins with one, its header decides, or else a snapshot in between
// (joins has the rule). Only in a directory without any snapshot may the log begin
// anywhere.
func (r *LogReader) Next() ([]byte, error) {
	for r.err == nil {
		var payload []byte
		payload, r.err = r.step()
		if payload != nil {
			return payload, nil
		}
	}
	return nil, r.err
}

// step moves on by one entry or one file. It returns a payload if Next has to return
// it.
func (r *LogReader) step() ([]byte, error) {
	if r.file == nil {
		return nil, r.openNext()
	}
	r.win.discard(r.advance)
	r.advance = 0
	payload, sum, ok, err := r.entry()
	if err != nil {
		return nil, fmt.Errorf("storage: read %s: %w", r.name, err)
	}
	if !ok {
		return nil, r.endOfFile()
	}
	offset := r.win.off
	zxid := payloadZxid(payload)
	if !r.entries {
		r.entries = true
		if want := path.Join(r.dir, logPrefix+zxid.Hex()); want != r.name {
			return nil, &Error{r.name, offset, fmt.Sprintf("the first entry is %v", zxid), ErrCorrupt}
		}
	}
	r.advance = len(payload) + frameBytes
	return r.accept(zxid, payload, sum, offset)
}

// accept decides whether a valid entry is skipped, returned or refused.
func (r *LogReader) accept(zxid zk.Zxid, payload []byte, sum uint32, offset int64) ([]byte, error) {
	id := entrySum{zxid, sum, len(payload), binary.BigEndian.Uint64(payload), binary.BigEndian.Uint32(payload[txnCxidOffset:])}
	seen := &r.recent[uint64(zxid)%uint64(len(r.recent))]
	switch {
	case zxid <= r.after:
		*seen = id
		r.prev = zxid
		r.sawAfter = r.sawAfter || zxid == r.after
		return nil, nil
	case r.unnumbered(zxid, payload):
		r.dups++
		return nil, nil
	case zxid <= r.last:
		if *seen != id && !seen.sameRequest(&id, payload) {
			return nil, &Error{r.name, offset,
				fmt.Sprintf("%v comes after %v and is another transaction than before", zxid, r.last), ErrGap}
		}
		r.dups++
		r.prev = zxid
		return nil, nil
	case r.prev == 0:
		why, err := r.joins(zxid)
		if err != nil {
			return nil, err
		}
		if why != "" {
			return nil, &Error{r.name, offset, why, ErrGap}
		}
	case follows(r.last, zxid):
	case r.prev != r.last:
		return nil, &Error{r.name, offset, r.missing(zxid, zxid-1), ErrGap}
	default:
		if r.gaps == 0 {
			r.firstGap = Gap{r.name, offset, r.prev, zxid}
		}
		r.gaps++
	}
	*seen = id
	r.last, r.prev = zxid, zxid
	return payload, nil
}

// unnumbered reports whether an entry is an error without a zxid of its own. Apache 3.9
// logs one for a write that it cannot decode, under the last zxid that it assigned:
// that of the previous entry, or counter 0 of an epoch that has no transaction yet.
func (r *LogReader) unnumbered(zxid zk.Zxid, payload []byte) bool {
	const errorType = math.MaxUint32 // -1
	if binary.BigEndian.Uint32(payload[txnTypeOffset:]) != errorType {
		return false
	}
	return zxid == r.last || zxid > r.last && zxid.Counter() == 0
}

// entry returns the payload of the entry at the start of the window; ok is false if no
// valid entry starts there. err is an error of the file system.
func (r *LogReader) entry() (payload []byte, sum uint32, ok bool, err error) {
	b, err := r.win.fill(prefixBytes)
	if err != nil {
		return nil, 0, false, notEOF(err)
	}
	want, n := binary.BigEndian.Uint64(b), binary.BigEndian.Uint32(b[8:])
	if n < txnHeadBytes || int64(n) > int64(r.maxEntry) ||
		r.win.off+int64(n)+frameBytes > r.size {
		return nil, 0, false, nil
	}
	b, err = r.win.fill(int(n) + frameBytes)
	if err != nil {
		return nil, 0, false, notEOF(err)
	}
	payload = b[prefixBytes : prefixBytes+n : prefixBytes+n]
	sum = sumAdler(adlerInit, payload)
	return payload, sum, uint64(sum) == want && b[prefixBytes+n] == entryEnd, nil
}

func notEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// openNext opens the next file and checks its header. It returns io.EOF after the last
// file.
func (r *LogReader) openNext() error {
	if len(r.files) == 0 {
		return r.endOfLog()
	}
	if r.entries {
		r.before = r.name
	}
	r.prev = 0
	r.name = path.Join(r.dir, r.files[0].name)
	f, err := r.fs.Open(r.name)
	if err != nil {
		return fmt.Errorf("storage: open log: %w", err)
	}
	r.files, r.file, r.entries = r.files[1:], f, false
	if r.size, err = r.length(); err != nil {
		return fmt.Errorf("storage: open log %s: %w", r.name, err)
	}
	r.win.reset(f, r.size)
	b, err := r.win.fill(headerBytes)
	if err != nil && notEOF(err) != nil {
		return fmt.Errorf("storage: read %s: %w", r.name, err)
	}
	want := appendFileHeader(nil, logMagic, 0)[:8]
	if len(b) >= headerBytes && string(b[:8]) == string(want) {
		r.base = zk.Zxid(binary.BigEndian.Uint64(b[8:]))
		r.win.discard(headerBytes)
		return r.skip()
	}
	return r.endOfFile()
}

// skip goes on after the entry of after, if it is known where that ends.
func (r *LogReader) skip() error {
	if r.start == 0 {
		return nil
	}
	if _, err := r.file.Seek(r.start, io.SeekStart); err != nil {
		return fmt.Errorf("storage: read %s: %w", r.name, err)
	}
	r.win.reset(r.file, r.size-r.start)
	r.win.off, r.start = r.start, 0
	r.prev, r.sawAfter, r.entries = r.after, true, true
	return nil
}

// length returns the length of the file, or its durable length if it is being written.
// The file's position is then at its beginning.
func (r *LogReader) length() (int64, error) {
	// The order matters: a file that is not open for writing does not grow any
	// more.
	if r.live {
		if end, open := r.d.openEnd(r.name); open {
			return end, nil
		}
	}
	size, err := r.file.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = r.file.Seek(0, io.SeekStart)
	}
	return size, err
}

// endOfFile handles a place where no valid entry begins. It closes the file if this is
// its end, and otherwise returns what is wrong.
func (r *LogReader) endOfFile() error {
	last := len(r.files) == 0 && !r.more
	b := breakage{
		file: r.file, at: r.win.off, size: r.size, maxEntry: r.maxEntry, last: last,
		foreign: r.foreign, before: max(r.last, r.prev),
	}
	end, reason, err := b.judge()
	if err != nil {
		return fmt.Errorf("storage: read %s: %w", r.name, err)
	}
	if end == endDamaged {
		return &Error{r.name, r.win.off, reason, ErrCorrupt}
	}
	if last {
		r.tail = Tail{Name: r.name, Bytes: r.win.off, Size: r.size, Torn: end == endTorn, Reason: reason}
		if !r.entries {
			r.tail.Bytes = 0
		}
	}
	err = r.file.Close()
	r.file = nil
	if err != nil {
		return fmt.Errorf("storage: close %s: %w", r.name, err)
	}
	return nil
}

// endOfLog handles the end of the last file. It returns io.EOF unless the log ends
// before what it had synced.
func (r *LogReader) endOfLog() error {
	if r.last >= r.synced {
		return io.EOF
	}
	name := r.tail.Name
	if name == "" {
		name = r.dir
	}
	reason := fmt.Sprintf("the log ends with %v, but the file %q says that %v was synced", r.last, syncedName, r.synced)
	if r.tail.Reason != "" {
		reason += ": " + r.tail.Reason
	}
	return &Error{name, r.tail.Bytes, reason + ". " + howToRepair, ErrCorrupt}
}

// howToRepair says what an operator can do about a log that has lost transactions.
const howToRepair = "Restore the file; or, on a member of an ensemble, set healing.enabled=true, " +
	"so that it takes the leader's state; or, if what is missing may be lost, remove the file \"" + syncedName + "\""

// LastZxid returns the zxid of the last transaction that Next has returned; before the
// first, the zxid that the reader was opened after.
func (r *LogReader) LastZxid() zk.Zxid { return r.last }

// File returns the name, without a directory, of the file that has the last transaction that Next has returned.
func (r *LogReader) File() string { return path.Base(r.name) }

// Tail returns the end of the log once Next has returned io.EOF.
func (r *LogReader) Tail() Tail { return r.tail }

// Gaps returns the number of gaps that Next has skipped, and the first of them.
func (r *LogReader) Gaps() (count int, first Gap) { return r.gaps, r.firstGap }

// Close releases the file.
func (r *LogReader) Close() error {
	if r.err == nil {
		r.err = errClosed
	}
	if r.file == nil {
		return nil
	}
	err := r.file.Close()
	r.file = nil
	return err
}
