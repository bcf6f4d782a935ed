package prep

import (
	"math/rand/v2"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// FuzzPrepare: whatever a body holds, invariants 1 to 3 hold, and what is logged
// can be read back.
func FuzzPrepare(f *testing.F) {
	g := &requests{rng: rand.New(rand.NewPCG(1, 1)), sessions: []zk.SessionID{1}}
	for range 60 {
		req := g.next()
		f.Add(int32(req.Op), req.Body, req.Session == 0)
	}
	ops := []wire.OpCode{
		wire.OpCreate, wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL, wire.OpDelete, wire.OpDeleteContainer,
		wire.OpSetData, wire.OpSetACL, wire.OpMulti, wire.OpReconfig, wire.OpCloseSession, wire.OpCheck, 0,
	}
	f.Fuzz(func(t *testing.T, op int32, body []byte, server bool) {
		cfg := everything
		cfg.MaxTxnBytes = 1 << 16
		r := newRig(t, cfg)
		r.prepare(Request{Op: wire.OpCreateSession, Owner: owner, Body: jute.AppendInt(nil, 1)})
		for _, path := range []string{"/a", "/a/b", "/c"} {
			c := wire.CreateRequest{Path: path, ACL: zk.OpenACLUnsafe(), TTL: -1}
			r.prepare(Request{Op: wire.OpCreate, Session: 1, Owner: owner, Body: c.Append(nil, wire.OpCreate)})
		}
		req := Request{Op: ops[uint32(op)%uint32(len(ops))], Session: 1, Owner: owner, Body: body, IDs: []zk.ID{{Scheme: "digest", ID: "u:x"}}}
		if server {
			req.Session = 0
		}
		tx := r.prepare(req)
		b := tx.Append(nil)
		if back, err := txn.Decode(b); err != nil || back.Zxid != tx.Zxid || back.Digest != tx.Digest {
			t.Fatalf("%+v is logged as %x, read as %+v, %v", *tx, b, back, err)
		}
		r.settle()
		if n := r.prep.Outstanding(); n != 0 {
			t.Fatalf("%d outstanding changes", n)
		}
	})
}
