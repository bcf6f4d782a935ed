package backup

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"time"

	"github.com/pinfold-zk/pinfold/internal/history"
	"github.com/pinfold-zk/pinfold/internal/storage"
	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/zk"
)

// A Restore makes a data directory from a store. Run it once.
type Restore struct {
	Store      Store
	DataDir    string
	LogDir     string    // "" for the same
	Zxid       zk.Zxid   // the last transaction to restore; 0 for all, or as Time says
	Time       time.Time // the history ends before the first transaction that is later; zero for all
	Generation int       // 0 for the newest that has what is asked for
	MaxEntry   int       // length of the longest transaction, 0 for the default

	Result Restored
}

// Restored says what was restored.
type Restored struct {
	Generation int
	Snapshot   string
	Zxid       zk.Zxid
	Time       time.Time // of that transaction; zero if the snapshot has the state
	Compared   int       // digests
	// Damaged are newer snapshots that would have been used, but are damaged in the store, or lead to a tree that
	// has other digests than the log names.
	Damaged []string
}

// workDir is where a restore builds, in the data directory, before anything gets its name.
const workDir = "pinfold-restore"

// errNotThere reports that a generation does not have what is asked for.
var errNotThere = errors.New("the generation does not have that state")

// Run restores. Until everything is there and verified, the directories have nothing that a
// server would start with.
func (r *Restore) Run(ctx context.Context) error {
	if r.MaxEntry == 0 {
		r.MaxEntry = storage.DefaultMaxEntryBytes
	}
	if r.LogDir == "" {
		r.LogDir = r.DataDir
	}
	for _, dir := range []string{r.DataDir, r.LogDir} {
		if err := mustBeEmpty(dir); err != nil {
			return err
		}
	}
	generations, err := Generations(ctx, r.Store)
	if err != nil {
		return err
	}
	var errs []error
	for _, g := range slices.Backward(generations) {
		if r.Generation != 0 && g.Number != r.Generation {
			continue
		}
		err := r.from(ctx, &g, generations)
		if err == nil {
			return nil
		}
		if !errors.Is(err, errNotThere) {
			return err
		}
		errs = append(errs, err)
	}
	if len(errs) == 0 {
		return errors.New("backup: the store has no such backup")
	}
	return errors.Join(errs...)
}

