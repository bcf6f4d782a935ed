package znode

import (
	"math/bits"
	"strings"

	"github.com/pinfold-zk/pinfold/internal/access"
	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// deleteWork is the work of deleting a znode and of looking up its watches.
const deleteWork = 4

// A Close applies a closeSession in pieces, between which the tree may be read: a session
// can have a million ephemerals, and all later writes wait for it. It deletes the listed
// paths in order, then all other ephemerals of the session, at one zxid. Until the last
// piece the tree's LastZxid remains the previous one, and the tree's digest contains what
// was deleted.
//
// An ephemeral is deleted without the work that is the same for all:
//
//   - The digest of all of them is known (idSet.digest), and subtracted once.
//   - They are deleted in the order of descending IDs, in which most are the last of their
//     parent's list of children. What concerns the parent alone is done once for
//     ephemerals that follow each other.
//   - Their entries of the index are removed in one pass over the index, if they are a large
//     part of it. Until then an entry may have the ID of a deleted znode, which isAt rejects;
//     these IDs are not used again before.
//   - A path is built only if something wants to know it.
type Close struct {
	tree  *Tree
	h     *txn.Header
	paths []string
	set   *idSet // of the session, nil if it has none
	words []ID   // keys of the words of set that are left, ascending
	parent
	run [wordBits]uint64 // hashes of the paths of the present word

	dead []uint64 // for each word of IDs those that the index may still have; nil: it has none
	part int      // the first part of the index that may have any

	free, lastFree ID // deleted znodes, as in nodeTable.free
	freed          int

	settle  bool   // words are those of znodes that remain
	remains uint64 // digest of the znodes that remain

	buf     []byte // a path
	fetched uint32 // what peek has read; its value does not matter
}

// parent is the parent of the ephemerals that are being deleted.
type parent struct {
	id      ID     // 0: there is none
	path    string // "" for the root
	alone   bool   // its children are deleted by endEphemeral: it may end with them, or is a system znode
	changed bool   // an event of its children is wanted
	acl     *access.List
	quota   string // the nearest quota at or above it, "" if there is none
	bytes   int64  // not discharged yet
	count   int64
}

// Wants tells a Close which events are wanted. It is called under the tree's lock; path is
// valid during the call only.
type Wants func(ev zk.EventType, path string) bool

// BeginClose returns the Close of tx if tx is a closeSession that takes more than one
// piece, otherwise nil: Apply is then called as usual. It needs no lock.
// REQUIRES: the caller is the caller of Apply.
func (t *Tree) BeginClose(tx *txn.Txn) *Close {
	if tx.Header.Type != wire.OpCloseSession || deleteWork*t.EphemeralsOf(tx.Session) < PieceUnits {
		return nil
	}
	// The keys are sorted, so that their order is the same whenever the tree's history is.
	c := &Close{tree: t, h: &tx.Header, paths: tx.Paths, set: t.ephemerals[tx.Session]}
	c.words = c.set.keys()
	if t.index.size() <= sweepFactor*c.set.n {
		c.dead = make([]uint64, t.nodes.fresh/wordBits+1)
	}
	return c
}

// sweepFactor is how many entries of the index a pass may look at for each that it removes:
// removing an entry alone takes about as long as looking at so many.
const sweepFactor = 8

// Next applies one piece and fills r, with those events that are wanted; nil: none is. The
// caller must fire them before it releases the tree's lock. done means that the session is
// removed.
func (c *Close) Next(r *Result, wants Wants) (done bool) {
	r.reset(wire.OpCloseSession)
	t := c.tree
	t.state++
	defer c.leaveParent() // others may read the quota after a piece, and ask for events
	for work := 0; work < PieceUnits; {
		switch {
		case len(c.paths) > 0:
			t.applyDelete(c.h.Zxid, c.paths[0], r, nil)
			c.paths = c.paths[1:]
			work += deleteWork
		case len(c.words) > 0:
			at := c.words[len(c.words)-1]
			c.words = c.words[:len(c.words)-1]
			if c.settle {
				work += c.settleWord(at)
			} else {
				work += c.deleteWord(at, r, wants)
			}
		case c.dead != nil && c.part < len(t.index.parts):
			work += t.index.parts[c.part].sweep(c.dead)
			c.part++
		case !c.settle:
			c.release()
			c.words, c.settle = c.set.keys(), true
		default:
			t.digest -= c.set.digest - c.remains
			c.set.digest = c.remains
			delete(t.sessions, c.h.Session)
			t.lastZxid = max(t.lastZxid, c.h.Zxid)
			return true
		}
	}
	return false
}

// release lets the tree use the IDs of the deleted znodes again.
func (c *Close) release() {
	if c.free != 0 {
		t := &c.tree.nodes
		t.at(c.lastFree).parent, t.free = t.free, c.free
		t.freed += c.freed
	}
}

// deleteWord deletes the ephemerals of a word of the set, and returns the work done.
func (c *Close) deleteWord(at ID, r *Result, wants Wants) (work int) {
	t := c.tree
	word := c.set.words[at]
	if c.dead == nil {
		c.fetch(at, word)
		work = deleteWork * bits.OnesCount64(word)
	}
	var deleted uint64
	var size int64
	for left := word; left != 0; {
		bit := bits.Len64(left) - 1
		left &^= 1 << bit
		id := at*wordBits + ID(bit)
		n := t.nodes.at(id)
		if n.slot == freeSlot || n.owner != int64(c.h.Session) {
			continue // it ended with a child
		}
		work++
		if n.parent != c.parent.id {
			work += c.enterParent(n.parent, wants)
		}
		if c.alone || c.parent.id == rootID && IsSystem(c.pathOf(n)) || n.kids != 0 || len(t.quotas) > 0 && t.hasQuota(c.pathOf(n)) {
			c.leaveParent()
			path := t.Path(id)
			above, _, _ := split(path)
			work += deleteWork * (1 + t.endEphemeral(c.h, id, path, above, r))
			continue
		}
		if wants != nil {
			c.event(n, r, wants)
		}
		if c.dead == nil {
			t.index.remove(c.run[bit], id)
		}
		size += c.deleteLeaf(id, n)
		deleted |= 1 << bit
	}
	if deleted != 0 {
		c.forget(at, deleted, size)
	}
	return work
}

// fetch loads the entries of the index of a word of the set into the processor's caches: the
// reads do not wait for each other.
func (c *Close) fetch(at ID, word uint64) {
	t := c.tree
	for left := word; left != 0; left &= left - 1 {
		bit := bits.TrailingZeros64(left)
		c.buf = t.AppendPath(c.buf[:0], at*wordBits+ID(bit))
		c.run[bit] = t.index.hash(stringOf(c.buf))
		c.fetched += t.index.peek(c.run[bit])
	}
}

// enterParent makes id the parent of the ephemerals that are deleted next.
func (c *Close) enterParent(id ID, wants Wants) (work int) {
	t := c.tree
	c.leaveParent()
	path := ""
	if id != rootID {
		path = t.Path(id)
	}
	c.parent = parent{id: id, path: path, quota: t.QuotaPath(path)}
	c.alone = path == systemPath || strings.HasPrefix(path, systemPrefix) || t.IsEphemeralOf(id, c.h.Session)
	if c.alone {
		return deleteWork
	}
	if wants != nil && wants(zk.EventNodeChildrenChanged, rooted(path)) {
		c.changed, c.acl = true, t.ACL(id)
	}
	t.touch(id, path, c.h.Zxid)
	return deleteWork
}

// leaveParent discharges the quota, and forgets the parent.
func (c *Close) leaveParent() {
	if c.quota != "" && c.count > 0 {
		bytes, count := c.bytes, c.count
		c.tree.changeStats(c.quota, func(s *Quota) { s.Bytes -= bytes; s.Count -= count })
	}
	c.parent = parent{}
}

// pathOf returns the path of n, a child of the parent. It is valid until the next call.
func (c *Close) pathOf(n *node) string {
	c.buf = append(append(append(c.buf[:0], c.path...), '/'), c.tree.name(n)...)
	return stringOf(c.buf)
}

// event adds the wanted events of the deletion of n.
func (c *Close) event(n *node, r *Result, wants Wants) {
	if path := c.pathOf(n); wants(zk.EventNodeDeleted, path) {
		r.Events = append(r.Events, Change{zk.EventNodeDeleted, strings.Clone(path), c.tree.acls.list(n.acl)})
	}
	if c.changed {
		r.Events = append(r.Events, Change{zk.EventNodeChildrenChanged, rooted(c.path), c.acl})
	}
}

// deleteLeaf deletes the znode id, a child of the parent and without children. It leaves the
// index to the caller, the sums and the set to forget, and the free list to release. It returns the
// bytes of path and data.
func (c *Close) deleteLeaf(id ID, n *node) (size int64) {
	t := c.tree
	data := int64(max(n.dataLen, 0))
	size = int64(len(c.path)+1+int(n.nameLen)) + data
	c.bytes += data
	c.count++
	t.noteUsage(id, -data, -1)
	t.dropTarget(id)
	t.unlink(n)
	t.arena.release(n.blob)
	t.acls.release(n.acl)
	*n = node{slot: freeSlot, parent: c.free}
	if c.free == 0 {
		c.lastFree = id
	}
	c.free = id
	c.freed++
	return size
}

// forget takes what deleteLeaf has deleted of a word, with the size of it, out of the sums and the set.
func (c *Close) forget(at ID, deleted uint64, size int64) {
	t, n := c.tree, bits.OnesCount64(deleted)
	t.count -= n
	t.ephCount -= n
	t.size -= size
	if c.dead != nil {
		c.dead[at] = deleted
	}
	if c.set.removeAll(at, deleted); c.set.n == 0 {
		delete(t.ephemerals, c.h.Session)
	}
}

// settleWord counts the digests of ephemerals that remain, because they have children or are system
// znodes, and returns the work done.
func (c *Close) settleWord(at ID) (work int) {
	t := c.tree
	for left := c.set.words[at]; left != 0; left &= left - 1 {
		id := at*wordBits + ID(bits.TrailingZeros64(left))
		if work += deleteWork; !t.opts.NoDigest && InDigest(t.Path(id)) {
			n := t.nodes.at(id)
			m := n.mode()
			c.remains += uint64(m.Digest(n.sum, &t.scratch))
		}
	}
	return work
}

// WorkOf estimates the work of applying tx, whose encoding has encoded bytes.
func WorkOf(tx *txn.Txn, encoded int) int {
	return deleteWork*(1+len(tx.Multi)+len(tx.Paths)) + BytesUnits(encoded)
}
