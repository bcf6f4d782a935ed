// Package vfs is the file system as an interface: the real one (OS), one in
// memory that can lose power (Mem), and a wrapper that makes the n-th operation
// fail (Fault). Whatever has to survive a crash is written through it, so that
// tests can crash the machine between any two operations.
//
// What the interface promises, and all that a caller may rely on:
//
//  1. Bytes written are durable once Sync of that file has returned nil. Before,
//     any part of them may survive a crash, in any order, sector by sector.
//  2. A name created, renamed or removed is durable once SyncDir of its directory
//     has returned nil. Before, each change survives a crash whole or not at all.
//  3. Syncing a file does not make its name durable, nor the other way round.
//  4. Rename replaces its target atomically.
//
// After a failed Sync nothing is known about the bytes written since the one
// before; writing and syncing them again does not help.
//
// Errors are those of package os: errors.Is with fs.ErrNotExist, fs.ErrExist and
// the syscall errors works with every implementation. Names are slash-separated
// paths.
package vfs

import (
	"errors"
	"io"
)

// SectorBytes is the unit that a disk writes atomically: after a power failure
// each aligned run of SectorBytes is either old or new, never a mixture.
const SectorBytes = 512

// DirectBytes is the alignment of direct I/O. Every disk in use has blocks of
// this size or of a divisor of it.
const DirectBytes = 4096

// ErrLocked is returned by Lock if the lock is held already.
var ErrLocked = errors.New("locked by another process")

// FS is a file system. Its methods may be called by several goroutines at once.
type FS interface {
	// Create makes an empty file for reading and writing; one that exists is
	// truncated.
	Create(name string) (File, error)
	// CreateDirect is Create for a file that is written once, in order, and
	// synced often: writes go to the disk without a copy in the page cache, if
	// the file system can do that. File.Alignment says what they have to look
	// like.
	CreateDirect(name string) (File, error)
	// Open opens a file that exists, for reading only.
	Open(name string) (File, error)
	// OpenReadWrite opens a file that exists, for reading and writing.
	OpenReadWrite(name string) (File, error)
	// MkdirAll makes a directory and the parents that it lacks. They are durable
	// when it returns.
	MkdirAll(dir string) error
	// List returns the names in a directory, sorted. It includes directories.
	List(dir string) ([]string, error)
	// Rename gives a file a new name in the same directory, in place of the file
	// that may have had it.
	Rename(from, to string) error
	// Remove removes a file.
	Remove(name string) error
	// Size returns the length of a file in bytes.
	Size(name string) (int64, error)
	// SyncDir makes the names in a directory durable.
	SyncDir(dir string) error
	// Lock takes the exclusive lock that the file name stands for, creating the
	// file if need be, until the result is closed or the process ends. It does
	// not wait: ErrLocked says that somebody has it.
	Lock(name string) (io.Closer, error)
}

// File is an open file. It is used by one goroutine at a time, save for ReadAt.
type File interface {
	io.Reader
	io.ReaderAt
	io.Writer
	io.WriterAt
	io.Seeker
	io.Closer
	// Alignment is 1, or for direct I/O DirectBytes: then the offset, the length
	// and the memory of each read and write are multiples of it; others fail with
	// syscall.EINVAL, or not, as the system likes. AlignedBytes makes such memory.
	// Truncate and Preallocate take any size. It is the same as long as the file is
	// open.
	Alignment() int
	// Linked reports whether the file still has a name. A file that was removed
	// while it is open can be read and written, but is gone once it is closed.
	Linked() (bool, error)
	// Truncate sets the length; bytes that it adds are zero.
	Truncate(size int64) error
	// Sync makes the content and the length durable (fdatasync).
	Sync() error
	// Preallocate extends the file to size bytes with zeros and reserves their
	// space if the file system can; a file that is as long already stays as it
	// is. The position does not move. Like a write it is not durable by itself.
	Preallocate(size int64) error
}

// Committer is a File that can write and sync beside its caller, who then decides how
// long to wait. The log's file is one where the system allows it.
type Committer interface {
	File
	// Commit begins to write p at off, to make it durable, and then to overwrite the
	// start of note with mark, which is not made durable. Neither p nor mark may change,
	// nor may the files be used, until Await has said that it is done. False means that
	// nothing was begun: the file cannot do it, or no longer.
	Commit(p []byte, off int64, note File, mark []byte) bool
	// Await waits for it. If bounded it waits for as long as a healthy disk takes, 2 ms,
	// with a processor in hand, and may report that it is not done.
	Await(bounded bool) (done bool, err error)
	// Quick reports whether the last Commit that is done took no longer than that.
	Quick() bool
}
