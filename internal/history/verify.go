package history

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"

	"github.com/pinfold-zk/pinfold/internal/replica"
	"github.com/pinfold-zk/pinfold/internal/storage"
	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/zk"
)

// A Range is the transactions after one zxid, up to another.
type Range struct{ After, Upto zk.Zxid }

// A Verification reads all of a data directory: each checksum of each file, and each state
// that snapshots and log lead to, with each digest that they name.
//
// Two kinds of loss follow from damage. Lost transactions are missing from the state that a
// server would start with. Behind a snapshot nothing is lost for a server, but the states
// before the snapshot cannot be restored any more.
type Verification struct {
	Out      io.Writer
	MaxEntry int // length of the longest transaction, 0 for the default
	// StatesOnly leaves out the entries that no state is made of: those which a snapshot has made unnecessary, and
	// those after a place that a server does not pass. The end of the history is then where the log can be read to.
	StatesOnly bool

	Reached  zk.Zxid // the newest state that can be restored
	Ahead    zk.Zxid // the last transaction of which a snapshot has effects
	Lost     []Range // of the newest state
	Hidden   []Range // of states before a snapshot
	Compared int     // digests
	dir      *storage.Dir
	end      zk.Zxid // the last transaction that the directory is known to have had
	problems int
	valid    []storage.Snapshot // oldest first
	only     *replica.State     // that of the only snapshot, so that it is read once
}

