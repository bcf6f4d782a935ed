package backup

import (
	"errors"
	"os"
	"syscall"
)

// The flags of sync_file_range(2): wait for what is being written, write, and wait for that.
const writeAndWait = 1 | 2 | 4

// writeBack has the disk write a part of a file, and waits for it. The part is not durable by that: the caller syncs the
// file in the end. Unlike a sync it commits nothing of the file system and empties no cache of the disk, for which the
// server's own syncs would wait.
func writeBack(f *os.File, from, bytes int64) error {
	err := syscall.SyncFileRange(int(f.Fd()), from, bytes, writeAndWait)
	if errors.Is(err, syscall.ENOSYS) || errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ESPIPE) {
		return f.Sync() // a file system without it
	}
	return err
}
