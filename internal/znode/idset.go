package znode

import (
	"iter"
	"math/bits"
	"slices"
)

// idSet is a set of znode IDs. The znodes of a session have neighbouring IDs if they were
// created together, so a word has a bit for each of 64 IDs: a set of a million IDs stays
// in the processor's caches.
type idSet struct {
	words   map[ID]uint64 // by the ID / 64; none is 0
	n       int
	changes int    // how often IDs were added or removed
	digest  uint64 // sum of the digests of the znodes, as far as they count in that of the tree
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
	s.changes++
}

// remove takes out an ID that is in the set.
func (s *idSet) remove(id ID) { s.removeAll(id/wordBits, 1<<(id%wordBits)) }

// removeAll takes out IDs of one word that are in the set.
func (s *idSet) removeAll(at ID, gone uint64) {
	s.changes++
	s.n -= bits.OnesCount64(gone)
	if left := s.words[at] &^ gone; left != 0 {
		s.words[at] = left
	} else {
		delete(s.words, at)
	}
}

// keys returns the keys of the words, in order.
func (s *idSet) keys() []ID {
	keys := make([]ID, 0, len(s.words))
	for at := range s.words {
		keys = append(keys, at)
	}
	slices.Sort(keys)
	return keys
}

// all iterates over the IDs, in order: a caller that reads the znodes reads the memory in
// order too. The set may be nil, and may change between two steps: an ID that is in it all
// the time is passed once, and one that is removed before its turn is not.
func (s *idSet) all() iter.Seq[ID] {
	return func(yield func(ID) bool) {
		if s == nil {
			return
		}
		for _, at := range s.keys() {
			for word, changes := s.words[at], s.changes; word != 0; {
				bit := bits.TrailingZeros64(word)
				if !yield(at*wordBits + ID(bit)) {
					return
				}
				if word &= word - 1; changes != s.changes {
					word, changes = s.words[at]>>(bit+1)<<(bit+1), s.changes
				}
			}
		}
	}
}