// Verify verifies the directories, of which logDir may be empty. It prints what it finds,
// and returns ErrDamaged if anything is wrong.
func (v *Verification) Verify(dataDir, logDir string) error {
	if v.MaxEntry == 0 {
		v.MaxEntry = storage.DefaultMaxEntryBytes
	}
	var err error
	v.dir, err = storage.OpenReadOnly(vfs.OS{}, storage.Options{
		DataDir: dataDir, DataLogDir: logDir, Log: storage.LogOptions{MaxEntryBytes: v.MaxEntry},
	})
	if err != nil {
		return err
	}
	steps := []func() error{v.snapshots, v.logs, v.synced, v.states, v.epochs, v.conclude}
	if v.StatesOnly {
		steps = slices.Delete(steps, 1, 2)
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	if v.problems > 0 {
		return ErrDamaged
	}
	return nil
}

func (v *Verification) print(format string, args ...any) error {
	_, err := fmt.Fprintf(v.Out, format+"\n", args...)
	return err
}

// problem prints what is wrong.
func (v *Verification) problem(what string, format string, args ...any) error {
	v.problems++
	return v.print("%-24s DAMAGED  %s", what, fmt.Sprintf(format, args...))
}

// snapshots reads every snapshot.
func (v *Verification) snapshots() error {
	list, err := v.dir.Snapshots()
	if err != nil {
		return err
	}
	for _, s := range slices.Backward(list) {
		state, err := v.load(s)
		switch {
		case errors.Is(err, storage.ErrCorrupt):
			err = v.problem(s.Name, "%v", reasonOf(err))
		case err == nil:
			v.valid = append(v.valid, s)
			v.end = max(v.end, s.Zxid)
			v.Ahead = max(v.Ahead, state.AheadUpTo())
			if len(list) == 1 {
				v.only = state
			}
			err = v.print("%-24s whole    %d znodes, %d sessions", s.Name, state.Tree().Count(), state.Tree().SessionCount())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (v *Verification) load(s storage.Snapshot) (*replica.State, error) {
	sr, err := v.dir.OpenSnapshot(s)
	if err != nil {
		return nil, err
	}
	return replica.ReadState(sr, s.Zxid, v.MaxEntry)
}

// reasonOf returns an error without the name of its file.
func reasonOf(err error) string {
	if e, ok := errors.AsType[*storage.Error](err); ok {
		return fmt.Sprintf("at byte %d: %s", e.Offset, e.Reason)
	}
	return err.Error()
}

// logs reads every entry of every log file. Whether files belong together is found by
// states.
func (v *Verification) logs() error {
	files, err := v.dir.Logs()
	if err != nil {
		return err
	}
	for _, f := range files {
		if err := v.log(f); err != nil {
			return err
		}
	}
	return nil
}

func (v *Verification) log(f storage.LogFile) error {
	name := path.Base(f.Name)
	r, err := storage.OpenEntries(vfs.OS{}, f.Name, v.MaxEntry)
	if errors.Is(err, storage.ErrNoLog) {
		v.end = max(v.end, f.Zxid) // by its name
		return v.problem(name, "%v", storage.ErrNoLog)
	}
	if err != nil {
		return err
	}
	count, last, err := v.entries(r, name)
	if err == nil {
		err = v.print("%-24s read     %d transactions, %v to %v, %d bytes", name, count, f.Zxid, last, r.Offset())
	}
	return errors.Join(err, r.Close())
}

// entries reads the entries of a file, and reports those that are damaged.
func (v *Verification) entries(r *storage.EntryReader, name string) (count int, last zk.Zxid, err error) {
	for {
		e, err := r.Next()
		if err == io.EOF {
			return count, last, nil
		}
		if errors.Is(err, storage.ErrCorrupt) {
			return count, last, v.problem(name, "%v; the rest of the file cannot be read", reasonOf(err))
		}
		if err != nil {
			return count, last, err
		}
		count++
		if !e.Valid {
			err = v.problem(name, "at byte %d: the checksum of the transaction after %v is wrong", e.Offset, last)
		} else {
			last = max(last, e.Zxid)
			v.end = max(v.end, last)
			if _, bad := txn.Decode(e.Payload); bad != nil {
				err = v.problem(name, "at byte %d: %v", e.Offset, bad)
			}
		}
		if err != nil {
			return count, last, err
		}
	}
}

// synced takes into account how far the log was durable.
func (v *Verification) synced() error {
	z, err := v.dir.Synced()
	v.end = max(v.end, z)
	return err
}

// states replays the log over the oldest snapshot, and after each place that it cannot
// pass, over the next one.
func (v *Verification) states() error {
	hasLog, err := v.dir.HasLog()
	if err != nil {
		return err
	}
	if len(v.valid) == 0 && !hasLog {
		return v.problem("directory", "there is neither a snapshot nor a log")
	}
	if len(v.valid) == 0 {
		return v.problem("directory", "there is no snapshot that can be read: a server starts on the log alone only with snapshot.trust.empty=true")
	}
	for i := 0; i < len(v.valid); {
		from := v.valid[i]
		if v.Reached, err = v.replay(from); err != nil {
			return err
		}
		for i++; i < len(v.valid) && v.valid[i].Zxid <= v.Reached; i++ {
		}
		if i < len(v.valid) {
			v.Hidden = append(v.Hidden, Range{v.Reached, v.valid[i].Zxid})
		}
	}
	if v.Reached < v.end {
		v.Lost = append(v.Lost, Range{v.Reached, v.end})
	}
	return nil
}

// replay applies the log to a snapshot for as long as it can be read, and returns the zxid
// of the last state. What stops it is reported unless it is the end of the log.
func (v *Verification) replay(from storage.Snapshot) (zk.Zxid, error) {
	state, err := v.only, error(nil)
	if state == nil {
		state, err = v.load(from)
	}
	if err != nil {
		return 0, err
	}
	r, err := v.dir.ReadLog(from.Zxid)
	if err != nil {
		return 0, err
	}
	defer r.Close() // read only
	mismatches := 0
	for {
		payload, err := r.Next()
		if err == io.EOF {
			break
		}
		if errors.Is(err, storage.ErrCorrupt) || errors.Is(err, storage.ErrGap) {
			var e *storage.Error
			errors.As(err, &e)
			return r.LastZxid(), v.problem(path.Base(e.Name), "%s; the log cannot be read on from %v", reasonOf(err), r.LastZxid())
		}
		if err != nil {
			return 0, err
		}
		tx, err := txn.Decode(payload)
		if err != nil {
			return r.LastZxid(), nil // reported by entries
		}
		if state.Apply(&tx) {
			continue
		}
		if mismatches++; mismatches == 1 {
			if err := v.problem(from.Name, "with the log up to %v, the tree does not have the digest that the log names", tx.Zxid); err != nil {
				return 0, err
			}
		}
	}
	v.Compared += state.Compared()
	if state.Undecided() {
		if err := v.undecided(from, state, r.LastZxid()); err != nil {
			return 0, err
		}
	}
	return r.LastZxid(), v.tail(r, mismatches)
}

// undecided reports that the log ends, with last, before the snapshot is known to be ahead of nothing. A member of an
// ensemble that was sent a snapshot by its leader gets the rest from the leader.
func (v *Verification) undecided(from storage.Snapshot, state *replica.State, last zk.Zxid) error {
	v.Ahead = max(v.Ahead, last+1)
	if _, _, named := state.Digest(); named {
		return v.problem(from.Name, "with the log up to %v, where it ends, the tree does not have the digest that the snapshot names: it may have a part of the next transaction", last)
	}
	return v.print("%-24s note     it has effects of transactions after %v, where the log ends: a leader has sent it, and sends the rest", from.Name, last)
}

// tail reports an interrupted write and gaps that a server passes.
func (v *Verification) tail(r *storage.LogReader, mismatches int) error {
	var errs []error
	if t := r.Tail(); t.Torn {
		errs = append(errs, v.print("%-24s note     %s: a server cuts it off, nothing that was acknowledged is in it", path.Base(t.Name), t.Reason))
	}
	if n, gap := r.Gaps(); n > 0 {
		errs = append(errs, v.print("%-24s note     zxids are missing in %d places, the first after %v: Apache drops requests so", path.Base(gap.Name), n, gap.Before))
	}
	if mismatches > 1 {
		errs = append(errs, v.print("%-24s note     %d digests are not as the log names them", "digests", mismatches))
	}
	return errors.Join(errs...)
}

// epochs checks what a start would refuse.
func (v *Verification) epochs() error {
	accepted, current, err := v.dir.Epochs(v.Reached)
	switch {
	case errors.Is(err, os.ErrPermission):
		return err
	case err != nil:
		return v.problem("epochs", "%v", err)
	case accepted < current:
		return v.problem("epochs", "acceptedEpoch %d is older than currentEpoch %d", accepted, current)
	case current < v.Reached.Epoch():
		return v.print("%-24s note     currentEpoch %d is older than the last transaction %v: Pinfold raises it, Apache may refuse to start",
			"epochs", current, v.Reached)
	}
	return nil
}

// conclude prints what can be restored and what is lost.
func (v *Verification) conclude() error {
	errs := []error{v.print("state                    %v, %d digests compared", v.Reached, v.Compared)}
	for _, r := range v.Hidden {
		errs = append(errs, v.print("cannot be restored       the states after %v and before %v", r.After, r.Upto))
	}
	for _, r := range v.Lost {
		errs = append(errs, v.print("LOST                     the transactions after %v, up to %v", r.After, r.Upto))
	}
	if v.problems == 0 {
		errs = append(errs, v.print("all is well"))
	}
	return errors.Join(errs...)
}
