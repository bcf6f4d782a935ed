package keeper_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/keeper"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/test/keeperfiles"
	"github.com/pinfold-zk/pinfold/zk"
)

func load(t *testing.T, d keeperfiles.Dir, change func(*keeper.Source)) (*keeper.State, keeper.Report, error) {
	t.Helper()
	src := &keeper.Source{Snapshots: os.DirFS(filepath.Join(string(d), "snapshots")), Logs: os.DirFS(filepath.Join(string(d), "log"))}
	if change != nil {
		change(src)
	}
	return src.Load()
}

// tree shows a state: of each znode the data, the owner, the versions and the counter.
func tree(s *keeper.State) string {
	var b strings.Builder
	s.Each(func(path string, z *keeper.Znode) {
		fmt.Fprintf(&b, "%s %q v%d a%d n%d p%d", path, z.Data, z.Version, z.Aversion, z.Created, z.Pzxid)
		if z.Owner != 0 {
			fmt.Fprintf(&b, " of %d", z.Owner)
		}
		for _, a := range z.ACL {
			fmt.Fprintf(&b, " %v", a)
		}
		b.WriteString("\n")
	})
	return b.String()
}

// aliceDigest is the digest of alice:secret.
const aliceDigest = "alice:aYXlLOpEooaV1cRAvUL1fp9Qt7E="

var alice = zk.ID{Scheme: "digest", ID: aliceDigest}

// snapshot is one of a state with each kind of znode.
func snapshot(version uint8) *keeperfiles.Snapshot {
	return &keeperfiles.Snapshot{
		Version: version, Index: 40, Term: 3, Zxid: 37, Digest: 4, NextSession: 9,
		ACLs: map[uint64][]zk.ACL{1: {{Perms: zk.PermAll, ID: alice}, {Perms: zk.PermRead, ID: zk.ID{Scheme: "world", ID: "anyone"}}}},
		Nodes: []keeperfiles.Node{
			{Path: "/", Cversion: 9, Children: 3, Pzxid: 20, Seq: 4},
			{Path: "/keeper"},
			{Path: "/a", Data: "data", Czxid: 5, Mzxid: 6, Ctime: 1000, Mtime: 2000, Version: 7, Cversion: 4, Aversion: 2, Children: 1, Pzxid: 8, Seq: 3, ACL: 1},
			{Path: "/a/e", Czxid: 8, Mzxid: 8, Ctime: 3000, Mtime: 3000, Owner: 4, Pzxid: 8},
			{Path: "/b", Czxid: 20, Mzxid: 20, Pzxid: 20},
		},
		Sessions: []keeperfiles.Session{{ID: 4, Timeout: 30000, Auth: []zk.ID{alice}}, {ID: 8, Timeout: 10000}},
		Config:   []byte("members"),
	}
}

const snapshotTree = `/ "" v0 a0 n4 p20
/a "data" v7 a2 n3 p8 digest:` + aliceDigest + `:cdrwa world:anyone:r
/a/e "" v0 a0 n0 p8 of 4
/b "" v0 a0 n0 p20
`

func TestSnapshot(t *testing.T) {
	for version := range uint8(10) {
		for _, config := range [][]byte{nil, []byte("members")} {
			d, s := keeperfiles.NewDir(t), snapshot(version)
			s.Config = config
			d.Snapshot(t, s)
			state, report, err := load(t, d, nil)
			if version < 3 || version > 7 {
				if err == nil || !strings.Contains(err.Error(), "csnp") {
					t.Errorf("version %d: %v", version, err)
				}
				continue
			}
			if err != nil {
				t.Fatalf("version %d: %v", version, err)
			}
			zxid, compared := zk.Zxid(37), 1
			if version < 5 { // it has neither
				zxid, compared = 40, 0
			}
			if got := tree(state); got != snapshotTree {
				t.Errorf("version %d:\n%s", version, got)
			}
			if state.Zxid != zxid || state.Index != 40 || state.Term != 3 || state.Sessions() != 2 || report.Compared != compared || report.Snapshot != "snapshot_40.bin.zstd" {
				t.Errorf("version %d: %+v, %v %d %d %d", version, report, state.Zxid, state.Index, state.Term, state.Sessions())
			}
		}
	}
}

