package znode

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestSnapshotGolden: the bytes of a small snapshot, sixteen a line.
func TestSnapshotGolden(t *testing.T) {
	tree := New(extended)
	apply(tree, 1, txn.Op{Type: wire.OpCreateSession, TimeoutMillis: 30000})
	apply(tree, 2, txn.Op{Type: wire.OpCreate, Path: "/a", Data: []byte("data"), ACL: zk.ReadACLUnsafe(), ParentCversion: 1})
	apply(tree, 3, txn.Op{Type: wire.OpCreate, Path: "/a/e", Ephemeral: true, ACL: zk.OpenACLUnsafe(), ParentCversion: 1})
	w, b := tree.Walk(), []byte(nil)
	b, done := w.Next(b, 1<<20)
	if !done || w.Zxid() != 3 || w.Nodes() != 6 {
		t.Errorf("done %v, zxid %v, %d znodes", done, w.Zxid(), w.Nodes())
	}
	const golden = "testdata/snapshot.golden"
	if *update {
		if err := os.WriteFile(golden, []byte(hex.Dump(b)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got := hex.Dump(b); got != string(want) {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// TestWalkPieces: however small the pieces, they make the same snapshot, and a
// piece is at most one znode longer than asked for.
func TestWalkPieces(t *testing.T) {
	tree, r := New(extended), new(Result)
	for _, tx := range newHistory(1).log(t, 100) {
		tree.Apply(&tx, r)
	}
	w, whole := tree.Walk(), []byte(nil)
	whole, _ = w.Next(whole, 1<<30)
	for _, limit := range []int{0, 1, 100, 1000} {
		w, all := tree.Walk(), []byte(nil)
		for done := false; !done; {
			var piece []byte
			piece, done = w.Next(nil, max(limit, 1))
			if len(piece) == 0 {
				t.Fatal("an empty piece")
			}
			all = append(all, piece...)
		}
		if !bytes.Equal(all, whole) {
			t.Errorf("in pieces of %d: %d bytes, want %d", limit, len(all), len(whole))
		}
	}
}

// TestLoaderRefuses: what a snapshot cannot be, each with what the error names.
func TestLoaderRefuses(t *testing.T) {
	root := bodyNode{path: ""}
	acl := bodyACL{1, zk.ReadACLUnsafe()}
	for _, c := range []struct {
		name string
		body []byte
		want string
	}{
		{"negative sessions", jute.AppendInt(nil, -1), "count -1"},
		{"negative ACLs", jute.AppendInt(jute.AppendInt(nil, 0), -2), "count -2"},
		{"an ACL twice", appendBody(nil, nil, []bodyACL{acl, acl}, []bodyNode{root}), "ACL 1 is listed twice"},
		{"the open ACL listed", appendBody(nil, nil, []bodyACL{{-1, nil}}, []bodyNode{root}), "ACL -1"},
		{"no root", appendBody(nil, nil, nil, nil), "no root"},
		{"root twice", appendBody(nil, nil, nil, []bodyNode{root, root}), "root occurs twice"},
		{"ephemeral root", appendBody(nil, nil, nil, []bodyNode{{path: "", mode: Mode{Owner: 5}}}), "owner 0x5"},
		{"root late", appendBody(nil, nil, nil, []bodyNode{{path: "/a"}, root}), `"/a" comes before its parent`},
		{"no parent", appendBody(nil, nil, nil, []bodyNode{root, {path: "/a/b"}}), `"/a/b" comes before its parent`},
		{"twice", appendBody(nil, nil, nil, []bodyNode{root, {path: "/a"}, {path: "/b"}, {path: "/a"}}), `"/a" occurs twice`},
		{"slash at the end", appendBody(nil, nil, nil, []bodyNode{root, {path: "/a/"}}), `"/a/"`},
		{"no slash", appendBody(nil, nil, nil, []bodyNode{root, {path: "a"}}), `"a"`},
		{"two slashes", appendBody(nil, nil, nil, []bodyNode{root, {path: "/a"}, {path: "/a//b"}}), `"/a//b"`},
	} {
		n, done, err := NewLoader(extended).Load(c.body)
		if !errors.Is(err, ErrSnapshot) || !strings.Contains(fmt.Sprint(err), c.want) || n != 0 || done {
			t.Errorf("%s: %d, %v, %v", c.name, n, done, err)
		}
	}
}

// TestLoaderUnlisted: znodes whose ACL is not in the list are counted, and open.
func TestLoaderUnlisted(t *testing.T) {
	l := NewLoader(extended)
	body := appendBody(nil, []zk.SessionID{5}, []bodyACL{{3, zk.ReadACLUnsafe()}, {9, zk.CreatorAllACL()}},
		[]bodyNode{{path: "", acl: -1}, {path: "/a", acl: 7}, {path: "/b", acl: 3}})
	if _, done, err := l.Load(body); !done || err != nil {
		t.Fatal(done, err)
	}
	tree := l.Tree(9)
	mustCheck(t, tree)
	if l.Unlisted != 1 || len(tree.acls.byID) != 1 || !tree.HasSession(5) || tree.LastZxid() != 9 {
		t.Errorf("%d unlisted, %d ACLs, zxid %v", l.Unlisted, len(tree.acls.byID), tree.LastZxid())
	}
	if a, b := tree.ACL(tree.Lookup("/a")), tree.ACL(tree.Lookup("/b")); fmt.Sprint(a.All(), b.All()) !=
		"[world:anyone:cdrwa] [world:anyone:r]" {
		t.Errorf("ACLs %v and %v", a.All(), b.All())
	}
}

// TestLoaderOldSnapshot: servers before 3.5 wrote no config znode.
func TestLoaderOldSnapshot(t *testing.T) {
	l := NewLoader(extended)
	if _, done, err := l.Load(appendBody(nil, nil, nil, []bodyNode{{path: "", acl: -1, data: []byte{}}})); !done || err != nil {
		t.Fatal(done, err)
	}
	if diff := firstDiff(dump(l.Tree(0)), dump(New(extended))); diff != "" {
		t.Error(diff)
	}
}

// TestLoaderMemory: counts and lengths that the input does not bear out cost
// nothing.
func TestLoaderMemory(t *testing.T) {
	huge := int32(1<<31 - 1)
	nodes := jute.AppendInt(jute.AppendInt(nil, 0), 0)
	for name, body := range map[string][]byte{
		"sessions": jute.AppendInt(nil, huge),
		"ACLs":     jute.AppendInt(jute.AppendInt(nil, 0), huge),
		"a list":   jute.AppendInt(jute.AppendLong(jute.AppendInt(jute.AppendInt(nil, 0), 1), 1), huge),
		"path":     jute.AppendInt(bytes.Clone(nodes), huge),
		"data":     jute.AppendInt(jute.AppendString(bytes.Clone(nodes), ""), huge),
	} {
		l := NewLoader(extended)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		n, done, err := l.Load(body)
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; done || err != nil || n > len(body) || got > 1<<20 {
			t.Errorf("%s: %d, %v, %v, %d bytes allocated", name, n, done, err, got)
		}
	}
}

// FuzzLoader: no input panics, and what loads is a tree that loads again.
func FuzzLoader(f *testing.F) {
	for seed := range uint64(3) {
		h, tree, r := newHistory(seed), New(extended), new(Result)
		for _, tx := range h.log(f, 15) {
			tree.Apply(&tx, r)
		}
		w, b := tree.Walk(), []byte(nil)
		b, _ = w.Next(b, 1<<30)
		f.Add(b, uint16(len(b)/2))
	}
	f.Fuzz(func(t *testing.T, b []byte, cut uint16) {
		l := NewLoader(extended)
		at := min(int(cut), len(b))
		n, done, err := l.Load(b[:at])
		if err == nil && !done {
			_, done, err = l.Load(b[n:])
		}
		if err != nil && !errors.Is(err, ErrSnapshot) {
			t.Fatalf("an error of another kind: %v", err)
		}
		if !done || err != nil {
			return
		}
		tree := l.Tree(1)
		mustCheck(t, tree)
		again, err := reload(tree)
		if err != nil {
			t.Fatal(err)
		}
		if diff := firstDiff(dump(again), dump(tree)); diff != "" {
			t.Fatal(diff)
		}
	})
}

// walked is the paths of a snapshot whose walk, after its first znodes, finds
// the tree changed.
func walked(t *testing.T, tree *Tree, first int, newest zk.Zxid, change func()) string {
	t.Helper()
	w, b := tree.Walk(), []byte(nil)
	w.newest = max(w.newest, newest)
	for done := false; w.Nodes() < first; {
		if b, done = w.Next(b, len(b)+1); done {
			t.Fatalf("done after %d znodes", w.Nodes())
		}
	}
	change()
	b, _ = w.Next(b, 1<<30)
	l := NewLoader(extended)
	if _, done, err := l.Load(b); !done || err != nil {
		t.Fatal(done, err)
	}
	var paths []string
	for id := ID(1); id < l.tree.nodes.fresh; id++ {
		if p := l.tree.Path(id); !strings.HasPrefix(p, "/zookeeper") {
			paths = append(paths, p)
		}
	}
	return strings.Join(paths, " ")
}

// TestWalkReusedIDs: while the children of /a are being written, it and they go,
// and their IDs come back as /b and its child.
func TestWalkReusedIDs(t *testing.T) {
	for name, newest := range map[string]zk.Zxid{"without later znodes": 0, "with later znodes": 1 << 62} {
		tree := New(extended)
		apply(tree, 1, txn.Op{Type: wire.OpCreate, Path: "/a", ParentCversion: 1})
		apply(tree, 2, txn.Op{Type: wire.OpCreate, Path: "/a/k", ParentCversion: 1})
		a, k := tree.Lookup("/a"), tree.Lookup("/a/k")
		got := walked(t, tree, 2, newest, func() {
			apply(tree, 3, txn.Op{Type: wire.OpDelete, Path: "/a/k"})
			apply(tree, 4, txn.Op{Type: wire.OpDelete, Path: "/a"})
			apply(tree, 5, txn.Op{Type: wire.OpCreate, Path: "/b", ParentCversion: 2})
			apply(tree, 6, txn.Op{Type: wire.OpCreate, Path: "/b/j", ParentCversion: 1})
			if tree.Lookup("/b") != a || tree.Lookup("/b/j") != k {
				t.Fatal("the IDs are others")
			}
		})
		if got != "/ /a" {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// TestWalkLeavesOutLater: a znode that takes the place of a child which is still
// to be written is not written.
func TestWalkLeavesOutLater(t *testing.T) {
	tree := New(extended)
	apply(tree, 1, txn.Op{Type: wire.OpCreate, Path: "/a", ParentCversion: 1})
	if got := walked(t, tree, 1, 0, func() {
		apply(tree, 2, txn.Op{Type: wire.OpDelete, Path: "/a"})
		apply(tree, 3, txn.Op{Type: wire.OpCreate, Path: "/a", ParentCversion: 2})
	}); got != "/" {
		t.Error(got)
	}
}

// TestWalkWritesACLsInPieces: of ACLs of many megabytes a walk writes no more at
// once than of anything else, and copies nothing when it begins.
func TestWalkWritesACLsInPieces(t *testing.T) {
	tree := New(Options{})
	var r Result
	const lists, entries, limit = 400, 100, 64 << 10
	for i := range zk.Zxid(lists) {
		acl := make([]zk.ACL, entries)
		for k := range acl {
			acl[k] = zk.ACL{Perms: zk.PermAll, ID: zk.ID{Scheme: "digest", ID: fmt.Sprintf("user%d:%020d", k, i)}}
		}
		tree.Apply(&txn.Txn{
			Header: txn.Header{Zxid: i + 1, Type: wire.OpCreate},
			Op:     txn.Op{Type: wire.OpCreate, Path: fmt.Sprintf("/n%d", i), ACL: acl, ParentCversion: -1},
		}, &r)
		if r.Err != zk.OK {
			t.Fatal(r.Err)
		}
	}
	w := tree.Walk()
	l := NewLoader(Options{})
	total, largest, buf := 0, 0, []byte(nil)
	var left []byte
	for done := false; !done; {
		buf, done = w.Next(buf[:0], limit)
		total, largest = total+len(buf), max(largest, len(buf))
		left = append(left, buf...)
		n, _, err := l.Load(left)
		if err != nil {
			t.Fatal(err)
		}
		left = left[n:]
		// While the walk goes on, the lists go out of use one by one.
		if i := total / limit; i < lists/2 {
			tree.Apply(&txn.Txn{
				Header: txn.Header{Zxid: zk.Zxid(lists + i + 1), Type: wire.OpDelete},
				Op:     txn.Op{Type: wire.OpDelete, Path: fmt.Sprintf("/n%d", lists-1-i)},
			}, &r)
		}
	}
	if len(left) != 0 {
		t.Fatalf("%d bytes left", len(left))
	}
	if most := limit + 60*entries; largest > most || total < 20*limit {
		t.Errorf("the largest of the pieces of %d bytes has %d, want %d at most", total, largest, most)
	}
	loaded := l.Tree(w.Zxid())
	id := loaded.Lookup("/n0")
	if got, want := loaded.ACL(id).All(), tree.ACL(tree.Lookup("/n0")).All(); !slices.Equal(got, want) {
		t.Errorf("the ACL of /n0 has %d entries, want %d", len(got), len(want))
	}
}
