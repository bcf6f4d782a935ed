package znode

import (
	"math/rand/v2"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/zk"
)

var extended = Options{ExtendedTypes: true}

// log is n transactions, each as it is read from disk.
func (h *history) log(t testing.TB, n int) (log []txn.Txn) {
	for range n {
		tx, _ := h.txn()
		back, err := txn.Decode(tx.Append(nil))
		if err != nil {
			t.Fatalf("%+v: %v", tx, err)
		}
		log = append(log, back)
	}
	return log
}

// TestDigestsOfLog: the digest in each transaction is the tree's after it.
func TestDigestsOfLog(t *testing.T) {
	for seed := range uint64(10) {
		tree, r := New(extended), new(Result)
		for _, tx := range newHistory(seed).log(t, 200) {
			if tree.Apply(&tx, r); tx.HasDigest && tree.Digest() != tx.Digest {
				t.Fatalf("seed=%d: %+v: digest %d", seed, tx, tree.Digest())
			}
		}
	}
}

// TestReplayFromAnyPoint: a tree that has a log already does not change by
// applying the rest of it again, from wherever.
func TestReplayFromAnyPoint(t *testing.T) {
	for seed := range uint64(20) {
		log := newHistory(seed).log(t, 120)
		tree, r := New(extended), new(Result)
		for i := range log {
			tree.Apply(&log[i], r)
		}
		want := dump(tree)
		rng := rand.New(rand.NewPCG(seed, 4))
		for range 30 {
			from := rng.IntN(len(log))
			for i := range log[from:] {
				tree.Apply(&log[from+i], r)
				if tree.lastZxid != log[len(log)-1].Zxid {
					t.Fatalf("seed=%d: LastZxid went back to %v", seed, tree.lastZxid)
				}
			}
			mustCheck(t, tree)
			if diff := firstDiff(dump(tree), want); diff != "" {
				t.Fatalf("seed=%d: replay from %d of %d: %s", seed, from, len(log), diff)
			}
		}
	}
}

// fuzzy writes a snapshot of tree while the log goes on, and returns it and the
// transactions that were applied meanwhile. newest is the last zxid whose
// znodes the walk may write; 0 is as it is.
func fuzzy(t testing.TB, h *history, tree *Tree, newest zk.Zxid) (*Walk, []byte, []txn.Txn) {
	var log []txn.Txn
	r := new(Result)
	w, b := tree.Walk(), []byte(nil)
	w.newest = max(w.newest, newest)
	for done := false; !done; {
		if h.rng.IntN(3) > 0 {
			tx := h.log(t, 1)[0]
			tree.Apply(&tx, r)
			log = append(log, tx)
		} else {
			b, done = w.Next(b, len(b)+1+h.rng.IntN(200))
		}
	}
	return w, b, log
}

// load feeds b to a loader in pieces of random size.
func load(t testing.TB, rng *rand.Rand, b []byte, z zk.Zxid) (*Tree, *Loader) {
	l := NewLoader(extended)
	held, rest := []byte(nil), b
	for {
		held = append(held[:0:0], held...)
		n, done, err := l.Load(held)
		if err != nil {
			t.Fatal(err)
		}
		for i := range held[:n] {
			held[i] = 0xdb // the loader keeps nothing of it
		}
		held = held[n:]
		if done {
			if len(held)+len(rest) != 0 {
				t.Fatalf("done with %d bytes left", len(held)+len(rest))
			}
			return l.Tree(z), l
		}
		if len(rest) == 0 {
			t.Fatal("not done at the end")
		}
		k := min(len(rest), 1+rng.IntN(100))
		held, rest = append(held, rest[:k]...), rest[k:]
	}
}

// TestFuzzySnapshot: a snapshot that is written while transactions are applied,
// and then the log from its zxid on, give the tree that there was. Whether the
// walk leaves out what was created meanwhile, or like Apache writes what it
// happens to meet, is all the same.
func TestFuzzySnapshot(t *testing.T) {
	future := map[string]zk.Zxid{"without later znodes": 0, "with later znodes": 1 << 62}
	for name, newest := range future {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(40) {
				h, tree, r := newHistory(seed), New(extended), new(Result)
				h.listed = true
				for _, tx := range h.log(t, 60) {
					tree.Apply(&tx, r)
				}
				w, b, log := fuzzy(t, h, tree, newest)
				z, digest := tree.LastZxid(), tree.Digest()
				for _, tx := range h.log(t, h.rng.IntN(20)) { // the server lives on
					tree.Apply(&tx, r)
					log = append(log, tx)
				}
				loaded, l := load(t, h.rng, b, w.Zxid())
				if l.Unlisted != 0 {
					t.Fatalf("seed=%d: %d znodes with an ACL that is not listed", seed, l.Unlisted)
				}
				mustCheck(t, loaded)
				for _, tx := range log {
					if loaded.Apply(&tx, r); loaded.LastZxid() == z && loaded.Digest() != digest {
						t.Fatalf("seed=%d: digest %d at %v, want %d", seed, loaded.Digest(), z, digest)
					}
					mustCheck(t, loaded)
				}
				if diff := firstDiff(dump(loaded), dump(tree)); diff != "" {
					t.Fatalf("seed=%d: %s", seed, diff)
				}
			}
		})
	}
}

// TestSnapshotOfIdleTree: without transactions in between nothing is lost, and
// the loaded tree writes the same bytes but for the order of children.
func TestSnapshotOfIdleTree(t *testing.T) {
	for seed := range uint64(20) {
		h, tree, r := newHistory(seed), New(extended), new(Result)
		for _, tx := range h.log(t, 100) {
			tree.Apply(&tx, r)
		}
		w, b := tree.Walk(), []byte(nil)
		b, _ = w.Next(b, 1<<30)
		loaded, _ := load(t, h.rng, b, w.Zxid())
		mustCheck(t, loaded)
		if diff := firstDiff(dump(loaded), dump(tree)); diff != "" {
			t.Fatalf("seed=%d: %s", seed, diff)
		}
		if w.Nodes() != tree.Count()-1 {
			t.Errorf("seed=%d: the walk says %d znodes of %d", seed, w.Nodes(), tree.Count()-1)
		}
	}
}
