package znode

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// all returns the ids with hash h, sorted.
func (x *index) all(h uint64) (ids []ID) {
	p := &x.parts[h>>56]
	if len(p.entries) == 0 {
		return nil
	}
	mask := uint32(len(p.entries) - 1)
	for i := uint32(h) & mask; p.entries[i].id != 0; i = (i + 1) & mask {
		if p.entries[i].hash == uint32(h) {
			ids = append(ids, p.entries[i].id)
		}
	}
	slices.Sort(ids)
	return ids
}

// TestIndexModel adds and removes entries whose hashes are few, so that runs are
// long, equal hashes meet, and runs wrap around the end of their part.
func TestIndexModel(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 2))
		var x index
		want := map[uint64][]ID{}
		var hashes []uint64
		count, next := 0, ID(1)
		for range 1000 {
			if count == 0 || rng.IntN(5) < 3 && count < 60 {
				// Two parts; places near the end of a small table, and any.
				h := rng.Uint64N(2)<<56 | (1<<32 - 1 - rng.Uint64N(12))
				if rng.IntN(4) == 0 {
					h = rng.Uint64N(2)<<56 | uint64(rng.Uint32())
				}
				x.add(h, next)
				want[h] = append(want[h], next)
				hashes = append(hashes, h)
				next++
				count++
			} else {
				i := rng.IntN(len(hashes))
				h := hashes[i]
				hashes[i] = hashes[len(hashes)-1]
				hashes = hashes[:len(hashes)-1]
				k := rng.IntN(len(want[h]))
				x.remove(h, want[h][k])
				want[h] = slices.Delete(want[h], k, k+1)
				if len(want[h]) == 0 {
					delete(want, h)
				}
				count--
			}
			for h, ids := range want {
				if got := x.all(h); !slices.Equal(got, slices.Sorted(slices.Values(ids))) {
					t.Fatalf("seed=%d: hash %#x finds %v, want %v", seed, h, got, ids)
				}
			}
			if used := x.parts[0].used + x.parts[1].used; used != count {
				t.Fatalf("seed=%d: %d entries, used says %d", seed, count, used)
			}
		}
	}
}

// TestIndexSeeds: every index hashes by a seed of its own.
func TestIndexSeeds(t *testing.T) {
	a, b := newIndex(), newIndex()
	if a.hash("/a") == b.hash("/a") && a.hash("/b") == b.hash("/b") {
		t.Error("two indices hash alike")
	}
	first := a.hash("/a")
	if again := a.hash("/a"); first != again {
		t.Error("an index hashes one path in two ways")
	}
}
