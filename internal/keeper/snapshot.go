package keeper

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/pinfold-zk/pinfold/zk"
)

// The versions of snapshots that are read. Keeper writes 6 unless write_snapshot_version says another; before 3 it
// did not compress with zstd.
const (
	oldestVersion = 3
	newestVersion = 7
)

// errVersion says how to get a snapshot that can be read.
var errVersion = errors.New("write another one: set write_snapshot_version to 6 and compress_snapshots_with_zstd_format " +
	"to true in Keeper's coordination_settings, and send it the four-letter word csnp")

// readSnapshot reads the state of a snapshot, after decompression.
func readSnapshot(r *reader) (*State, error) {
	s := newState()
	version := r.u8()
	if r.err == nil && (version < oldestVersion || version > newestVersion) {
		return nil, fmt.Errorf("version %d is not read, but %d to %d: %w", version, oldestVersion, newestVersion, errVersion)
	}
	s.readHead(r, version)
	acls := readACLs(r, version)
	for n := r.u64(); n > 0 && r.err == nil; n-- {
		path := r.text()
		z := readZnode(r, version, acls)
		if r.err == nil {
			if s.znodes[path] != nil {
				r.fail(fmt.Errorf("the znode %q is there twice", path))
			}
			s.znodes[path] = z
		}
	}
	s.readSessions(r)
	if r.err == nil && !r.ended() {
		r.varBytes() // the members
	}
	if r.err == nil && !r.ended() {
		r.fail(errors.New("there is something after the end"))
	}
	if r.err != nil {
		return nil, r.err
	}
	return s, s.link()
}

// readHead reads what is before the ACLs. NuRaft's part has a byte, the index and the term of the last log entry, and the
// members, which are skipped.
func (s *State) readHead(r *reader, version uint8) {
	raft := r.varBytes()
	if len(raft) < 17 {
		r.fail(fmt.Errorf("NuRaft's part has %d bytes", len(raft)))
		return
	}
	s.Index, s.Term = binary.LittleEndian.Uint64(raft[1:]), binary.LittleEndian.Uint64(raft[9:])
	s.Zxid = zk.Zxid(s.Index)
	if version >= 5 {
		s.Zxid = zk.Zxid(r.i64())
		if d := r.u8(); d != 0 {
			s.said = digest{version: d, value: r.u64()}
		}
	}
	s.nextSession = r.i64()
}

// readACLs reads the lists of ACLs by their numbers.
func readACLs(r *reader, version uint8) map[uint64][]zk.ACL {
	acls := map[uint64][]zk.ACL{}
	for n := r.u64(); n > 0 && r.err == nil; n-- {
		id, list := readACLNumber(r, version), []zk.ACL(nil)
		for k := r.u64(); k > 0 && r.err == nil; k-- {
			list = append(list, zk.ACL{Perms: zk.Perms(r.i32()), ID: zk.ID{Scheme: r.text(), ID: r.text()}})
		}
		acls[id] = list
	}
	return acls
}

func readACLNumber(r *reader, version uint8) uint64 {
	if version >= 7 {
		return r.integer(4)
	}
	return r.u64()
}

// readZnode reads all of a znode but its path.
func readZnode(r *reader, version uint8, acls map[uint64][]zk.ACL) *Znode {
	z := &Znode{Data: r.varBytes()}
	// 0 is the list that permits everything to every client, and so is the greatest number, which comes from ZooKeeper.
	if id := readACLNumber(r, version); id != 0 && id != math.MaxUint64 {
		list, ok := acls[id]
		if !ok {
			r.fail(fmt.Errorf("a znode has the ACL %d, which is not there", id))
		}
		z.ACL = list
	}
	if version < 6 {
		r.u8() // whether it is sequential
	}
	z.Czxid, z.Mzxid = zk.Zxid(r.i64()), zk.Zxid(r.i64())
	z.Ctime, z.Mtime = r.i64(), r.i64()
	z.Version, z.Cversion, z.Aversion = r.i32(), r.i32(), r.i32()
	z.Owner = r.i64()
	if version < 6 {
		r.i32() // the length of the data
	}
	z.children = r.i32()
	z.Pzxid = zk.Zxid(r.i64())
	if version >= 7 {
		z.Created = r.i64()
	} else {
		z.Created = int64(r.i32())
	}
	if version == 4 || version == 5 {
		r.u64() // bytes of memory
	}
	return z
}

func (s *State) readSessions(r *reader) {
	for n := r.u64(); n > 0 && r.err == nil; n-- {
		id := r.i64()
		s.sessions[id] = &session{timeout: r.i64()}
		for k := r.u64(); k > 0 && r.err == nil; k-- {
			s.sessions[id].ids = append(s.sessions[id].ids, zk.ID{Scheme: r.text(), ID: r.text()})
		}
	}
}

// link finds the children of the znodes, the ephemerals of the sessions, and the digest, and adds the root of Keeper's own
// znodes, which old snapshots do not have.
func (s *State) link() error {
	if root := s.znodes["/"]; root == nil || root.Owner != 0 {
		return errors.New("there is no root")
	}
	if s.znodes[systemPath] == nil {
		s.znodes[systemPath] = &Znode{}
		s.znodes["/"].children++
	}
	for path, z := range s.znodes {
		s.digest.value += z.digest(path)
		if path == "/" {
			continue
		}
		dir, name, ok := split(path)
		parent := s.znodes[dir]
		if !ok || name == "" || parent == nil || parent.Owner != 0 {
			return fmt.Errorf("the znode %q has no parent that may have children", path)
		}
		parent.adopt(name)
		if z.Owner != 0 {
			s.session(z.Owner).own(path)
		}
	}
	return nil
}
