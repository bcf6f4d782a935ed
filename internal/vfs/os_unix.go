//go:build unix && !linux

package vfs

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// createDirect creates an ordinary file: systems other than Linux have no direct I/O,
// or another interface to it.
func createDirect(name string, flag int) (File, error) { return openOS(name, flag) }

// Preallocate implements File by a sparse tail.
func (f osFile) Preallocate(size int64) error {
	info, err := f.Stat()
	if err != nil || size <= info.Size() {
		return err
	}
	return f.Truncate(size)
}

func flock(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == syscall.EWOULDBLOCK {
		return ErrLocked
	}
	return err
}

// Room implements FS. It cannot tell.
func (OS) Room(dir string) (free, all int64, err error) {
	return 0, 0, &fs.PathError{Op: "statfs", Path: dir, Err: errors.ErrUnsupported}
}
