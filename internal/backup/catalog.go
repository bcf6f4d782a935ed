package backup

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pinfold-zk/pinfold/internal/storage"
	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/zk"
)

// A Generation is a history without a gap.
type Generation struct {
	Number    int
	Snapshots []storage.Snapshot // oldest first
	Logs      []zk.Zxid          // the first transactions of the log files, in order
	Bytes     int64
	logBytes  map[zk.Zxid]int64 // the lengths of the log files
}

// versionDir is the part of a data directory that a generation is.
const versionDir = "version-2"

func newGeneration(number int) *Generation {
	return &Generation{Number: number, logBytes: map[zk.Zxid]int64{}}
}

// file returns the name of a file of the generation in the store.
func (g *Generation) file(name string) string {
	return path.Join(numberName(g.Number), versionDir, name)
}

// numberName is the name of a generation's directory. Other spellings of the number are not a generation's.
func numberName(number int) string { return fmt.Sprintf("%06d", number) }

func logName(first zk.Zxid) string { return storage.LogName("", first) }

// Generations returns what is in a store, oldest first. Names of others are ignored.
func Generations(ctx context.Context, s Store) ([]Generation, error) {
	files, err := s.List(ctx)
	if err != nil {
		return nil, fmt.Errorf("backup: list: %w", err)
	}
	byNumber := map[int]*Generation{}
	var list []*Generation
	for _, f := range files {
		parts := strings.Split(f.Name, "/")
		if len(parts) != 3 || parts[1] != versionDir {
			continue
		}
		number, err := strconv.Atoi(parts[0])
		if err != nil || number <= 0 || parts[0] != numberName(number) {
			continue
		}
		g := byNumber[number]
		if g == nil {
			g = newGeneration(number)
			byNumber[number], list = g, append(list, g)
		}
		g.add(parts[2], f.Bytes)
	}
	generations := make([]Generation, 0, len(list))
	for _, g := range list {
		slices.SortFunc(g.Snapshots, func(a, b storage.Snapshot) int { return cmp.Compare(a.Zxid, b.Zxid) })
		slices.Sort(g.Logs)
		if len(g.Snapshots) > 0 {
			generations = append(generations, *g)
		}
	}
	slices.SortFunc(generations, func(a, b Generation) int { return a.Number - b.Number })
	return generations, nil
}

func (g *Generation) add(name string, bytes int64) {
	if s, ok := storage.ParseSnapshotName(name); ok {
		g.Snapshots = append(g.Snapshots, s)
	} else if first, ok := storage.ParseLogName(name); ok {
		g.Logs = append(g.Logs, first)
		g.logBytes[first] = bytes
	} else {
		return
	}
	g.Bytes += bytes
}

// A Description is a generation with its end.
type Description struct {
	Generation
	Last zk.Zxid
	Time time.Time // of the last transaction; zero if there is only a snapshot
}

// Describe returns what is in a store, oldest first, and how far it goes.
func Describe(ctx context.Context, s Store, maxEntry int) ([]Description, error) {
	generations, err := Generations(ctx, s)
	if err != nil {
		return nil, err
	}
	var list []Description
	for _, g := range generations {
		d := Description{Generation: g}
		var payload []byte
		if d.Last, payload, err = lastOf(ctx, s, &g, maxEntry); err != nil {
			return nil, err
		}
		if payload != nil {
			tx, err := txn.Decode(payload)
			if err != nil {
				return nil, fmt.Errorf("backup: %w", err)
			}
			d.Time = time.UnixMilli(tx.Time)
		}
		list = append(list, d)
	}
	return list, nil
}

// lastOf returns the last transaction of a generation; payload is nil if there is only a
// snapshot. With an error it is the last one that could be read.
func lastOf(ctx context.Context, s Store, g *Generation, maxEntry int) (last zk.Zxid, payload []byte, err error) {
	last = g.Snapshots[0].Zxid
	if n := len(g.Logs); n > 0 {
		err = eachEntry(ctx, s, g.file(logName(g.Logs[n-1])), maxEntry, func(z zk.Zxid, p []byte) error {
			last, payload = z, append(payload[:0], p...)
			return nil
		})
	}
	return last, payload, err
}
