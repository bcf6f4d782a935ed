// Package vfs is the file system as an interface: that of the operating system (OS), one
// in memory that can lose power (Mem), and one that keeps file descriptors in reserve
// (Reserve). Everything that has to survive a crash is written through it, so that tests
// can crash the machine between any two operations, or let one fail (test/faultfs).
//
// What the interface promises, and all that a caller may rely on:
//
//  1. Bytes written are durable once Sync of that file has returned nil. Before that, any
//     part of them may survive a crash, in any order, sector by sector.
//  2. A name created, renamed or removed is durable once SyncDir of its directory has
//     returned nil. Before that, each change survives a crash completely or not at all.
//  3. Syncing a file does not make its name durable; SyncDir does not make its content
//     durable.
//  4. Rename replaces its target atomically.
//
// After a failed Sync, nothing is known about the bytes written since the previous
// Sync. Writing and syncing them again does not help.
//
// Errors are those of package os: errors.Is with fs.ErrNotExist, fs.ErrExist and
// the syscall errors works with every implementation. Names are slash-separated
// paths.
package vfs

import (
	"errors"
	"io"
	"time"
)

// SectorBytes is the unit that a disk writes atomically: after a power failure each
// aligned run of SectorBytes is either old or new, never a mixture.
const SectorBytes = 512

// DirectBytes is the alignment of direct I/O. Every disk in use has blocks of
// this size or of a divisor of it.
const DirectBytes = 4096

// ErrLocked is the error of Lock if the lock is held already.
var ErrLocked = errors.New("locked by another process")

// FS is a file system. Its methods may be called by several goroutines at once.
type FS interface {
	// Create creates an empty file for reading and writing, or truncates an
	// existing one.
	Create(name string) (File, error)
	// CreateDirect is Create for a file that is written once, in order, and synced
	// often: writes go to the disk without a copy in the page cache if the file
	// system supports this. File.Alignment says which writes are allowed.
	CreateDirect(name string) (File, error)
	// Open opens an existing file, for reading only.
	Open(name string) (File, error)
	// OpenReadWrite opens an existing file, for reading and writing.
	OpenReadWrite(name string) (File, error)
	// MkdirAll creates a directory and its missing parents. They are durable when
	// it returns.
	MkdirAll(dir string) error
	// List returns the names in a directory, sorted. It includes directories.
	List(dir string) ([]string, error)
	// Rename gives a file a new name in the same directory. It replaces a file of
	// that name.
	Rename(from, to string) error
	// Remove removes a file.
	Remove(name string) error
	// Size returns the length of a file in bytes.
	Size(name string) (int64, error)
	// ModTime returns when a file was written last, the zero time if that is not known.
	ModTime(name string) (time.Time, error)
	// SyncDir makes the names in a directory durable.
	SyncDir(dir string) error
	// Room returns how many bytes can still be written to the file system of a directory, and
	// how many it has in all. The error wraps errors.ErrUnsupported if the system cannot tell.
	Room(dir string) (free, all int64, err error)
	// Lock takes an exclusive lock on the file name, which it creates if necessary,
	// until the result is closed or the process ends. It does not wait: it returns
	// ErrLocked if the lock is held.
	Lock(name string) (io.Closer, error)
}

// File is an open file. One goroutine at a time uses it, except for ReadAt.
type File interface {
	io.Reader
	io.ReaderAt
	io.Writer
	io.WriterAt
	io.Seeker
	io.Closer
	// Alignment is 1, or DirectBytes for direct I/O: then the offset, the length
	// and the memory of each read and write must be multiples of it, or the call
	// may fail with syscall.EINVAL. AlignedBytes allocates such memory. Truncate
	// and Preallocate accept any size. The alignment does not change while the file
	// is open.
	Alignment() int
	// Linked reports whether the file still has a name. A file that was removed
	// while it is open can still be read and written; its content is lost when it
	// is closed.
	Linked() (bool, error)
	// Truncate sets the length. Bytes that it adds are zero.
	Truncate(size int64) error
	// Sync makes the content and the length durable (fdatasync).
	Sync() error
	// Preallocate extends the file to size bytes with zeros, and reserves their
	// space if the file system can. It does not shorten a file, nor move the
	// position. Like a write it is not durable before a Sync.
	Preallocate(size int64) error
}

// Committer is a File that writes and syncs in one step. The log's file is one where the
// system supports it.
type Committer interface {
	File
	// Commit writes p at off and makes that durable. The caller waits for the disk as w says; in no way does it hold a
	// processor (P) of Go for more than some milliseconds.
	Commit(p []byte, off int64, w Wait) error
}

// Wait is how a goroutine waits for the disk in Commit.
type Wait int8

// The ways to wait.
const (
	// HandOver hands the processor (P) over at once.
	HandOver Wait = iota
	// Keep keeps the processor until the runtime's monitor takes it. It is right for what will probably take less than a
	// millisecond.
	Keep
	// Aside leaves the write to a thread of the system, so that the runtime's monitor sleeps on. It is right for a write after a
	// pause (rawio.CommitAside).
	Aside
)

// Commit is Committer.Commit, or WriteAt and Sync if f is no Committer.
func Commit(f File, p []byte, off int64, w Wait) error {
	if c, ok := f.(Committer); ok {
		return c.Commit(p, off, w)
	}
	if _, err := f.WriteAt(p, off); err != nil {
		return err
	}
	return f.Sync()
}
