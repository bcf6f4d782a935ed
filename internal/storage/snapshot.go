package storage

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"

	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/zk"
)

// Compression is how a snapshot file is compressed.
type Compression int

// The compressions, and their values of snapshot.compression.method.
const (
	Plain  Compression = iota // ""
	Gzip                      // gz
	Snappy                    // snappy
)

// ParseCompression reads a value of snapshot.compression.method.
func ParseCompression(s string) (Compression, error) {
	for _, c := range []Compression{Plain, Gzip, Snappy} {
		if s == strings.TrimPrefix(c.suffix(), ".") {
			return c, nil
		}
	}
	return Plain, fmt.Errorf("storage: compression method %q, want gz, snappy or nothing", s)
}

// suffix is what the file name ends in.
func (c Compression) suffix() string {
	switch c {
	case Gzip:
		return ".gz"
	case Snappy:
		return ".snappy"
	}
	return ""
}

// Snapshot is a snapshot file in the directory.
type Snapshot struct {
	Name        string  // without directory
	Zxid        zk.Zxid // the snapshot holds everything up to it
	Compression Compression
}

// parseSnapshotName reads snapshot.<hex>[.gz|.snappy].
func parseSnapshotName(name string) (s Snapshot, ok bool) {
	s.Name = name
	hex, ok := strings.CutPrefix(name, snapshotPrefix)
	if !ok {
		return s, false
	}
	for _, c := range []Compression{Gzip, Snappy} {
		if rest, ok := strings.CutSuffix(hex, c.suffix()); ok {
			hex, s.Compression = rest, c
			break
		}
	}
	s.Zxid, ok = parseHex(hex)
	return s, ok
}

// listSnapshots returns the snapshot files of a directory, newest first.
func listSnapshots(fsys vfs.FS, dir string) ([]Snapshot, error) {
	names, err := fsys.List(dir)
	if err != nil {
		return nil, fmt.Errorf("storage: list %s: %w", dir, err)
	}
	var snaps []Snapshot
	for _, name := range names {
		if s, ok := parseSnapshotName(name); ok {
			snaps = append(snaps, s)
		}
	}
	slices.SortStableFunc(snaps, func(a, b Snapshot) int { return cmp.Compare(b.Zxid, a.Zxid) })
	return snaps, nil
}

// sealBytes is the length of a seal: checksum (8), string "/" (5). A valid uncompressed
// file also ends with one.
const sealBytes = 13

// sealEnd is the string "/", which ends a seal and with it a plain snapshot.
const sealEnd = "\x00\x00\x00\x01/"

// SnapshotWriter writes one snapshot. One goroutine owns it. The writer itself writes
// the header of the stream; the caller writes the parts, with a Seal after each:
//
//	sessions, ACLs, nodes and the terminating string "/"; Seal
//	digest block; Seal
//	last zxid block; Seal
//
// Commit durably makes the snapshot visible; Abort removes it. The first error sticks.
type SnapshotWriter struct {
	d           *Dir
	zxid        zk.Zxid
	name        string
	compression Compression
	tmp         string // with directory; "" once it is renamed or removed
	file        vfs.File
	out         *bufio.Writer // to the file
	packed      io.Writer     // into out, compressing
	sum         uint32
	bytes       int64
	err         error
}

const (
	// snapshotBufferBytes is Options.SnapshotBuffer, unless that is set.
	snapshotBufferBytes = 1 << 20
	// snapshotSyncBytes is how much of a snapshot may be written before the file is
	// synced.
	snapshotSyncBytes = 2 << 20
)

// steadyWriter syncs a file while it is being written. A single sync of the complete
// snapshot at the end keeps the disk busy, and delays the log: in a model of both on
// ext4, with 200 MB of snapshot and a log that is flushed all the time, the longest
// flush took 74 to 87 ms, and 2 to 10 ms with this writer.
type steadyWriter struct {
	file  vfs.File
	dirty int // bytes written since the last sync
}

func (w *steadyWriter) Write(p []byte) (int, error) {
	n, err := w.file.Write(p)
	w.dirty += n
	if err == nil && w.dirty >= snapshotSyncBytes {
		w.dirty = 0
		err = w.file.Sync()
	}
	return n, err
}

// createSnapshot creates a temporary file and writes the header into it.
func (d *Dir) createSnapshot(zxid zk.Zxid, c Compression) (*SnapshotWriter, error) {
	w := &SnapshotWriter{d: d, zxid: zxid, sum: adlerInit}
	w.name, w.compression = snapshotPrefix+zxid.Hex()+c.suffix(), c
	w.tmp = path.Join(d.snapDir, tmpPrefix+w.name)
	f, err := d.fs.Create(w.tmp)
	if err != nil {
		return nil, fmt.Errorf("storage: create snapshot: %w", err)
	}
	w.file = f
	w.out = bufio.NewWriterSize(&steadyWriter{file: f}, cmp.Or(d.o.SnapshotBuffer, snapshotBufferBytes))
	switch c {
	case Plain:
		w.packed = w.out
	case Gzip:
		w.packed, err = gzip.NewWriterLevel(w.out, gzip.BestSpeed)
	case Snappy:
		w.packed = newSnappyWriter(w.out)
	}
	if err == nil {
		_, err = w.Write(appendFileHeader(nil, snapshotMagic, -1))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("storage: write snapshot %s: %w", w.tmp, err), w.Abort())
	}
	return w, nil
}

