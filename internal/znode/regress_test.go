package znode

import (
	"errors"
	"slices"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// Each test of this file is named by an entry of docs/bugs.md.

// apply applies tx to t and returns its result.
func apply(tree *Tree, z zk.Zxid, op txn.Op) *Result {
	r := new(Result)
	tree.Apply(&txn.Txn{Header: txn.Header{Zxid: z, Time: int64(z), Session: 77, Type: op.Type}, Op: op}, r)
	return r
}

func mustCheck(t testing.TB, tree *Tree) {
	t.Helper()
	if err := tree.check(); err != nil {
		t.Fatal(err)
	}
}

// TestACLKeysDiffer: an identity may hold any byte, NUL too.
func TestACLKeysDiffer(t *testing.T) {
	one := []zk.ACL{{Perms: 31, ID: zk.ID{Scheme: "digest", ID: "a:b\x00\x1f\x00\x00\x00world\x00anyone"}}}
	two := []zk.ACL{{Perms: 31, ID: zk.ID{Scheme: "digest", ID: "a:b"}}, {Perms: 31, ID: zk.AnyoneUnsafe}}
	c := newACLCache()
	a, b := c.use(one), c.use(two)
	if a == b || !slices.Equal(c.list(a).All(), one) || !slices.Equal(c.list(b).All(), two) {
		t.Fatalf("%q and %q are interned as %q and %q", one, two, c.list(a).All(), c.list(b).All())
	}
}

// TestNoZnodeBehindTwoSlashes: "//a" is not another name of "/a".
func TestNoZnodeBehindTwoSlashes(t *testing.T) {
	tree := New(Options{})
	for _, path := range []string{"//a", "/", "", "a", "/a/", "//"} {
		r := apply(tree, 1, txn.Op{Type: wire.OpCreate, Path: path, ParentCversion: 1})
		if r.Err != zk.ErrNoNode {
			t.Errorf("create %q: %v", path, r.Err)
		}
		before := tree.Digest()
		if r := apply(tree, 2, txn.Op{Type: wire.OpDelete, Path: path}); r.Err != zk.ErrNoNode || tree.Digest() != before {
			t.Errorf("delete %q: %v, digest %d, was %d", path, r.Err, tree.Digest(), before)
		}
		mustCheck(t, tree)
	}
	l := NewLoader(Options{})
	body := appendBody(nil, nil, nil, []bodyNode{{path: ""}, {path: "//a"}})
	if _, _, err := l.Load(body); !errors.Is(err, ErrSnapshot) {
		t.Errorf("Load of //a: %v", err)
	}
}

// TestWalkKeepsZnodesFromTheFuture: a snapshot that was restored without its
// log holds znodes newer than its name.
func TestWalkKeepsZnodesFromTheFuture(t *testing.T) {
	body := appendBody(nil, nil, nil, []bodyNode{{path: ""}, {path: "/a", mode: Mode{Czxid: 105}}})
	l := NewLoader(Options{})
	if _, done, err := l.Load(body); !done || err != nil {
		t.Fatal(done, err)
	}
	tree := l.Tree(100)
	again, err := reload(tree)
	if err != nil {
		t.Fatal(err)
	}
	if again.Lookup("/a") == 0 {
		t.Error("a walk of an idle tree has left out /a")
	}
}

// TestReplayDeletesTheFuture: a deletion is replayed over a tree in which the
// znode has been created anew, with children.
func TestReplayDeletesTheFuture(t *testing.T) {
	log := []txn.Op{
		{Type: wire.OpCreate, Path: "/p", ParentCversion: 1},
		{Type: wire.OpCreate, Path: "/p/a", ParentCversion: 1},
		{Type: wire.OpCreate, Path: "/p/b", ParentCversion: 2},
		{Type: wire.OpDelete, Path: "/p/a"},
		{Type: wire.OpDelete, Path: "/p/b"},
		{Type: wire.OpDelete, Path: "/p"},
		{Type: wire.OpCreate, Path: "/p", ParentCversion: 2},
		{Type: wire.OpCreate, Path: "/p/x", ParentCversion: 1},
	}
	tree := New(Options{})
	run := func(from int) {
		for i, op := range log[from:] {
			apply(tree, zk.Zxid(from+i+1), op)
		}
	}
	run(0)
	want := dump(tree)
	for from := range log {
		run(from)
		mustCheck(t, tree)
		if diff := firstDiff(dump(tree), want); diff != "" {
			t.Fatalf("replay from %d: %s", from+1, diff)
		}
	}
}

// TestReplayCountsChildrenOfEveryCreate: a fuzzy snapshot may have a parent from
// before a create2 and the child from after it.
func TestReplayCountsChildrenOfEveryCreate(t *testing.T) {
	for _, kind := range []wire.OpCode{wire.OpCreate, wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL} {
		body := appendBody(nil, nil, nil, []bodyNode{{path: ""}, {path: "/a", mode: Mode{Czxid: 5, Mzxid: 5, Pzxid: 5}}})
		l := NewLoader(Options{})
		if _, done, err := l.Load(body); !done || err != nil {
			t.Fatal(done, err)
		}
		tree := l.Tree(4)
		apply(tree, 5, txn.Op{Type: kind, Path: "/a", ParentCversion: 1, TTL: 1})
		if m := tree.Mode(rootID); m.Cversion != 1 || m.Pzxid != 5 {
			t.Errorf("type %v: the root has cversion %d and pzxid %v", kind, m.Cversion, m.Pzxid)
		}
		mustCheck(t, tree)
	}
}

// TestCloseSessionOrder: what a closeSession without a list deletes, and so its
// events, comes in the order of paths.
func TestCloseSessionOrder(t *testing.T) {
	tree := New(Options{})
	paths := []string{"/c", "/a", "/e", "/b", "/d", "/h", "/g", "/f"}
	for i, p := range paths {
		apply(tree, zk.Zxid(i+1), txn.Op{Type: wire.OpCreate, Path: p, Ephemeral: true, ParentCversion: int32(i + 1)})
	}
	r := apply(tree, 20, txn.Op{Type: wire.OpCloseSession})
	var got []string
	for _, e := range r.Events {
		if e.Type == zk.EventNodeDeleted {
			got = append(got, e.Path)
		}
	}
	slices.Sort(paths)
	if !slices.Equal(got, paths) {
		t.Errorf("deleted %v", got)
	}
}

// TestGiveBackIsConstant: that a block becomes empty costs the same however
// many others have free slots.
func TestGiveBackIsConstant(t *testing.T) {
	const blocks = 2000
	var a arena
	per := blockSize / maxSlot
	refs := make([]ref, 0, blocks*per)
	for range blocks * per {
		refs = append(refs, a.alloc(maxSlot))
	}
	for i := 0; i < len(refs); i += per { // a free slot in every block
		a.release(refs[i])
	}
	c := &a.classes[classOf[maxSlot/slotGrain]]
	moved := 0
	for b := range blocks {
		before := slices.Clone(c.partial)
		for i := 1; i < per; i++ {
			a.release(refs[b*per+i])
		}
		for i := range c.partial {
			if c.partial[i] != before[i] { // the list only gets shorter
				moved++
			}
		}
	}
	if moved > 2*blocks {
		t.Errorf("%d entries of the list have moved for %d blocks", moved, blocks)
	}
	if len(c.partial) != 1 {
		t.Errorf("%d empty blocks are kept, want 1", len(c.partial))
	}
}

// TestLargeZnode: a znode whose data is an allocation of its own has a name.
func TestLargeZnode(t *testing.T) {
	tree := New(Options{})
	data := make([]byte, maxSlot)
	apply(tree, 1, txn.Op{Type: wire.OpCreate, Path: "/large", Data: data, ParentCversion: 1})
	apply(tree, 2, txn.Op{Type: wire.OpCreate, Path: "/large/child", ParentCversion: 1})
	id := tree.Lookup("/large/child")
	if id == 0 || tree.Path(id) != "/large/child" || len(tree.Data(tree.Lookup("/large"))) != len(data) {
		t.Errorf("/large/child is %d", id)
	}
	mustCheck(t, tree)
}
