package backup

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/pinfold-zk/pinfold/internal/history"
	"github.com/pinfold-zk/pinfold/internal/replica"
	"github.com/pinfold-zk/pinfold/internal/storage"
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
	if state, err = history.Newest(d, r.MaxEntry); err != nil {
		return nil, fmt.Errorf("backup: %w", err)
	}
	return state, nil
}
