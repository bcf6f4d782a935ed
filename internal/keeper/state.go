// Package keeper reads the files of ClickHouse Keeper: the newest snapshot, and the changelog after it, whose requests it
// applies as Keeper does. The formats and the rules are those that its public source shows:
//
//   - snapshots of the versions 3 to 7, compressed with zstd, as "snapshot_INDEX.bin.zstd",
//   - changelogs of the versions 0 to 2, as "changelog_FROM_TO.bin", compressed (".zstd") or not.
//
// A snapshot has no checksum; each record of a changelog has one. Both have a digest of the tree if Keeper is told so, which
// is compared.
package keeper

import (
	"encoding/binary"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/pinfold-zk/pinfold/zk"
)

// systemPath is the root of the znodes that Keeper makes by itself. Clients cannot change them, and snapshots do not
// have those below.
const systemPath = "/keeper"

// A Znode is one of Keeper's.
type Znode struct {
	Data                        []byte
	ACL                         []zk.ACL // none: every client may do everything
	Czxid, Mzxid, Pzxid         zk.Zxid
	Ctime, Mtime                int64 // milliseconds since 1970
	Version, Cversion, Aversion int32 // Cversion also counts the changes of the children's data
	Owner                       int64 // the session of an ephemeral, or 0
	Created                     int64 // how many children were ever created: the number of the next sequential one

	children int32               // as Keeper counts them
	names    map[string]struct{} // of the children
}

// State is Keeper's state after a log entry. It is not safe for concurrent use.
type State struct {
	Index uint64  // of the last log entry
	Term  uint64  // of that entry
	Zxid  zk.Zxid // the last

	super       string // the digest of the superuser, "" for none
	nextSession int64
	sessions    map[int64]*session
	znodes      map[string]*Znode
	digest      digest
	said        digest // what the snapshot or the last entry says
	undo        []func()
}

type session struct {
	timeout    int64 // milliseconds
	ids        []zk.ID
	ephemerals map[string]struct{}
}

func (s *session) own(path string) {
	if s.ephemerals == nil {
		s.ephemerals = map[string]struct{}{}
	}
	s.ephemerals[path] = struct{}{}
}

// A digest is the sum of the hashes of all znodes, computed in one of several ways.
type digest struct {
	version uint8
	value   uint64
}

func newState() *State {
	return &State{sessions: map[int64]*session{}, znodes: map[string]*Znode{}, nextSession: 1}
}

// emptyState is Keeper's before its first log entry.
func emptyState() *State {
	s := newState()
	s.znodes["/"] = &Znode{}
	_ = s.link() // the root is there
	return s
}

// Each calls f with each znode, parents before their children; Keeper's own are left out.
func (s *State) Each(f func(path string, z *Znode)) {
	for _, p := range slices.Sorted(maps.Keys(s.znodes)) {
		if !inSystem(p) {
			f(p, s.znodes[p])
		}
	}
}

// Sessions returns how many sessions there are.
func (s *State) Sessions() int { return len(s.sessions) }

// agrees reports whether the tree has the digest that was said last. Digests of the versions 3 and 4 are compared: those
// before hash something else, and a later one hashes what older znodes do not have.
func (s *State) agrees() (yes, compared bool) {
	compared = s.said.version == 3 || s.said.version == 4
	return !compared || s.said.value == s.digest.value, compared
}

func inSystem(p string) bool { return p == systemPath || strings.HasPrefix(p, systemPath+"/") }

// split returns the path of the parent and the name; ok is false if it is no path.
func split(p string) (dir, name string, ok bool) {
	dir, name = path.Split(p)
	if dir == "" {
		return "", "", false
	}
	if dir != "/" {
		dir = dir[:len(dir)-1]
	}
	return dir, name, true
}

func (z *Znode) adopt(name string) {
	if z.names == nil {
		z.names = map[string]struct{}{}
	}
	z.names[name] = struct{}{}
}

// digest is what the znode at path adds to the tree's.
func (z *Znode) digest(path string) uint64 {
	b := make([]byte, 0, len(path)+len(z.Data)+72)
	b = append(append(b, path...), z.Data...)
	for _, v := range []int64{int64(z.Czxid), int64(z.Mzxid), z.Ctime, z.Mtime} {
		b = binary.LittleEndian.AppendUint64(b, uint64(v))
	}
	for _, v := range []int32{z.Version, z.Cversion, z.Aversion} {
		b = binary.LittleEndian.AppendUint32(b, uint32(v))
	}
	b = binary.LittleEndian.AppendUint64(b, uint64(z.Owner))
	b = binary.LittleEndian.AppendUint32(b, uint32(z.children))
	return max(1, Checksum(binary.LittleEndian.AppendUint64(b, uint64(z.Pzxid))))
}

func (s *State) session(id int64) *session {
	if s.sessions[id] == nil {
		s.sessions[id] = &session{}
	}
	return s.sessions[id]
}

// ids returns the identities of a session.
func (s *State) ids(session int64) []zk.ID {
	if s := s.sessions[session]; s != nil {
		return s.ids
	}
	return nil
}

// change changes a znode by f, until rollback.
func (s *State) change(path string, z *Znode, f func()) {
	old := *z
	s.digest.value -= z.digest(path)
	f()
	s.digest.value += z.digest(path)
	s.undo = append(s.undo, func() { *z = old })
}

// insert adds a znode, whose parent knows nothing of it yet.
func (s *State) insert(path string, z *Znode) {
	dir, name, _ := split(path)
	s.znodes[path] = z
	s.znodes[dir].adopt(name)
	s.digest.value += z.digest(path)
	if z.Owner != 0 {
		s.session(z.Owner).own(path)
	}
	s.undo = append(s.undo, func() { s.drop(path, z) })
}

// remove removes a znode without children; its parent's count remains.
func (s *State) remove(path string, z *Znode) {
	s.digest.value -= z.digest(path)
	s.drop(path, z)
	s.undo = append(s.undo, func() {
		dir, name, _ := split(path)
		s.znodes[path] = z
		s.znodes[dir].adopt(name)
		if z.Owner != 0 {
			s.session(z.Owner).own(path)
		}
	})
}

func (s *State) drop(path string, z *Znode) {
	dir, name, _ := split(path)
	delete(s.znodes, path)
	if parent := s.znodes[dir]; parent != nil {
		delete(parent.names, name)
	}
	if z.Owner != 0 {
		delete(s.session(z.Owner).ephemerals, path)
	}
}

// atomically carries out f, and takes all of it back unless f reports success.
func (s *State) atomically(f func() (bool, error)) error {
	before := s.digest
	ok, err := f()
	if !ok || err != nil {
		for _, undo := range slices.Backward(s.undo) {
			undo()
		}
		s.digest = before
	}
	s.undo = s.undo[:0]
	return err
}