// The newest snapshot that is complete, and not after the last entry, is read.
func TestNewestSnapshot(t *testing.T) {
	d := keeperfiles.NewDir(t)
	for _, index := range []uint64{9, 40, 100, 110} {
		s := snapshot(6)
		s.Index = index
		d.Snapshot(t, s)
	}
	d.Write(t, "snapshots/tmp_snapshot_110.bin.zstd", nil)
	for last, want := range map[uint64]string{0: "snapshot_100.bin.zstd", 100: "snapshot_100.bin.zstd", 40: "snapshot_40.bin.zstd"} {
		_, report, err := load(t, d, func(src *keeper.Source) { src.Last = last })
		if err != nil || report.Snapshot != want {
			t.Errorf("%d: %s, %v", last, report.Snapshot, err)
		}
	}
}

func TestSnapshotRefused(t *testing.T) {
	good := snapshot(6).Bytes()
	with := func(change func(s *keeperfiles.Snapshot)) []byte {
		s := snapshot(6)
		change(s)
		return s.Bytes()
	}
	for _, c := range []struct {
		want string
		file []byte
	}{
		{keeper.ErrDigest.Error(), keeperfiles.Compress(bytes.Replace(good, []byte("data"), []byte("dada"), 1))},
		{"no parent", keeperfiles.Compress(with(func(s *keeperfiles.Snapshot) { s.Nodes[2].Path = "/x" }))},
		{"no parent", keeperfiles.Compress(with(func(s *keeperfiles.Snapshot) { s.Nodes[4].Path = "b" }))},
		{"twice", keeperfiles.Compress(with(func(s *keeperfiles.Snapshot) { s.Nodes[4].Path = "/a" }))},
		{"the ACL 2", keeperfiles.Compress(with(func(s *keeperfiles.Snapshot) { s.Nodes[4].ACL = 2 }))},
		{"no root", keeperfiles.Compress(with(func(s *keeperfiles.Snapshot) { s.Nodes = nil }))},
		{"after the end", keeperfiles.Compress(append(slices.Clone(good), 1))},
		{"unexpected EOF", keeperfiles.Compress(good[:len(good)-20])},
		{"unexpected EOF", keeperfiles.Compress(good)[:100]},
		{"unexpected EOF", nil},
		{"csnp", good},
		{"csnp", []byte("CKFS\x08 and more")}, // in chunks, as later versions may be
	} {
		d := keeperfiles.NewDir(t)
		d.Write(t, "snapshots/snapshot_40.bin.zstd", c.file)
		if _, _, err := load(t, d, nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.want, err)
		}
	}
}

// A writer makes the entries of a changelog.
type writer struct {
	entries []keeperfiles.Entry
	session int64
}

func (w *writer) add(op wire.OpCode, body []byte) {
	i := int64(len(w.entries)) + 1
	w.entries = append(w.entries, keeperfiles.Entry{Index: uint64(i), Term: 1, Session: w.session, Time: 1000 * i, Zxid: i, Op: int32(op), Body: body})
}

const (
	checkNotExists    wire.OpCode = 501
	createIfNotExists wire.OpCode = 502
	removeRecursive   wire.OpCode = 503
	tryRemove         wire.OpCode = 505
	sessionID         wire.OpCode = 997
)

func pathVersion(path string, version int32) []byte {
	return (&wire.PathVersion{Path: path, Version: version}).Append(nil)
}

func set(path, data string, version int32) []byte {
	return (&wire.SetDataRequest{Path: path, Data: []byte(data), Version: version}).Append(nil)
}

func create(path, data string, mode zk.CreateMode, acl ...zk.ACL) []byte {
	return (&wire.CreateRequest{Path: path, Data: []byte(data), ACL: acl, Flags: mode}).Append(nil, wire.OpCreate)
}

func (w *writer) open() {
	w.add(sessionID, jute.AppendInt(jute.AppendInt(jute.AppendLong(nil, 77), 30000), 1))
}

func (w *writer) multi(ops ...keeperfiles.Entry) { w.add(wire.OpMulti, keeperfiles.Multi(ops...)) }

func op(o wire.OpCode, body []byte) keeperfiles.Entry {
	return keeperfiles.Entry{Op: int32(o), Body: body}
}

