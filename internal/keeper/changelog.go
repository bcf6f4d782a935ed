package keeper

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

// newestChangelog is the last version of records that is read. All versions look the same.
const newestChangelog = 2

// appEntry is the type of the entries that hold requests; those of other types are NuRaft's own.
const appEntry = 1

// A record is an entry of a changelog.
type record struct {
	index, term uint64
	kind        int32
	entry       []byte // valid until the next one is read
}

// readRecord reads the next record: its checksum, the version, index, term, type and length, and the entry.
func readRecord(r *reader) (rec record, err error) {
	sum := r.u64()
	version := r.u8()
	rec.index, rec.term, rec.kind = r.u64(), r.u64(), r.i32()
	n := r.u64()
	rec.entry = r.buffer(n)
	if r.err != nil {
		return rec, r.err
	}
	b := binary.LittleEndian.AppendUint64([]byte{version}, rec.index)
	b = binary.LittleEndian.AppendUint64(b, rec.term)
	b = binary.LittleEndian.AppendUint32(b, uint32(rec.kind))
	b = append(binary.LittleEndian.AppendUint64(b, n), rec.entry...)
	switch {
	case Checksum(b) != sum:
		return rec, errors.New("the checksum of a record is wrong")
	case version > newestChangelog:
		return rec, fmt.Errorf("a record has version %d; %d is the last that is known", version, newestChangelog)
	}
	return rec, nil
}

// changelogs are the files of a directory in the order of their first entries.
type changelogs struct {
	dir   fs.FS
	files []string

	first   uint64   // the index of owner[0]
	owner   []uint64 // of each index, the number of the record that holds it: an entry may be replaced by a later record
	damaged error    // what ends the last file instead of a whole record
}

func openChangelogs(dir fs.FS) (*changelogs, error) {
	names, err := fs.Glob(dir, "changelog_*")
	if err != nil {
		return nil, err
	}
	from := func(name string) uint64 {
		text, _, _ := strings.Cut(strings.TrimPrefix(name, "changelog_"), "_")
		n, _ := strconv.ParseUint(text, 10, 64) // checked below
		return n
	}
	for _, name := range names {
		if from(name) == 0 {
			return nil, fmt.Errorf("%s does not have the name of a changelog", name)
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		if from(a) < from(b) {
			return -1
		}
		return 1
	})
	return &changelogs{dir: dir, files: names}, nil
}

// each calls f with the records of all files and their numbers. A file may end within a record if it is the last.
func (c *changelogs) each(f func(number uint64, rec record) error) error {
	number := uint64(0)
	for i, name := range c.files {
		r, done, err := open(c.dir, name, strings.HasSuffix(name, ".zstd"))
		if err != nil {
			return err
		}
		for err == nil && !r.ended() {
			at := r.bytes
			rec, bad := readRecord(r)
			if bad != nil {
				err = fmt.Errorf("%s, byte %d: %w", name, at, bad)
				break
			}
			if err = f(number, rec); err != nil {
				err = fmt.Errorf("%s, byte %d, entry %d: %w", name, at, rec.index, err)
				return errors.Join(err, done())
			}
			number++
		}
		if err == nil && r.err != nil {
			err = fmt.Errorf("%s: %w", name, r.err)
		}
		if err != nil && i == len(c.files)-1 {
			c.damaged, err = err, nil
		}
		if err = errors.Join(err, done()); err != nil {
			return err
		}
	}
	return nil
}

// find finds the records of the entries after an index, which have to follow each other.
func (c *changelogs) find(after uint64) error {
	c.first = after + 1
	return c.each(func(number uint64, rec record) error {
		switch {
		case rec.index < c.first:
			c.owner = c.owner[:0]
			return nil
		case rec.index > c.first+uint64(len(c.owner)):
			return fmt.Errorf("the entries from %d on are missing", c.first+uint64(len(c.owner)))
		}
		c.owner = append(c.owner[:rec.index-c.first], number)
		return nil
	})
}

// replay calls f with the requests that find has found, up to an index.
func (c *changelogs) replay(last uint64, f func(rec record) error) error {
	return c.each(func(number uint64, rec record) error {
		if i := rec.index - c.first; rec.index < c.first || rec.index > last || i >= uint64(len(c.owner)) || c.owner[i] != number || rec.kind != appEntry {
			return nil
		}
		return f(rec)
	})
}
