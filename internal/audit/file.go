package audit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"path"
	"strconv"

	"github.com/pinfold-zk/pinfold/internal/vfs"
)

// File is an Output that is rotated: once it has maxBytes, it is renamed to NAME.1, an older
// NAME.1 to NAME.2 and so on, and the one after the last is removed. A line is never divided
// between two files.
type File struct {
	fs       vfs.FS
	name     string
	maxBytes int64
	keep     int
	log      *slog.Logger

	file vfs.File
	size int64
	torn bool // the last write has ended within a line
}

// OpenFile opens a file, to append to it. keep older ones are kept. maxBytes 0 means that it
// is never rotated.
func OpenFile(fsys vfs.FS, name string, maxBytes int64, keep int, log *slog.Logger) (*File, error) {
	f := &File{fs: fsys, name: name, maxBytes: maxBytes, keep: keep, log: log}
	if err := f.open(); err != nil {
		return nil, err
	}
	return f, nil
}

func (f *File) open() (err error) {
	f.file, err = f.fs.OpenReadWrite(f.name)
	if errors.Is(err, fs.ErrNotExist) {
		if err = f.fs.MkdirAll(path.Dir(f.name)); err == nil {
			f.file, err = f.fs.Create(f.name)
		}
	}
	if err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	if f.size, err = f.file.Seek(0, io.SeekEnd); err != nil {
		return errors.Join(fmt.Errorf("audit: %w", err), f.file.Close())
	}
	return nil
}

// Write implements Output.
func (f *File) Write(lines []byte) (int, error) {
	part := f.fitting(lines)
	if len(part) == 0 {
		if err := f.rotate(); err != nil {
			return 0, err
		}
		part = f.fitting(lines)
	}
	n, err := f.file.Write(part)
	f.size += int64(n)
	if n > 0 {
		f.torn = lines[n-1] != '\n'
	}
	return n, err
}

// fitting returns the lines that the file takes before it is rotated. An empty file takes at
// least one, and one with the beginning of a line takes its end.
func (f *File) fitting(lines []byte) []byte {
	if f.maxBytes == 0 || f.size+int64(len(lines)) <= f.maxBytes {
		return lines
	}
	n := 1 + bytes.LastIndexByte(lines[:max(0, f.maxBytes-f.size)], '\n')
	if n == 0 && (f.size == 0 || f.torn) {
		n = 1 + bytes.IndexByte(lines, '\n')
	}
	return lines[:n]
}

// rotate renames the files. If that fails, the present one goes on.
func (f *File) rotate() error {
	if err := f.shift(); err != nil {
		f.log.Error("the audit log is not rotated", "err", err)
		f.size = 0 // tried again after as many bytes
		return nil
	}
	old := f.file
	if err := f.open(); err != nil {
		f.file = old
		return err
	}
	return old.Close()
}

func (f *File) shift() error {
	older := func(i int) string { return f.name + "." + strconv.Itoa(i) }
	if f.keep == 0 {
		return f.fs.Remove(f.name)
	}
	for i := f.keep - 1; i > 0; i-- {
		if err := f.fs.Rename(older(i), older(i+1)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return f.fs.Rename(f.name, older(1))
}

// Close implements Output.
func (f *File) Close() error { return f.file.Close() }
