package vfs

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"math"
	"path"
	"slices"
	"sync"
	"time"
)

// Mem is a file system in memory that knows which of its bytes and names are durable.
// CrashClone returns what a power failure would leave of it. Use NewMem.
type Mem struct {
	mu    sync.Mutex
	dirs  map[string]*memDir // by clean path; directories are durable at once
	locks map[string]bool
	seq   int64 // of the latest change, counts over all files and directories
}

// memDir is one directory: its names now, its names on the disk, and the
// changes in between.
type memDir struct {
	live    map[string]*memNode
	durable map[string]*memNode
	pending []dirChange
}

// dirChange removes the name from (if not "") and binds the name to (if not "") to
// node.
type dirChange struct {
	seq      int64
	from, to string
	node     *memNode
}

func (c dirChange) apply(names map[string]*memNode) {
	if c.from != "" {
		delete(names, c.from)
	}
	if c.to != "" {
		names[c.to] = c.node
	}
}

type sector = [SectorBytes]byte

// memNode is one file. A sector that a map lacks is zero; a sector in a map is never
// changed in place.
type memNode struct {
	size    int64
	sectors map[int64]*sector

	durableSize    int64
	durableSectors map[int64]*sector

	// The changes since the last Sync, oldest first.
	pendingSizes   []sizeChange
	pendingSectors map[int64][]sectorChange
}

type sizeChange struct {
	seq  int64
	size int64
}

type sectorChange struct {
	seq int64
	to  *sector // nil is zeros
}

// NewMem returns a file system with a root directory, "/", and a working
// directory, ".", both empty.
func NewMem() *Mem {
	m := &Mem{dirs: map[string]*memDir{}, locks: map[string]bool{}}
	m.dirs["/"], m.dirs["."] = newMemDir(), newMemDir()
	return m
}

func newMemDir() *memDir {
	return &memDir{live: map[string]*memNode{}, durable: map[string]*memNode{}}
}

func newMemNode() *memNode {
	return &memNode{
		sectors:        map[int64]*sector{},
		durableSectors: map[int64]*sector{},
		pendingSectors: map[int64][]sectorChange{},
	}
}

// Create implements FS.
func (m *Mem) Create(name string) (File, error) { return m.create(name, false) }

// CreateDirect implements FS. The file refuses reads and writes that are not aligned.
func (m *Mem) CreateDirect(name string) (File, error) { return m.create(name, true) }

func (m *Mem) create(name string, direct bool) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d, base, err := m.parentLocked("create", name)
	if err != nil {
		return nil, err
	}
	n := d.live[base]
	if n != nil {
		m.seq++
		n.setSize(m.seq, 0)
	} else {
		n = newMemNode()
		m.changeLocked(d, dirChange{to: base, node: n})
	}
	return &memFile{fs: m, node: n, name: name, writable: true, direct: direct}, nil
}

// Open implements FS.
func (m *Mem) Open(name string) (File, error) { return m.open(name, false) }

// OpenReadWrite implements FS.
func (m *Mem) OpenReadWrite(name string) (File, error) { return m.open(name, true) }

func (m *Mem) open(name string, writable bool) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d, base, err := m.parentLocked("open", name)
	if err != nil {
		return nil, err
	}
	n := d.live[base]
	if n == nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return &memFile{fs: m, node: n, name: name, writable: writable}, nil
}

// MkdirAll implements FS.
func (m *Mem) MkdirAll(dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for dir = path.Clean(dir); m.dirs[dir] == nil; dir = path.Dir(dir) {
		if parent := m.dirs[path.Dir(dir)]; parent != nil && parent.live[path.Base(dir)] != nil {
			return &fs.PathError{Op: "mkdir", Path: dir, Err: errors.New("exists and is no directory")}
		}
		m.dirs[dir] = newMemDir()
	}
	return nil
}

