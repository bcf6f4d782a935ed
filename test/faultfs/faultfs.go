// Package faultfs is a file system on which operations fail, for tests.
package faultfs

import (
	"errors"
	"fmt"
	"io"
	"path"
	"sync"
	"syscall"
	"time"

	"github.com/pinfold-zk/pinfold/internal/vfs"
)

// ErrCrashed is the error of every operation after an FS of kind Crash.
var ErrCrashed = errors.New("faultfs: the machine has crashed")

// Kind is what happens to the operation that an FS is set to.
type Kind int

// The kinds. Each makes the operation fail without effect, except that ShortWrite
// and Kill first do half of a write.
const (
	None       Kind = iota
	NoSpace         // syscall.ENOSPC
	IO              // syscall.EIO
	ShortWrite      // half is written (whole blocks for direct I/O), then syscall.ENOSPC; NoSpace if the operation is not a write
	Crash           // ErrCrashed, from this operation on
	Kill            // like Crash, but half of a write is done first
)

// Op is one disk operation as an FS sees it.
type Op struct {
	// Kind is create, createdirect, open, openrw, mkdir, list, rename, remove,
	// size, syncdir, lock, read, write, writeat, truncate, sync or preallocate.
	Kind string
	// Name is the base name of the file or directory; of the target in a rename.
	Name string
	// Bytes is the length of a read or write, or the new size of a truncate or
	// preallocate.
	Bytes int64
	// Offset is the offset of a writeat.
	Offset int64
}

// String prints the operation for a golden file.
func (o Op) String() string {
	switch o.Kind {
	case "read", "write", "truncate", "preallocate":
		return fmt.Sprintf("%s %s %d", o.Kind, o.Name, o.Bytes)
	case "writeat":
		return fmt.Sprintf("%s %s %d at %d", o.Kind, o.Name, o.Bytes, o.Offset)
	}
	return o.Kind + " " + o.Name
}

// FS is a file system that counts the operations on another one and makes one of
// them fail. Seek and Close do not count: they touch no disk here, and always work. Use
// New.
type FS struct {
	inner vfs.FS
	trace func(Op)

	mu      sync.Mutex
	ops     int
	at      int
	kind    Kind
	met     bool
	crashed bool
}

// New wraps inner. The at-th operation, counted from 1, meets a fault of that
// kind; with None none does. trace, if not nil, is called before each operation.
func New(inner vfs.FS, at int, kind Kind, trace func(Op)) *FS {
	return &FS{inner: inner, at: at, kind: kind, trace: trace}
}

// Arm replaces the fault: the n-th operation from now on, counted from 1, meets one of
// that kind.
func (f *FS) Arm(n int, kind Kind) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at, f.kind = f.ops+n, kind
}

// Met reports whether an operation has met a fault.
func (f *FS) Met() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.met || f.crashed
}

// Ops returns the number of operations so far, including failed ones.
func (f *FS) Ops() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ops
}

// Crash makes every operation from now on fail with ErrCrashed.
func (f *FS) Crash() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.crashed = true
}

// enter counts an operation. It returns the error that the operation meets, and
// whether half of a write comes first.
func (f *FS) enter(kind, name string, bytes int64) (half bool, err error) {
	return f.enterOp(Op{Kind: kind, Name: path.Base(name), Bytes: bytes})
}

