package storage

import (
	"errors"
	"path"

	"github.com/pinfold-zk/pinfold/internal/vfs"
)

// restoreBytes is how many bytes restore copies at once.
const restoreBytes = 1 << 20

// Restored returns the name of the file that was written again since the last call,
// because another program had removed it; "" if there is none.
func (l *Log) Restored() string {
	name := l.restored
	l.restored = ""
	return name
}

// restore writes the current file again under its name, because another program has
// removed it. Without this, its entries could be read until this process ends, and
// would then be lost, with everything that was acknowledged. The new file is complete
// and durable before the log acknowledges anything more.
func (l *Log) restore() error {
	tmp := path.Join(l.dir, tmpPrefix+path.Base(l.name))
	create := l.fs.CreateDirect
	if l.o.NoSync {
		create = l.fs.Create
	}
	f, err := create(tmp)
	if err != nil {
		return err
	}
	err = f.Preallocate(l.size)
	if err == nil {
		l.zeroed, err = copyBlocks(f, l.file, l.pos)
	}
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	old := l.file
	l.file = f
	l.kept = int(l.pos % int64(f.Alignment()))
	l.restored = l.name
	return errors.Join(l.publish(tmp), old.Close())
}

// copyBlocks copies the first size bytes of a log, rounded up to whole blocks. It
// returns how many bytes it has written.
func copyBlocks(to, from vfs.File, size int64) (int64, error) {
	size = roundUp(size, int64(max(to.Alignment(), from.Alignment())))
	buf := vfs.AlignedBytes(restoreBytes)
	for at := int64(0); at < size; {
		piece := buf[:min(int64(len(buf)), size-at)]
		clear(piece)
		// The file may end within the last block.
		if n, err := from.ReadAt(piece, at); n == 0 && err != nil {
			return at, err
		}
		if _, err := to.WriteAt(piece, at); err != nil {
			return at, err
		}
		at += int64(len(piece))
	}
	return size, nil
}
