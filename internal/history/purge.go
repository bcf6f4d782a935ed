package history

import (
	"fmt"
	"io"

	"github.com/pinfold-zk/pinfold/internal/storage"
	"github.com/pinfold-zk/pinfold/internal/vfs"
)

// Purge removes what the count newest valid snapshots of a directory make unnecessary, as Apache's PurgeTxnLog does, and writes
// a line to out for each file that it has removed. dataDir has the snapshots, logDir the logs; they may be the same. If there are
// fewer valid snapshots, it removes nothing.
//
// A server may use the directory: it only adds files, apart from what a TRUNC or a leader's tree takes from the end of the history. A
// server whose base for a TRUNC has been purged meanwhile takes the leader's tree.
//
// It returns an error if count is less than storage.MinRetainedSnapshots, or a directory cannot be read or a file not removed.
func Purge(out io.Writer, dataDir, logDir string, count int) error {
	if count < storage.MinRetainedSnapshots {
		return fmt.Errorf("%d snapshots: at least %d have to be kept", count, storage.MinRetainedSnapshots)
	}
	d, err := storage.OpenReadOnly(vfs.OS{}, storage.Options{DataDir: dataDir, DataLogDir: logDir})
	if err != nil {
		return err
	}
	removed, err := d.Purge(storage.Retention{Snapshots: count})
	for _, name := range removed {
		if _, err := fmt.Fprintln(out, "removed", name); err != nil {
			return err
		}
	}
	return err
}
