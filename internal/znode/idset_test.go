package znode

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// The ephemerals that a session creates one after the other share words of its set, so
// that the end of a session with a million of them works on 250 KB, not on 10 MB all over
// the memory.
func TestNeighboursShareWords(t *testing.T) {
	const ids = 100_000
	s := newIDSet()
	for id := range ID(ids) {
		s.add(1 + id)
	}
	if most := ids/wordBits + 1; len(s.words) > most {
		t.Errorf("%d words for %d neighbours, want at most %d", len(s.words), ids, most)
	}
	for id := range ID(ids) {
		s.remove(1 + id)
	}
	if s.len() != 0 || len(s.words) != 0 {
		t.Errorf("%d IDs and %d words are left", s.len(), len(s.words))
	}
}

// While a set is iterated over, IDs come and go: those that stay are passed once, those
// that are gone are not passed, and nothing is passed twice.
func TestIterationOverAChangingSet(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 0))
		s, model, stays := newIDSet(), map[ID]bool{}, map[ID]bool{}
		add := func() ID {
			id := ID(rng.IntN(400))
			if !model[id] {
				s.add(id)
				model[id] = true
			}
			return id
		}
		for range 200 {
			stays[add()] = true
		}
		passed := map[ID]bool{}
		for id := range s.all() {
			if !model[id] || passed[id] && stays[id] {
				t.Fatalf("seed %d: %d is passed; it is in the set: %v, was passed: %v", seed, id, model[id], passed[id])
			}
			passed[id] = true
			for range rng.IntN(4) {
				gone := ID(rng.IntN(400))
				if model[gone] {
					s.remove(gone)
					delete(model, gone)
				}
				delete(stays, gone)
				add()
			}
		}
		for id := range stays {
			if !passed[id] {
				t.Fatalf("seed %d: %d was there all the time and is not passed", seed, id)
			}
		}
		sorted := slices.Sorted(s.all())
		if !slices.IsSorted(sorted) || len(sorted) != len(model) || s.len() != len(model) {
			t.Fatalf("seed %d: %d IDs, len %d, want %d", seed, len(sorted), s.len(), len(model))
		}
		for _, id := range sorted {
			if !model[id] {
				t.Fatalf("seed %d: %d is not in the set", seed, id)
			}
		}
	}
}
