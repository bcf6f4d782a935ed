package znode

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// expiredPaths is what a sweep at now would submit.
func expiredPaths(t *Tree, now, neverUsed int64) (paths []string) {
	t.Expired(now, neverUsed, func(p string) { paths = append(paths, p) })
	return paths
}

// TestExpired: the rules of the features page, section 6. apply sets mtime to
// the zxid.
func TestExpired(t *testing.T) {
	for _, opts := range []Options{{ExtendedTypes: true}, {ExtendedTypes: true, Emulate353TTL: true}} {
		tree := New(opts)
		for i, op := range []txn.Op{
			{Type: wire.OpCreateContainer, Path: "/never"},
			{Type: wire.OpCreateContainer, Path: "/used"},
			{Type: wire.OpCreate, Path: "/used/x", ParentCversion: 1},
			{Type: wire.OpCreateTTL, Path: "/ttl", TTL: 100},
			{Type: wire.OpCreateTTL, Path: "/parent", TTL: 100},
			{Type: wire.OpCreate, Path: "/parent/x", ParentCversion: 1},
			{Type: wire.OpCreate, Path: "/plain"},
		} {
			if r := apply(tree, zk.Zxid(i+1), op); r.Err != zk.OK {
				t.Fatal(op, r.Err)
			}
		}
		expect := func(now, neverUsed int64, want ...string) {
			t.Helper()
			if got := expiredPaths(tree, now, neverUsed); !slices.Equal(got, want) {
				t.Errorf("%+v: at %d: %v, want %v", opts, now, got, want)
			}
		}
		expect(104, 0)
		expect(105, 0, "/ttl")
		expect(11, 10)
		expect(12, 10, "/never")
		apply(tree, 50, txn.Op{Type: wire.OpSetData, Path: "/ttl", Version: 1})
		expect(150, 0)
		expect(151, 0, "/ttl")
		apply(tree, 51, txn.Op{Type: wire.OpDelete, Path: "/used/x"})
		apply(tree, 52, txn.Op{Type: wire.OpDelete, Path: "/parent/x"})
		expect(52, 0, "/used")
		expect(200, 0, "/used", "/ttl", "/parent")
		mustCheck(t, tree)
	}
}

// TestOwnerKinds: what a stored ephemeralOwner means under each setting.
func TestOwnerKinds(t *testing.T) {
	plain, emulate := Options{}, Options{ExtendedTypes: true, Emulate353TTL: true}
	for _, c := range []struct {
		owner                    uint64
		plain, extended, emulate kind
		ttl                      int64 // under extended, and emulate if that says TTL
	}{
		{0, kindPersistent, kindPersistent, kindPersistent, 0},
		{5, kindEphemeral, kindEphemeral, kindEphemeral, 0},
		{1 << 63, kindContainer, kindContainer, kindContainer, 0},
		{0xff << 56, kindEphemeral, kindTTL, kindTTL, 0},
		{0xff<<56 | 77, kindEphemeral, kindTTL, kindTTL, 77},
		{0xff<<56 | 1<<40, kindEphemeral, kindEphemeral, kindTTL, 0},
		{1<<63 | 77, kindEphemeral, kindEphemeral, kindTTL, 77},
		{0xfe << 56, kindEphemeral, kindEphemeral, kindTTL, 0},
		{0x7f << 56, kindEphemeral, kindEphemeral, kindEphemeral, 0},
	} {
		o := int64(c.owner)
		if a, b, d := plain.ownerKind(o), extended.ownerKind(o), emulate.ownerKind(o); a != c.plain || b != c.extended || d != c.emulate {
			t.Errorf("%#x is of kinds %d %d %d, want %d %d %d", c.owner, a, b, d, c.plain, c.extended, c.emulate)
		}
		if c.extended == kindTTL && extended.ownerTTL(o) != c.ttl {
			t.Errorf("%#x lives %d ms, want %d", c.owner, extended.ownerTTL(o), c.ttl)
		}
	}
	for _, o := range []Options{extended, emulate} {
		for _, ttl := range []int64{1, 77, MaxTTL} {
			owner := o.ttlOwner(ttl)
			if o.ownerKind(owner) != kindTTL || o.ownerTTL(owner) != ttl {
				t.Errorf("%+v: %d ms is stored as %#x, read as %d ms", o, ttl, uint64(owner), o.ownerTTL(owner))
			}
		}
	}
}

