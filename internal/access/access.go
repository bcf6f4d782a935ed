// Package access holds ACLs as the tree keeps them: one List for all znodes that
// have the same ACL, with an index that makes a check independent of the list's length.
// Package auth interprets the entries and builds the index.
package access

import (
	"sync/atomic"

	"github.com/pinfold-zk/pinfold/zk"
)

// A List is an immutable ACL. A nil List, and a List without entries, permits everything.
// It is safe for concurrent use.
type List struct {
	Entries []zk.ACL
	index   atomic.Pointer[Index]
}

// New returns the List of the entries. It keeps them; the caller must not change them.
func New(entries []zk.ACL) *List { return &List{Entries: entries} }

// All returns the entries, none for nil.
func (l *List) All() []zk.ACL {
	if l == nil {
		return nil
	}
	return l.Entries
}

// Len is the number of entries.
func (l *List) Len() int { return len(l.All()) }

// Index returns the index of l, nil if it has none yet.
func (l *List) Index() *Index { return l.index.Load() }

// SetIndex sets the index of l. All indexes of one List are equal, so any of several
// concurrent calls may win.
func (l *List) SetIndex(x *Index) { l.index.Store(x) }

// An Index finds the permissions of a List by identity. It is immutable once it is set.
type Index struct {
	// Slots is a hash table with linear probing, whose length is a power of two.
	Slots []Slot
	// Anyone are the permissions of world:anyone; SASL those of all entries of scheme
	// sasl together.
	Anyone, SASL zk.Perms
	// V4 and V6 have bit i set if there is a prefix of i bits of that family.
	V4 uint64
	V6 [3]uint64
}

// A Slot is for all entries of one identity, or of scheme ip with one prefix.
type Slot struct {
	Entry uint32 // the number of the first of them plus one; 0 is an empty slot
	Perms zk.Perms
}
