package history

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/pinfold-zk/pinfold/internal/replica"
	"github.com/pinfold-zk/pinfold/internal/storage"
	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/internal/znode"
	"github.com/pinfold-zk/pinfold/zk"
)

// ErrConflict reports that two parts of a merge have a znode at one path; all were printed,
// and nothing was written.
var ErrConflict = errors.New("the parts have znodes in common")

// ErrInUse reports that a server runs with a part's directory.
var ErrInUse = errors.New("a server runs with this directory, and what it is writing cannot be told from damage: stop the server, or merge a copy made while it was stopped")

// A Part is a data directory, whose znodes a merge puts below a prefix.
type Part struct {
	Prefix  string // "/" for where they were
	DataDir string
	LogDir  string // "" for DataDir

	tree *znode.Tree
}

// A Merge makes one data directory of several: a snapshot, as if all znodes had been in one
// ensemble. Of a znode it keeps the data, the ACL and the Stat, and so the counter of the
// sequential names below it; the root of a part is the znode at its prefix. Quotas move with
// their znodes. Left out are sessions, and with them their ephemeral znodes, which are printed,
// and /zookeeper/config. Znodes above a prefix that no part has are made, open to all. The zxid
// of the snapshot is the greatest of the parts'.
type Merge struct {
	Out      io.Writer
	MaxEntry int  // length of the longest transaction, 0 for the default
	DryRun   bool // print what would be left out or conflicts, and write nothing

	zxid   zk.Zxid
	znodes map[string]source // by their paths in the merged tree
	joined map[string]int32  // how many children from elsewhere a znode gets
}

// A source is where a merged znode comes from: part is nil for one that is made.
type source struct {
	part *Part
	id   znode.ID
}

// Run merges parts into the directory to, which must have no snapshot and no log.
func (m *Merge) Run(parts []Part, to string) error {
	if m.MaxEntry == 0 {
		m.MaxEntry = storage.DefaultMaxEntryBytes
	}
	m.znodes, m.joined = map[string]source{}, map[string]int32{}
	out := bufio.NewWriter(m.Out)
	var left []string
	conflicts := 0
	for i := range parts {
		if err := m.read(&parts[i]); err != nil {
			return fmt.Errorf("%s: %w", parts[i].DataDir, err)
		}
		n, ephemerals, err := m.enter(out, &parts[i])
		if err != nil {
			return err
		}
		conflicts, left = conflicts+n, append(left, ephemerals...)
	}
	for _, text := range left {
		fmt.Fprintf(out, "left out: the ephemeral %s\n", text) // bufio keeps the error for Flush
	}
	m.join()
	fmt.Fprintf(out, "%d znodes, %d ephemerals left out, zxid %v\n", len(m.znodes), len(left), m.zxid)
	switch err := out.Flush(); {
	case err != nil:
		return err
	case conflicts > 0:
		return fmt.Errorf("%w: %d", ErrConflict, conflicts)
	case m.DryRun:
		return nil
	}
	return m.write(to)
}

// read reads the state of a part.
func (m *Merge) read(p *Part) error {
	if !strings.HasPrefix(p.Prefix, "/") || path.Clean(p.Prefix) != p.Prefix || inSystem(p.Prefix) {
		return fmt.Errorf("the prefix %q is not a path such as /app", p.Prefix)
	}
	d, err := storage.OpenReadOnly(vfs.OS{}, storage.Options{
		DataDir: p.DataDir, DataLogDir: p.LogDir, Log: storage.LogOptions{MaxEntryBytes: m.MaxEntry},
	})
	if err != nil {
		return err
	}
	if d.InUse() {
		return ErrInUse
	}
	state, err := Newest(d, m.MaxEntry)
	if err != nil {
		return fmt.Errorf("%w. If a server of Apache's runs with this directory, stop it; if none does, pinfold data verify says what is damaged", err)
	}
	p.tree = state.Tree()
	m.zxid = max(m.zxid, p.tree.LastZxid())
	return nil
}