// TestBadTTLInLog: 3.8.0 can log a createTTL that kills it; here it is an error.
func TestBadTTLInLog(t *testing.T) {
	for _, ttl := range []int64{0, -1, MaxTTL + 1, math.MinInt64} {
		tree := New(extended)
		before := dump(tree)
		if r := apply(tree, 0, txn.Op{Type: wire.OpCreateTTL, Path: "/t", TTL: ttl}); r.Err != zk.ErrBadArguments {
			t.Errorf("ttl %d: %v", ttl, r.Err)
		}
		if diff := firstDiff(dump(tree), before); diff != "" {
			t.Errorf("ttl %d: %s", ttl, diff)
		}
	}
}

// TestCversionDoesNotWrap: the counter of creates stays at 2^31-1, as in Apache,
// whatever a transaction says.
func TestCversionDoesNotWrap(t *testing.T) {
	tree := New(extended)
	apply(tree, 1, txn.Op{Type: wire.OpCreate, Path: "/p", ParentCversion: 1})
	apply(tree, 2, txn.Op{Type: wire.OpCreate, Path: "/p/a", ParentCversion: math.MaxInt32})
	apply(tree, 3, txn.Op{Type: wire.OpCreate, Path: "/p/b", ParentCversion: math.MinInt32})
	apply(tree, 4, txn.Op{Type: wire.OpCreate, Path: "/p/c", ParentCversion: -1}) // "one more"
	if m := tree.Mode(tree.Lookup("/p")); m.Cversion != math.MaxInt32 || m.Pzxid != 2 {
		t.Errorf("cversion %d, pzxid %v", m.Cversion, m.Pzxid)
	}
	mustCheck(t, tree)
}

// TestParseQuota: what is no number limits nothing, and never fails.
func TestParseQuota(t *testing.T) {
	none := Quota{Count: -1, Bytes: -1, CountHard: -1, BytesHard: -1}
	for text, want := range map[string]Quota{
		"":                           none,
		"count=1,bytes=2":            {1, 2, -1, -1, false},
		"bytes=2,count=1":            {1, 2, -1, -1, false},
		"count=5,bytes=-1":           {5, -1, -1, -1, false},
		"garbage":                    none,
		"count=,bytes=x":             none,
		"count=1":                    {1, -1, -1, -1, false},
		",,;;=,=;count==1":           none,
		"count=99999999999999999999": none,
		"\x00\xff":                   none,
		"count=-1,bytes=-1=;byteHardLimit=3;countHardLimit=4": {-1, -1, 4, 3, true},
		"count=1,bytes=2=;byteHardLimit=-1;countHardLimit=4":  {1, 2, 4, -1, true},
		"count=1,bytes=2=;byteHardLimit=-1;countHardLimit=-1": {1, 2, -1, -1, true},
	} {
		if got := ParseQuota([]byte(text)); got != want {
			t.Errorf("%q: %+v, want %+v", text, got, want)
		}
	}
	for _, q := range []Quota{none, {1, 2, -1, -1, false}, {-1, -1, 3, 4, true}, {0, 0, 0, -1, true}} {
		if got := ParseQuota(q.append(nil)); got != q {
			t.Errorf("%q is read as %+v, was %+v", q.append(nil), got, q)
		}
	}
}

// TestQuotaStats: counted from the creation of the stats on, in place, over
// whatever text is there.
func TestQuotaStats(t *testing.T) {
	tree := New(extended)
	z := zk.Zxid(0)
	do := func(kind wire.OpCode, path, data string) {
		t.Helper()
		z++
		if r := apply(tree, z, txn.Op{Type: kind, Path: path, Data: []byte(data), ParentCversion: -1}); r.Err != zk.OK {
			t.Fatal(path, r.Err)
		}
		mustCheck(t, tree)
	}
	const limits, stats = "/zookeeper/quota/q/r/zookeeper_limits", "/zookeeper/quota/q/r/zookeeper_stats"
	expect := func(want string) {
		t.Helper()
		if got := string(tree.Data(tree.Lookup(stats))); got != want {
			t.Errorf("stats %q, want %q", got, want)
		}
	}
	do(wire.OpCreate, "/q", "above")
	do(wire.OpCreate, "/q/r", "12345")
	do(wire.OpCreate, "/zookeeper/quota/q", "")
	do(wire.OpCreate, "/zookeeper/quota/q/r", "")
	do(wire.OpCreate, limits, "count=1,bytes=1")
	do(wire.OpCreate, stats, "text of the client")
	expect("count=1,bytes=5")
	made := tree.Mode(tree.Lookup(stats))
	do(wire.OpCreate, "/q/r/a", "123")
	expect("count=2,bytes=8")
	do(wire.OpSetData, "/q/r/a", "1")
	expect("count=2,bytes=6")
	do(wire.OpCreate, "/q/rest", "not below /q/r")
	do(wire.OpSetData, "/q", "nor this")
	expect("count=2,bytes=6")
	if m := tree.Mode(tree.Lookup(stats)); m != made {
		t.Errorf("counting has changed %+v to %+v", made, m)
	}
	if tree.QuotaPath("/q/r") != "/q/r" || tree.QuotaPath("/q/r/a/b") != "/q/r" || tree.QuotaPath("/q/rest") != "" || tree.QuotaPath("/") != "" {
		t.Error("a quota is found where it is not, or not where it is")
	}
	if l, used, ok := tree.QuotaLimits("/q/r"); !ok || l != (Quota{1, 1, -1, -1, false}) || used != (Quota{2, 6, -1, -1, false}) {
		t.Errorf("limits %+v, used %+v, %v", l, used, ok)
	}
	do(wire.OpDelete, "/q/r/a", "")
	expect("count=1,bytes=5")
	do(wire.OpSetData, stats, "garbage") // poison for Apache
	do(wire.OpCreate, "/q/r/b", "12")
	expect("count=0,bytes=1")
	do(wire.OpDelete, stats, "")
	do(wire.OpCreate, "/q/r/c", "12")
	do(wire.OpCreate, stats, "")
	expect("count=3,bytes=9")
	do(wire.OpDelete, limits, "")
	do(wire.OpDelete, "/q/r/c", "")
	expect("count=3,bytes=9")
}