func (f *FS) enterOp(op Op) (half bool, err error) {
	if f.trace != nil {
		f.trace(op)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ops++
	if f.crashed {
		return false, ErrCrashed
	}
	if f.ops != f.at {
		return false, nil
	}
	f.met = f.kind != None
	switch f.kind {
	case NoSpace:
		err = syscall.ENOSPC
	case IO:
		err = syscall.EIO
	case ShortWrite:
		half, err = op.Kind == "write" || op.Kind == "writeat", syscall.ENOSPC
	case Crash:
		f.crashed = true
		return false, ErrCrashed
	case Kill:
		f.crashed = true
		return op.Kind == "write" || op.Kind == "writeat", ErrCrashed
	default:
		return false, nil
	}
	return half, fmt.Errorf("faultfs: injected into operation %d (%s): %w", f.ops, op, err)
}

func (f *FS) open(kind, name string, open func(string) (vfs.File, error)) (vfs.File, error) {
	if _, err := f.enter(kind, name, 0); err != nil {
		return nil, err
	}
	file, err := open(name)
	if err != nil {
		return nil, err
	}
	return &faultFile{fs: f, inner: file, name: name}, nil
}

// Create implements vfs.FS.
func (f *FS) Create(name string) (vfs.File, error) { return f.open("create", name, f.inner.Create) }

// CreateDirect implements vfs.FS.
func (f *FS) CreateDirect(name string) (vfs.File, error) {
	return f.open("createdirect", name, f.inner.CreateDirect)
}

// Open implements vfs.FS.
func (f *FS) Open(name string) (vfs.File, error) { return f.open("open", name, f.inner.Open) }

// OpenReadWrite implements vfs.FS.
func (f *FS) OpenReadWrite(name string) (vfs.File, error) {
	return f.open("openrw", name, f.inner.OpenReadWrite)
}

// MkdirAll implements vfs.FS.
func (f *FS) MkdirAll(dir string) error {
	if _, err := f.enter("mkdir", dir, 0); err != nil {
		return err
	}
	return f.inner.MkdirAll(dir)
}

// List implements vfs.FS.
func (f *FS) List(dir string) ([]string, error) {
	if _, err := f.enter("list", dir, 0); err != nil {
		return nil, err
	}
	return f.inner.List(dir)
}

// Rename implements vfs.FS.
func (f *FS) Rename(from, to string) error {
	if _, err := f.enter("rename", to, 0); err != nil {
		return err
	}
	return f.inner.Rename(from, to)
}

// Remove implements vfs.FS.
func (f *FS) Remove(name string) error {
	if _, err := f.enter("remove", name, 0); err != nil {
		return err
	}
	return f.inner.Remove(name)
}

// Size implements vfs.FS.
func (f *FS) Size(name string) (int64, error) {
	if _, err := f.enter("size", name, 0); err != nil {
		return 0, err
	}
	return f.inner.Size(name)
}

// ModTime implements vfs.FS. It is no operation on which a fault can happen.
func (f *FS) ModTime(name string) (time.Time, error) { return f.inner.ModTime(name) }

// Room implements vfs.FS. It is no operation on which a fault can happen.
func (f *FS) Room(dir string) (free, all int64, err error) { return f.inner.Room(dir) }

// SyncDir implements vfs.FS.
func (f *FS) SyncDir(dir string) error {
	if _, err := f.enter("syncdir", dir, 0); err != nil {
		return err
	}
	return f.inner.SyncDir(dir)
}

// Lock implements vfs.FS.
func (f *FS) Lock(name string) (io.Closer, error) {
	if _, err := f.enter("lock", name, 0); err != nil {
		return nil, err
	}
	return f.inner.Lock(name)
}

// faultFile is an open file of an FS.
type faultFile struct {
	fs    *FS
	inner vfs.File
	name  string
}

func (f *faultFile) Read(p []byte) (int, error) {
	if _, err := f.fs.enter("read", f.name, int64(len(p))); err != nil {
		return 0, err
	}
	return f.inner.Read(p)
}

func (f *faultFile) ReadAt(p []byte, off int64) (int, error) {
	if _, err := f.fs.enter("read", f.name, int64(len(p))); err != nil {
		return 0, err
	}
	return f.inner.ReadAt(p, off)
}

func (f *faultFile) Write(p []byte) (int, error) {
	half, err := f.fs.enter("write", f.name, int64(len(p)))
	if half {
		n, writeErr := f.inner.Write(f.half(p))
		return n, errors.Join(err, writeErr)
	}
	if err != nil {
		return 0, err
	}
	return f.inner.Write(p)
}

func (f *faultFile) WriteAt(p []byte, off int64) (int, error) {
	half, err := f.fs.enterOp(Op{Kind: "writeat", Name: path.Base(f.name), Bytes: int64(len(p)), Offset: off})
	if half {
		n, writeErr := f.inner.WriteAt(f.half(p), off)
		return n, errors.Join(err, writeErr)
	}
	if err != nil {
		return 0, err
	}
	return f.inner.WriteAt(p, off)
}

// half returns the part of p that an interrupted write leaves.
func (f *faultFile) half(p []byte) []byte {
	n := len(p) / 2
	return p[:n-n%f.inner.Alignment()]
}

// Alignment implements vfs.File.
func (f *faultFile) Alignment() int { return f.inner.Alignment() }

// Linked implements vfs.File. It is not counted as an operation.
func (f *faultFile) Linked() (bool, error) { return f.inner.Linked() }

func (f *faultFile) Truncate(size int64) error {
	if _, err := f.fs.enter("truncate", f.name, size); err != nil {
		return err
	}
	return f.inner.Truncate(size)
}

func (f *faultFile) Sync() error {
	if _, err := f.fs.enter("sync", f.name, 0); err != nil {
		return err
	}
	return f.inner.Sync()
}

func (f *faultFile) Preallocate(size int64) error {
	if _, err := f.fs.enter("preallocate", f.name, size); err != nil {
		return err
	}
	return f.inner.Preallocate(size)
}

func (f *faultFile) Seek(offset int64, whence int) (int64, error) {
	return f.inner.Seek(offset, whence)
}

func (f *faultFile) Close() error { return f.inner.Close() }