// Newest reads the newest state of a directory: the newest snapshot, and the log after it.
func Newest(d *storage.Dir, maxEntry int) (*replica.State, error) {
	snapshots, err := d.Snapshots()
	if err == nil && len(snapshots) == 0 {
		err = errors.New("there is no snapshot")
	}
	if err != nil {
		return nil, err
	}
	sr, err := d.OpenSnapshot(snapshots[0])
	if err != nil {
		return nil, err
	}
	state, err := replica.ReadState(sr, snapshots[0].Zxid, maxEntry)
	if err != nil {
		return nil, err
	}
	log, err := d.ReadLog(snapshots[0].Zxid)
	if err != nil {
		return nil, err
	}
	for {
		payload, err := log.Next()
		if err == io.EOF {
			if state.Undecided() {
				err = fmt.Errorf("at zxid %v, where the log ends, the tree does not have the digest that is named there; pinfold data verify says more", log.LastZxid())
				return nil, errors.Join(err, log.Close())
			}
			return state, log.Close()
		}
		tx, bad := txn.Decode(payload)
		if err = errors.Join(err, bad); err != nil {
			return nil, errors.Join(err, log.Close())
		}
		if !state.Apply(&tx) {
			err := fmt.Errorf("at zxid %v the tree does not have the digest that the log names; pinfold data verify says more", tx.Zxid)
			return nil, errors.Join(err, log.Close())
		}
	}
}

func inSystem(path string) bool { return path == systemPath || strings.HasPrefix(path, systemPath+"/") }

// quotaPath is the root of the quotas, each at the path of its znode.
const quotaPath = systemPath + "/quota"

// place returns the path of a part's znode in the merged tree, "" if it is left out.
func (p *Part) place(name string) string {
	if quota, ok := strings.CutPrefix(name, quotaPath+"/"); ok {
		return path.Join(quotaPath, p.Prefix, quota)
	}
	if inSystem(name) {
		return ""
	}
	return path.Join(p.Prefix, name)
}

// enter enters the znodes of a part. It prints those that another part has too, and returns
// how many these are, and the ephemerals.
func (m *Merge) enter(out io.Writer, p *Part) (conflicts int, ephemerals []string, err error) {
	err = walk(p.tree, "/", func(name string, id znode.ID) error {
		to := p.place(name)
		if to == "" {
			return nil
		}
		if mode, _ := p.tree.Kind(id); mode == zk.Ephemeral {
			ephemerals = append(ephemerals, fmt.Sprintf("%s of %s, of session %v", name, p.DataDir, zk.SessionID(p.tree.Mode(id).Owner)))
			return nil
		}
		if other, ok := m.znodes[to]; ok {
			conflicts++
			fmt.Fprintf(out, "CONFLICT %s: in %s and in %s\n", to, other.part.DataDir, p.DataDir) // Run flushes
		}
		m.znodes[to] = source{p, id}
		return nil
	})
	return conflicts, ephemerals, err
}

// join makes the znodes above others that no part has, and counts the children that come from
// elsewhere than their parent.
func (m *Merge) join() {
	for _, name := range []string{"/", systemPath, quotaPath} {
		if _, ok := m.znodes[name]; !ok {
			m.znodes[name] = source{}
		}
	}
	for _, name := range slices.Collect(maps.Keys(m.znodes)) {
		for name != "/" && name != systemPath && name != quotaPath { // these are in every tree
			parent := path.Dir(name)
			above, ok := m.znodes[parent]
			if above.part == nil || above.part != m.znodes[name].part {
				m.joined[parent]++
			}
			if ok {
				break
			}
			m.znodes[parent] = source{}
			name = parent
		}
	}
}

// mode returns what the merged znode has beside its data and ACL.
func (m *Merge) mode(name string, s source) (mode znode.Mode) {
	if s.part != nil {
		mode = s.part.tree.Mode(s.id)
	}
	if mode.Czxid == 0 && name != "/" && !inSystem(name) { // it is made, or was a root
		mode.Czxid, mode.Mzxid, mode.Pzxid = m.zxid, m.zxid, m.zxid
	}
	if n := m.joined[name]; n > 0 {
		mode.Cversion, mode.Pzxid = mode.Cversion+n, m.zxid
	}
	return mode
}

// write writes the snapshot.
func (m *Merge) write(to string) error {
	return writeState(to, m.zxid, m.MaxEntry, slices.Sorted(maps.Keys(m.znodes)), func(name string) stored {
		s := m.znodes[name]
		if s.part == nil {
			return stored{data: []byte{}, mode: m.mode(name, s)}
		}
		return stored{s.part.tree.Data(s.id), s.part.tree.ACL(s.id).All(), m.mode(name, s)}
	})
}
