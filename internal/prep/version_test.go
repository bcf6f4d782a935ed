package prep

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/session"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// versioned is what the test knows of a znode.
type versioned struct {
	there      bool
	data, acls int32 // Version, Aversion
}

// A conditional operation succeeds if and only if its version is that of the
// znode, or -1: alone and in a multi, on what is applied and on what is not yet.
// The test counts the versions by itself.
func TestConditionalOperations(t *testing.T) {
	const seed = 1
	rng := rand.New(rand.NewPCG(seed, 3))
	r := newRig(t, everything)
	znodes := map[string]*versioned{"/a": {}, "/b": {}, "/c": {}}
	refused, done := 0, 0
	for step := range 4000 {
		path := fmt.Sprintf("/%c", 'a'+rng.IntN(3))
		n := znodes[path]
		m := wire.MultiOp{}
		m.Path, m.Data, m.ACL, m.TTL = path, []byte("x"), zk.OpenACLUnsafe(), -1
		m.Type = []wire.OpCode{wire.OpCreate, wire.OpDelete, wire.OpSetData, wire.OpSetACL, wire.OpCheck}[rng.IntN(5)]
		m.Version = n.data + int32(rng.IntN(4)-2)
		if m.Type == wire.OpSetACL {
			m.Version += n.acls - n.data
		}
		m.Version = max(m.Version, -1)
		want := n.judge(&m)
		req := Request{Session: 0, Op: m.Type, Body: appendOp(&m), Owner: session.NoOwner}
		inMulti := m.Type == wire.OpCheck || m.Type != wire.OpSetACL && rng.IntN(2) == 0
		if inMulti {
			req.Op, req.Body = wire.OpMulti, multiOf(&m)
		}
		tx := r.prepare(req)
		got := zk.OK
		switch {
		case inMulti && tx.Multi[0].Type == wire.OpError:
			got = tx.Multi[0].Err
		case tx.Header.Type == wire.OpError:
			got = tx.Err
		}
		if got != want {
			t.Fatalf("seed=%d step %d: %v %s version %d of %+v: %v, want %v", seed, step, m.Type, path, m.Version, *n, got, want)
		}
		if want == zk.OK {
			n.change(m.Type)
			done++
		} else {
			refused++
		}
		if rng.IntN(4) == 0 {
			r.settle()
		}
	}
	if done < 1000 || refused < 1000 {
		t.Errorf("%d done, %d refused: the test is not about both", done, refused)
	}
}

// judge returns what an operation has to come to.
func (n *versioned) judge(m *wire.MultiOp) zk.Code {
	version := n.data
	if m.Type == wire.OpSetACL {
		version = n.acls
	}
	switch {
	case m.Type == wire.OpCreate && n.there:
		return zk.ErrNodeExists
	case m.Type == wire.OpCreate:
		return zk.OK
	case !n.there:
		return zk.ErrNoNode
	case m.Version != -1 && m.Version != version:
		return zk.ErrBadVersion
	}
	return zk.OK
}

// change carries an operation out.
func (n *versioned) change(op wire.OpCode) {
	switch op {
	case wire.OpCreate:
		*n = versioned{there: true}
	case wire.OpDelete:
		*n = versioned{}
	case wire.OpSetData:
		n.data++
	case wire.OpSetACL:
		n.acls++
	}
}

// multiOf is the body of a multi of one operation.
func multiOf(m *wire.MultiOp) []byte {
	b := wire.MultiHeader{Type: m.Type}.Append(nil)
	b = append(b, appendOp(m)...)
	return wire.AppendMultiEnd(b)
}
