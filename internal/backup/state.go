package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/pinfold-zk/pinfold/internal/replica"
	"github.com/pinfold-zk/pinfold/internal/storage"
	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/vfs"
)

// State restores and verifies in a temporary directory, which it removes, and returns the
// state. DataDir and LogDir are not used.
func (r *Restore) State(ctx context.Context) (state *replica.State, err error) {
	dir, err := os.MkdirTemp("", "pinfold-restore-")
	if err != nil {
		return nil, fmt.Errorf("backup: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	r.DataDir, r.LogDir = dir, ""
	if err := r.Run(ctx); err != nil {
		return nil, err
	}
	d, err := storage.OpenReadOnly(vfs.OS{}, storage.Options{DataDir: dir, Log: storage.LogOptions{MaxEntryBytes: r.MaxEntry}})
	if err != nil {
		return nil, fmt.Errorf("backup: %w", err)
	}
	if state, err = stateOf(d, r.MaxEntry); err != nil {
		return nil, fmt.Errorf("backup: %w", err)
	}
	return state, nil
}

// stateOf reads the only snapshot of a directory, and the log after it.
func stateOf(d *storage.Dir, maxEntry int) (*replica.State, error) {
	snapshots, err := d.Snapshots()
	if err != nil {
		return nil, err
	}
	sr, err := d.OpenSnapshot(snapshots[0])
	if err != nil {
		return nil, err
	}
	state, err := replica.ReadState(sr, snapshots[0].Zxid, maxEntry)
	if err != nil {
		return nil, err
	}
	log, err := d.ReadLog(snapshots[0].Zxid)
	if err != nil {
		return nil, err
	}
	for {
		payload, err := log.Next()
		if err == io.EOF {
			return state, log.Close()
		}
		tx, bad := txn.Decode(payload)
		if err = errors.Join(err, bad); err != nil {
			return nil, errors.Join(err, log.Close())
		}
		state.Apply(&tx)
	}
}
