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

// The epoch files, and the marker file in the parent of the log's version-2 directory.
const (
	acceptedEpochName = "acceptedEpoch"
	currentEpochName  = "currentEpoch"
	epochTmpSuffix    = ".tmp"
	membersName       = "members"
	initializeName    = "initialize"
)

// LoadEpochs reads the epoch files of a server whose history ends with last. A missing
// file counts as the epoch of last. LoadEpochs returns an error if the files contradict
// each other (ErrEpochs): acceptedEpoch is older than currentEpoch, or than what this package has
// written.
//
// If last belongs to a newer epoch than currentEpoch, LoadEpochs durably raises
// currentEpoch to the epoch of last, and acceptedEpoch too if it is older. adopted
// reports this, unless currentEpoch.tmp shows that the server had started this
// replacement itself. The operator should know, but the server may start.
//
// A server is in this state if it crashed while a leader synchronized it: the server
// first logs and syncs what the leader sends, then replaces currentEpoch, then
// acknowledges NEWLEADER. In between, its log has transactions of epoch e, and it has
// not declared yet that it belongs to epoch e. To declare it at the restart is safe
// (protocol page, sections 11.2 and 17.1), for two reasons:
//
//  1. The server has what a follower of e has that has logged up to last. The leader of e
//     sends its initial history before its own transactions, in the order of zxids; the
//     learner logs them in that order, or installs them as a complete snapshot. So one
//     transaction of e in the log proves that the complete initial history of e is there,
//     followed by the proposals of e up to last. A vote for (e, last) claims no more.
//  2. The reverse would be unsafe: a server that claims e without the history of e wins
//     elections against servers that have it, and truncates what they committed
//     (ZOOKEEPER-4643, where currentEpoch reached the disk before the log). So currentEpoch
//     is raised to the epoch of last and no further, whatever epoch the unfinished
//     currentEpoch.tmp holds.
//
// It would not be better to stay at the older epoch: no majority counts on last,
// because this server has acknowledged nothing of e, but Apache would refuse to start
// on the directory.
func (d *Dir) LoadEpochs(last zk.Zxid) (accepted, current uint32, adopted bool, err error) {
	// A killed process may have renamed a file without making the new name durable.
	if err := d.fs.SyncDir(d.snapDir); err != nil {
		return 0, 0, false, fmt.Errorf("storage: make the epoch files durable: %w", err)
	}
	if current, err = d.readEpoch(currentEpochName, last.Epoch()); err != nil {
		return 0, 0, false, err
	}
	if accepted, err = d.readEpoch(acceptedEpochName, last.Epoch()); err != nil {
		return 0, 0, false, err
	}
	if promised, err := d.promised(); err != nil || int64(accepted) < promised {
		return 0, 0, false, errors.Join(err, fmt.Errorf("storage: %w: acceptedEpoch is %d, and was %d when %s was written", ErrEpochs, accepted, promised, d.markName()))
	}
	if current < last.Epoch() {
		begun, err := d.readEpoch(currentEpochName+epochTmpSuffix, 0)
		if err != nil && !errors.Is(err, errNotEpoch) { // a crash may leave part of the file
			return 0, 0, false, err
		}
		adopted = begun != last.Epoch()
		current = last.Epoch()
		// acceptedEpoch first: it is a promise, and must never be older than
		// currentEpoch.
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
		return 0, 0, false, fmt.Errorf("storage: %w: acceptedEpoch %d is older than currentEpoch %d", ErrEpochs, accepted, current)
	}
	return accepted, current, adopted, nil
}

// SetAcceptedEpoch durably replaces the acceptedEpoch file. After an error the file is
// the old one or the new one.
func (d *Dir) SetAcceptedEpoch(epoch uint32) error {
	if _, _, err := d.syncedZxid(); err != nil { // loads the mark, whose validity depends on the present epoch
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

// ErrEpochs reports epoch files that are damaged or lost.
var ErrEpochs = errors.New("the epoch files are damaged")

var errNotEpoch = fmt.Errorf("is not an epoch: %w", ErrEpochs)

// readEpoch reads a decimal number; an absent file counts as missing.
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

// SaveMembers replaces the file that holds what the server knows of the membership of
// the ensemble. It is durable when it returns; after an error it is the old one or
// the new one.
func (d *Dir) SaveMembers(content []byte) error {
	name := path.Join(d.snapDir, membersName)
	if err := d.replaceFile(name, content); err != nil {
		return fmt.Errorf("storage: write %s: %w", name, err)
	}
	return nil
}

// LoadMembers returns the content of that file, nil if there is none.
func (d *Dir) LoadMembers() ([]byte, error) {
	name := path.Join(d.snapDir, membersName)
	f, err := d.fs.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("storage: open %s: %w", name, err)
	}
	content, err := io.ReadAll(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("storage: read %s: %w", name, err)
	}
	return content, nil
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

// InitializeName returns the name of the marker file "initialize", in the parent of the log's
// version-2 directory. It says that this server may start with an empty database although
// db.autocreate is off.
func (d *Dir) InitializeName() string { return path.Join(path.Dir(d.logDir), initializeName) }

// MayInitialize reports whether the marker file exists.
func (d *Dir) MayInitialize() (bool, error) {
	_, err := d.fs.Size(d.InitializeName())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("storage: look for the initialize marker: %w", err)
	}
	return true, nil
}

// EndInitialize durably removes the marker file, if it exists.
func (d *Dir) EndInitialize() error {
	err := d.fs.Remove(d.InitializeName())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("storage: remove the initialize marker: %w", err)
	}
	return d.syncDir(path.Dir(d.logDir))
}
