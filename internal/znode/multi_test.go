package znode

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/access"
	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// longMulti creates znodes below /m, and changes and deletes some of them.
func longMulti(z zk.Zxid) *txn.Txn {
	const n = 2 * PieceUnits
	tx := &txn.Txn{Header: txn.Header{Session: 1, Zxid: z, Time: 7, Type: wire.OpMulti}}
	for i := range n {
		op := txn.Op{Type: wire.OpCheck, Path: fmt.Sprint("/checked", i)}
		switch path := fmt.Sprint("/m/", i/4); i % 4 {
		case 0:
			op = txn.Op{Type: wire.OpCreate, Path: path, Data: []byte("d"), ACL: zk.OpenACLUnsafe(), ParentCversion: int32(1 + i/4), Ephemeral: i%8 == 0}
		case 1:
			op = txn.Op{Type: wire.OpSetData, Path: path, Data: make([]byte, i%100), Version: 1}
		case 2:
			if i%8 == 2 {
				op = txn.Op{Type: wire.OpSetACL, Path: path, ACL: zk.ReadACLUnsafe(), Version: 1}
			} else {
				op = txn.Op{Type: wire.OpDelete, Path: path}
			}
		}
		tx.Multi = append(tx.Multi, op)
	}
	return tx
}

// A multi that is applied in pieces leads to the tree, the results and the events that
// Apply leads to. The tree's zxid is the previous one until the end.
func TestMultiInPieces(t *testing.T) {
	for _, failed := range []bool{false, true} {
		whole, pieces := New(Options{}), New(Options{})
		r := new(Result)
		for _, tree := range []*Tree{whole, pieces} {
			tree.Apply(&txn.Txn{
				Header: txn.Header{Zxid: 1, Type: wire.OpCreate},
				Op:     txn.Op{Type: wire.OpCreate, Path: "/m", ACL: zk.OpenACLUnsafe(), ParentCversion: 1},
			}, r)
		}
		tx := longMulti(2)
		if failed {
			tx.Multi[77] = txn.Op{Type: wire.OpError, Err: zk.ErrNoNode}
		}
		want, got := new(Result), new(Result)
		whole.Apply(tx, want)
		m, events, outcomes, n := pieces.BeginMulti(tx, got, true, noIndex), []Change(nil), []Outcome(nil), 0
		for done := false; !done; n++ {
			if pieces.LastZxid() != 1 {
				t.Fatalf("piece %d: the tree is at %v", n, pieces.LastZxid())
			}
			done = m.Next(got)
			events, outcomes = append(events, got.Events...), append(outcomes, got.Multi...)
		}
		if m.End(got); !IsLong(tx) || !failed && n < 3 {
			t.Errorf("%d pieces", n)
		}
		if pieces.LastZxid() != 2 || pieces.Digest() != whole.Digest() || pieces.Count() != whole.Count() {
			t.Errorf("failed %v: zxid %v digest %d, %d znodes; want digest %d, %d znodes", failed,
				pieces.LastZxid(), pieces.Digest(), pieces.Count(), whole.Digest(), whole.Count())
		}
		if !slices.Equal(outcomes, want.Multi) || got.Outcome != want.Outcome || len(got.Events) != 0 {
			t.Errorf("failed %v: other results", failed)
		}
		if !reflect.DeepEqual(events, want.Events) {
			t.Errorf("failed %v: %d events, want %d", failed, len(events), len(want.Events))
		}
	}
}

// Changes tells the paths that a multi changes, and their parents, from others.
func TestMultiChanges(t *testing.T) {
	tree := New(Options{})
	tx := longMulti(2)
	tx.Multi[0].Path = "/top" // a child of the root
	m := tree.BeginMulti(tx, new(Result), false, noIndex)
	for path, want := range map[string]bool{
		"/": true, "": true, "/top": true, "/m": true, "/m/1": true, "/m/7": true,
		"/checked3": false, "/other": false, "/m/1/x": false, "/zookeeper": false,
	} {
		if got := m.Changes(path); got != want {
			t.Errorf("Changes(%q) = %v", path, got)
		}
	}
	tx.Multi = []txn.Op{{Type: wire.OpSetData, Path: "/a/b"}}
	if m = tree.BeginMulti(tx, new(Result), false, noIndex); !m.Changes("/a/b") || m.Changes("/a") {
		t.Error("a set changes the znode, and not its parent")
	}
}

func noIndex(*access.List) {}
