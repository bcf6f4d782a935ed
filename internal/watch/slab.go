package watch

// chunkLen is the number of records that are allocated together. A slab grows
// by a chunk and never copies, so growing costs the same at any size.
const chunkLen = 1 << 10

// slab holds records that refer to each other by index. Index 0 means none. An index
// needs half the memory of a pointer, and the garbage collector does not scan it.
type slab[T any] struct {
	chunks [][]T
	next   uint32   // first index that was never used; 0 in an empty slab
	free   []uint32 // indices that were used before and are free now
}

// at returns the record. The pointer is valid until the index is released.
func (s *slab[T]) at(i uint32) *T { return &s.chunks[i/chunkLen][i%chunkLen] }

// alloc returns the index of a zeroed record.
func (s *slab[T]) alloc() uint32 {
	if n := len(s.free); n > 0 {
		i := s.free[n-1]
		s.free = s.free[:n-1]
		return i
	}
	if s.next == 0 {
		s.next = 1
	}
	if int(s.next/chunkLen) == len(s.chunks) {
		s.chunks = append(s.chunks, make([]T, chunkLen))
	}
	s.next++
	return s.next - 1
}

// release zeroes the record and makes its index available to alloc. A slab of several
// chunks without any record in use frees its memory.
func (s *slab[T]) release(i uint32) {
	var zero T
	*s.at(i) = zero
	s.free = append(s.free, i)
	if len(s.free) == int(s.next)-1 && s.large() {
		*s = slab[T]{}
	}
}

// empty reports whether no record is in use, and none was kept for the next ones.
func (s *slab[T]) empty() bool { return s.next == 0 }

// large reports whether the slab has ever held more than one chunk.
func (s *slab[T]) large() bool { return len(s.chunks) > 1 }
