package storage

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/pinfold-zk/pinfold/zk"
)

// The epoch files and the marker beside the log directory.
const (
	acceptedEpochName = "acceptedEpoch"
	currentEpochName  = "currentEpoch"
	epochTmpSuffix    = ".tmp"
	initializeName    = "initialize"
)

// LoadEpochs reads the epoch files of a server whose history ends with last. A
// file that is missing stands for the epoch of last. It returns an error if they
// contradict each other: acceptedEpoch older than currentEpoch.
//
// If last is of a newer epoch than currentEpoch, that is raised to the epoch of
// last, durably, and acceptedEpoch too if it is older. adopted says so, unless
// currentEpoch.tmp shows that this replacement had begun: somebody should know,
// but the server may start.
//
// A server looks so that crashed while it was synchronized with a leader: first
// what the leader sends is logged and synced, then currentEpoch is replaced, then
// NEWLEADER is acknowledged. In between, transactions of epoch e are in the log of
// a server that has not said yet that it is of epoch e. That it then says so is
// safe (protocol page, sections 11.2 and 17.1), for two reasons:
//
//  1. What there is, is what a follower of e has that has logged up to last. The
//     leader of e sends its initial history in front of its own transactions, in
//     the order of zxids, and they are logged in that order, or installed whole as
//     a snapshot. So one transaction of e in the log means that the initial
//     history of e is there, whole, and then what e proposed, up to last. To vote
//     for (e, last) claims no more than that.
//  2. The other way round would not be: to claim e without the history of e wins
//     elections against those who have it, and truncates what they committed
//     (ZOOKEEPER-4643, where currentEpoch went to the disk before the log). Hence
//     it is raised to the epoch of last and no further, whatever epoch the
//     unfinished currentEpoch.tmp speaks of.
//
// Nor would it be better to stay at the older epoch: no majority can count on
// last, as this server has acknowledged nothing of e, but Apache would refuse to
// start on the directory.
func (d *Dir) LoadEpochs(last zk.Zxid) (accepted, current uint32, adopted bool, err error) {
	// A process that was killed may have renamed a file and not made that durable.
	if err := d.fs.SyncDir(d.snapDir); err != nil {
		return 0, 0, false, fmt.Errorf("storage: make the epoch files durable: %w", err)
	}
	if current, err = d.readEpoch(currentEpochName, last.Epoch()); err != nil {
		return 0, 0, false, err
	}
	if accepted, err = d.readEpoch(acceptedEpochName, last.Epoch()); err != nil {
		return 0, 0, false, err
	}
	if current < last.Epoch() {
		begun, err := d.readEpoch(currentEpochName+epochTmpSuffix, 0)
		if err != nil && !errors.Is(err, errNotEpoch) { // a crash may leave it in part
			return 0, 0, false, err
		}
		adopted = begun != last.Epoch()
		current = last.Epoch()
		// The promise comes first: it must never be the older one.
		if accepted < current {
			accepted = current
			if err := d.SetAcceptedEpoch(accepted); err != nil {
				return 0, 0, false, err
			}
		}
		if err := d.SetCurrentEpoch(current); err != nil {
			return 0, 0, false, err
		}
	}
	if accepted < current {
		return 0, 0, false, fmt.Errorf("storage: acceptedEpoch %d is older than currentEpoch %d", accepted, current)
	}
	return accepted, current, adopted, nil
}

// SetAcceptedEpoch replaces the acceptedEpoch file. It is durable when it
// returns; after an error it is the old one or the new one.
func (d *Dir) SetAcceptedEpoch(epoch uint32) error {
	if _, _, err := d.syncedZxid(); err != nil { // which goes by the present epoch
		return err
	}
	if err := d.writeEpoch(acceptedEpochName, epoch); err != nil {
		return err
	}
	if err := d.markEpoch(epoch); err != nil {
		return fmt.Errorf("storage: write %s: %w", d.markName(), err)
	}
	return nil
}

// SetCurrentEpoch replaces the currentEpoch file, like SetAcceptedEpoch.
func (d *Dir) SetCurrentEpoch(epoch uint32) error { return d.writeEpoch(currentEpochName, epoch) }

var errNotEpoch = errors.New("is not an epoch")

// readEpoch reads a decimal number; missing is what an absent file stands for.
func (d *Dir) readEpoch(name string, missing uint32) (uint32, error) {
	name = path.Join(d.snapDir, name)
	f, err := d.fs.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return missing, nil
	}
	if err != nil {
		return 0, fmt.Errorf("storage: open epoch file: %w", err)
	}
	b, err := io.ReadAll(io.LimitReader(f, 64))
	if err = errors.Join(err, f.Close()); err != nil {
		return 0, fmt.Errorf("storage: read %s: %w", name, err)
	}
	epoch, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 31)
	if err != nil {
		return 0, fmt.Errorf("storage: %s: %q %w", name, b, errNotEpoch)
	}
	return uint32(epoch), nil
}

func (d *Dir) writeEpoch(name string, epoch uint32) error {
	name = path.Join(d.snapDir, name)
	err := d.replaceFile(name, strconv.AppendUint(nil, uint64(epoch), 10))
	if err != nil {
		return fmt.Errorf("storage: write %s: %w", name, err)
	}
	return nil
}

// replaceFile writes a file under a temporary name, syncs it and renames it.
func (d *Dir) replaceFile(name string, content []byte) error {
	f, err := d.fs.Create(name + epochTmpSuffix)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := d.fs.Rename(name+epochTmpSuffix, name); err != nil {
		return err
	}
	return d.fs.SyncDir(path.Dir(name))
}

// TakeInitialize removes the marker file "initialize" beside version-2 of the
// log, durably, and reports whether it was there. It says that this server may
// start with an empty database although db.autocreate is off.
func (d *Dir) TakeInitialize() (bool, error) {
	dir := path.Dir(d.logDir)
	err := d.fs.Remove(path.Join(dir, initializeName))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("storage: remove the initialize marker: %w", err)
	}
	return true, d.syncDir(dir)
}
