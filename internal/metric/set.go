package metric

import (
	"cmp"
	"slices"
	"strings"
	"sync"
)

// A Set keeps a value for each of some keys, up to a limit. Use NewSet. S is a pointer
// to a counter, a gauge, a summary or a histogram.
type Set[S Source] struct {
	limit int
	empty func() S
	mu    struct {
		sync.Mutex
		byKey map[string]*Keyed[S]
	}
}

// Keyed is a value of a set, and its key.
type Keyed[S Source] struct {
	Key   string
	Value S
}

// NewSet returns a set without keys. limit is the largest number of keys; empty creates
// the value of a new key.
func NewSet[S Source](limit int, empty func() S) *Set[S] {
	s := &Set[S]{limit: limit, empty: empty}
	s.mu.byKey = map[string]*Keyed[S]{}
	return s
}

// MaxKeyBytes is the length of the longest key of a set. Clients choose keys, for instance by names of znodes, and each page
// with metrics has a key several times.
const MaxKeyBytes = 256

// Of returns the value of key, which it creates if necessary; nil if the set is full or the key is longer than MaxKeyBytes.
// The value is valid for the life of the set, so a caller that uses one key often needs
// to look it up only once. The set keeps a copy of key.
func (s *Set[S]) Of(key string) *Keyed[S] {
	if len(key) > MaxKeyBytes { // before it is hashed under the lock
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.mu.byKey[key]
	if k == nil && len(s.mu.byKey) < s.limit {
		k = &Keyed[S]{Key: strings.Clone(key), Value: s.empty()}
		s.mu.byKey[k.Key] = k
	}
	return k
}

// All returns all values, in the order of their keys.
func (s *Set[S]) All() []*Keyed[S] {
	s.mu.Lock()
	list := make([]*Keyed[S], 0, len(s.mu.byKey))
	for _, k := range s.mu.byKey {
		list = append(list, k)
	}
	s.mu.Unlock()
	slices.SortFunc(list, func(a, b *Keyed[S]) int { return cmp.Compare(a.Key, b.Key) })
	return list
}