// Each request, accepted or refused, leaves what Keeper's rules say.
func TestRequests(t *testing.T) {
	world := zk.ACL{Perms: zk.PermRead, ID: zk.ID{Scheme: "world", ID: "anyone"}}
	for _, c := range []struct {
		name string
		do   func(w *writer)
		want string // without the first line, which is the root's, unless it begins with it
	}{
		{"create", func(w *writer) {
			w.add(wire.OpCreate, create("/a", "x", zk.Persistent))
			w.add(wire.OpCreate2, create("/a/b", "y", zk.Persistent, world))
			w.add(wire.OpCreate, create("/a", "again", zk.Persistent))
			w.add(wire.OpCreate, create("/none/b", "", zk.Persistent))
			w.add(wire.OpCreate, create("/keeper/b", "", zk.Persistent))
			w.add(wire.OpCreate, create("/a/", "", zk.Persistent))
			w.add(wire.OpCreate, create("", "", zk.Persistent))
			w.add(wire.OpCreate, create("/bad", "", zk.Persistent, zk.ACL{Perms: zk.PermAll, ID: zk.ID{Scheme: "digest", ID: "x"}}))
			w.add(wire.OpCreate, create("/bad", "", zk.Persistent, zk.ACL{Perms: zk.PermAll, ID: zk.ID{Scheme: "ip", ID: "1.2.3.4"}}))
		}, `/ "" v0 a0 n1 p1
/a "x" v0 a0 n1 p2
/a/b "y" v0 a0 n0 p2 world:anyone:r
`},
		{"sequential", func(w *writer) {
			w.add(wire.OpCreate, create("/n-", "", zk.PersistentSequential))
			w.add(wire.OpCreate, create("/x", "", zk.Persistent))
			w.add(wire.OpDelete, pathVersion("/x", -1))
			w.add(wire.OpCreate, create("/n-", "", zk.PersistentSequential))
			w.add(createIfNotExists, create("/n-", "", zk.PersistentSequential))
		}, `/ "" v0 a0 n3 p4
/n-0000000000 "" v0 a0 n0 p1
/n-0000000002 "" v0 a0 n0 p4
`},
		{"only if it is not there", func(w *writer) {
			w.add(createIfNotExists, create("/a", "1", zk.Persistent))
			w.add(createIfNotExists, create("/a", "2", zk.Persistent))
			w.multi(op(createIfNotExists, create("/a", "3", zk.Persistent)), op(wire.OpCreate, create("/b", "", zk.Persistent)))
		}, `/ "" v0 a0 n2 p3
/a "1" v0 a0 n0 p1
/b "" v0 a0 n0 p3
`},
		{"set, delete", func(w *writer) {
			w.add(wire.OpCreate, create("/a", "1", zk.Persistent))
			w.add(wire.OpSetData, set("/a", "2", 0))
			w.add(wire.OpSetData, set("/a", "3", 0))
			w.add(wire.OpSetData, set("/keeper", "3", -1))
			w.add(wire.OpSetData, set("/", "root", -1))
			w.add(wire.OpCreate, create("/a/b", "", zk.Persistent))
			w.add(wire.OpDelete, pathVersion("/a", -1))
			w.add(wire.OpDelete, pathVersion("/a/b", 1))
			w.add(wire.OpDelete, pathVersion("/keeper", -1))
			w.add(wire.OpDelete, pathVersion("/", -1))
			w.add(tryRemove, pathVersion("/a", -1))
		}, `/ "root" v1 a0 n1 p1
/a "2" v1 a0 n1 p6
/a/b "" v0 a0 n0 p6
`},
		{"multi", func(w *writer) {
			w.add(wire.OpCreate, create("/a", "1", zk.Persistent))
			w.add(wire.OpCreate, create("/a/b", "b", zk.Persistent))
			w.multi(op(wire.OpSetData, set("/a", "2", -1)), op(wire.OpDelete, pathVersion("/a/b", -1)), op(wire.OpCreate, create("/a/c", "", zk.Persistent)),
				op(wire.OpCreate, create("/a/c/d", "", zk.Persistent)), op(removeRecursive, pathVersion("/a/c", 5)), op(wire.OpCheck, pathVersion("/a/b", -1))) // refused
			w.multi(op(wire.OpCheck, pathVersion("/a", 0)), op(checkNotExists, pathVersion("/x", -1)), op(tryRemove, pathVersion("/a", -1)), op(wire.OpCreate, create("/x", "", zk.Persistent)))
			w.multi(op(wire.OpCreate, create("/y", "", zk.Persistent)), op(checkNotExists, pathVersion("/y", 0)))
			w.multi()
		}, `/ "" v0 a0 n2 p4
/a "1" v0 a0 n1 p2
/a/b "b" v0 a0 n0 p2
/x "" v0 a0 n0 p4
`},
		{"below", func(w *writer) {
			for _, p := range []string{"/a", "/a/b", "/a/b/c", "/a/d", "/e"} {
				w.add(wire.OpCreate, create(p, "", zk.Persistent))
			}
			w.add(removeRecursive, pathVersion("/a", 3))
			w.add(removeRecursive, pathVersion("/a/b", 2))
			w.add(removeRecursive, pathVersion("/none", 2))
			w.add(removeRecursive, pathVersion("/", 99))
			w.add(removeRecursive, pathVersion("/keeper", 99))
		}, `/ "" v0 a0 n2 p5
/a "" v0 a0 n2 p4
/a/d "" v0 a0 n0 p4
/e "" v0 a0 n0 p5
`},
		{"sessions", func(w *writer) {
			w.open() // 1
			w.open() // 2
			w.session = 1
			w.add(wire.OpCreate, create("/e", "", zk.Ephemeral))
			w.add(wire.OpCreate, create("/e/below", "", zk.Persistent))
			w.session = 2
			w.add(wire.OpCreate, create("/f", "", zk.EphemeralSequential))
			w.add(wire.OpCreate, create("/g", "", zk.Ephemeral))
			w.add(wire.OpDelete, pathVersion("/g", -1))
			w.session = 1
			w.add(wire.OpPing, nil)
			w.add(wire.OpCloseSession, nil)
		}, `/ "" v0 a0 n3 p6
/f0000000001 "" v0 a0 n0 p5 of 2
`},
		{"ACLs", func(w *writer) {
			w.session = 5
			w.add(wire.OpAuth, jute.AppendString(jute.AppendString(jute.AppendInt(nil, 0), "digest"), "alice:secret"))
			w.add(wire.OpAuth, jute.AppendString(jute.AppendString(jute.AppendInt(nil, 0), "ip"), "alice:secret"))
			w.add(wire.OpCreate, create("/a", "1", zk.Persistent, zk.ACL{Perms: zk.PermAll, ID: zk.ID{Scheme: "auth"}}, world))
			w.session = 6
			w.add(wire.OpSetData, set("/a", "2", -1))
			w.add(wire.OpCreate, create("/a/b", "", zk.Persistent))
			w.add(wire.OpSetACL, (&wire.SetACLRequest{Path: "/a", ACL: []zk.ACL{world}, Version: -1}).Append(nil))
			w.multi(op(tryRemove, pathVersion("/a/b", -1)))
			w.session = 5
			w.add(wire.OpCreate, create("/a/b", "", zk.Persistent))
			w.add(wire.OpSetACL, (&wire.SetACLRequest{Path: "/a", ACL: []zk.ACL{world}, Version: 0}).Append(nil))
			w.add(removeRecursive, pathVersion("/a/b", 9))
			w.session = 7 // the superuser
			w.add(wire.OpAuth, jute.AppendString(jute.AppendString(jute.AppendInt(nil, 0), "digest"), "super:x"))
			w.add(wire.OpSetData, set("/a", "3", -1))
		}, `/ "" v0 a0 n1 p3
/a "3" v1 a1 n1 p8 world:anyone:r
/a/b "" v0 a0 n0 p8
`},
	} {
		var w writer
		c.do(&w)
		d := keeperfiles.NewDir(t)
		d.Log(t, w.entries...)
		s, report, err := load(t, d, func(src *keeper.Source) { src.SuperDigest = "super:" + superHash })
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if got := tree(s); got != c.want {
			t.Errorf("%s:\n%swant\n%s", c.name, got, c.want)
		}
		if report.Requests != len(w.entries) || s.Index != uint64(len(w.entries)) {
			t.Errorf("%s: %+v", c.name, report)
		}
	}
}

