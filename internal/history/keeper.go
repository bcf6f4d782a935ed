package history

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/pinfold-zk/pinfold/internal/keeper"
	"github.com/pinfold-zk/pinfold/internal/storage"
	"github.com/pinfold-zk/pinfold/internal/znode"
	"github.com/pinfold-zk/pinfold/zk"
)

// ErrNotConverted reports that Keeper has znodes that ZooKeeper cannot have; all were printed, and nothing was written.
var ErrNotConverted = errors.New("there are znodes that ZooKeeper cannot have")

// FromKeeper makes a data directory of the files of ClickHouse Keeper: a snapshot, with the data, ACL and Stat of each
// znode and the counter of the sequential names below it, and with Keeper's zxid. Only the cversion is another one, as
// Keeper's also counts the changes of the children's data; clients see it computed from the counter, as in ZooKeeper. Left
// out are sessions, which Keeper's clients cannot resume, and with them their ephemeral znodes, which are printed; Keeper's
// own znodes below /keeper; and /zookeeper/config.
type FromKeeper struct {
	Out      io.Writer
	MaxEntry int  // length of the longest transaction, 0 for the default
	DryRun   bool // print, and write nothing

	names  []string
	znodes map[string]*keeper.Znode
	counts struct{ bytes, ephemerals, large, bad int }
}

// Run converts the files of src into the directory to, which must have no snapshot and no log.
func (k *FromKeeper) Run(src *keeper.Source, to string) error {
	if k.MaxEntry == 0 {
		k.MaxEntry = storage.DefaultMaxEntryBytes
	}
	state, report, err := src.Load()
	if err != nil {
		return err
	}
	k.znodes = map[string]*keeper.Znode{}
	out := bufio.NewWriter(k.Out)
	k.describe(out, state, &report)
	state.Each(func(path string, z *keeper.Znode) { k.take(out, path, z) })
	c := &k.counts
	if c.large > 0 {
		fmt.Fprintf(out, "%d znodes have more than 1 MiB: servers and clients need a greater jute.maxbuffer\n", c.large) // bufio keeps the error for Flush
	}
	fmt.Fprintf(out, "%d znodes, %d bytes of data, zxid %v; left out: %d sessions, %d ephemerals\n", len(k.names), c.bytes, state.Zxid, state.Sessions(), c.ephemerals)
	switch err = out.Flush(); {
	case err != nil:
		return err
	case c.bad > 0:
		return fmt.Errorf("%w: %d", ErrNotConverted, c.bad)
	case k.DryRun:
		return nil
	}
	for _, path := range []string{systemPath, quotaPath} { // these are in every tree
		if k.znodes[path] == nil {
			k.names, k.znodes[path] = append(k.names, path), &keeper.Znode{}
		}
	}
	slices.Sort(k.names)
	return writeState(to, state.Zxid, k.MaxEntry, k.names, k.at)
}

func (k *FromKeeper) at(path string) stored {
	z := k.znodes[path]
	return stored{data: append([]byte{}, z.Data...), acl: z.ACL, mode: znode.Mode{
		Czxid: z.Czxid, Mzxid: z.Mzxid, Pzxid: z.Pzxid, Ctime: z.Ctime, Mtime: z.Mtime,
		Version: z.Version, Cversion: int32(z.Created), Aversion: z.Aversion, // take has checked the range
	}}
}

// describe prints what was read.
func (k *FromKeeper) describe(out io.Writer, state *keeper.State, report *keeper.Report) {
	if report.Snapshot == "" {
		report.Snapshot = "no snapshot"
	}
	fmt.Fprintf(out, "%s, then %d requests of changelogs, to entry %d of term %d; %d digests compared\n", // bufio keeps the error for Flush
		report.Snapshot, report.Requests, state.Index, state.Term, report.Compared)
	if report.Cut != "" {
		fmt.Fprintf(out, "the changelogs end in a record that was not written whole: %s\n", report.Cut)
	}
}

// take takes a znode, unless it is left out.
func (k *FromKeeper) take(out io.Writer, path string, z *keeper.Znode) {
	bad := znode.ValidatePath(path)
	if z.Created > math.MaxInt32 {
		bad = fmt.Errorf("the next sequential name below has the number %d", z.Created)
	}
	switch {
	case inSystem(path) && path != systemPath && path != quotaPath && !strings.HasPrefix(path, quotaPath+"/"):
		fmt.Fprintf(out, "left out: %s\n", path)
	case z.Owner != 0:
		k.counts.ephemerals++
		fmt.Fprintf(out, "left out: the ephemeral %s of session %v\n", path, zk.SessionID(z.Owner))
	case bad != nil:
		k.counts.bad++
		fmt.Fprintf(out, "CANNOT BE CONVERTED %q: %v\n", path, bad)
	default:
		k.names = append(k.names, path)
		k.znodes[path] = z
		if k.counts.bytes += len(z.Data); len(z.Data) > 1<<20 {
			k.counts.large++
		}
	}
}
