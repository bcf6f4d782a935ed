package sim

import (
	"slices"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// The digest of an empty tree is the one that Apache computes.
func TestModelDigest(t *testing.T) {
	if got := newModel(newRoster(0, nil, false)).digest; got != 1371985504 {
		t.Errorf("digest of the empty tree: %d", got)
	}
}

// play has the model carry out requests of one operation each, as ann in session 7,
// and returns their results.
func play(m *model, ops ...wire.MultiOp) (results []result) {
	ids := []zk.ID{{Scheme: "ip", ID: "10.0.0.1"}, identity("ann", "ann")}
	for i, op := range ops {
		m.begin(given{z: m.now.z + 1, time: int64(1000 + i), session: 7})
		results = append(results, m.write(&ask{ops: []wire.MultiOp{op}, ids: ids}, []zk.Code{zk.OK})...)
	}
	return results
}

func createOp(path string, mode zk.CreateMode, acl []zk.ACL) wire.MultiOp {
	return wire.MultiOp{Type: wire.OpCreate2, CreateRequest: wire.CreateRequest{Path: path, Data: []byte("x"), ACL: acl, Flags: mode, TTL: -1}}
}

// The model against the protocol page, a case for each rule that the runs judge by.
func TestModelRules(t *testing.T) {
	open, readOnly := zk.OpenACLUnsafe(), zk.ReadACLUnsafe()
	op := func(op wire.OpCode, path string, version int32) wire.MultiOp {
		return wire.MultiOp{Type: op, CreateRequest: wire.CreateRequest{Path: path, ACL: open}, Version: version}
	}
	steps := []struct {
		op   wire.MultiOp
		code zk.Code
		path string // of a create that succeeds
	}{
		{createOp("/a", zk.Persistent, open), zk.OK, "/a"},
		{createOp("/a", zk.Persistent, open), zk.ErrNodeExists, ""},
		{createOp("/a/", zk.Persistent, open), zk.ErrBadArguments, ""},
		{createOp("/x/y", zk.Persistent, open), zk.ErrNoNode, ""},
		{createOp("/a/s-", zk.PersistentSequential, open), zk.OK, "/a/s-0000000000"},
		{createOp("/a/e", zk.Ephemeral, open), zk.OK, "/a/e"},
		{createOp("/a/s-", zk.EphemeralSequential, open), zk.OK, "/a/s-0000000002"},
		{createOp("/a/e/f", zk.Persistent, open), zk.ErrNoChildrenForEphemerals, ""},
		{op(wire.OpDelete, "/a", -1), zk.ErrNotEmpty, ""},
		{op(wire.OpSetData, "/a", 1), zk.ErrBadVersion, ""},
		{op(wire.OpSetData, "/a", 0), zk.OK, ""},
		{op(wire.OpDelete, "/a/s-0000000000", 1), zk.ErrBadVersion, ""},
		{op(wire.OpDelete, "/zookeeper/quota", -1), zk.ErrBadArguments, ""},
		{createOp("/b", zk.Persistent, nil), zk.ErrInvalidACL, ""},
		{createOp("/b", zk.Persistent, []zk.ACL{{Perms: zk.PermAll, ID: zk.ID{Scheme: "auth"}}}), zk.OK, "/b"},
		{op(wire.OpSetData, "/b", -1), zk.OK, ""},
		{createOp("/c", zk.Persistent, readOnly), zk.OK, "/c"},
		{op(wire.OpSetData, "/c", -1), zk.ErrNoAuth, ""},
		{createOp("/c/d", zk.Persistent, open), zk.ErrNoAuth, ""},
		{op(wire.OpSetACL, "/c", -1), zk.ErrNoAuth, ""},
		{op(wire.OpSetACL, "/a", 0), zk.OK, ""},
		{op(wire.OpSetACL, "/a", 0), zk.ErrBadVersion, ""},
	}
	m := newModel(newRoster(0, nil, false))
	for i, s := range steps {
		r := play(m, s.op)[0]
		if r.code != s.code || s.path != "" && r.path != s.path {
			t.Errorf("step %d, %v %s: %v %s, want %v %s", i, s.op.Type, s.op.Path, r.code, r.path, s.code, s.path)
		}
	}
	a := m.get("/a")
	if s := a.stat(); s.Version != 1 || s.Aversion != 1 || s.Cversion != 3 || s.NumChildren != 3 || s.Pzxid != 7 || s.Mzxid != 11 {
		t.Errorf("Stat of /a: %+v", s)
	}
	m.begin(given{z: 100, session: 7})
	m.endSession()
	if a := m.get("/a"); !slices.Equal(a.children, []string{"s-0000000000"}) || a.pzxid != 100 {
		t.Errorf("after the end of the session: %+v", a)
	}
	if before := m.at("/a", 99); len(before.children) != 3 {
		t.Errorf("before the end of the session: %+v", before)
	}
}

// A multi that fails leaves the state, and its digest, as they were.
func TestModelRollsBack(t *testing.T) {
	m := newModel(newRoster(0, nil, false))
	play(m, createOp("/a", zk.Persistent, zk.OpenACLUnsafe()))
	digest, a := m.digest, m.get("/a")
	m.begin(given{z: 2, session: 7})
	results := m.write(&ask{ops: []wire.MultiOp{
		createOp("/a/b", zk.Persistent, zk.OpenACLUnsafe()),
		{Type: wire.OpSetData, CreateRequest: wire.CreateRequest{Path: "/a/b"}, Version: 5},
		createOp("/c", zk.Persistent, zk.OpenACLUnsafe()),
	}}, make([]zk.Code, 3))
	var codes []zk.Code
	for _, r := range results {
		codes = append(codes, r.code)
	}
	if !slices.Equal(codes, []zk.Code{zk.OK, zk.ErrBadVersion, zk.ErrRuntimeInconsistency}) {
		t.Errorf("codes: %v", codes)
	}
	if b := m.get("/a"); m.digest != digest || b.z != a.z || len(b.children) != 0 || m.exists("/a/b") || len(m.events) != 0 {
		t.Errorf("the state has changed: %+v, digest %d, was %d", b, m.digest, digest)
	}
}

// The leader may judge a quota by any state between what it had applied and the
// state before the request.
func TestModelQuota(t *testing.T) {
	m := newModel(newRoster(0, nil, false))
	open := zk.OpenACLUnsafe()
	play(m, createOp("/d", zk.Persistent, open))
	for path, text := range quotaPaths(quota{count: 2, bytes: -1}) {
		c := createOp(path, zk.Persistent, open)
		c.Data = []byte(text)
		play(m, c)
	}
	play(m, createOp("/d/a", zk.Persistent, open)) // z 5: the second znode of two
	add := &ask{ops: []wire.MultiOp{createOp("/d/b", zk.Persistent, open)}}
	for _, c := range []struct {
		applied zk.Zxid
		refused zk.Code
		want    zk.Code
	}{{5, zk.OK, zk.ErrQuotaExceeded}, {4, zk.ErrQuotaExceeded, zk.ErrQuotaExceeded}, {4, zk.OK, zk.OK}} {
		m.begin(given{z: 6, session: 7, quotas: c.applied})
		if got := m.write(add, []zk.Code{c.refused})[0].code; got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
		m.rollBack()
	}
	if v := m.at(quotaRoot+"/d"+statsName, 5); v.data != "count=2,bytes=2" {
		t.Errorf("the use is shown as %q", v.data)
	}
}
