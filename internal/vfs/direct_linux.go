package vfs

import (
	"errors"
	"os"
	"syscall"

	"github.com/pinfold-zk/pinfold/internal/rawio"
)

// directFile is a file opened with O_DIRECT. A file system may accept the flag and yet
// refuse the writes (its blocks are larger than DirectBytes, or it cannot do direct I/O
// for this file). From the first refused write on, writes go through the page cache.
type directFile struct {
	osFile
	buffered bool // O_DIRECT was cleared after a refused write
}

// createDirect opens the file with O_DIRECT, or without it if the file system does not
// support it.
func createDirect(name string, flag int) (File, error) {
	f, err := os.OpenFile(name, flag|syscall.O_DIRECT, 0o644)
	if errors.Is(err, syscall.EINVAL) {
		return openOS(name, flag)
	}
	if err != nil {
		return nil, err
	}
	return &directFile{osFile: osFile{f}}, nil
}

// Alignment implements File.
func (*directFile) Alignment() int { return DirectBytes }

// WriteAt implements File.
func (f *directFile) WriteAt(p []byte, off int64) (int, error) {
	n, err := f.osFile.WriteAt(p, off)
	if f.refused(err) {
		m, retryErr := f.osFile.WriteAt(p[n:], off+int64(n))
		n, err = n+m, retryErr
	}
	return n, err
}

// Commit implements Committer.
func (f *directFile) Commit(p []byte, off int64, w Wait) error {
	err := f.commit(p, off, w)
	if f.refused(err) {
		err = f.commit(p, off, w)
	}
	if err != nil {
		return &os.PathError{Op: "write and fdatasync", Path: f.Name(), Err: err}
	}
	return nil
}

func (f *directFile) commit(p []byte, off int64, w Wait) error {
	if w == Aside {
		return rawio.CommitAside(f.Fd(), p, off)
	}
	return rawio.Commit(f.Fd(), p, off, w == Keep)
}

// Write implements File.
func (f *directFile) Write(p []byte) (int, error) {
	n, err := f.osFile.Write(p)
	if f.refused(err) {
		m, retryErr := f.osFile.Write(p[n:])
		n, err = n+m, retryErr
	}
	return n, err
}

// refused reports whether a write that returned err has to be repeated, because it was
// direct and the file now uses the page cache. Nothing is lost: a refused write has
// written nothing.
func (f *directFile) refused(err error) bool {
	if !errors.Is(err, syscall.EINVAL) || f.buffered {
		return false
	}
	return f.clearDirect() == nil
}

// clearDirect clears O_DIRECT.
func (f *directFile) clearDirect() error {
	err := f.control("fcntl", func(fd int) error {
		flags, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_GETFL, 0)
		if errno == 0 {
			_, _, errno = syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_SETFL, flags&^syscall.O_DIRECT)
		}
		if errno != 0 {
			return errno
		}
		return nil
	})
	if err == nil {
		f.buffered = true
	}
	return err
}
