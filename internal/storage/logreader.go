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

// Tail is the end of the last log file as a reader has found it. Dir.CutTail
// makes it so on the disk.
type Tail struct {
	Name  string // of the file, with its directory; "" if there is no log
	Bytes int64  // length up to the end of the last entry; 0 if the file has none
	Size  int64  // length of the file
	// Torn says that a crash interrupted the last write: behind Bytes there are
	// not only zeros. It holds nothing that the file synced promises.
	Torn   bool
	Reason string // why it is torn, for the operator
}

// Gap is a place in a log where zxids are missing between two entries that lie
// next to each other in one file. Apache leaves one where it gave a zxid to a
// request that then came to nothing.
type Gap struct {
	Name   string  // of the file, with its directory
	Offset int64   // of the entry behind the gap
	Before zk.Zxid // of the entry before it
	After  zk.Zxid // of the entry behind it
}

// LogReader reads the transactions of a log in the order of their zxids, over
// all its files. It is owned by one goroutine.
//
// Where an entry is not valid it tells three things apart (docs/formats.md has
// the reasoning): only zeros behind, which is the end of the file; a write that
// a crash has torn, possible in the last file only, which is the end of the log
// and is reported by Tail; and anything else, which is an *Error of ErrCorrupt. So
// is a log that ends before what it had synced.
type LogReader struct {
	d        *Dir
	fs       opener
	dir      string
	maxEntry int
	files    []numbered // not read yet
	more     bool       // files that are not in files follow those that are
	live     bool       // the log is being written
	strict   bool       // what is not certain to be contiguous is a gap
	alone    bool       // the first entry need not follow anything
	foreign  bool       // there is no mark: another program wrote the log
	synced   zk.Zxid    // the log was durable up to here; it may not end before
	after    zk.Zxid    // what comes up to here is skipped
	found    bool       // after was among what was skipped
	last     zk.Zxid    // returned or skipped
	recent   [1024]entrySum
	dups     int
	gaps     int
	firstGap Gap
	err      error
	tail     Tail

	file    vfs.File
	name    string
	base    zk.Zxid // what the header says that the present file follows, 0 if it does not say
	before  string  // name of the last file with an entry before it, "" if none was read
	prev    zk.Zxid // of the entry before in the present file, 0 if there is none
	size    int64
	win     *window
	advance int  // of the entry that Next has returned
	entries bool // the present file has had one
}

// opener is what a reader needs of a file system.
type opener interface {
	Open(name string) (vfs.File, error)
}

// entrySum recognises an entry that is there twice.
type entrySum struct {
	zxid  zk.Zxid
	adler uint32
	bytes int
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

// Next returns the payload of the next transaction, valid until the next call;
// at the end of the log, io.EOF. Its errors stick: *Error of ErrCorrupt or
// ErrGap, or what the file system returns.
//
// Contiguity: every zxid follows the one before by one, or is the first of a
// newer epoch; so does the first of all follow the zxid that the reader was
// opened after. Within a file zxids may be missing between two neighbours, as
// Apache may leave it, which Gaps counts: a file does not lose entries from its
// middle. Between files, and behind the zxid that the reader was opened after, it
// is ErrGap: so it looks when a file is lost. An entry that is there again, byte
// for byte, as Apache may write it, is skipped and counted by Duplicates, and so is
// an error under the zxid of the entry before, as Apache 3.9 may write it.
//
// The first of a newer epoch does not tell whether anything is missing before it.
// Where a file begins with one, its header does, or else a snapshot in between
// (joins has the rule). Only a directory without any snapshot may begin anywhere.
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

// step moves by one entry or one file. It returns a payload if that is what
// Next returns.
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
	id := entrySum{zxid, sum, len(payload)}
	seen := &r.recent[uint64(zxid)%uint64(len(r.recent))]
	switch {
	case zxid <= r.after:
		*seen = id
		r.prev = zxid
		r.found = r.found || zxid == r.after
		return nil, nil
	case r.unnumbered(zxid, payload):
		r.dups++
		return nil, nil
	case zxid <= r.last:
		if *seen != id {
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

// unnumbered reports whether an entry is an error without a zxid of its own. Apache
// 3.9 logs it for a write that it cannot read, under the zxid that was given last:
// that of the entry before, or the counter 0 of an epoch that has no other yet.
func (r *LogReader) unnumbered(zxid zk.Zxid, payload []byte) bool {
	const errorType = math.MaxUint32 // -1
	if binary.BigEndian.Uint32(payload[txnTypeOffset:]) != errorType {
		return false
	}
	return zxid == r.last || zxid > r.last && zxid.Counter() == 0
}

// entry returns the payload of the entry at the window, and false if there is
// no valid one. err is the file system's.
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

// openNext opens the next file and checks its header; io.EOF after the last.
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
		return nil
	}
	return r.endOfFile()
}

// length returns how far the file goes; of one that is being written, how far it
// is durable. The file's position is at its beginning.
func (r *LogReader) length() (int64, error) {
	// The order matters: a file that is not open is as long as it will ever be.
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

// endOfFile is called where no valid entry begins. It closes the file if that
// is its end, and else returns what is wrong.
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

// endOfLog is called behind the last file. It returns io.EOF unless the log ends
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

// howToRepair is what an operator can do about a log that has lost transactions.
const howToRepair = "Restore the file; or, on a member of an ensemble, remove the contents of the version-2 directories, " +
	"so that the leader sends its state; or, if what is missing may be lost, remove the file \"" + syncedName + "\""

// LastZxid returns the zxid of the last transaction that Next has returned;
// before the first, the zxid that the reader was opened after.
func (r *LogReader) LastZxid() zk.Zxid { return r.last }

// Tail returns the end of the log once Next has returned io.EOF.
func (r *LogReader) Tail() Tail { return r.tail }

// Duplicates returns how many entries were skipped because they were there again,
// or are errors without a zxid of their own.
func (r *LogReader) Duplicates() int { return r.dups }

// Gaps returns at how many places zxids are missing that Next went over, and the
// first of them.
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
