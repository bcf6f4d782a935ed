package prep

import (
	"runtime"
	"testing"
	"weak"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// TestKeepsNoMulti: once a multi has failed, the preparer does not hold on to its request.
func TestKeepsNoMulti(t *testing.T) {
	r := newRig(t, everything)
	session := r.prepare(Request{Op: wire.OpCreateSession, Owner: owner, Body: jute.AppendInt(nil, 1)}).Session
	r.settle()
	prepare := func(paths ...string) weak.Pointer[byte] {
		var body []byte
		for _, path := range paths {
			m := wire.MultiOp{Type: wire.OpCreate}
			m.Path, m.ACL = path, zk.OpenACLUnsafe()
			body = m.Append(body)
		}
		body = wire.AppendMultiEnd(body)
		if tx := r.prepare(Request{Op: wire.OpMulti, Session: session, Owner: owner, Body: body}); !tx.Failed() {
			t.Fatalf("%v: %+v", paths, tx)
		}
		defer func() { r.pending = nil }()
		return weak.Make(&r.pending[0].body[0])
	}
	for _, paths := range [][]string{{"/a", "/none/b"}, {"/a", "/c", "/none/d", "/e"}, make([]string, 1000)} {
		kept := prepare(paths...)
		for range 3 {
			runtime.GC()
		}
		if kept.Value() != nil {
			t.Errorf("the request of a multi of %d operations is kept", len(paths))
		}
	}
	runtime.KeepAlive(r)
}
