package prep

import (
	"fmt"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/session"
	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/internal/znode"
	"github.com/pinfold-zk/pinfold/zk"
)

// TestCloseOfManyEphemerals: the end of a session with more ephemerals than a transaction
// can list is prepared in pieces, without a change for each; from then on they are gone,
// those whose creation, change or deletion is outstanding too, and digests stay right.
func TestCloseOfManyEphemerals(t *testing.T) {
	const many = 20000
	cfg := everything
	cfg.MaxTxnBytes = 4000
	pieces, most := 0, 0
	var r *rig
	cfg.Away = func(work func()) {
		pieces, most = pieces+1, max(most, r.prep.work)
		if work != nil {
			work()
		}
	}
	r = newRig(t, cfg)
	for range 2 {
		r.prepare(Request{Op: wire.OpCreateSession, Owner: owner, Body: jute.AppendInt(nil, 30000)})
	}
	send := func(session zk.SessionID, op wire.OpCode, body []byte) zk.Code {
		t.Helper()
		return r.prepare(Request{Op: op, Session: session, Owner: owner, Body: body}).Err
	}
	create := func(session zk.SessionID, path string, mode zk.CreateMode) zk.Code {
		c := wire.CreateRequest{Path: path, ACL: zk.OpenACLUnsafe(), Flags: mode, TTL: -1}
		return send(session, wire.OpCreate, c.Append(nil, wire.OpCreate))
	}
	remove := func(path string) zk.Code {
		d := wire.PathVersion{Path: path, Version: -1}
		return send(2, wire.OpDelete, d.Append(nil))
	}
	create(1, "/p", zk.Persistent)
	create(1, "/q", zk.Persistent)
	for i := range many {
		create(1, fmt.Sprintf("/p/%d", i), zk.Ephemeral)
	}
	create(1, "/q/only", zk.Ephemeral)
	r.settle()
	create(1, "/p/new", zk.Ephemeral)
	set := wire.SetDataRequest{Path: "/p/1", Data: []byte("x"), Version: -1}
	send(1, wire.OpSetData, set.Append(nil))
	remove("/p/2")
	remove("/p/3")
	create(1, "/p/3", zk.Ephemeral)
	remove("/p/4")
	create(2, "/p/4", zk.Ephemeral)
	changes := r.prep.Outstanding()
	pieces = 0
	tx := r.prepare(Request{Op: wire.OpCloseSession, Session: 1, Owner: owner})
	if tx.Err != zk.OK || tx.Op.PathsListed || tx.Op.Paths != nil || tx.HasDigest {
		t.Errorf("the transaction is %+v", tx.Op)
	}
	if pieces < many/znode.PieceUnits || most > znode.PieceUnits+opWork {
		t.Errorf("%d pieces, the largest of %d units", pieces, most)
	}
	if n := r.prep.Outstanding() - changes; n > 10 {
		t.Errorf("%d changes for %d ephemerals", n, many)
	}
	for path, want := range map[string]zk.Code{
		"/p/0": zk.ErrNoNode, "/p/1": zk.ErrNoNode, "/p/2": zk.ErrNoNode, "/p/3": zk.ErrNoNode, "/p/new": zk.ErrNoNode,
		"/q/only": zk.ErrNoNode, "/p": zk.ErrNotEmpty, "/q": zk.OK,
	} {
		if code := remove(path); code != want {
			t.Errorf("delete %s: %v, want %v", path, code, want)
		}
	}
	for path, want := range map[string]zk.Code{"/p/0": zk.OK, "/p/4": zk.ErrNodeExists, "/p/new": zk.OK} {
		if code := create(2, path, zk.Persistent); code != want {
			t.Errorf("create %s: %v, want %v", path, code, want)
		}
	}
	r.settle() // compares digests
	if r.prep.Outstanding() != 0 || len(r.prep.out.closing) != 0 || r.prep.digest != r.tree.Digest() {
		t.Errorf("%d outstanding, %d closing, digest %d, the tree's %d", r.prep.Outstanding(), len(r.prep.out.closing), r.prep.digest, r.tree.Digest())
	}
	if r.tree.EphemeralCount() != 1 || r.tree.NumChildren(r.tree.Lookup("/p")) != 3 || r.tree.Lookup("/q") != 0 {
		t.Errorf("%d ephemerals, %d children of /p", r.tree.EphemeralCount(), r.tree.NumChildren(r.tree.Lookup("/p")))
	}
}

