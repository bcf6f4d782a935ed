package znode

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// statsOf returns the usage that the stats znode of a quota has.
func statsOf(t *Tree, path string) Quota {
	return ParseQuota(t.Data(t.Lookup(quotaPath + path + statsSuffix)))
}

// large makes a tree with n znodes below /big, and the znodes of quotas of /big and /big/0.
func large(n int) (tree *Tree, next func(ops ...txn.Op)) {
	tree = New(Options{})
	z, r := zk.Zxid(0), new(Result)
	next = func(ops ...txn.Op) {
		z++
		tree.Apply(&txn.Txn{Header: txn.Header{Zxid: z, Type: wire.OpMulti}, Multi: ops}, r)
	}
	for _, path := range []string{"/big", "/big/0", "/zookeeper/quota/big", "/zookeeper/quota/big/0"} {
		next(created(path, nil))
	}
	for i := range n {
		next(created(fmt.Sprintf("/big/%d/%d", 0, i), []byte("12")))
	}
	return tree, next
}

func created(path string, data []byte) txn.Op {
	return txn.Op{Type: wire.OpCreate, Path: path, Data: data, ParentCversion: -1}
}

// TestRecountIsBounded: however many stats znodes a transaction creates, it counts a
// bounded number of znodes; the rest is counted in one pass.
func TestRecountIsBounded(t *testing.T) {
	tree, next := large(3 * PieceUnits)
	var ops []txn.Op
	for range 50 {
		ops = append(ops, created("/zookeeper/quota/big/zookeeper_stats", nil),
			txn.Op{Type: wire.OpDelete, Path: "/zookeeper/quota/big/zookeeper_stats"})
	}
	next(append(ops, created("/zookeeper/quota/big/zookeeper_stats", nil), created("/zookeeper/quota/big/0/zookeeper_stats", nil))...)
	if left := tree.recounts.work; left < -60 {
		t.Errorf("a transaction has counted %d znodes", PieceUnits-left)
	}
	if !tree.RecountDue() || len(tree.recounts.due) != 2 {
		t.Errorf("due: %q", tree.recounts.due)
	}
	pieces := 1
	for ; !tree.Recount(PieceUnits); pieces++ {
	}
	tree.EndRecount()
	const n = 3 * PieceUnits
	if a, b := statsOf(tree, "/big"), statsOf(tree, "/big/0"); a.Count != n+2 || a.Bytes != 2*n || b.Count != n+1 || tree.RecountDue() {
		t.Errorf("%+v, %+v, due %v", a, b, tree.RecountDue())
	}
	if pieces < 3 {
		t.Errorf("%d pieces", pieces)
	}
	mustCheck(t, tree)
}

// TestRecountWhileTheTreeChanges: a pass gives what is there at its end, whatever is
// created, deleted and changed between its pieces; so does one whose quota's znode comes
// or goes.
func TestRecountWhileTheTreeChanges(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 1))
		tree, next := large(2 * PieceUnits)
		next(created("/zookeeper/quota/big/0/zookeeper_stats", nil), created("/zookeeper/quota/gone", nil),
			created("/zookeeper/quota/big/zookeeper_stats", nil), created("/zookeeper/quota/big/zookeeper_limits", []byte("count=1,bytes=1")))
		change := func() {
			path := fmt.Sprintf("/big/0/%d", rng.IntN(3*PieceUnits))
			switch id := tree.Lookup(path); {
			case id == 0:
				next(created(path, make([]byte, rng.IntN(40))))
			case rng.IntN(2) == 0:
				next(txn.Op{Type: wire.OpDelete, Path: path})
			default:
				next(txn.Op{Type: wire.OpSetData, Path: path, Data: make([]byte, rng.IntN(40))})
			}
		}
		for !tree.Recount(1 + rng.IntN(300)) {
			for range rng.IntN(20) {
				change()
			}
		}
		tree.EndRecount()
		change()
		work := 1 << 30
		want, _ := tree.usage(tree.Lookup("/big"), &work)
		if got := statsOf(tree, "/big"); got.Count != want.Count || got.Bytes != want.Bytes {
			t.Fatalf("seed %d: %+v, want %+v", seed, got, want)
		}
		mustCheck(t, tree)
	}
}
