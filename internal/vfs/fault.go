package vfs

import (
	"errors"
	"fmt"
	"io"
	"path"
	"sync"
	"syscall"
)

// ErrCrashed is the error of every operation after a Fault of kind FaultCrash.
var ErrCrashed = errors.New("vfs: the machine has crashed")

// FaultKind is what happens to the operation that a Fault is set to.
type FaultKind int

// The kinds. Each makes the operation fail without effect, except that FaultShortWrite
// and FaultKill first do half of a write.
const (
	FaultNone       FaultKind = iota
	FaultNoSpace              // syscall.ENOSPC
	FaultIO                   // syscall.EIO
	FaultShortWrite           // half is written (whole blocks for direct I/O), then syscall.ENOSPC; FaultNoSpace if the operation is not a write
	FaultCrash                // ErrCrashed, from this operation on
	FaultKill                 // like FaultCrash, but half of a write is done first
)

// Op is one disk operation as a Fault sees it.
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

// Fault is a file system that counts the operations on another one and makes one of
// them fail. Seek and Close do not count: they touch no disk here, and always work. Use
// NewFault.
type Fault struct {
	inner FS
	trace func(Op)

	// Prompt, if not nil, makes files Committers. Each bounded Await asks it
	// whether the disk is done in time. It is set before the first use.
	Prompt func() bool

	mu      sync.Mutex
	ops     int
	at      int
	kind    FaultKind
	met     bool
	crashed bool
}

// NewFault wraps inner. The at-th operation, counted from 1, meets a fault of that
// kind; with FaultNone none does. trace, if not nil, is called before each operation.
func NewFault(inner FS, at int, kind FaultKind, trace func(Op)) *Fault {
	return &Fault{inner: inner, at: at, kind: kind, trace: trace}
}

// Arm replaces the fault: the n-th operation from now on, counted from 1, meets one of
// that kind.
func (f *Fault) Arm(n int, kind FaultKind) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at, f.kind = f.ops+n, kind
}

// Met reports whether an operation has met a fault.
func (f *Fault) Met() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.met || f.crashed
}

// Ops returns the number of operations so far, including failed ones.
func (f *Fault) Ops() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ops
}

// Crash makes every operation from now on fail with ErrCrashed.
func (f *Fault) Crash() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.crashed = true
}

// enter counts an operation. It returns the error that the operation meets, and
// whether half of a write comes first.
func (f *Fault) enter(kind, name string, bytes int64) (half bool, err error) {
	return f.enterOp(Op{Kind: kind, Name: path.Base(name), Bytes: bytes})
}

func (f *Fault) enterOp(op Op) (half bool, err error) {
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
	f.met = f.kind != FaultNone
	switch f.kind {
	case FaultNoSpace:
		err = syscall.ENOSPC
	case FaultIO:
		err = syscall.EIO
	case FaultShortWrite:
		half, err = op.Kind == "write" || op.Kind == "writeat", syscall.ENOSPC
	case FaultCrash:
		f.crashed = true
		return false, ErrCrashed
	case FaultKill:
		f.crashed = true
		return op.Kind == "write" || op.Kind == "writeat", ErrCrashed
	default:
		return false, nil
	}
	return half, fmt.Errorf("vfs: injected into operation %d (%s): %w", f.ops, op, err)
}

func (f *Fault) open(kind, name string, open func(string) (File, error)) (File, error) {
	if _, err := f.enter(kind, name, 0); err != nil {
		return nil, err
	}
	file, err := open(name)
	if err != nil {
		return nil, err
	}
	return &faultFile{fs: f, inner: file, name: name}, nil
}

// Create implements FS.
func (f *Fault) Create(name string) (File, error) { return f.open("create", name, f.inner.Create) }

// CreateDirect implements FS.
func (f *Fault) CreateDirect(name string) (File, error) {
	return f.open("createdirect", name, f.inner.CreateDirect)
}

// Open implements FS.
func (f *Fault) Open(name string) (File, error) { return f.open("open", name, f.inner.Open) }

// OpenReadWrite implements FS.
func (f *Fault) OpenReadWrite(name string) (File, error) {
	return f.open("openrw", name, f.inner.OpenReadWrite)
}

// MkdirAll implements FS.
func (f *Fault) MkdirAll(dir string) error {
	if _, err := f.enter("mkdir", dir, 0); err != nil {
		return err
	}
	return f.inner.MkdirAll(dir)
}

// List implements FS.
func (f *Fault) List(dir string) ([]string, error) {
	if _, err := f.enter("list", dir, 0); err != nil {
		return nil, err
	}
	return f.inner.List(dir)
}

// Rename implements FS.
func (f *Fault) Rename(from, to string) error {
	if _, err := f.enter("rename", to, 0); err != nil {
		return err
	}
	return f.inner.Rename(from, to)
}

// Remove implements FS.
func (f *Fault) Remove(name string) error {
	if _, err := f.enter("remove", name, 0); err != nil {
		return err
	}
	return f.inner.Remove(name)
}

// Size implements FS.
func (f *Fault) Size(name string) (int64, error) {
	if _, err := f.enter("size", name, 0); err != nil {
		return 0, err
	}
	return f.inner.Size(name)
}

// SyncDir implements FS.
func (f *Fault) SyncDir(dir string) error {
	if _, err := f.enter("syncdir", dir, 0); err != nil {
		return err
	}
	return f.inner.SyncDir(dir)
}

// Lock implements FS.
func (f *Fault) Lock(name string) (io.Closer, error) {
	if _, err := f.enter("lock", name, 0); err != nil {
		return nil, err
	}
	return f.inner.Lock(name)
}

// faultFile is an open file of a Fault.
type faultFile struct {
	fs    *Fault
	inner File
	name  string

	commit func() error // the write that Commit has started; Await does it
	late   bool         // a bounded Await has returned before the write was done
}

// Commit implements Committer, if the Fault has Prompt.
func (f *faultFile) Commit(p []byte, off int64, note File, mark []byte) bool {
	if f.fs.Prompt == nil {
		return false
	}
	f.late = false
	f.commit = func() error {
		_, err := f.WriteAt(p, off)
		if err == nil {
			err = f.Sync()
		}
		if err == nil {
			_, err = note.WriteAt(mark, 0)
		}
		return err
	}
	return true
}

// Quick implements Committer.
func (f *faultFile) Quick() bool { return !f.late }

// Await implements Committer.
func (f *faultFile) Await(bounded bool) (done bool, err error) {
	if bounded && !f.fs.Prompt() {
		f.late = true
		return false, nil
	}
	err, f.commit = f.commit(), nil
	return true, err
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

// Alignment implements File.
func (f *faultFile) Alignment() int { return f.inner.Alignment() }

// Linked implements File. It is not counted as an operation.
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