// TestQuotaNames: names of quota znodes in odd places harm nobody.
func TestQuotaNames(t *testing.T) {
	tree := New(extended)
	for i, path := range []string{
		"/zookeeper/quota/zookeeper_limits", "/zookeeper/quota/zookeeper_stats", "/zookeeper/quota/x",
		"/zookeeper/quota/x/zookeeper_stats", "/zookeeper/quota/x/zookeeper_limits",
		"/zookeeper/quota/zookeeper_limits/zookeeper_limits", "/zookeeper/quota/x/zookeeper_limits/y", "/zookeeper_limits",
		"/zookeeper/zookeeper_limits", "/zookeeper/quota/zookeeper", "/zookeeper/quota/zookeeper/zookeeper_limits",
		"/zookeeper/quota/zookeeper/zookeeper_stats", "/x", "/x/y",
	} {
		if r := apply(tree, zk.Zxid(i+1), txn.Op{Type: wire.OpCreate, Path: path, ParentCversion: -1}); r.Err != zk.OK {
			t.Fatal(path, r.Err)
		}
		mustCheck(t, tree)
	}
	if again, err := reload(tree); err != nil || !maps.Equal(again.quotas, tree.quotas) {
		t.Errorf("loaded with quotas %v, %v, there were %v", again.quotas, err, tree.quotas)
	}
	var paths []string
	for id := ID(2); id < tree.nodes.fresh; id++ {
		if p := tree.Path(id); !IsSystem(p) {
			paths = append(paths, p)
		}
	}
	slices.SortFunc(paths, func(a, b string) int { return len(b) - len(a) })
	for i, p := range paths {
		if r := apply(tree, zk.Zxid(i+100), txn.Op{Type: wire.OpDelete, Path: p}); r.Err != zk.OK {
			t.Fatal(p, r.Err)
		}
		mustCheck(t, tree)
	}
	if len(tree.quotas) != 0 {
		t.Errorf("quotas %v are left", tree.quotas)
	}
}

// TestDropOrphans: ephemerals of sessions that do not exist go, in order.
func TestDropOrphans(t *testing.T) {
	tree := New(extended)
	tree.Apply(&txn.Txn{Header: txn.Header{Type: wire.OpCreateSession, Session: 77}, Op: txn.Op{Type: wire.OpCreateSession}}, new(Result))
	apply(tree, 1, txn.Op{Type: wire.OpCreate, Path: "/kept", Ephemeral: true, ParentCversion: 1})
	for i, s := range []zk.SessionID{9, 3, 9, 3} {
		tx := txn.Txn{
			Header: txn.Header{Zxid: zk.Zxid(i + 2), Session: s, Type: wire.OpCreate},
			Op:     txn.Op{Type: wire.OpCreate, Path: "/" + strconv.Itoa(9-i), Ephemeral: true, ParentCversion: int32(i + 2)},
		}
		tree.Apply(&tx, new(Result))
	}
	if got := strings.Join(tree.DropOrphans(), " "); got != "/6 /8 /7 /9" {
		t.Errorf("dropped %s", got)
	}
	mustCheck(t, tree)
	if tree.Lookup("/kept") == 0 || tree.EphemeralCount() != 1 || len(tree.DropOrphans()) != 0 || descendants(tree) != 4 {
		t.Error("too much was dropped, or too little")
	}
}

func descendants(t *Tree) int {
	n, _, _ := t.CountBelow(rootID).Next(1 << 30)
	return n
}
