package vfs

import (
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
)

// Reserve is a file system that keeps some file descriptors in reserve. If the process
// has none left, Reserve closes one of them and tries again: so connections that use up
// all descriptors cannot prevent the server from writing its log or a snapshot. When
// one of its files is closed, it refills the reserve. Use NewReserve.
type Reserve struct {
	FS
	size int
	mu   sync.Mutex
	held []*os.File
}

// NewReserve returns fsys with size descriptors in reserve.
func NewReserve(fsys FS, size int) *Reserve {
	r := &Reserve{FS: fsys, size: size}
	r.refill()
	return r
}

// Release closes all descriptors of the reserve permanently.
func (r *Reserve) Release() {
	r.mu.Lock()
	r.size = 0
	r.mu.Unlock()
	for r.releaseOne() {
	}
}

// releaseOne closes one descriptor of the reserve; it returns false if there is none.
func (r *Reserve) releaseOne() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.held) == 0 {
		return false
	}
	last := len(r.held) - 1
	r.held[last].Close() // nothing was written to it
	r.held = r.held[:last]
	return true
}

// refill opens descriptors until the reserve is full or the process has none left.
func (r *Reserve) refill() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.held) < r.size {
		f, err := os.Open(os.DevNull)
		if err != nil {
			return // the next Close of a file tries again
		}
		r.held = append(r.held, f)
	}
}

// try runs op, and repeats it for each descriptor of the reserve while there are too
// few.
func (r *Reserve) try(op func() error) error {
	err := op()
	for (errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)) && r.releaseOne() {
		err = op()
	}
	return err
}

// open is try for operations that open a file.
func (r *Reserve) open(op func(string) (File, error), name string) (f File, err error) {
	err = r.try(func() error {
		f, err = op(name)
		return err
	})
	if err != nil {
		return nil, err
	}
	return reservedFile{f, r}, nil
}

// Create implements FS.
func (r *Reserve) Create(name string) (File, error) { return r.open(r.FS.Create, name) }

// CreateDirect implements FS.
func (r *Reserve) CreateDirect(name string) (File, error) { return r.open(r.FS.CreateDirect, name) }

// Open implements FS.
func (r *Reserve) Open(name string) (File, error) { return r.open(r.FS.Open, name) }

// OpenReadWrite implements FS.
func (r *Reserve) OpenReadWrite(name string) (File, error) { return r.open(r.FS.OpenReadWrite, name) }

// MkdirAll implements FS.
func (r *Reserve) MkdirAll(dir string) error {
	defer r.refill()
	return r.try(func() error { return r.FS.MkdirAll(dir) })
}

// List implements FS.
func (r *Reserve) List(dir string) (names []string, err error) {
	defer r.refill()
	err = r.try(func() error {
		names, err = r.FS.List(dir)
		return err
	})
	return names, err
}

// SyncDir implements FS.
func (r *Reserve) SyncDir(dir string) error {
	defer r.refill()
	return r.try(func() error { return r.FS.SyncDir(dir) })
}

// Lock implements FS.
func (r *Reserve) Lock(name string) (c io.Closer, err error) {
	err = r.try(func() error {
		c, err = r.FS.Lock(name)
		return err
	})
	return c, err
}

// reservedFile refills the reserve when it is closed.
type reservedFile struct {
	File
	r *Reserve
}

// Close implements File.
func (f reservedFile) Close() error {
	defer f.r.refill()
	return f.File.Close()
}

// Commit implements Committer.
func (f reservedFile) Commit(p []byte, off int64, w Wait) error {
	return Commit(f.File, p, off, w)
}
