package prep

import (
	"fmt"
	"slices"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/internal/znode"
	"github.com/pinfold-zk/pinfold/zk"
)

// TestNoTransactionTooLarge: what could be logged, but not read back, is
// refused; a session whose ephemerals are too many to be listed ends without
// the list, to the same effect.
func TestNoTransactionTooLarge(t *testing.T) {
	const limit = 4000
	cfg := everything
	cfg.MaxTxnBytes = limit
	r := newRig(t, cfg)
	r.prepare(Request{Op: wire.OpCreateSession, Owner: owner, Body: jute.AppendInt(nil, 30000)})
	ids := make([]zk.ID, 100)
	for i := range ids {
		ids[i] = zk.ID{Scheme: "digest", ID: fmt.Sprintf("user%d:%028d", i, i)}
	}
	send := func(op wire.OpCode, body []byte) zk.Code {
		t.Helper()
		tx := r.prepare(Request{Op: op, Session: 1, Owner: owner, IDs: ids, Body: body})
		if enc := tx.Append(nil); len(enc) > limit {
			t.Errorf("a transaction of %d bytes, the limit is %d", len(enc), limit)
		}
		for _, op := range tx.Multi {
			if op.Err != zk.OK {
				return op.Err
			}
		}
		return tx.Err
	}
	create := func(path string, acl []zk.ACL, mode zk.CreateMode) []byte {
		c := wire.CreateRequest{Path: path, ACL: acl, Flags: mode, TTL: -1}
		return c.Append(nil, wire.OpCreate)
	}
	if code := send(wire.OpCreate, create("/all", zk.CreatorAllACL(), 0)); code != zk.ErrBadArguments {
		t.Errorf("create with an ACL that expands: %v", code)
	}
	if code := send(wire.OpCreate, create("/a", zk.OpenACLUnsafe(), 0)); code != zk.OK {
		t.Fatalf("create: %v", code)
	}
	acl := wire.SetACLRequest{Path: "/a", ACL: zk.CreatorAllACL(), Version: -1}
	if code := send(wire.OpSetACL, acl.Append(nil)); code != zk.ErrBadArguments {
		t.Errorf("setACL with an ACL that expands: %v", code)
	}
	var multi []byte
	for i := range 3 {
		op := wire.MultiOp{Type: wire.OpSetData, CreateRequest: wire.CreateRequest{Path: "/a", Data: make([]byte, 1500)}, Version: int32(i)}
		multi = op.Append(multi)
	}
	if code := send(wire.OpMulti, wire.AppendMultiEnd(multi)); code != zk.ErrBadArguments {
		t.Errorf("multi of 4500 bytes: %v", code)
	}
	for i := range 100 {
		if code := send(wire.OpCreate, create(fmt.Sprintf("/a/%050d", i), zk.OpenACLUnsafe(), zk.Ephemeral)); code != zk.OK {
			t.Fatalf("ephemeral %d: %v", i, code)
		}
	}
	tx := r.prepare(Request{Op: wire.OpCloseSession, Session: 1, Owner: owner})
	if tx.PathsListed || tx.HasDigest || len(tx.Append(nil)) > limit {
		t.Errorf("closeSession lists %d paths, digest %v", len(tx.Paths), tx.HasDigest)
	}
	r.settle()
	if n := r.tree.EphemeralCount(); n != 0 {
		t.Errorf("%d ephemerals after the session's end", n)
	}
	if got := r.prep.digest; got != r.tree.Digest() {
		t.Errorf("projected digest %d, the tree's is %d", got, r.tree.Digest())
	}
}

