package storage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path"

	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/zk"
)

// An Entry is one entry of a log file, as it is there.
type Entry struct {
	Offset  int64   // of its first byte in the file
	Zxid    zk.Zxid // 0 if the payload has no TxnHeader
	Payload []byte  // valid until the next call
	Sum     uint64  // the checksum that the entry has
	Valid   bool    // it is that of the payload
}

// EntryReader reads the entries of one log file one after the other, those with a wrong
// checksum too. It is for tools: a server reads with LogReader, which accepts nothing that
// is wrong.
type EntryReader struct {
	name     string
	file     vfs.File
	size     int64
	maxEntry int
	win      *window
	dbid     int64
	advance  int
}

// ErrNoLog reports a file that does not begin as a log of version 2.
var ErrNoLog = errors.New("not a transaction log of version 2")

// OpenEntries opens a log file. It returns ErrNoLog, wrapped, if it is none. maxEntry is
// the length of the longest payload, 0 for what a log accepts by default.
func OpenEntries(fsys vfs.FS, name string, maxEntry int) (*EntryReader, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, fmt.Errorf("storage: open log: %w", err)
	}
	r := &EntryReader{name: name, file: f, maxEntry: maxEntry, win: &window{}}
	if maxEntry == 0 {
		r.maxEntry = DefaultMaxEntryBytes
	}
	if err := r.open(); err != nil {
		return nil, errors.Join(fmt.Errorf("storage: read %s: %w", name, err), f.Close())
	}
	return r, nil
}

func (r *EntryReader) open() error {
	var err error
	if r.size, err = r.file.Seek(0, io.SeekEnd); err == nil {
		_, err = r.file.Seek(0, io.SeekStart)
	}
	if err != nil {
		return err
	}
	r.win.reset(r.file, r.size)
	b, err := r.win.fill(headerBytes)
	if err != nil && notEOF(err) != nil {
		return err
	}
	if len(b) < headerBytes || string(b[:8]) != string(appendFileHeader(nil, logMagic, 0)[:8]) {
		return ErrNoLog
	}
	r.dbid = int64(binary.BigEndian.Uint64(b[8:]))
	r.win.discard(headerBytes)
	return nil
}

// Dbid returns the number in the file's header; docs/formats.md has its meaning.
func (r *EntryReader) Dbid() int64 { return r.dbid }

// Offset returns where the next entry begins or, after io.EOF, where the entries end.
func (r *EntryReader) Offset() int64 { return r.win.off + int64(r.advance) }

// Size returns the length of the file.
func (r *EntryReader) Size() int64 { return r.size }

// Next returns the next entry. It returns io.EOF at a length of zero, at the end of the
// file, and within an entry that the file does not have in full; an *Error of ErrCorrupt
// where a length or an end byte is impossible, since nothing shows where the next entry
// begins.
func (r *EntryReader) Next() (Entry, error) {
	r.win.discard(r.advance)
	r.advance = 0
	e := Entry{Offset: r.win.off}
	b, err := r.win.fill(prefixBytes)
	if err != nil {
		return e, r.ended(err)
	}
	n := binary.BigEndian.Uint32(b[8:])
	e.Sum = binary.BigEndian.Uint64(b)
	switch {
	case n == 0:
		return e, io.EOF
	case int64(n) > int64(r.maxEntry):
		return e, &Error{r.name, e.Offset, fmt.Sprintf("the length of the entry is %d, more than %d", n, r.maxEntry), ErrCorrupt}
	}
	if b, err = r.win.fill(int(n) + frameBytes); err != nil {
		return e, r.ended(err)
	}
	if end := b[prefixBytes+n]; end != entryEnd {
		return e, &Error{r.name, e.Offset, fmt.Sprintf("the entry ends with %#x", end), ErrCorrupt}
	}
	e.Payload = b[prefixBytes : prefixBytes+n : prefixBytes+n]
	e.Valid = uint64(sumAdler(adlerInit, e.Payload)) == e.Sum
	if n >= txnHeadBytes {
		e.Zxid = payloadZxid(e.Payload)
	}
	r.advance = int(n) + frameBytes
	return e, nil
}

// ended is the error of a file that ends.
func (r *EntryReader) ended(err error) error {
	if notEOF(err) == nil {
		return io.EOF
	}
	return fmt.Errorf("storage: read %s: %w", r.name, err)
}

// Torn reports whether anything but zeros follows the entries, once Next has returned
// io.EOF.
func (r *EntryReader) Torn() (bool, error) {
	b := breakage{file: r.file, at: r.Offset(), size: r.size, maxEntry: r.maxEntry}
	_, lastByte, _, err := b.scan()
	return lastByte >= 0, err
}

// Close releases the file.
func (r *EntryReader) Close() error { return r.file.Close() }

// AppendLogHeader appends the header of a log file.
func AppendLogHeader(b []byte, dbid int64) []byte { return appendFileHeader(b, logMagic, dbid) }

// AppendEntry appends an entry to the bytes of a log file, with the checksum of its
// payload.
func AppendEntry(b, payload []byte) []byte {
	return AppendEntrySum(b, payload, uint64(sumAdler(adlerInit, payload)))
}

// AppendEntrySum appends an entry with a checksum that may be wrong.
func AppendEntrySum(b, payload []byte, sum uint64) []byte {
	b = binary.BigEndian.AppendUint64(b, sum)
	b = binary.BigEndian.AppendUint32(b, uint32(len(payload)))
	return append(append(b, payload...), entryEnd)
}

// LogName returns the name of the log file whose first transaction is z.
func LogName(dir string, z zk.Zxid) string { return path.Join(dir, logPrefix+z.Hex()) }
