package vfs

import (
	"errors"
	"io"
	"io/fs"
	"slices"
)

// memFile is an open file of a Mem.
type memFile struct {
	fs       *Mem
	node     *memNode
	name     string
	pos      int64
	writable bool
	direct   bool
	closed   bool
}

func (f *memFile) check(op string, write bool) error {
	switch {
	case f.closed:
		return &fs.PathError{Op: op, Path: f.name, Err: fs.ErrClosed}
	case write && !f.writable:
		return &fs.PathError{Op: op, Path: f.name, Err: fs.ErrPermission}
	}
	return nil
}

func (f *memFile) Read(p []byte) (int, error) {
	n, err := f.ReadAt(p, f.pos)
	f.pos += int64(n)
	if n > 0 && err == io.EOF {
		err = nil
	}
	return n, err
}

func (f *memFile) ReadAt(p []byte, off int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.check("read", false); err != nil {
		return 0, err
	}
	if err := f.checkPlace("read", p, off); err != nil {
		return 0, err
	}
	n := 0
	for n < len(p) && off < f.node.size {
		part := p[n:]
		part = part[:min(int64(len(part)), f.node.size-off, SectorBytes-off%SectorBytes)]
		if s := f.node.sectors[off/SectorBytes]; s != nil {
			copy(part, s[off%SectorBytes:])
		} else {
			clear(part)
		}
		n += len(part)
		off += int64(len(part))
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// Alignment implements File.
func (f *memFile) Alignment() int {
	if f.direct {
		return DirectBytes
	}
	return 1
}

// checkPlace refuses negative offsets and unaligned direct I/O.
func (f *memFile) checkPlace(op string, p []byte, off int64) error {
	if off < 0 {
		return &fs.PathError{Op: op, Path: f.name, Err: errors.New("negative offset")}
	}
	if f.direct {
		return checkAligned(op, f.name, p, off)
	}
	return nil
}

func (f *memFile) Write(p []byte) (int, error) {
	n, err := f.WriteAt(p, f.pos)
	f.pos += int64(n)
	return n, err
}

// Linked implements File.
func (f *memFile) Linked() (bool, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	for _, d := range f.fs.dirs {
		for _, n := range d.live {
			if n == f.node {
				return true, nil
			}
		}
	}
	return false, nil
}

func (f *memFile) WriteAt(p []byte, off int64) (int, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.check("write", true); err != nil {
		return 0, err
	}
	if err := f.checkPlace("write", p, off); err != nil {
		return 0, err
	}
	f.fs.seq++
	f.node.write(f.fs.seq, p, off)
	return len(p), nil
}

func (f *memFile) Seek(offset int64, whence int) (int64, error) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.check("seek", false); err != nil {
		return 0, err
	}
	switch whence {
	case io.SeekCurrent:
		offset += f.pos
	case io.SeekEnd:
		offset += f.node.size
	}
	if offset < 0 {
		return 0, &fs.PathError{Op: "seek", Path: f.name, Err: errors.New("negative offset")}
	}
	f.pos = offset
	return offset, nil
}

func (f *memFile) Truncate(size int64) error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.check("truncate", true); err != nil {
		return err
	}
	f.fs.seq++
	f.node.setSize(f.fs.seq, size)
	return nil
}

func (f *memFile) Preallocate(size int64) error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.check("preallocate", true); err != nil {
		return err
	}
	if size > f.node.size {
		f.fs.seq++
		f.node.setSize(f.fs.seq, size)
	}
	return nil
}

func (f *memFile) Sync() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.check("sync", false); err != nil {
		return err
	}
	f.node.sync()
	return nil
}

func (f *memFile) Close() error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if err := f.check("close", false); err != nil {
		return err
	}
	f.closed = true
	return nil
}

// write stores p at off as the change number seq.
func (n *memNode) write(seq int64, p []byte, off int64) {
	if end := off + int64(len(p)); len(p) > 0 && end > n.size {
		n.size = end
		n.pendingSizes = append(n.pendingSizes, sizeChange{seq, end})
	}
	for len(p) > 0 {
		i := off / SectorBytes
		s := new(sector)
		if old := n.sectors[i]; old != nil {
			*s = *old
		}
		k := copy(s[off%SectorBytes:], p)
		n.setSector(seq, i, s)
		p = p[k:]
		off += int64(k)
	}
}

// setSize cuts or extends the file as the change number seq.
func (n *memNode) setSize(seq, size int64) {
	for i, s := range n.sectors {
		keep := size - i*SectorBytes
		switch {
		case keep <= 0:
			n.setSector(seq, i, nil)
		case keep < SectorBytes:
			cut := new(sector)
			copy(cut[:keep], s[:keep])
			n.setSector(seq, i, cut)
		}
	}
	n.size = size
	n.pendingSizes = append(n.pendingSizes, sizeChange{seq, size})
}

// maxPendingChanges bounds the changes kept for one sector: of a file that is
// overwritten and never synced, only the newest are kept.
const maxPendingChanges = 64

func (n *memNode) setSector(seq, i int64, s *sector) {
	pending := n.pendingSectors[i]
	if len(pending) == maxPendingChanges {
		pending = slices.Delete(pending, 0, maxPendingChanges/2)
	}
	n.pendingSectors[i] = append(pending, sectorChange{seq, s})
	if s == nil {
		delete(n.sectors, i)
	} else {
		n.sectors[i] = s
	}
}

// sync makes the present content durable, in time linear in what has changed.
func (n *memNode) sync() {
	for i := range n.pendingSectors {
		if s := n.sectors[i]; s != nil {
			n.durableSectors[i] = s
		} else {
			delete(n.durableSectors, i)
		}
	}
	clear(n.pendingSectors)
	n.pendingSizes = n.pendingSizes[:0]
	n.durableSize = n.size
}