// TestMultiThatFailsIsNotTooLarge: the results of operations that fail count too.
// A multi whose creates fill a transaction almost, followed by failing operations
// of 17 bytes that become results of 12, must not become a transaction that the
// log refuses. The client gets the result of each operation.
func TestMultiThatFailsIsNotTooLarge(t *testing.T) {
	const limit = 4000
	cfg := everything
	cfg.MaxTxnBytes = limit
	r := newRig(t, cfg)
	r.prepare(Request{Op: wire.OpCreateSession, Owner: owner, Body: jute.AppendInt(nil, 30000)})
	create := wire.MultiOp{Type: wire.OpCreate, CreateRequest: wire.CreateRequest{
		Path: "/a", Data: make([]byte, limit-200), ACL: zk.OpenACLUnsafe(),
	}}
	body := create.Append(nil)
	const failing = 150
	for range failing {
		op := wire.MultiOp{Type: wire.OpCheck, CreateRequest: wire.CreateRequest{Path: "/no"}, Version: -1}
		body = op.Append(body)
	}
	digest := r.prep.digest
	tx := r.prepare(Request{Op: wire.OpMulti, Session: 1, Owner: owner, Body: wire.AppendMultiEnd(body)})
	if n := len(tx.Append(nil)); n > limit {
		t.Errorf("a transaction of %d bytes, the limit is %d", n, limit)
	}
	if tx.Header.Type != wire.OpMulti || len(tx.Multi) != 1+failing {
		t.Fatalf("type %d with %d operations, error %v", tx.Header.Type, len(tx.Multi), tx.Err)
	}
	for i, want := range []zk.Code{zk.OK, zk.ErrNoNode, zk.ErrRuntimeInconsistency} {
		if op := tx.Multi[i]; op.Type != wire.OpError || op.Err != want {
			t.Errorf("operation %d: type %d, %v, want the result %v", i, op.Type, op.Err, want)
		}
	}
	if r.prep.digest != digest || r.prep.Outstanding() != 0 {
		t.Errorf("the failed multi changed the projected state")
	}
	r.settle()
}

// TestLargeMultiNeedsNoLock: a large multi is decoded, and undone if it fails, without the
// tree's lock; what is done under the lock is done in pieces.
func TestLargeMultiNeedsNoLock(t *testing.T) {
	const many = 20000
	cfg := everything
	cfg.MaxTxnBytes = 4 << 20
	var r *rig
	pieces, alone, most := 0, 0, 0
	cfg.Away = func(work func()) {
		pieces, most = pieces+1, max(most, r.prep.work)
		if work != nil {
			alone++
			work()
		}
	}
	r = newRig(t, cfg)
	r.prepare(Request{Op: wire.OpCreateSession, Owner: owner, Body: jute.AppendInt(nil, 30000)})
	r.settle()
	var b []byte
	for i := range many {
		op := wire.MultiOp{Type: wire.OpCreate, CreateRequest: wire.CreateRequest{Path: fmt.Sprintf("/%d", i), ACL: zk.OpenACLUnsafe()}}
		b = op.Append(b)
	}
	failing := wire.MultiOp{Type: wire.OpCheck, Version: 7}
	failing.Path = "/"
	tx := r.prepare(Request{Op: wire.OpMulti, Session: 1, Owner: owner, Body: wire.AppendMultiEnd(failing.Append(b))})
	if !tx.Failed() || len(tx.Multi) != many+1 || tx.Multi[many].Err != zk.ErrBadVersion || r.prep.Outstanding() != 0 {
		t.Errorf("failed %v, %d operations, %d changes are outstanding", tx.Failed(), len(tx.Multi), r.prep.Outstanding())
	}
	const want = 2 + many/opsAtOnce + 1 // its operations are counted, decoded and undone
	if alone != want || pieces < many*opWork/znode.PieceUnits || most > znode.PieceUnits+opWork {
		t.Errorf("%d pieces, %d of them without the lock, want %d; the largest has %d units", pieces, alone, want, most)
	}
	r.settle()
}

// TestLongACLNeedsNoLock: a request with a long ACL is decoded, and its ACL checked, without the tree's lock.
func TestLongACLNeedsNoLock(t *testing.T) {
	cfg := everything
	var alone []int // how much work was done before each call
	var r *rig
	cfg.Away = func(work func()) {
		if work != nil {
			alone = append(alone, r.prep.work)
			work()
		}
	}
	r = newRig(t, cfg)
	r.prepare(Request{Op: wire.OpCreateSession, Owner: owner, Body: jute.AppendInt(nil, 30000)})
	r.settle()
	m := wire.CreateRequest{Path: "/a", ACL: slices.Repeat(zk.OpenACLUnsafe(), 10000)}
	tx := r.prepare(Request{Op: wire.OpCreate, Session: 1, Owner: owner, Body: m.Append(nil, wire.OpCreate)})
	if tx.Err != zk.OK || len(alone) != 2 || alone[0] != 0 {
		t.Errorf("%v; calls without the lock after %v units of work", tx.Err, alone)
	}
	r.settle()
}
