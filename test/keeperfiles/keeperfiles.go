// Package keeperfiles writes snapshots and changelogs as ClickHouse Keeper does, for tests. It shares no code with the
// package that reads them but the hash.
package keeperfiles

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/keeper"
	"github.com/pinfold-zk/pinfold/zk"
)

// A Node is a znode of a snapshot.
type Node struct {
	Path, Data                        string
	ACL                               uint64
	Czxid, Mzxid, Ctime, Mtime, Pzxid int64
	Version, Cversion, Aversion       int32
	Owner                             int64
	Children                          int32
	Seq                               int64
}

// A Session is one of a snapshot.
type Session struct {
	ID, Timeout int64
	Auth        []zk.ID
}

// A Snapshot is what Keeper writes of its state.
type Snapshot struct {
	Version     uint8
	Index, Term uint64
	Zxid        int64
	Digest      uint8 // its version, 0 for none
	NextSession int64
	ACLs        map[uint64][]zk.ACL
	Nodes       []Node
	Sessions    []Session
	Config      []byte // of the members, nil for none
}

func text(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func u32[T int32 | uint32](b []byte, v T) []byte {
	return binary.LittleEndian.AppendUint32(b, uint32(v))
}
func u64[T int64 | uint64 | int](b []byte, v T) []byte {
	return binary.LittleEndian.AppendUint64(b, uint64(v))
}

// Bytes returns the snapshot before compression.
func (s *Snapshot) Bytes() []byte {
	raft := u64(u64(u64([]byte{1}, s.Index), s.Term), 0)
	b := text([]byte{s.Version}, string(append(raft, "the members"...)))
	if s.Version >= 5 {
		b = append(u64(b, s.Zxid), s.Digest)
		if s.Digest != 0 {
			b = u64(b, Digest(s.Nodes))
		}
	}
	b = u64(u64(b, s.NextSession), len(s.ACLs))
	number := func(b []byte, id uint64) []byte {
		if s.Version >= 7 {
			return u32(b, uint32(id))
		}
		return u64(b, id)
	}
	for id, list := range s.ACLs {
		b = u64(number(b, id), len(list))
		for _, a := range list {
			b = text(text(u32(b, int32(a.Perms)), a.ID.Scheme), a.ID.ID)
		}
	}
	b = u64(b, len(s.Nodes))
	for _, n := range s.Nodes {
		b = number(text(text(b, n.Path), n.Data), n.ACL)
		if s.Version < 6 {
			b = append(b, 0)
		}
		b = u64(u64(u64(u64(b, n.Czxid), n.Mzxid), n.Ctime), n.Mtime)
		b = u64(u32(u32(u32(b, n.Version), n.Cversion), n.Aversion), n.Owner)
		if s.Version < 6 {
			b = u32(b, int32(len(n.Data)))
		}
		b = u64(u32(b, n.Children), n.Pzxid)
		if s.Version >= 7 {
			b = u64(b, n.Seq)
		} else {
			b = u32(b, int32(n.Seq))
		}
		if s.Version == 4 || s.Version == 5 {
			b = u64(b, 200)
		}
	}
	b = u64(b, len(s.Sessions))
	for _, x := range s.Sessions {
		b = u64(u64(u64(b, x.ID), x.Timeout), len(x.Auth))
		for _, id := range x.Auth {
			b = text(text(b, id.Scheme), id.ID)
		}
	}
	if s.Config != nil {
		b = text(b, string(s.Config))
	}
	return b
}

// Digest is the digest of a tree.
func Digest(nodes []Node) (sum uint64) {
	for _, n := range nodes {
		b := append([]byte(n.Path), n.Data...)
		b = u64(u64(u64(u64(b, n.Czxid), n.Mzxid), n.Ctime), n.Mtime)
		b = u64(u32(u32(u32(b, n.Version), n.Cversion), n.Aversion), n.Owner)
		sum += keeper.Checksum(u64(u32(b, n.Children), n.Pzxid))
	}
	return sum
}

// Compress returns b as one frame of zstd.
func Compress(b []byte) []byte {
	w, err := zstd.NewWriter(nil)
	if err != nil {
		panic(err) // the options are right
	}
	return w.EncodeAll(b, nil)
}

// An Entry is a request in the log.
type Entry struct {
	Index, Term uint64
	Kind        int32 // 1 is a request, 2 a change of the members
	Session     int64
	Time, Zxid  int64  // a time of 0: none of the fields after the request
	Digest      uint64 // of the tree after it, 0 for none
	Op          int32
	Body        []byte
}

// blob is the entry as the log has it.
func (e *Entry) blob() []byte {
	request := append(jute.AppendInt(jute.AppendInt(nil, 7), e.Op), e.Body...)
	b := jute.AppendBuffer(u64([]byte{}, e.Session), request)
	if e.Time == 0 {
		return b
	}
	b = u64(u64(b, e.Time), e.Zxid)
	if e.Digest == 0 {
		return append(b, 0)
	}
	return append(u64(append(b, 4), e.Digest), "the upper part of the xid, and more"...)
}

// Changelog returns the records of entries.
func Changelog(version uint8, entries ...Entry) []byte {
	var out []byte
	for _, e := range entries {
		if e.Kind == 0 {
			e.Kind = 1
		}
		blob := e.blob()
		b := u32(u64(u64([]byte{version}, e.Index), e.Term), e.Kind)
		b = append(u64(b, len(blob)), blob...)
		out = append(u64(out, keeper.Checksum(b)), b...)
	}
	return out
}

// Dir is a directory of Keeper's with its snapshots and its log.
type Dir string

// NewDir makes an empty one.
func NewDir(t testing.TB) Dir {
	t.Helper()
	d := Dir(t.TempDir())
	for _, name := range []string{"snapshots", "log"} {
		if err := os.MkdirAll(filepath.Join(string(d), name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

// Write writes the file at a path below the directory.
func (d Dir) Write(t testing.TB, name string, b []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(string(d), name), b, 0o644); err != nil {
		t.Fatal(err)
	}
}

// Snapshot writes a snapshot, compressed.
func (d Dir) Snapshot(t testing.TB, s *Snapshot) {
	t.Helper()
	d.Write(t, fmt.Sprintf("snapshots/snapshot_%d.bin.zstd", s.Index), Compress(s.Bytes()))
}

// Log writes a changelog.
func (d Dir) Log(t testing.TB, entries ...Entry) {
	t.Helper()
	d.Write(t, fmt.Sprintf("log/changelog_%d_%d.bin", entries[0].Index, entries[0].Index+99999), Changelog(2, entries...))
}

// Multi returns the body of a multi of operations and their bodies.
func Multi(ops ...Entry) []byte {
	var b bytes.Buffer
	for _, e := range ops {
		b.Write(jute.AppendInt(append(jute.AppendInt(nil, e.Op), 0), -1))
		b.Write(e.Body)
	}
	b.Write(jute.AppendInt(append(jute.AppendInt(nil, -1), 1), -1))
	return b.Bytes()
}