// superHash is base64(sha1("super:x")).
const superHash = "eXJov8znpQ4dl1Mi6FnyKh1mSgw="

// threeCreates are entries 1 to 3.
func threeCreates() []keeperfiles.Entry {
	var w writer
	for _, p := range []string{"/a", "/b", "/c"} {
		w.add(wire.OpCreate, create(p, "", zk.Persistent))
	}
	return w.entries
}

func paths(s *keeper.State) (all []string) {
	s.Each(func(path string, _ *keeper.Znode) { all = append(all, path) })
	return all
}

func TestChangelogs(t *testing.T) {
	e := threeCreates()
	newer := e[1]
	newer.Term, newer.Body = 2, create("/newer", "", zk.Persistent)
	member := keeperfiles.Entry{Index: 4, Kind: 2, Body: []byte("not a request")}
	damaged := keeperfiles.Changelog(2, e...)
	damaged[len(damaged)-1] ^= 1
	inside := keeperfiles.Changelog(2, e...)
	inside[20] ^= 1
	all := []string{"/", "/a", "/b", "/c"}
	type files map[string][]byte
	for _, c := range []struct {
		name  string
		files files
		last  uint64
		want  []string
		err   string
	}{
		{"versions", files{"changelog_1_1.bin": keeperfiles.Changelog(0, e[0]), "changelog_2_2.bin": keeperfiles.Changelog(1, e[1]), "changelog_3_10.bin": keeperfiles.Changelog(2, e[2])}, 0, all, ""},
		{"a later version", files{"changelog_1_1.bin": keeperfiles.Changelog(3, e[0]), "changelog_2_9.bin": keeperfiles.Changelog(2, e[1:]...)}, 0, nil, "version 3"},
		{"by number", files{"changelog_2_9.bin": keeperfiles.Changelog(2, e[1]), "changelog_10_19.bin": keeperfiles.Changelog(2, e[2]), "changelog_1_1.bin": keeperfiles.Changelog(2, e[0])}, 0, all, ""},
		{"compressed", files{"changelog_1_9.bin.zstd": append(keeperfiles.Compress(keeperfiles.Changelog(2, e[:2]...)), keeperfiles.Compress(keeperfiles.Changelog(2, e[2]))...)}, 0, all, ""},
		{"compressed, torn", files{"changelog_1_9.bin.zstd": append(keeperfiles.Compress(keeperfiles.Changelog(2, e[:2]...)), keeperfiles.Compress(keeperfiles.Changelog(2, e[2]))[:20]...)}, 0, all[:3], ""},
		{"members", files{"changelog_1_9.bin": keeperfiles.Changelog(2, append(slices.Clone(e), member)...)}, 0, all, ""},
		{"replaced", files{"changelog_1_9.bin": keeperfiles.Changelog(2, e[0], e[1], e[2], newer)}, 0, []string{"/", "/a", "/newer"}, ""},
		{"up to an entry", files{"changelog_1_9.bin": keeperfiles.Changelog(2, e...)}, 2, all[:3], ""},
		{"up to one that is not there", files{"changelog_1_9.bin": keeperfiles.Changelog(2, e...)}, 4, nil, "no state after entry 4"},
		{"torn", files{"changelog_1_9.bin": keeperfiles.Changelog(2, e...)[:230]}, 0, all[:3], ""},
		{"torn before the last file", files{"changelog_1_2.bin": keeperfiles.Changelog(2, e[:2]...)[:100], "changelog_3_9.bin": keeperfiles.Changelog(2, e[2])}, 0, nil, "unexpected EOF"},
		{"damaged", files{"changelog_1_9.bin": damaged}, 0, nil, "entry 2 is before that"},
		{"damaged, before that", files{"changelog_1_9.bin": damaged}, 2, all[:3], ""},
		{"damaged at once", files{"changelog_1_9.bin": inside}, 0, nil, "checksum"},
		{"a gap", files{"changelog_1_9.bin": keeperfiles.Changelog(2, e[0], e[2])}, 0, nil, "from 2 on are missing"},
		{"no begin", files{"changelog_2_9.bin": keeperfiles.Changelog(2, e[1:]...)}, 0, nil, "from 1 on are missing"},
		{"nothing", files{}, 0, all[:1], ""},
		{"another name", files{"changelog_x": nil}, 0, nil, "the name of a changelog"},
	} {
		d := keeperfiles.NewDir(t)
		for name, b := range c.files {
			d.Write(t, "log/"+name, b)
		}
		s, report, err := load(t, d, func(src *keeper.Source) { src.Last = c.last })
		switch {
		case c.err != "":
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %v", c.name, err)
			}
		case err != nil:
			t.Errorf("%s: %v", c.name, err)
		case !slices.Equal(paths(s), c.want) || strings.Contains(c.name, "torn") != (report.Cut != "") && c.last == 0:
			t.Errorf("%s: %v, %+v", c.name, paths(s), report)
		}
	}
}

