package keeper

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// ErrDigest reports that a tree does not have the digest that Keeper has computed.
var ErrDigest = errors.New("the tree does not have the digest that Keeper says")

// A Source is where Keeper's files are, and how to read them. Keeper must not run.
type Source struct {
	Snapshots, Logs fs.FS
	Last            uint64 // the last log entry to apply, 0 for all
	SuperDigest     string // Keeper's superdigest, "" if it has none
	IgnoreDigests   bool
}

// A Report says what was read.
type Report struct {
	Snapshot string // the file, "" for none
	Requests int    // of the changelogs that were applied
	Compared int    // digests
	Cut      string // what was at the end of the last changelog instead of a whole record, "" for nothing
}

// Load reads the newest snapshot, and applies the changelogs after it.
func (src *Source) Load() (*State, Report, error) {
	var report Report
	name, err := newestSnapshot(src.Snapshots, src.Last)
	if err != nil {
		return nil, report, err
	}
	s := emptyState()
	if report.Snapshot = name; name != "" {
		if s, err = readSnapshotFile(src.Snapshots, name); err != nil {
			return nil, report, fmt.Errorf("%s: %w", name, err)
		}
	}
	s.super = src.SuperDigest
	if err := s.compare(src, &report); err != nil {
		return nil, report, fmt.Errorf("%s: %w", name, err)
	}
	logs, err := openChangelogs(src.Logs)
	if err != nil {
		return nil, report, err
	}
	if err := logs.find(s.Index); err != nil {
		return nil, report, err
	}
	end := s.Index + uint64(len(logs.owner))
	switch {
	case src.Last > end || src.Last > 0 && src.Last < s.Index:
		return nil, report, fmt.Errorf("there is no state after entry %d, but after %d to %d", src.Last, s.Index, end)
	case src.Last == 0 && logs.damaged != nil && !errors.Is(logs.damaged, io.ErrUnexpectedEOF):
		return nil, report, fmt.Errorf("%w; entry %d is before that: if Keeper's other members have no more, give it as the last one", logs.damaged, end)
	}
	err = logs.replay(cmp.Or(src.Last, end), func(rec record) error {
		report.Requests++
		if err := s.apply(rec.entry, rec.index, rec.term); err != nil {
			return err
		}
		return s.compare(src, &report)
	})
	if logs.damaged != nil {
		report.Cut = logs.damaged.Error()
	}
	return s, report, err
}

// compare compares the digest that was read last.
func (s *State) compare(src *Source, report *Report) error {
	yes, compared := s.agrees()
	if compared {
		report.Compared++
	}
	if yes || src.IgnoreDigests {
		return nil
	}
	return ErrDigest
}

// newestSnapshot returns the name of the newest complete snapshot that is not after last, "" if there is none. A snapshot
// that is being written has a second file, whose name begins with tmp_.
func newestSnapshot(dir fs.FS, last uint64) (newest string, err error) {
	names, err := fs.Glob(dir, "snapshot_*")
	best := uint64(0)
	for _, name := range names {
		if _, err := fs.Stat(dir, "tmp_"+name); err == nil {
			continue
		}
		number := strings.TrimPrefix(name, "snapshot_")
		index, bad := strconv.ParseUint(number[:strings.IndexAny(number+"_", "_.")], 10, 64)
		if bad != nil {
			return "", fmt.Errorf("%s does not have the name of a snapshot", name)
		}
		if index >= best && (last == 0 || index <= last) {
			newest, best = name, index
		}
	}
	return newest, err
}

func readSnapshotFile(dir fs.FS, name string) (*State, error) {
	r, done, err := open(dir, name, true)
	if err != nil {
		return nil, err
	}
	s, err := readSnapshot(r)
	if errors.Is(err, zstd.ErrMagicMismatch) {
		err = fmt.Errorf("it is not one frame of zstd: %w", errVersion)
	}
	return s, errors.Join(err, done())
}