// mustBeEmpty refuses a directory that has a history.
func mustBeEmpty(dir string) error {
	files, err := os.ReadDir(filepath.Join(dir, versionDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && len(files) > 0 {
		err = fmt.Errorf("%s is not empty: stop the server, and move it away", filepath.Join(dir, versionDir))
	}
	return err
}

// from restores from a generation: with its newest snapshot before the end, or if that was
// written while later transactions were applied, or is damaged, with an older one. If there is
// none, the error is that of the newest damaged one.
func (r *Restore) from(ctx context.Context, g *Generation, all []Generation) error {
	end, at, err := r.endIn(ctx, g)
	if err != nil {
		return err
	}
	var damage error
	for _, s := range slices.Backward(g.Snapshots) {
		if s.Zxid > end {
			continue
		}
		err := r.with(ctx, g, s, end)
		switch {
		case errors.Is(err, errFuzzy):
			continue
		case errors.Is(err, history.ErrDamaged):
			r.Result.Damaged = append(r.Result.Damaged, s.Name)
			damage = cmp.Or(damage, err)
			continue
		case err != nil:
			return errors.Join(err, r.clean())
		}
		r.Result.Generation, r.Result.Snapshot, r.Result.Zxid, r.Result.Time = g.Number, s.Name, end, at
		epoch, err := r.newestEpoch(ctx, all, end)
		if err != nil {
			return errors.Join(err, r.clean())
		}
		return r.publish(epoch)
	}
	if damage != nil {
		return errors.Join(damage, r.clean())
	}
	return errors.Join(fmt.Errorf("backup: generation %d has no snapshot with which %v can be restored: %w", g.Number, end, errNotThere), r.clean())
}

// endIn finds the last transaction to restore in a generation, and its time.
func (r *Restore) endIn(ctx context.Context, g *Generation) (end zk.Zxid, at time.Time, err error) {
	first := g.Snapshots[0].Zxid
	if r.Zxid != 0 && r.Zxid < first {
		return 0, at, fmt.Errorf("backup: generation %d begins with %v, after %v: %w", g.Number, first, r.Zxid, errNotThere)
	}
	end = first
	stopped := false
	for _, log := range r.logsWithEnd(g) {
		err := eachEntry(ctx, r.Store, g.file(logName(log)), r.MaxEntry, func(z zk.Zxid, payload []byte) error {
			tx, err := txn.Decode(payload)
			if err != nil {
				return err
			}
			when := time.UnixMilli(tx.Time)
			if r.Zxid != 0 && z > r.Zxid || !r.Time.IsZero() && when.After(r.Time) {
				stopped = true
				return errEnough
			}
			end, at = z, when
			return nil
		})
		if err != nil {
			return 0, at, err
		}
		if stopped {
			break
		}
	}
	switch {
	case r.Zxid != 0 && end != r.Zxid:
		return 0, at, fmt.Errorf("backup: generation %d has no transaction %v; it ends with %v: %w", g.Number, r.Zxid, end, errNotThere)
	case !r.Time.IsZero() && at.IsZero():
		return 0, at, fmt.Errorf("backup: generation %d has no transaction up to %s: %w", g.Number, r.Time.UTC().Format(time.RFC3339), errNotThere)
	}
	return end, at, nil
}

// logsWithEnd returns the log files, by their first transactions, that have to be read to find the end. For a
// time these are all: the leaders' clocks may go back.
func (r *Restore) logsWithEnd(g *Generation) []zk.Zxid {
	if !r.Time.IsZero() {
		return g.Logs
	}
	upto := len(g.Logs)
	if r.Zxid != 0 {
		upto = sort.Search(upto, func(i int) bool { return g.Logs[i] > r.Zxid })
	}
	return g.Logs[max(upto-1, 0):upto]
}

// errFuzzy reports a snapshot that has effects of transactions after the end.
var errFuzzy = errors.New("the snapshot is ahead of the end")

// with builds the directories with a snapshot and the log after it, and verifies them.
func (r *Restore) with(ctx context.Context, g *Generation, s storage.Snapshot, end zk.Zxid) error {
	if err := r.clean(); err != nil {
		return err
	}
	data, logs := filepath.Join(r.DataDir, workDir), filepath.Join(r.LogDir, workDir)
	for _, dir := range []string{data, logs} {
		if err := os.MkdirAll(filepath.Join(dir, versionDir), 0o750); err != nil {
			return fmt.Errorf("backup: %w", err)
		}
	}
	complete, durable := make(chan string, 1+len(g.Logs)), make(chan error, 1)
	go func() { durable <- syncEach(complete) }()
	err := r.copyFiles(ctx, g, s, end, complete)
	close(complete)
	if err == nil {
		err = r.verify(data, logs, end)
	}
	return errors.Join(err, <-durable)
}

// copyFiles copies the snapshot and the log from there to the end, and sends the name of each file that is complete.
func (r *Restore) copyFiles(ctx context.Context, g *Generation, s storage.Snapshot, end zk.Zxid, complete chan<- string) error {
	name := filepath.Join(r.DataDir, workDir, versionDir, s.Name)
	if err := fetch(ctx, r.Store, g.file(s.Name), name); err != nil {
		return err
	}
	complete <- name
	for i, first := range g.Logs {
		next := i+1 < len(g.Logs)
		if first > end || next && g.Logs[i+1] <= s.Zxid+1 {
			continue
		}
		name := filepath.Join(r.LogDir, workDir, versionDir, logName(first))
		if err := fetch(ctx, r.Store, g.file(logName(first)), name); err != nil {
			return err
		}
		if !next || g.Logs[i+1] > end {
			if err := r.cut(name, end); err != nil {
				return err
			}
		}
		complete <- name
	}
	return nil
}

// cut shortens a log file to the entries up to the end.
func (r *Restore) cut(name string, end zk.Zxid) error {
	bytes := int64(len(storage.AppendLogHeader(nil, 0)))
	var entry []byte
	err := eachEntryOf(name, name, r.MaxEntry, func(z zk.Zxid, payload []byte) error {
		if z > end {
			return errEnough
		}
		entry = storage.AppendEntry(entry[:0], payload)
		bytes += int64(len(entry))
		return nil
	})
	if err != nil {
		return err
	}
	return os.Truncate(name, bytes)
}

// syncEach makes files durable, until there are no more names.
func syncEach(names <-chan string) error {
	var errs []error
	for name := range names {
		f, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err == nil {
			err = errors.Join(f.Sync(), f.Close())
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// verify reads what was built, as a server would.
func (r *Restore) verify(data, logs string, end zk.Zxid) error {
	var out bytes.Buffer
	v := history.Verification{Out: &out, MaxEntry: r.MaxEntry, StatesOnly: true}
	err := v.Verify(data, logs)
	if v.Ahead > end {
		return errFuzzy
	}
	if err == nil && v.Reached != end {
		err = fmt.Errorf("the state is that of %v, not of %v", v.Reached, end)
	}
	if err != nil {
		return fmt.Errorf("backup: what was restored is not right: %w\n%s", err, &out)
	}
	r.Result.Compared = v.Compared
	return nil
}

// publish gives the directories their names, the log first: a server does not start without
// the snapshot. epoch is one that a leader has had; the next one must be newer, or its zxids
// could be taken for those of transactions that are not restored.
func (r *Restore) publish(epoch uint32) error {
	d, err := storage.Open(vfs.OS{}, storage.Options{DataDir: filepath.Join(r.DataDir, workDir), DataLogDir: filepath.Join(r.LogDir, workDir)})
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	if epoch > r.Result.Zxid.Epoch() {
		err = errors.Join(d.SetCurrentEpoch(r.Result.Zxid.Epoch()), d.SetAcceptedEpoch(epoch))
	}
	if err = errors.Join(err, d.Close()); err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	dirs := []string{r.LogDir}
	if r.DataDir != r.LogDir {
		dirs = append(dirs, r.DataDir)
	}
	for _, dir := range dirs {
		from, to := filepath.Join(dir, workDir, versionDir), filepath.Join(dir, versionDir)
		if err := errors.Join(vfs.OS{}.SyncDir(from), os.Rename(from, to), vfs.OS{}.SyncDir(dir)); err != nil {
			return fmt.Errorf("backup: %w", err)
		}
	}
	return r.clean()
}

// newestEpoch is the newest epoch of anything in the store. A file may have the transactions of several epochs, and the
// last file of a generation has its newest. Of a generation that is damaged there, what can be read counts: a restore
// from another one does not depend on it.
func (r *Restore) newestEpoch(ctx context.Context, all []Generation, end zk.Zxid) (uint32, error) {
	newest := end.Epoch()
	for _, g := range all {
		for _, s := range g.Snapshots {
			newest = max(newest, s.Zxid.Epoch())
		}
		last, _, err := lastOf(ctx, r.Store, &g, r.MaxEntry)
		if err != nil && !errors.Is(err, storage.ErrCorrupt) && !errors.Is(err, storage.ErrNoLog) {
			return 0, err
		}
		for _, first := range append(g.Logs, last) {
			newest = max(newest, first.Epoch())
		}
	}
	return newest, nil
}

// clean removes what was built.
func (r *Restore) clean() error {
	return errors.Join(os.RemoveAll(filepath.Join(r.DataDir, workDir)), os.RemoveAll(filepath.Join(r.LogDir, workDir)))
}