// List implements FS.
func (m *Mem) List(dir string) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir = path.Clean(dir)
	d := m.dirs[dir]
	if d == nil {
		return nil, &fs.PathError{Op: "list", Path: dir, Err: fs.ErrNotExist}
	}
	names := slices.Collect(maps.Keys(d.live))
	for sub := range m.dirs {
		if path.Dir(sub) == dir && sub != dir {
			names = append(names, path.Base(sub))
		}
	}
	slices.Sort(names)
	return names, nil
}

// Rename implements FS.
func (m *Mem) Rename(from, to string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if path.Dir(path.Clean(from)) != path.Dir(path.Clean(to)) {
		return errRenameAcross(from, to)
	}
	d, base, err := m.parentLocked("rename", from)
	if err != nil {
		return err
	}
	n := d.live[base]
	if n == nil {
		return &fs.PathError{Op: "rename", Path: from, Err: fs.ErrNotExist}
	}
	m.changeLocked(d, dirChange{from: base, to: path.Base(to), node: n})
	return nil
}

// Remove implements FS.
func (m *Mem) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	d, base, err := m.parentLocked("remove", name)
	if err != nil {
		return err
	}
	if d.live[base] == nil {
		return &fs.PathError{Op: "remove", Path: name, Err: fs.ErrNotExist}
	}
	m.changeLocked(d, dirChange{from: base})
	return nil
}

// ModTime implements FS. No time is known.
func (m *Mem) ModTime(name string) (time.Time, error) {
	_, err := m.Size(name)
	return time.Time{}, err
}

// Size implements FS.
func (m *Mem) Size(name string) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d, base, err := m.parentLocked("stat", name)
	if err != nil {
		return 0, err
	}
	n := d.live[base]
	if n == nil {
		return 0, &fs.PathError{Op: "stat", Path: name, Err: fs.ErrNotExist}
	}
	return n.size, nil
}

// Room implements FS: there is as much as can be counted.
func (m *Mem) Room(string) (free, all int64, err error) { return math.MaxInt64, math.MaxInt64, nil }

// SyncDir implements FS.
func (m *Mem) SyncDir(dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.dirs[path.Clean(dir)]
	if d == nil {
		return &fs.PathError{Op: "syncdir", Path: dir, Err: fs.ErrNotExist}
	}
	d.durable = maps.Clone(d.live)
	d.pending = nil
	return nil
}

// Lock implements FS. It excludes other users of the same Mem. No file appears.
func (m *Mem) Lock(name string) (io.Closer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	name = path.Clean(name)
	if m.dirs[path.Dir(name)] == nil {
		return nil, &fs.PathError{Op: "lock", Path: name, Err: fs.ErrNotExist}
	}
	if m.locks[name] {
		return nil, &fs.PathError{Op: "lock", Path: name, Err: ErrLocked}
	}
	m.locks[name] = true
	return &memLock{fs: m, name: name}, nil
}

type memLock struct {
	fs   *Mem
	name string
}

// Close releases the lock. Only the first call has an effect.
func (l *memLock) Close() error {
	if l.fs == nil {
		return fs.ErrClosed
	}
	l.fs.mu.Lock()
	defer l.fs.mu.Unlock()
	delete(l.fs.locks, l.name)
	l.fs = nil
	return nil
}

// parentLocked splits name into a directory that exists and a name in it.
// REQUIRES: m.mu.
func (m *Mem) parentLocked(op, name string) (*memDir, string, error) {
	name = path.Clean(name)
	d := m.dirs[path.Dir(name)]
	if d == nil {
		return nil, "", &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
	}
	if m.dirs[name] != nil {
		return nil, "", &fs.PathError{Op: op, Path: name, Err: errors.New("is a directory")}
	}
	return d, path.Base(name), nil
}

// changeLocked makes a change of names that is not durable yet. REQUIRES: m.mu.
func (m *Mem) changeLocked(d *memDir, c dirChange) {
	m.seq++
	c.seq = m.seq
	c.apply(d.live)
	d.pending = append(d.pending, c)
}
