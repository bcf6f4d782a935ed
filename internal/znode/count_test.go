package znode

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/wire"
)

// TestCountBelow: a count is right whatever its pieces are, and counts once what is there
// all the time; it needs no walk for the root, and no memory for a large subtree.
func TestCountBelow(t *testing.T) {
	const n = 2 * PieceUnits
	tree, next := large(n)
	next(created("/big/1", nil), created("/big/1/a", nil), created("/big/1/a/b", nil))
	for path, want := range map[string]int{"/": tree.count - 1, "/big": n + 4, "/big/0": n, "/big/1": 2, "/big/1/a/b": 0} {
		c := tree.CountBelow(tree.Lookup(path))
		got, _, done := c.Next(PieceUnits)
		pieces := 1
		for ; !done; pieces++ {
			var work int
			if got, work, done = c.Next(1000); work > 1100 {
				t.Errorf("%s: %d units in a piece of 1000", path, work)
			}
		}
		if got != want || want < 10 && pieces > 1 || path == "/" && pieces > 1 {
			t.Errorf("%s: %d in %d pieces, want %d", path, got, pieces, want)
		}
	}
	rng := rand.New(rand.NewPCG(5, 6))
	c := tree.CountBelow(tree.Lookup("/big/0"))
	got, _, done := c.Next(PieceUnits)
	for i := 0; !done; i++ {
		next(created(fmt.Sprintf("/big/0/new%d", i), nil))
		next(txn.Op{Type: wire.OpDelete, Path: fmt.Sprintf("/big/0/%d", n/2+i)}) // half of them stay
		got, _, done = c.Next(1 + rng.IntN(300))
	}
	if got < n/2 || got > n+100 {
		t.Errorf("%d of %d while they change", got, n)
	}
	c = tree.CountBelow(tree.Lookup("/big/0"))
	c.Next(PieceUnits)
	c.czxid++ // as if it had been deleted, and its ID used again
	if _, _, done := c.Next(1); !done {
		t.Error("the count of a znode that was deleted goes on")
	}
}

// TestCountBelowOfADeepTree: the work of a count does not grow with the depth of the znodes.
func TestCountBelowOfADeepTree(t *testing.T) {
	const depth, more = 3000, 10_000
	tree, next := large(0)
	paths := []string{"/deep"}
	next(created("/deep", nil))
	for range depth {
		paths = append(paths, paths[len(paths)-1]+"/d")
		next(created(paths[len(paths)-1], nil))
	}
	rng := rand.New(rand.NewPCG(7, 8))
	for i := range more {
		next(created(fmt.Sprintf("%s/%d", paths[rng.IntN(len(paths))], i), nil))
	}
	c := tree.CountBelow(tree.Lookup("/deep/d"))
	all := 0
	for {
		got, work, done := c.Next(PieceUnits)
		if all += work; work > PieceUnits+depth {
			t.Errorf("%d units in a piece", work)
		}
		if !done {
			continue
		}
		if want, _, _ := tree.CountBelow(tree.Lookup("/deep/d")).Next(1 << 30); got != want {
			t.Errorf("%d znodes, want %d", got, want)
		}
		break
	}
	if most := 30 * (depth + more); all > most {
		t.Errorf("%d units for %d znodes, want %d at most", all, depth+more, most)
	}
}
