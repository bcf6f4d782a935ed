package prep

import (
	"math"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/internal/znode"
	"github.com/pinfold-zk/pinfold/zk"
)

func TestSequence(t *testing.T) {
	for n, want := range map[int32]string{
		0: "0000000000", 7: "0000000007", 1234567890: "1234567890", math.MaxInt32: "2147483647",
		-1: "-000000001", -5: "-000000005", -123456789: "-123456789", math.MinInt32: "-2147483648",
	} {
		if got := sequence(n); got != want {
			t.Errorf("sequence(%d) = %q, want %q", n, got, want)
		}
	}
}

// TestSequenceAtItsEnd: the last name but one, the last, and then none, whether
// the creates before are applied or not.
func TestSequenceAtItsEnd(t *testing.T) {
	for _, settled := range []bool{true, false} {
		r := newRig(t, everything)
		r.prepare(Request{Op: wire.OpCreateSession, Owner: owner, Body: jute.AppendInt(nil, 1)})
		r.settle()
		for i, op := range []txn.Op{
			{Type: wire.OpCreate, Path: "/p", ParentCversion: 1},
			{Type: wire.OpCreate, Path: "/p/x", ParentCversion: math.MaxInt32 - 1},
		} {
			r.zxid++
			r.tree.Apply(&txn.Txn{Header: txn.Header{Zxid: r.zxid, Type: op.Type}, Op: op}, new(znode.Result))
			if i == 1 {
				r.prep = New(everything, r.tree, r.prep.auth, r.sessions)
			}
		}
		for i, want := range []string{"/p/s-2147483646", "/p/s-2147483647", "", ""} {
			c := wire.CreateRequest{Path: "/p/s-", ACL: zk.OpenACLUnsafe(), Flags: zk.PersistentSequential, TTL: -1}
			tx := r.prepare(Request{Op: wire.OpCreate, Session: 1, Owner: owner, Body: c.Append(nil, wire.OpCreate)})
			if tx.Path != want || (want == "") != (tx.Err == zk.ErrNodeExists) {
				t.Errorf("settled %v: number %d is %q, %v, want %q", settled, i, tx.Path, tx.Err, want)
			}
			if settled {
				r.settle()
			}
		}
		r.settle()
	}
}
