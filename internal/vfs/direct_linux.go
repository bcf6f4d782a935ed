package vfs

import (
	"errors"
	"io"
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
	buffered bool // O_DIRECT has been taken back
	prompt   promptness
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
	n, err := f.writeAt(p, off)
	if f.refused(err) {
		m, retryErr := f.osFile.WriteAt(p[n:], off+int64(n))
		n, err = n+m, retryErr
	}
	return n, err
}

// writeAt is WriteAt, by a system call that nobody notices if that is likely to
// be short.
func (f *directFile) writeAt(p []byte, off int64) (n int, err error) {
	if !f.prompt.begin(len(p)) {
		n, err = f.osFile.WriteAt(p, off)
		f.prompt.end()
		return n, err
	}
	err = f.control("write", func(fd int) (err error) {
		for n < len(p) && err == nil {
			var m int
			m, err = rawio.Pwrite(uintptr(fd), p[n:], off+int64(n))
			if n += m; m == 0 && err == nil {
				err = io.ErrUnexpectedEOF
			}
		}
		return err
	})
	f.prompt.end()
	return n, err
}

// Sync implements File.
func (f *directFile) Sync() error {
	sync := syscall.Fdatasync
	if f.prompt.begin(0) {
		sync = func(fd int) error { return rawio.Fdatasync(uintptr(fd)) }
	}
	err := f.control("fdatasync", sync)
	f.prompt.end()
	return err
}

// Bounds of what is done in a system call that the scheduler is not told of.
const (
	promptBytes = 32 << 10
	promptTime  = 2 * time.Millisecond
	promptAfter = 16 // calls of less than promptTime, behind one that took longer
)

// promptness watches how long the calls of a file take. They hold a processor of
// Go if the scheduler is not told of them, so that is for a disk that has been quick
// of late, and for small writes: who has more to write has other work to do
// meanwhile.
type promptness struct {
	large bool // the last write
	began time.Time
	slow  int // calls to come that the scheduler is told of
}

// begin starts a call that writes n bytes, or syncs what was written. It reports
// whether the scheduler need not be told.
func (p *promptness) begin(n int) bool {
	if n > 0 {
		p.large = n > promptBytes
	}
	p.began = time.Now()
	return !p.large && p.slow == 0
}

// end ends it.
func (p *promptness) end() {
	switch {
	case time.Since(p.began) >= promptTime:
		p.slow = promptAfter
	case p.slow > 0:
		p.slow--
	}
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