// The changelogs go on after the snapshot, and may begin before it.
func TestAfterSnapshot(t *testing.T) {
	d, s := keeperfiles.NewDir(t), snapshot(6)
	d.Snapshot(t, s)
	var entries []keeperfiles.Entry
	for i := uint64(38); i <= 42; i++ {
		entries = append(entries, keeperfiles.Entry{Index: i, Term: 4, Session: 4, Time: 1, Zxid: int64(i) - 3, Op: int32(wire.OpSetData), Body: set("/b", "by "+fmt.Sprint(i), -1)})
	}
	d.Log(t, entries...)
	state, report, err := load(t, d, nil)
	if err != nil || report.Requests != 2 || state.Index != 42 || state.Term != 4 || state.Zxid != 39 || !strings.Contains(tree(state), `/b "by 42" v2`) {
		t.Errorf("%+v, %v\n%s", report, err, tree(state))
	}
}

// The digest of an entry is that of the tree after it, and a wrong one is noticed there.
func TestDigests(t *testing.T) {
	nodes := []keeperfiles.Node{{Path: "/", Cversion: 1, Children: 2, Pzxid: 1}, {Path: "/keeper"}, {Path: "/a", Data: "x", Czxid: 1, Mzxid: 1, Pzxid: 1, Ctime: 1000, Mtime: 1000}}
	var w writer
	w.add(wire.OpCreate, create("/a", "x", zk.Persistent))
	w.add(wire.OpSetData, set("/a", "y", -1))
	w.multi(op(wire.OpSetData, set("/a", "z", -1)), op(wire.OpCreate, create("/a/n", "", zk.Persistent)), op(wire.OpCheck, pathVersion("/", 7))) // refused
	w.add(wire.OpDelete, pathVersion("/a", -1))
	w.entries[0].Digest = keeperfiles.Digest(nodes)
	nodes[0].Cversion++ // by the change of the data
	nodes[2].Data, nodes[2].Version, nodes[2].Mzxid, nodes[2].Mtime = "y", 1, 2, 2000
	w.entries[1].Digest = keeperfiles.Digest(nodes)
	w.entries[2].Digest = w.entries[1].Digest
	nodes[0].Cversion, nodes[0].Children = nodes[0].Cversion+1, 1
	w.entries[3].Digest = keeperfiles.Digest(nodes[:2])
	d := keeperfiles.NewDir(t)
	d.Log(t, w.entries...)
	if _, report, err := load(t, d, nil); err != nil || report.Compared != 4 {
		t.Errorf("%+v, %v", report, err)
	}
	w.entries[2].Digest++
	d.Log(t, w.entries...)
	if _, _, err := load(t, d, nil); !errors.Is(err, keeper.ErrDigest) || !strings.Contains(err.Error(), "entry 3") {
		t.Error(err)
	}
	if _, _, err := load(t, d, func(src *keeper.Source) { src.IgnoreDigests = true }); err != nil {
		t.Error(err)
	}
}

// What cannot be applied ends the reading, and says what to do.
func TestUnknownRequests(t *testing.T) {
	old := threeCreates()[:1]
	old[0].Time = 0
	var ttl, nested, short writer
	ttl.add(wire.OpCreateTTL, create("/a", "", zk.Persistent))
	nested.multi(op(wire.OpMulti, nil))
	short.add(wire.OpCreate, pathVersion("/a", 0)[:5])
	for want, entries := range map[string][]keeperfiles.Entry{"start a later release": old, "operation 21 is not known": ttl.entries, "in a multi": nested.entries, "entry 1": short.entries} {
		d := keeperfiles.NewDir(t)
		d.Log(t, entries...)
		if _, _, err := load(t, d, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
