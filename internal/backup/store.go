package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pinfold-zk/pinfold/internal/vfs"
)

// A Store keeps files by names with slashes.
type Store interface {
	// List returns the files, sorted by their names.
	List(ctx context.Context) ([]File, error)
	// Put writes a file of that many bytes. It is there as a whole, or not at all.
	Put(ctx context.Context, name string, content io.Reader, bytes int64) error
	// Get opens a file.
	Get(ctx context.Context, name string) (io.ReadCloser, error)
}

// A File is a file of a Store.
type File struct {
	Name  string
	Bytes int64
}

// Local is a Store in a directory, which is created when it is needed.
type Local string

// tmpPrefix begins the name of a file that is not complete.
const tmpPrefix = "tmp."

// List implements Store.
func (l Local) List(context.Context) ([]File, error) {
	var files []File
	err := filepath.WalkDir(string(l), func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasPrefix(d.Name(), tmpPrefix) {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(string(l), name)
		files = append(files, File{filepath.ToSlash(rel), info.Size()})
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	return files, err
}

// Put implements Store.
func (l Local) Put(_ context.Context, name string, content io.Reader, bytes int64) error {
	to := filepath.Join(string(l), filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(to), 0o750); err != nil {
		return err
	}
	return writeFile(to, content, bytes)
}

// writeFile durably writes a file under its final name.
func writeFile(to string, content io.Reader, bytes int64) error {
	tmp := filepath.Join(filepath.Dir(to), tmpPrefix+filepath.Base(to))
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o640)
	if err != nil {
		return err
	}
	err = copySynced(f, content, bytes)
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	if err := os.Rename(tmp, to); err != nil {
		return err
	}
	return vfs.OS{}.SyncDir(filepath.Dir(to))
}

// writeBackBytes is how much is written before the disk has to have it. The server's log may be on the same disk: an fsync
// of it waits for what the disk was told to write before.
const writeBackBytes = 1 << 20

// copySynced durably writes so many bytes, which must be all.
func copySynced(f *os.File, content io.Reader, bytes int64) error {
	for left := bytes; left > 0; {
		n, err := io.CopyN(f, content, min(left, writeBackBytes))
		if err != nil {
			return fmt.Errorf("%s: after %d of %d bytes: %w", f.Name(), bytes-left+n, bytes, err)
		}
		if err := writeBack(f, bytes-left, n); err != nil {
			return err
		}
		left -= n
	}
	if n, err := io.Copy(io.Discard, content); n > 0 || err != nil {
		return errors.Join(fmt.Errorf("%s: %d bytes follow the %d that it should have", f.Name(), n, bytes), err)
	}
	return f.Sync()
}

// Get implements Store.
func (l Local) Get(_ context.Context, name string) (io.ReadCloser, error) {
	return os.Open(filepath.Join(string(l), filepath.FromSlash(name)))
}
