package znode

import (
	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/wire"
)

// deleteWork is the work of deleting a znode and of looking up its watches.
const deleteWork = 4

// A Close applies a closeSession in pieces, between which the tree may be read: a session
// can have a million ephemerals. It deletes the listed paths in order, then all other
// ephemerals of the session, at one zxid. Until the last piece the tree's LastZxid remains
// the previous one.
type Close struct {
	tree  *Tree
	h     *txn.Header
	paths []string
	ids   []ID // what is left of the session, if it is much

	run     [closeRun]struct{ path, parent string } // of the next of ids
	hashes  [closeRun]uint64
	fetched uint32 // what peek has read; its value does not matter
}

// closeRun is how many entries of the index are loaded into the processor's caches before
// the first of them is removed: the reads do not wait for each other.
const closeRun = 64

// BeginClose returns the Close of tx if tx is a closeSession that takes more than one
// piece, otherwise nil: Apply is then called as usual. It needs no lock.
// REQUIRES: the caller is the caller of Apply.
func (t *Tree) BeginClose(tx *txn.Txn) *Close {
	if tx.Header.Type != wire.OpCloseSession || deleteWork*t.EphemeralsOf(tx.Session) < PieceUnits {
		return nil
	}
	// The IDs are sorted, so that their order is the same whenever the tree's history is.
	return &Close{tree: t, h: &tx.Header, paths: tx.Paths, ids: t.ephemerals[tx.Session].sorted()}
}

// Next applies one piece and fills r. The caller must fire r's events before it releases
// the tree's lock. done means that the session is removed.
func (c *Close) Next(r *Result) (done bool) {
	r.reset(wire.OpCloseSession)
	for work := 0; work < PieceUnits; {
		switch {
		case len(c.paths) > 0:
			c.tree.applyDelete(c.h.Zxid, c.paths[0], r, nil)
			c.paths = c.paths[1:]
			work += deleteWork
		case len(c.ids) > 0:
			work += deleteWork * c.deleteRun(r)
		default:
			delete(c.tree.sessions, c.h.Session)
			c.tree.lastZxid = max(c.tree.lastZxid, c.h.Zxid)
			return true
		}
	}
	return false
}

// deleteRun deletes the next closeRun ephemerals, and returns the number of those it has visited or deleted.
func (c *Close) deleteRun(r *Result) (n int) {
	t, ids := c.tree, c.ids[:min(closeRun, len(c.ids))]
	c.ids = c.ids[len(ids):]
	for i, id := range ids {
		if t.IsEphemeralOf(id, c.h.Session) {
			next := &c.run[i]
			next.path = t.Path(id)
			next.parent, _, _ = split(next.path)
			c.hashes[i] = t.index.hash(next.path)
		}
	}
	for _, hash := range c.hashes[:len(ids)] {
		c.fetched += t.index.peek(hash)
	}
	for i, id := range ids {
		if t.IsEphemeralOf(id, c.h.Session) {
			n += t.endEphemeral(c.h, id, c.run[i].path, c.run[i].parent, r)
		}
	}
	return max(n, len(ids))
}

// WorkOf estimates the work of applying tx, whose encoding has encoded bytes.
func WorkOf(tx *txn.Txn, encoded int) int {
	return deleteWork*(1+len(tx.Multi)+len(tx.Paths)) + BytesUnits(encoded)
}