// Write appends to the stream. Large pieces cost least.
func (w *SnapshotWriter) Write(p []byte) (int, error) {
	if w.err != nil {
		return 0, w.err
	}
	w.sum = sumAdler(w.sum, p)
	w.bytes += int64(len(p))
	n, err := w.packed.Write(p)
	if err != nil {
		w.err = fmt.Errorf("storage: write snapshot %s: %w", w.tmp, err)
	}
	return n, w.err
}

// Seal writes the checksum of everything before it, and the string "/". The next seal
// covers this one too.
func (w *SnapshotWriter) Seal() error {
	b := binary.BigEndian.AppendUint64(nil, uint64(w.sum))
	_, err := w.Write(append(b, sealEnd...))
	return err
}

// Snapshot names the file that Commit makes visible.
func (w *SnapshotWriter) Snapshot() Snapshot { return Snapshot{w.name, w.zxid, w.compression} }

// Bytes returns the length of the stream so far, before compression.
func (w *SnapshotWriter) Bytes() int64 { return w.bytes }

// Commit syncs the file, renames it to its name, where it replaces an older one, and
// makes the name durable. After an error the snapshot may or may not exist, but is
// complete if it does; the temporary file is removed if possible.
func (w *SnapshotWriter) Commit() error {
	return w.complete(w.publish)
}

// Install is Commit for a snapshot that came from a leader and replaces this server's
// own history: everything in that history that is later than the snapshot is removed.
// No log may be open. When it returns nil, the directory durably has the state of the
// snapshot and nothing after it, and the next NewLog has to start after its zxid.
//
// A crash or an error at any moment leaves one of these: the old history; the old
// history cut off at or after the snapshot's zxid, as far as it reached that; the
// snapshot with nothing after it. It never leaves transactions of one history after the
// state of the other.
//
// Snapshots and transactions from before its zxid remain. If they do not lead up to it,
// there is a gap, and a reader that crosses it gets ErrGap.
func (w *SnapshotWriter) Install() error {
	w.d.removal.Lock()
	defer w.d.removal.Unlock()
	return w.complete(func() error { return w.d.install(w.zxid, w.publish) })
}

// complete finishes the file and publishes it by publish.
func (w *SnapshotWriter) complete(publish func() error) error {
	if w.err == nil {
		err := w.finish()
		if err == nil {
			err = publish()
		}
		if err != nil {
			w.err = fmt.Errorf("storage: finish snapshot %s: %w", w.name, err)
		}
	}
	if w.err != nil {
		return errors.Join(w.err, w.Abort())
	}
	w.err = errSnapshotDone
	return nil
}

var errSnapshotDone = errors.New("storage: the snapshot is finished")

// finish makes the temporary file complete and durable.
func (w *SnapshotWriter) finish() error {
	if c, ok := w.packed.(io.Closer); ok {
		if err := c.Close(); err != nil {
			return err
		}
	}
	if err := w.out.Flush(); err != nil {
		return err
	}
	if err := w.file.Sync(); err != nil {
		return err
	}
	f := w.file
	w.file = nil
	return f.Close()
}

// publish renames the finished file to its name.
func (w *SnapshotWriter) publish() error {
	if err := w.d.fs.Rename(w.tmp, path.Join(w.d.snapDir, w.name)); err != nil {
		return err
	}
	w.tmp = ""
	return w.d.fs.SyncDir(w.d.snapDir)
}

// Abort removes the temporary file. After Commit it does nothing, so a caller may defer
// it.
func (w *SnapshotWriter) Abort() error {
	var err error
	if w.file != nil {
		err = w.file.Close()
		w.file = nil
	}
	if w.tmp != "" {
		err = errors.Join(err, w.d.fs.Remove(w.tmp))
		w.tmp = ""
	}
	if w.err == nil {
		w.err = errSnapshotDone
	}
	if err != nil {
		return fmt.Errorf("storage: abort snapshot %s: %w", w.name, err)
	}
	return nil
}

// OpenFile opens a snapshot to be copied: the bytes of its file, compressed if it is. The
// file can be read until the caller closes it, even if a purge removes it.
func (d *Dir) OpenFile(s Snapshot) (f io.ReadCloser, bytes int64, err error) {
	file, err := d.fs.Open(path.Join(d.snapDir, s.Name))
	if err != nil {
		return nil, 0, fmt.Errorf("storage: open snapshot: %w", err)
	}
	bytes, err = file.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, 0, errors.Join(fmt.Errorf("storage: read snapshot %s: %w", s.Name, err), file.Close())
	}
	return file, bytes, nil
}
