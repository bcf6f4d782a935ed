package prep

import (
	"testing"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// TestKeepsNoMulti: once a multi is prepared, whatever became of it, its request
// is not held on to, nor is memory for as many operations as the largest had.
func TestKeepsNoMulti(t *testing.T) {
	r := newRig(t, everything)
	r.prepare(Request{Op: wire.OpCreateSession, Owner: owner, Body: jute.AppendInt(nil, 1)})
	many := make([]string, 2*maxKeptOps)
	for _, paths := range [][]string{{"/a", "/b"}, {"/a", "/c", "/d"}, many, {"/e"}} {
		var body []byte
		for _, path := range paths {
			m := wire.MultiOp{Type: wire.OpCreate}
			m.Path, m.ACL = path, zk.OpenACLUnsafe()
			body = m.Append(body)
		}
		r.prepare(Request{Op: wire.OpMulti, Session: 1, Owner: owner, Body: wire.AppendMultiEnd(body)})
		kept := r.prep.multi[:cap(r.prep.multi)]
		if len(kept) > maxKeptOps {
			t.Errorf("room for %d operations is kept", len(kept))
		}
		for i := range kept {
			if kept[i].Path != "" || kept[i].ACL != nil {
				t.Errorf("operation %d of %d is kept: %+v", i, len(paths), kept[i])
			}
		}
	}
}
