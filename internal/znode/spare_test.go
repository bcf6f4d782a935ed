package znode

import (
	"fmt"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// Long multis find the memory that was made after the one before them, and none of it is lost: BeginMulti makes none, and what is
// ready does not pile up, whether it is used or not.
func TestSpareMemory(t *testing.T) {
	populated := 0
	tree, r := New(Options{Populate: func(b []byte) { populated += len(b) }}), new(Result)
	const each, rounds = 4000, 60
	for round := range rounds {
		tx := txn.Txn{Header: txn.Header{Zxid: zk.Zxid(round + 1), Type: wire.OpMulti}}
		for i := range each {
			tx.Multi = append(tx.Multi, txn.Op{Type: wire.OpCreate, Path: fmt.Sprintf("/%d-%d", round, i), Data: make([]byte, 100)})
		}
		populated = 0
		m := tree.BeginMulti(&tx, r, false, nil)
		if populated > 0 && round > 1 {
			t.Errorf("round %d: %d bytes were made by BeginMulti", round, populated)
		}
		for !m.Next(r) {
		}
		m.End(r)
		for again := range 4 { // no multi comes
			needs, made := tree.Needs(), 0
			tree.Accept(NewSpare(needs, func(b []byte) { made += len(b) }))
			if again == 3 && (made > 0 || !needs.None()) {
				t.Errorf("round %d: %d bytes more were made while nothing was used", round, made)
			}
		}
		if nodes, slots := len(tree.nodes.ready), len(tree.arena.ready); nodes > each/nodesPerBlock+2 || slots > each*200/blockSize+2 {
			t.Fatalf("round %d: %d blocks of nodes and %d of slots are ready", round, nodes, slots)
		}
	}
	if err := tree.check(); err != nil {
		t.Fatal(err)
	}
	if needs := New(Options{}).Needs(); !needs.None() {
		t.Errorf("a new tree needs %+v", needs)
	}
}
