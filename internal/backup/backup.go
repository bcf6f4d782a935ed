package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"time"

	"github.com/pinfold-zk/pinfold/internal/storage"
	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/zk"
)

// segmentBytes is about how long a log file in a store is at most: it also ends where a file of the server's log ends. It
// is built in memory.
const segmentBytes = 16 << 20

// A Backup copies what is new in a data directory, whose server may be running, to a store.
// Run it once.
type Backup struct {
	Store    Store
	DataDir  string
	LogDir   string // "" for the same
	Full     bool   // begin a new generation in any case
	MaxEntry int    // length of the longest transaction, 0 for the default
	Rate     int64  // bytes copied in a second at most, 0 for no limit

	Result Result

	dir        *storage.Dir
	pace       pace
	generation Generation
	replaced   bool    // the state after end did not come from the log
	end        zk.Zxid // up to which the generation has the history
	segment    []byte
	first      zk.Zxid // of the segment
	file       string  // of the server's log, from which the last entry of the segment is
}

// A Result says what a backup has copied.
type Result struct {
	Generation   int
	New          string // why a generation begins, "" if none does
	Snapshot     string // name of the snapshot that was copied, "" if none
	Transactions int
	Bytes        int64
	Zxid         zk.Zxid // the last transaction in the store
	Tail         string  // what follows it in the server's log and cannot be read yet
}

// errNotContinued reports that the server's log does not go on where a generation ends.
var errNotContinued = errors.New("the server's log does not go on there")