// An ephemeral with children remains when its session ends, unless they are ephemerals of the
// session too and end with it, however deep they are. No preparation makes one; a program that was
// elected leader in a member's name can. The preparer projects what the tree does: whether the transaction lists the
// ephemerals or not, is too short to list them, and is applied at once or in pieces.
func TestCloseOfEphemeralsWithChildren(t *testing.T) {
	unlisted, short := everything, everything
	unlisted.ListClosedPaths = false
	short.MaxTxnBytes = 100
	for name, cfg := range map[string]Config{"listed": everything, "unlisted": unlisted, "too long to list": short} {
		for _, more := range []int{0, znode.PieceUnits} {
			t.Run(fmt.Sprintf("%s, %d more", name, more), func(t *testing.T) { closeNested(t, cfg, more) })
		}
	}
}

// closeNested ends a session that has so many more ephemerals than those with children.
func closeNested(t *testing.T, cfg Config, more int) {
	r := newRig(t, cfg)
	for range 2 {
		r.prepare(Request{Op: wire.OpCreateSession, Owner: owner, Body: jute.AppendInt(nil, 30000)})
	}
	r.settle()
	create := func(session zk.SessionID, path string, ephemeral bool) {
		t.Helper()
		r.zxid++
		op := txn.Op{Type: wire.OpCreate, Path: path, Ephemeral: ephemeral, ACL: zk.OpenACLUnsafe(), ParentCversion: -1}
		r.tree.Apply(&txn.Txn{Header: txn.Header{Session: session, Zxid: r.zxid, Type: op.Type}, Op: op}, &r.result)
		if r.result.Err != zk.OK {
			t.Fatal(path, r.result.Err)
		}
	}
	for _, path := range []string{"/first", "/second", "/third"} { // their places are taken again, in another order
		create(1, path, false)
	}
	for _, path := range []string{"/first", "/second", "/third"} {
		r.zxid++
		r.tree.Apply(&txn.Txn{Header: txn.Header{Session: 1, Zxid: r.zxid, Type: wire.OpDelete}, Op: txn.Op{Type: wire.OpDelete, Path: path}}, &r.result)
	}
	for _, path := range []string{"/a", "/c", "/c/d", "/e", "/f", "/f/g", "/f/g/h", "/f/g/h/i", "/f/g/h/i/j", "/k", "/l", "/l/m", "/n", "/n/o"} {
		create(1, path, true)
	}
	create(1, "/a/b", false)
	create(1, "/k/p", false)
	create(1, "/k/q", true)
	create(2, "/l/m/other", true)
	for i := range more {
		create(1, fmt.Sprintf("/n/o/%d", i), true)
	}
	create(1, "/taken", true)
	r.prep = New(cfg, r.tree, r.prep.auth, r.sessions)
	d := wire.PathVersion{Path: "/taken", Version: -1}
	r.prepare(Request{Op: wire.OpDelete, Session: 2, Body: d.Append(nil), Owner: owner})
	taken := wire.CreateRequest{Path: "/taken", ACL: zk.OpenACLUnsafe()}
	r.prepare(Request{Op: wire.OpCreate, Session: 2, Body: taken.Append(nil, wire.OpCreate), Owner: owner})
	for range 2 { // the second time no session is there, as for what a leader finds when it begins
		r.prepare(Request{Op: wire.OpCloseSession, Session: 1, Owner: session.NoOwner})
		c := wire.CreateRequest{Path: fmt.Sprintf("/after%d", r.zxid), ACL: zk.OpenACLUnsafe()}
		r.prepare(Request{Op: wire.OpCreate, Session: 2, Body: c.Append(nil, wire.OpCreate), Owner: session.NoOwner})
		r.settle() // it compares the digests
		for path, there := range map[string]bool{
			"/a": true, "/a/b": true, "/c": false, "/e": false, "/f": false, "/k": true, "/k/p": true, "/k/q": false,
			"/taken": true, "/l": true, "/l/m": true, "/l/m/other": true, "/n": false,
		} {
			if (r.tree.Lookup(path) != 0) != there {
				t.Errorf("%s is there: %v", path, !there)
			}
		}
		if r.prep.digest != r.tree.Digest() {
			t.Errorf("the digest is %d, the tree's %d", r.prep.digest, r.tree.Digest())
		}
	}
}
