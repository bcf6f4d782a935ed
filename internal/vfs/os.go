package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// OS is the file system of the operating system.
type OS struct{}

// Create implements FS. The file's mode is 0644 before umask.
func (OS) Create(name string) (File, error) { return openOS(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC) }

// CreateDirect implements FS. The file's mode is 0644 before umask.
func (OS) CreateDirect(name string) (File, error) {
	return createDirect(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
}

// Open implements FS.
func (OS) Open(name string) (File, error) { return openOS(name, os.O_RDONLY) }

// OpenReadWrite implements FS.
func (OS) OpenReadWrite(name string) (File, error) { return openOS(name, os.O_RDWR) }

func openOS(name string, flag int) (File, error) {
	f, err := os.OpenFile(name, flag, 0o644)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

// MkdirAll implements FS. The mode of new directories is 0750 before umask: what is in them is not
// for every user of the machine.
func (o OS) MkdirAll(dir string) error {
	dir = filepath.Clean(dir)
	info, err := os.Stat(dir)
	if err == nil {
		if !info.IsDir() {
			return &fs.PathError{Op: "mkdir", Path: dir, Err: errors.New("exists and is no directory")}
		}
		return nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	parent := filepath.Dir(dir)
	if parent != dir {
		if err := o.MkdirAll(parent); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, 0o750); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return o.SyncDir(parent)
}

// List implements FS.
func (OS) List(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, nil
}

// Rename implements FS.
func (OS) Rename(from, to string) error {
	if filepath.Dir(from) != filepath.Dir(to) {
		return errRenameAcross(from, to)
	}
	return os.Rename(from, to)
}

// Remove implements FS.
func (OS) Remove(name string) error { return os.Remove(name) }

// Size implements FS.
func (OS) Size(name string) (int64, error) {
	info, err := os.Stat(name)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// ModTime implements FS.
func (OS) ModTime(name string) (time.Time, error) {
	info, err := os.Stat(name)
	if err != nil {
		return time.Time{}, err
	}
	return info.ModTime(), nil
}

// SyncDir implements FS.
func (OS) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	return errors.Join(err, d.Close())
}

// Lock implements FS by flock. The file remains when the lock is released: if it were
// removed, two processes could lock two files of the same name.
func (OS) Lock(name string) (io.Closer, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	if err := flock(f); err != nil {
		return nil, errors.Join(&fs.PathError{Op: "lock", Path: name, Err: err}, f.Close())
	}
	return f, nil
}

func errRenameAcross(from, to string) error {
	return fmt.Errorf("vfs: rename %s to %s: not the same directory", from, to)
}

// osFile adds to os.File what differs between systems.
type osFile struct{ *os.File }

// Alignment implements File.
func (osFile) Alignment() int { return 1 }

// Linked implements File. It returns true on systems that do not count the names of a
// file.
func (f osFile) Linked() (bool, error) {
	info, err := f.Stat()
	if err != nil {
		return false, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return !ok || st.Nlink > 0, nil
}
