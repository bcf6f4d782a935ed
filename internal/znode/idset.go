package znode

import (
	"iter"
	"maps"
	"math/bits"
	"slices"
)

// idSet is a set of znode IDs. The znodes of a session have neighbouring IDs if they were
// created together, so a word has a bit for each of 64 IDs: a set of a million IDs stays
// in the processor's caches.
type idSet struct {
	words map[ID]uint64 // by the ID / 64; none is 0
	n     int
}

const wordBits = 64

func newIDSet() *idSet { return &idSet{words: map[ID]uint64{}} }

// len returns the number of IDs; the set may be nil.
func (s *idSet) len() int {
	if s == nil {
		return 0
	}
	return s.n
}

// add enters an ID that is not in the set.
func (s *idSet) add(id ID) {
	s.words[id/wordBits] |= 1 << (id % wordBits)
	s.n++
}

// remove takes out an ID that is in the set.
func (s *idSet) remove(id ID) {
	at := id / wordBits
	left := s.words[at] &^ (1 << (id % wordBits))
	if s.n--; left != 0 {
		s.words[at] = left
	} else {
		delete(s.words, at)
	}
}

// all iterates over the IDs, in no particular order; the set may be nil, and may change
// between two steps: an ID that is in it all the time is passed once, and one that is
// removed before its turn is not.
func (s *idSet) all() iter.Seq[ID] {
	return func(yield func(ID) bool) {
		if s == nil {
			return
		}
		for at := range s.words {
			for word := s.words[at]; word != 0; {
				bit := bits.TrailingZeros64(word)
				if !yield(at*wordBits + ID(bit)) {
					return
				}
				word = s.words[at] >> (bit + 1) << (bit + 1)
			}
		}
	}
}

// sorted returns the IDs, in order.
func (s *idSet) sorted() []ID {
	ids := make([]ID, 0, s.n)
	for _, at := range slices.Sorted(maps.Keys(s.words)) {
		for word := s.words[at]; word != 0; word &= word - 1 {
			ids = append(ids, at*wordBits+ID(bits.TrailingZeros64(word)))
		}
	}
	return ids
}