// Run copies. If it fails, what it has copied remains, and the next run goes on from there.
func (b *Backup) Run(ctx context.Context) (err error) {
	if b.MaxEntry == 0 {
		b.MaxEntry = storage.DefaultMaxEntryBytes
	}
	b.pace.rate = b.Rate
	b.dir, err = storage.OpenReadOnly(vfs.OS{}, storage.Options{
		DataDir: b.DataDir, DataLogDir: b.LogDir, Log: storage.LogOptions{MaxEntryBytes: b.MaxEntry},
	})
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	synced, err := b.dir.Synced() // before the log is read, which is then at least as long
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	for try := 0; ; try++ {
		if err := b.copyNew(ctx, synced); err != nil {
			return err
		}
		if b.Result.Tail == "" || b.Result.Transactions > 0 {
			break
		}
		if try == maxTries && synced == 0 {
			return fmt.Errorf("backup: the log cannot be read after %v: %s", b.end, b.Result.Tail)
		}
		if try == maxTries {
			break
		}
		select {
		case <-time.After(tryAgain):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if b.Result.Snapshot == "" {
		err = b.addSnapshot(ctx)
	}
	b.Result.Generation, b.Result.Zxid = b.generation.Number, b.end
	return err
}

// A log that ends within an entry is read again that often, after that time: the server may
// have been writing the entry. An entry that stays unreadable is damage if it is not known
// that the server has not synced it; otherwise no client was told of it.
const (
	maxTries = 5
	tryAgain = 100 * time.Millisecond
)

// copyNew copies what follows in the log.
func (b *Backup) copyNew(ctx context.Context, synced zk.Zxid) error {
	b.Result.Tail = ""
	snapshots, err := b.dir.Snapshots() // before the log is read, which then leads to the newest
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	log, err := b.goOn(ctx)
	if err != nil {
		return err
	}
	b.Full = false
	err = errors.Join(b.copyLog(ctx, log, synced), log.Close())
	replaced := errors.Is(err, storage.ErrGap) || err == nil && b.Result.Tail == "" && len(snapshots) > 0 && snapshots[0].Zxid > b.end
	if replaced && b.Result.Snapshot == "" {
		b.replaced = true
		return b.copyNew(ctx, synced)
	}
	return err
}

// goOn opens the log where the newest generation ends; or it begins a generation with the
// newest snapshot.
func (b *Backup) goOn(ctx context.Context) (*storage.LogReader, error) {
	generations, err := Generations(ctx, b.Store)
	if err != nil {
		return nil, err
	}
	if n := len(generations); n > 0 {
		b.generation = generations[n-1]
	}
	switch {
	case len(generations) == 0:
		b.Result.New = "the store is empty"
	case b.replaced:
		b.replaced = false
		b.Result.New = fmt.Sprintf("the state after %v did not come from the log: it was restored, or is a leader's", b.end)
	case b.Full:
		b.Result.New = "a full backup was asked for"
	default:
		log, err := b.continued(ctx)
		if !errors.Is(err, errNotContinued) {
			return log, err
		}
		b.Result.New = err.Error()
	}
	b.generation = *newGeneration(b.generation.Number + 1)
	s, err := b.newestSnapshot()
	if err != nil {
		return nil, err
	}
	if err := b.putSnapshot(ctx, s); err != nil {
		return nil, err
	}
	b.end = s.Zxid
	return b.dir.ReadLog(s.Zxid)
}

// continued opens the log after the last transaction of the generation, which it must have
// with the same content: a member of an ensemble may have logged a transaction that was
// never committed, and have removed it since.
func (b *Backup) continued(ctx context.Context) (*storage.LogReader, error) {
	last, payload, err := lastOf(ctx, b.Store, &b.generation, b.MaxEntry)
	if err != nil {
		return nil, err
	}
	b.end = last
	if end := b.position(); end > 0 {
		if r, ok, err := b.dir.ReadLogFrom(last, payload, end); ok || err != nil {
			return r, err
		}
	}
	after := last
	if payload != nil {
		after--
	}
	r, err := b.dir.ReadLog(after)
	if err != nil {
		return nil, fmt.Errorf("backup: %w", err)
	}
	have, err := r.Next()
	switch {
	case payload == nil && (err == nil || err == io.EOF): // a snapshot without a log, which the log follows
		again, err := b.dir.ReadLog(after)
		return again, errors.Join(err, r.Close())
	case err == nil && r.LastZxid() == last && bytes.Equal(have, payload):
		return r, nil
	case err == nil || err == io.EOF || errors.Is(err, storage.ErrGap) || errors.Is(err, storage.ErrCorrupt):
		return nil, errors.Join(fmt.Errorf("generation %d ends with %v: %w", b.generation.Number, last, errNotContinued), r.Close())
	}
	return nil, errors.Join(fmt.Errorf("backup: %w", err), r.Close())
}

// position is where the last transaction of the generation ends in its file of the server's log, if the generation has that
// file from its beginning on and entry by entry: 0, or a guess, which the caller checks.
func (b *Backup) position() (end int64) {
	logs, err := b.dir.Logs()
	if err != nil {
		return 0 // reading it meets the error
	}
	header := int64(len(storage.AppendLogHeader(nil, 0)))
	for _, file := range slices.Backward(logs) {
		if file.Zxid > b.end {
			continue
		}
		if b.generation.logBytes[file.Zxid] == 0 {
			return 0
		}
		end = header
		for _, first := range b.generation.Logs {
			if first >= file.Zxid {
				end += b.generation.logBytes[first] - header
			}
		}
		return end
	}
	return 0
}

// newestSnapshot returns the newest snapshot of the server that has the right checksum. Its records are looked at by a
// restore: to decode them costs as much as loading them.
func (b *Backup) newestSnapshot() (storage.Snapshot, error) {
	list, err := b.dir.Snapshots()
	if err != nil {
		return storage.Snapshot{}, fmt.Errorf("backup: %w", err)
	}
	for _, s := range list {
		sr, err := b.dir.OpenSnapshot(s)
		if err == nil {
			err = errors.Join(sr.CheckSums(), sr.Close())
		}
		if err == nil {
			return s, nil
		}
		if !errors.Is(err, storage.ErrCorrupt) && !errors.Is(err, fs.ErrNotExist) {
			return s, fmt.Errorf("backup: %w", err)
		}
	}
	return storage.Snapshot{}, fmt.Errorf("backup: %s has no snapshot that is whole: start the server once, which writes one", b.DataDir)
}

func (b *Backup) putSnapshot(ctx context.Context, s storage.Snapshot) error {
	f, size, err := b.dir.OpenFile(s)
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	err = b.Store.Put(ctx, b.generation.file(s.Name), b.pace.reader(ctx, f), size)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("backup: copy %s: %w", s.Name, err)
	}
	b.Result.Snapshot = s.Name
	b.Result.Bytes += size
	b.generation.Snapshots = append(b.generation.Snapshots, s)
	return nil
}

// addSnapshot copies the newest snapshot if it is later than those of the generation, and
// the store has more of its log than its length. So a restore replays little, and snapshots
// are at most half of the store.
func (b *Backup) addSnapshot(ctx context.Context) error {
	list, err := b.dir.Snapshots()
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	newest := b.generation.Snapshots[len(b.generation.Snapshots)-1]
	if len(list) == 0 || list[0].Zxid <= newest.Zxid || list[0].Zxid > b.end {
		return nil
	}
	f, size, err := b.dir.OpenFile(list[0])
	if errors.Is(err, fs.ErrNotExist) {
		return nil // purged meanwhile
	}
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	if b.generation.logBytesSince(newest.Zxid) < size {
		return nil
	}
	s, err := b.newestSnapshot()
	if err != nil || s.Zxid <= newest.Zxid || s.Zxid > b.end {
		return err
	}
	return b.putSnapshot(ctx, s)
}

// logBytesSince is how much log of the generation begins after z.
func (g *Generation) logBytesSince(z zk.Zxid) (bytes int64) {
	for _, first := range g.Logs {
		if first > z {
			bytes += g.logBytes[first]
		}
	}
	return bytes
}

// copyLog copies the rest of the log. The end of the log may be incomplete while the server
// writes: only up to synced it is certain that everything can be read.
func (b *Backup) copyLog(ctx context.Context, r *storage.LogReader, synced zk.Zxid) error {
	for {
		payload, err := r.Next()
		if err == nil {
			if err := b.add(ctx, r.File(), r.LastZxid(), payload); err != nil {
				return err
			}
			continue
		}
		certain := b.end < synced
		switch {
		case err == io.EOF:
		case errors.Is(err, storage.ErrCorrupt) && !certain:
			b.Result.Tail = err.Error()
		default:
			return errors.Join(fmt.Errorf("backup: after %v: %w", b.end, err), b.flush(ctx))
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		return b.flush(ctx)
	}
}

// add appends a transaction of a file of the server's log to the segment. A segment ends with the file, see position.
func (b *Backup) add(ctx context.Context, file string, z zk.Zxid, payload []byte) error {
	next := z == b.end+1 || z.Epoch() > b.end.Epoch()
	if next && len(b.segment) > 0 && (file != b.file || len(b.segment)+len(payload) > segmentBytes) {
		if err := b.flush(ctx); err != nil {
			return err
		}
	}
	if len(b.segment) == 0 {
		if !next {
			return fmt.Errorf("backup: the server's log has %v after %v: zxids are missing just where the store ends: make a full backup", z, b.end)
		}
		dbid := zk.Zxid(0)
		if z != b.end+1 { // a newer epoch: the header says what it follows
			dbid = b.end
		}
		b.first, b.segment = z, storage.AppendLogHeader(b.segment, int64(dbid))
	}
	b.segment = storage.AppendEntry(b.segment, payload)
	b.end, b.file = z, file
	b.Result.Transactions++
	return nil
}

// flush writes the segment to the store.
func (b *Backup) flush(ctx context.Context) error {
	if len(b.segment) == 0 {
		return nil
	}
	name := b.generation.file(logName(b.first))
	if err := b.Store.Put(ctx, name, b.pace.reader(ctx, bytes.NewReader(b.segment)), int64(len(b.segment))); err != nil {
		return fmt.Errorf("backup: write %s: %w", name, err)
	}
	b.generation.Logs = append(b.generation.Logs, b.first)
	b.generation.logBytes[b.first] = int64(len(b.segment))
	b.Result.Bytes += int64(len(b.segment))
	b.segment = b.segment[:0]
	return nil
}
