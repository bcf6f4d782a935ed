package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/pinfold-zk/pinfold/internal/storage"
	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/zk"
)

// eachEntry calls f with each transaction of a log file in a store. payload is valid until
// f returns. An entry that is damaged is a storage.ErrCorrupt.
func eachEntry(ctx context.Context, s Store, name string, maxEntry int, f func(z zk.Zxid, payload []byte) error) error {
	dir, err := os.MkdirTemp("", "pinfold-backup-")
	if err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	defer os.RemoveAll(dir)
	to := filepath.Join(dir, "log")
	if err := fetch(ctx, s, name, to); err != nil {
		return err
	}
	return eachEntryOf(to, name, maxEntry, f)
}

// fetch copies a file of a store to a file that it creates, which is not durable yet.
func fetch(ctx context.Context, s Store, name, to string) error {
	in, err := s.Get(ctx, name)
	if err != nil {
		return fmt.Errorf("backup: read %s: %w", name, err)
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o640)
	if err != nil {
		return errors.Join(fmt.Errorf("backup: %w", err), in.Close())
	}
	_, err = io.Copy(out, in)
	if err = errors.Join(err, in.Close(), out.Close()); err != nil {
		return fmt.Errorf("backup: copy %s: %w", name, err)
	}
	return nil
}

// eachEntryOf is eachEntry for a local file that is a copy of the one with a name.
func eachEntryOf(file, name string, maxEntry int, f func(z zk.Zxid, payload []byte) error) error {
	r, err := storage.OpenEntries(vfs.OS{}, file, maxEntry)
	if err != nil {
		return fmt.Errorf("backup: %s: %w", name, err)
	}
	for {
		e, err := r.Next()
		if err == nil && !e.Valid {
			err = fmt.Errorf("%w: the transaction at byte %d has a wrong checksum", storage.ErrCorrupt, e.Offset)
		}
		if err == nil {
			err = f(e.Zxid, e.Payload)
		}
		if err == io.EOF || err == errEnough {
			return r.Close()
		}
		if err != nil {
			return errors.Join(fmt.Errorf("backup: %s: %w", name, err), r.Close())
		}
	}
}

// errEnough ends eachEntry.
var errEnough = errors.New("enough")
