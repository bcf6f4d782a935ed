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

// LoadEpochs reads the epoch files of a server whose newest transaction is last.
// A file that is missing stands for the epoch of last. It returns an error if
// the epochs contradict each other or the log: currentEpoch older than last,
// unless an unfinished update of the file explains it, which is then completed;
// acceptedEpoch older than currentEpoch.
func (d *Dir) LoadEpochs(last zk.Zxid) (accepted, current uint32, err error) {
	current, err = d.readEpoch(currentEpochName, last.Epoch())
	if err != nil {
		return 0, 0, err
	}
	if current < last.Epoch() {
		next, err := d.readEpoch(currentEpochName+epochTmpSuffix, 0)
		if err != nil {
			return 0, 0, err
		}
		if next != last.Epoch() {
			return 0, 0, fmt.Errorf("storage: currentEpoch is %d, older than the last transaction %v", current, last)
		}
		if err := d.SetCurrentEpoch(next); err != nil {
			return 0, 0, err
		}
		current = next
	}
	accepted, err = d.readEpoch(acceptedEpochName, last.Epoch())
	if err != nil {
		return 0, 0, err
	}
	if accepted < current {
		return 0, 0, fmt.Errorf("storage: acceptedEpoch %d is older than currentEpoch %d", accepted, current)
	}
	return accepted, current, nil
}

// SetAcceptedEpoch replaces the acceptedEpoch file. It is durable when it
// returns; after an error it is the old one or the new one.
func (d *Dir) SetAcceptedEpoch(epoch uint32) error { return d.writeEpoch(acceptedEpochName, epoch) }

// SetCurrentEpoch replaces the currentEpoch file, like SetAcceptedEpoch.
func (d *Dir) SetCurrentEpoch(epoch uint32) error { return d.writeEpoch(currentEpochName, epoch) }

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
		return 0, fmt.Errorf("storage: %s: %q is not an epoch", name, b)
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
