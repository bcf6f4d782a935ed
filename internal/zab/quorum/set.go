package quorum

import "slices"

// Set is a set of server ids, small and kept in order, so that what is made of
// it does not depend on chance. It allocates when it grows beyond what it has
// ever held. The zero value is empty. It is owned by one goroutine.
type Set struct {
	ids []int64 // ascending
}

// Add puts id in and reports whether it was not there.
func (s *Set) Add(id int64) bool {
	i, ok := slices.BinarySearch(s.ids, id)
	if !ok {
		s.ids = slices.Insert(s.ids, i, id)
	}
	return !ok
}

// Remove takes id out and reports whether it was there.
func (s *Set) Remove(id int64) bool {
	i, ok := slices.BinarySearch(s.ids, id)
	if ok {
		s.ids = slices.Delete(s.ids, i, i+1)
	}
	return ok
}

// Has reports whether id is in the set. It serves as the argument of Quorum.
func (s *Set) Has(id int64) bool {
	_, ok := slices.BinarySearch(s.ids, id)
	return ok
}

// Len returns the number of ids.
func (s *Set) Len() int { return len(s.ids) }

// IDs returns the ids, ascending. They are the set's own, valid until it changes.
func (s *Set) IDs() []int64 { return s.ids }

// Clear empties the set and keeps its memory.
func (s *Set) Clear() { s.ids = s.ids[:0] }
