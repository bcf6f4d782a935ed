package vfs

import (
	"errors"
	"os"
	"syscall"
	"time"

	"github.com/pinfold-zk/pinfold/internal/rawio"
)

// directFile is a file opened with O_DIRECT. A file system may take the flag and
// refuse the writes (its blocks are larger than DirectBytes, or it has no direct
// I/O for what the file is made of); from the first refusal on they go through
// the page cache.
type directFile struct {
	osFile
	buffered bool          // O_DIRECT has been taken back
	thread   *rawio.Thread // nil until Commit
	began    time.Time     // of the last Commit
	quick    bool          // it was done soon
}

// createDirect opens with O_DIRECT, or without where the file system does not
// know it.
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
func (f *directFile) Commit(p []byte, off int64, note File, mark []byte) bool {
	marked, ok := note.(osFile)
	if !ok || f.buffered {
		return false
	}
	if f.thread == nil {
		if f.thread = rawio.Start(); f.thread == nil {
			return false
		}
	}
	f.began = time.Now()
	f.thread.Begin(f.Fd(), p, off, marked.Fd(), mark)
	return true
}

// Await implements Committer.
func (f *directFile) Await(bounded bool) (done bool, err error) {
	done, err = f.thread.Await(bounded)
	f.quick = done && time.Since(f.began) < rawio.Quick
	if err != nil {
		err = &os.PathError{Op: "write and fdatasync", Path: f.Name(), Err: err}
	}
	return done, err
}

// Quick implements Committer.
func (f *directFile) Quick() bool { return f.quick }

// Close implements File.
func (f *directFile) Close() error {
	if f.thread != nil {
		f.thread.Stop()
		f.thread = nil
	}
	return f.osFile.Close()
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

// refused reports whether a write that met err has to be repeated because it was
// direct, and no longer is. Nothing of it has been lost: what the file system
// refuses it has not begun.
func (f *directFile) refused(err error) bool {
	if !errors.Is(err, syscall.EINVAL) || f.buffered {
		return false
	}
	return f.clearDirect() == nil
}

// clearDirect takes O_DIRECT back.
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
