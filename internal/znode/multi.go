package znode

import (
	"strings"

	"github.com/pinfold-zk/pinfold/internal/access"
	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/wire"
)

// A Multi applies a multi in pieces, between which the tree may be read: a request of
// 1 MB can have 50,000 operations. Readers must not see a part of it: until End they must
// not read a path that it Changes, and the tree's LastZxid remains the previous one. A
// look at any other path shows the state before the multi, which is also the state after
// it.
type Multi struct {
	tree    *Tree
	tx      *txn.Txn
	left    []txn.Op // not applied yet, or not reported
	changed pathSet
	answer  bool // Next reports the results of the operations
	failed  bool // one of the operations is an error: none is applied
}

// IsLong reports whether tx is a multi that takes more than one piece: BeginMulti is
// called then, not Apply.
func IsLong(tx *txn.Txn) bool {
	return tx.Header.Type == wire.OpMulti && deleteWork*len(tx.Multi) >= PieceUnits
}

// BeginMulti returns the Multi of tx. It copies long ACLs, as Prepare does, and calls index for each. It needs no lock. The
// caller passes the same r to each call of Next. Without answer Next reports no results: no client waits for them.
// REQUIRES: the caller is the caller of Apply.
func (t *Tree) BeginMulti(tx *txn.Txn, r *Result, answer bool, index func(*access.List)) *Multi {
	r.reset(wire.OpMulti)
	m := &Multi{tree: t, tx: tx, answer: answer}
	changes := 0
	for i := range tx.Multi {
		switch op := &tx.Multi[i]; op.Type {
		case wire.OpError:
			m.failed = true
			if answer {
				m.left = tx.Multi
			}
			return m
		case wire.OpCheck:
		default:
			changes++
			t.acls.prepare(op.ACL, index)
		}
	}
	m.left = tx.Multi
	if changes > 0 {
		m.findChanges(changes)
	}
	return m
}

// findChanges finds what the operations change; n of them are no checks. It makes memory ready for what they create.
func (m *Multi) findChanges(n int) {
	m.tree.changes = newPathSet(m.tree.changes, 2*n)
	m.changed = m.tree.changes
	created, bytes := 0, 0
	for i := range m.left {
		op := &m.left[i]
		if op.Type == wire.OpCheck {
			continue
		}
		m.changed.add(m.tree.hashAt(op.Path))
		parent, name, ok := split(op.Path)
		if ok && op.Type != wire.OpSetData && op.Type != wire.OpSetACL {
			m.changed.add(m.tree.hashAt(parent))
		}
		switch op.Type {
		case wire.OpCreate, wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL:
			created++
			bytes += slotBytes(len(name) + len(op.Data))
		}
	}
	m.tree.makeReady(created, bytes)
}

// Next applies one piece. It sets r.Multi to the results of its operations, and r.Events to
// its events, which the caller must fire before it releases the tree's lock. done means that
// no operation is left. Of a multi that failed it reports a piece of the results and applies nothing.
func (m *Multi) Next(r *Result) (done bool) {
	r.Events, r.Multi = r.Events[:0], r.Multi[:0]
	if m.failed {
		n := min(len(m.left), PieceUnits)
		appendUndone(m.left[:n], r)
		m.left = m.left[n:]
		return len(m.left) == 0
	}
	t := m.tree
	t.state++
	for work := 0; work < PieceUnits && len(m.left) > 0; {
		op := &m.left[0]
		m.left = m.left[1:]
		t.recounts.work = PieceUnits - work
		if o := t.applyOp(&m.tx.Header, op, r); m.answer {
			r.Multi = append(r.Multi, o)
		}
		work = PieceUnits - t.recounts.work + m.workOf(op)
	}
	return len(m.left) == 0
}

// workOf estimates the work of an operation. A check looks at nothing.
func (m *Multi) workOf(op *txn.Op) int {
	if op.Type == wire.OpCheck {
		return 1
	}
	return deleteWork + BytesUnits(len(op.Path)+len(op.Data))
}

// End makes the multi the last transaction of the tree.
// REQUIRES: Next has returned true.
func (m *Multi) End(r *Result) {
	r.Events = r.Events[:0]
	m.tree.lastZxid = max(m.tree.lastZxid, m.tx.Zxid)
}

// Changes reports whether the multi changes the znode at path, or the list of its
// children. It may report true for a few others.
func (m *Multi) Changes(path string) bool { return m.changed.has(m.tree.hashAt(path)) }

// hashAt returns the hash of a path, the same for both names of the root.
func (t *Tree) hashAt(path string) uint64 { return t.index.hash(strings.TrimSuffix(path, "/")) }

// pathSet is a set of hashes of paths, with open addressing and linear probing.
type pathSet []uint64

// newPathSet returns an empty set with room for n hashes, in the memory of old, which is not used any more, if that is large
// enough and not much too large.
func newPathSet(old pathSet, n int) pathSet {
	size := 8
	for size < n+n/2 {
		size *= 2
	}
	if size > cap(old) || cap(old) > 8*size {
		return make(pathSet, size)
	}
	clear(old[:size])
	return old[:size]
}

// place returns the slot that has the hash, or the empty one where it belongs. Slots that
// are empty have 0: the hash 0 counts as 1.
func (s pathSet) place(hash uint64) (slot *uint64, as uint64) {
	as = max(hash, 1)
	mask := uint64(len(s) - 1)
	i := as & mask
	for s[i] != 0 && s[i] != as {
		i = (i + 1) & mask
	}
	return &s[i], as
}

func (s pathSet) add(hash uint64) {
	slot, as := s.place(hash)
	*slot = as
}

func (s pathSet) has(hash uint64) bool {
	if len(s) == 0 {
		return false
	}
	slot, _ := s.place(hash)
	return *slot != 0
}
