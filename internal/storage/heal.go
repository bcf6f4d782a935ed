package storage

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/pinfold-zk/pinfold/zk"
)

// healingName is the file that marks a directory whose server heals. It is in the directory
// of the snapshots. As long as it exists, what the directory holds is not this server's
// history: it may be damaged, or a part of what a leader has sent.
const healingName = "healing"

// Healing says why a server heals.
type Healing struct {
	Forgot bool   // the accepted epoch is lost too
	Reason string // the damage, for an operator; one line
}

// The first word of the file.
const (
	keptEpoch   = "epoch-kept"
	forgotEpoch = "epoch-lost"
)

// Healing reads the mark; marked is false if there is none. A mark that cannot be read says
// that everything is lost.
func (d *Dir) Healing() (h Healing, marked bool, err error) {
	name := path.Join(d.snapDir, healingName)
	f, err := d.fs.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return Healing{}, false, nil
	}
	if err != nil {
		return Healing{}, false, fmt.Errorf("storage: open %s: %w", name, err)
	}
	b, err := io.ReadAll(io.LimitReader(f, 4<<10))
	if err = errors.Join(err, f.Close()); err != nil {
		return Healing{}, false, fmt.Errorf("storage: read %s: %w", name, err)
	}
	word, reason, _ := strings.Cut(strings.TrimSpace(string(b)), " ")
	return Healing{Forgot: word != keptEpoch, Reason: reason}, true, nil
}

// BeginHealing durably marks the directory. The damaged files stay: an operator may need them.
func (d *Dir) BeginHealing(h Healing) error {
	word := keptEpoch
	if h.Forgot {
		word = forgotEpoch
	}
	name := path.Join(d.snapDir, healingName)
	reason := strings.ReplaceAll(h.Reason[:min(len(h.Reason), 2<<10)], "\n", " ")
	if err := d.replaceFile(name, []byte(word+" "+reason+"\n")); err != nil {
		return fmt.Errorf("storage: write %s: %w", name, err)
	}
	return nil
}

// EndHealing durably removes the mark. REQUIRES: the history and the epochs in the directory are
// durable.
func (d *Dir) EndHealing() error {
	name := path.Join(d.snapDir, healingName)
	if err := d.fs.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("storage: remove %s: %w", name, err)
	}
	return d.syncDir(d.snapDir)
}

// HealingName returns the name of the mark, for an operator.
func (d *Dir) HealingName() string { return path.Join(d.snapDir, healingName) }

// Clear durably removes all logs and snapshots, damaged or not. No log may be open.
// REQUIRES: the directory is marked by BeginHealing: a crash leaves some of the files.
func (d *Dir) Clear() error {
	d.removal.Lock()
	defer d.removal.Unlock()
	if err := d.lowerMark(0); err != nil {
		return fmt.Errorf("storage: clear: %w", err)
	}
	snaps, err := listSnapshots(d.fs, d.snapDir)
	if err != nil {
		return err
	}
	logs, err := listLogs(d.fs, d.logDir)
	if err != nil {
		return err
	}
	for _, l := range logs {
		if err := d.fs.Remove(path.Join(d.logDir, l.name)); err != nil {
			return fmt.Errorf("storage: clear: %w", err)
		}
	}
	for _, s := range snaps {
		if err := d.fs.Remove(path.Join(d.snapDir, s.Name)); err != nil {
			return fmt.Errorf("storage: clear: %w", err)
		}
	}
	d.broken.Store(0)
	return errors.Join(d.syncDir(d.snapDir), d.syncDir(d.logDir))
}

// AcceptedEpoch returns the content of the acceptedEpoch file; known is false if it is lost,
// or older than the current epoch or than what this package has written.
func (d *Dir) AcceptedEpoch() (epoch uint32, known bool, err error) {
	const none = 1 << 31 // never an epoch
	epoch, err = d.readEpoch(acceptedEpochName, none)
	switch {
	case errors.Is(err, errNotEpoch):
		return 0, false, nil
	case err != nil:
		return 0, false, err
	case epoch == none:
		return 0, false, nil
	}
	current, err := d.readEpoch(currentEpochName, 0)
	if err != nil && !errors.Is(err, errNotEpoch) {
		return 0, false, err
	}
	promised, err := d.promised()
	return epoch, int64(epoch) >= max(promised, int64(current)), err
}

// promised returns the accepted epoch that the file "synced" names, which is one that this server
// has accepted; -1 if there is none.
func (d *Dir) promised() (int64, error) {
	_, epoch, ok, err := d.readMark()
	if err != nil || !ok {
		return -1, err
	}
	return epoch, nil
}

// HasEpochs reports whether the server has accepted an epoch, so that it cannot be new.
func (d *Dir) HasEpochs() (bool, error) {
	epoch, err := d.readEpoch(acceptedEpochName, 0)
	if errors.Is(err, ErrEpochs) {
		return true, nil
	}
	return epoch > 0, err
}

// NoteHistory durably records that the history goes up to z, by the log or by a snapshot that
// a leader has sent. If a file is lost later, the log ends before z, and is refused.
// REQUIRES: the history up to z is durable.
func (d *Dir) NoteHistory(z zk.Zxid) error {
	if err := d.establishMark(); err != nil {
		return fmt.Errorf("storage: write %s: %w", d.markName(), err)
	}
	d.mark.mu.Lock()
	defer d.mark.mu.Unlock()
	if err := d.setMark(z); err != nil {
		return fmt.Errorf("storage: write %s: %w", d.markName(), err)
	}
	return nil
}
