package vfs

import (
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
)

// Reserve is a file system that keeps file descriptors in hand. When the process
// has none left it gives one up and tries again, so that connections that use up
// all descriptors do not keep a log or a snapshot from being written. What it gave
// up it takes back when one of its files is closed. Make one with NewReserve.
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

// Release gives all descriptors up, for good.
func (r *Reserve) Release() {
	r.mu.Lock()
	r.size = 0
	r.mu.Unlock()
	for r.giveUp() {
	}
}

// giveUp closes one descriptor of the reserve; false if there is none.
func (r *Reserve) giveUp() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.held) == 0 {
		return false
	}
	last := len(r.held) - 1
	r.held[last].Close() // it was never written
	r.held = r.held[:last]
	return true
}

// refill takes descriptors until the reserve is full or none is left.
func (r *Reserve) refill() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.held) < r.size {
		f, err := os.Open(os.DevNull)
		if err != nil {
			return // the next file that is closed tries again
		}
		r.held = append(r.held, f)
	}
}

// try runs op, again for each descriptor of the reserve while there are too few.
func (r *Reserve) try(op func() error) error {
	err := op()
	for (errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)) && r.giveUp() {
		err = op()
	}
	return err
}

// open is try for what opens a file.
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

// reservedFile fills the reserve up when it is closed.
type reservedFile struct {
	File
	r *Reserve
}

// Close implements File.
func (f reservedFile) Close() error {
	defer f.r.refill()
	return f.File.Close()
}

// Commit implements Committer, if the file that is wrapped does.
func (f reservedFile) Commit(p []byte, off int64, note File, mark []byte) bool {
	if n, ok := note.(reservedFile); ok {
		note = n.File
	}
	c, ok := f.File.(Committer)
	return ok && c.Commit(p, off, note, mark)
}

// Quick implements Committer.
func (f reservedFile) Quick() bool { return f.File.(Committer).Quick() }

// Await implements Committer.
func (f reservedFile) Await(bounded bool) (done bool, err error) {
	return f.File.(Committer).Await(bounded)
}
