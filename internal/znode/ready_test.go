package znode

import (
	"fmt"
	"testing"
	"unsafe"

	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// A long multi finds the memory of all that it creates: no block is made while it is applied, whatever the lengths
// of names and data, and whether znodes were deleted before.
func TestLongMultiFindsItsMemory(t *testing.T) {
	tree, r := New(Options{}), new(Result)
	zxid := zk.Zxid(0)
	for round, data := range []int{0, 10, 1000, 200, 30_000} {
		zxid++
		tx := txn.Txn{Header: txn.Header{Zxid: zxid, Type: wire.OpMulti}}
		const many = 3*nodesPerBlock + 100
		for i := range many {
			size := data
			if size == 30_000 && i > 0 {
				size = 0
			}
			tx.Multi = append(tx.Multi, txn.Op{Type: wire.OpCreate, Path: fmt.Sprintf("/%d-%d", round, i), Data: make([]byte, size)})
		}
		m := tree.BeginMulti(&tx, r, false, nil)
		nodes, slots := len(tree.nodes.ready), len(tree.arena.ready)
		before, slotsBefore := len(tree.nodes.blocks), blocksOf(tree)
		for !m.Next(r) {
		}
		m.End(r)
		if made := len(tree.nodes.blocks) - before; made > nodes || len(tree.nodes.ready) != nodes-made {
			t.Errorf("%d bytes: %d blocks of nodes were ready, %d are in use", data, nodes, made)
		}
		if made := blocksOf(tree) - slotsBefore; made > slots || len(tree.arena.ready) != slots-made {
			t.Errorf("%d bytes: %d blocks of slots were ready, %d are in use", data, slots, made)
		}
		if err := tree.check(); err != nil {
			t.Fatal(err)
		}
		if round != 2 {
			continue
		}
		for i := range many {
			zxid++
			tree.Apply(&txn.Txn{Header: txn.Header{Zxid: zxid, Type: wire.OpDelete}, Op: txn.Op{Type: wire.OpDelete, Path: fmt.Sprintf("/%d-%d", round, i)}}, r)
		}
		if n := tree.nodes.missing(many); n > 0 {
			t.Errorf("%d nodes are missing after %d were deleted", n, many)
		}
	}
}

// The parts of the index grow into memory that was made before a long multi is applied, and no part has such memory for long.
func TestIndexGrowsIntoReadyMemory(t *testing.T) {
	tree, r := New(Options{}), new(Result)
	grown := 0
	for round := range 64 {
		tx := txn.Txn{Header: txn.Header{Zxid: zk.Zxid(round + 1), Type: wire.OpMulti}}
		for i := range 4000 {
			tx.Multi = append(tx.Multi, txn.Op{Type: wire.OpCreate, Path: fmt.Sprintf("/%d-%d", round, i)})
		}
		m := tree.BeginMulti(&tx, r, false, nil)
		before := tree.index.parts
		for !m.Next(r) {
		}
		m.End(r)
		for i := range before {
			was, is := &before[i], &tree.index.parts[i]
			switch n := len(was.entries); {
			case len(is.entries) == n:
			case n >= manyEntries && (was.next == nil || &was.next[0] != &is.entries[0]):
				t.Fatalf("round %d: part %d grew from %d to %d entries, with %d ready", round, i, n, len(is.entries), len(was.next))
			case n >= manyEntries:
				grown++
			}
		}
	}
	if err := tree.check(); err != nil {
		t.Fatal(err)
	}
	ready := 0
	for i := range tree.index.parts {
		if tree.index.parts[i].next != nil {
			ready++
		}
	}
	if grown != len(tree.index.parts) || ready > 0 { // with 250,000 znodes all parts have grown once from manyEntries
		t.Errorf("%d parts have grown, %d have memory for the next time", grown, ready)
	}
}

func blocksOf(t *Tree) (n int) {
	for i := range t.arena.classes {
		n += len(t.arena.classes[i].blocks)
	}
	return n
}

// A long list of children grows into memory that Prepare has made, and one of another znode that is much shorter does not.
func TestLongListsGrowIntoReadyMemory(t *testing.T) {
	tree, r := New(Options{}), new(Result)
	create := func(z zk.Zxid, path string) {
		tx := txn.Txn{Header: txn.Header{Zxid: z, Type: wire.OpCreate}, Op: txn.Op{Type: wire.OpCreate, Path: path}}
		tree.Prepare([]txn.Txn{tx}, nil)
		tree.Apply(&tx, r)
	}
	create(1, "/a")
	create(2, "/b")
	a, grown, ready, made := tree.kidsOf(tree.Lookup("/a")), 0, 0, 0
	for i := range 10 * manyKids {
		before, next := cap(*a), tree.nextKids
		create(zk.Zxid(3+i), fmt.Sprintf("/a/%d", i))
		if c := cap(tree.nextKids); c > 0 && c != cap(next) {
			made++
		}
		if i > manyKids && cap(*a) != before {
			if grown++; cap(next) > 0 && &next[:1][0] == &(*a)[0] {
				ready++
			}
		}
		if cap(tree.nextKids) > 2*len(*a) {
			t.Fatalf("a list of %d places is ready for %d children", cap(tree.nextKids), len(*a))
		}
	}
	if grown < 5 || ready < grown-1 || made > ready+1 {
		t.Errorf("the list grew %d times, %d times into ready memory, which was made %d times", grown, ready, made)
	}
	create(1<<20, "/b/1")
	if b := tree.kidsOf(tree.Lookup("/b")); cap(*b) > manyKids {
		t.Errorf("a list of one child has %d places", cap(*b))
	}
	if err := tree.check(); err != nil {
		t.Fatal(err)
	}
}

// The blocks of a tree that has many are populated, once and whole, and the first ones of each kind, most of which may stay
// empty, are not.
func TestBlocksArePopulated(t *testing.T) {
	populated := 0
	tree, r := New(Options{Populate: func(b []byte) { populated += len(b) }}), new(Result)
	for i := range 8 * nodesPerBlock {
		if tree.Apply(&txn.Txn{Header: txn.Header{Zxid: zk.Zxid(1 + i), Type: wire.OpCreate},
			Op: txn.Op{Type: wire.OpCreate, Path: fmt.Sprintf("/a-%d", i), Data: make([]byte, 100)}}, r); i == nodesPerBlock && populated > 0 {
			t.Errorf("%d bytes are populated for %d znodes", populated, i)
		}
	}
	nodes, slots := len(tree.nodes.blocks)-manyBlocks, 0
	for i := range tree.arena.classes {
		for _, b := range tree.arena.classes[i].blocks[min(manyBlocks, len(tree.arena.classes[i].blocks)):] {
			slots += len(b.mem)
		}
	}
	if want := nodes*nodesPerBlock*int(unsafe.Sizeof(node{})) + slots; populated != want || nodes < 4 || slots == 0 {
		t.Errorf("%d bytes are populated, want %d", populated, want)
	}
}
