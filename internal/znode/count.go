package znode

import "github.com/pinfold-zk/pinfold/zk"

// A Count counts the descendants of a znode, in pieces between which transactions may be
// applied. A znode that exists all the time is counted once. One that is created or deleted
// meanwhile may or may not be counted; Apache's count has the same property.
//
// A small subtree is walked. For a large one the Count goes over the node table, since the
// ID of a znode does not change and a list of children does: it needs no memory, and is
// complete after one pass.
//
// Next needs the tree's read lock; the lock may be released between the calls.
type Count struct {
	tree  *Tree
	top   ID
	czxid zk.Zxid
	next  ID // the first znode that the pass has not seen; 0: there is no pass yet
	n     int
}

// CountBelow begins to count the znodes below id.
func (t *Tree) CountBelow(id ID) *Count {
	return &Count{tree: t, top: id, czxid: t.nodes.at(id).czxid}
}

// Next continues for about limit units of work, and returns the work done. done means
// that the count is complete; n is the result.
func (c *Count) Next(limit int) (n, work int, done bool) {
	switch {
	case c.top == rootID:
		return c.tree.count - 1, 1, true
	case c.next > 0:
		return c.pass(limit)
	}
	left := limit
	if n, ok := c.tree.countSubtree(c.top, &left); ok {
		return n, limit - left, true
	}
	c.next = rootID
	return 0, limit, false
}

// countSubtree counts the znodes below id. It gives up when it has done *left units.
func (t *Tree) countSubtree(id ID, left *int) (n int, ok bool) {
	kids := t.kids[t.nodes.at(id).kids]
	if *left -= 1 + len(kids); *left < 0 {
		return 0, false
	}
	n = len(kids)
	for _, k := range kids {
		if t.nodes.at(k).kids == 0 {
			continue
		}
		below, ok := t.countSubtree(k, left)
		if !ok {
			return 0, false
		}
		n += below
	}
	return n, true
}

// pass goes over a piece of the node table.
func (c *Count) pass(limit int) (n, work int, done bool) {
	t := c.tree
	if !t.is(c.top, c.czxid) {
		return c.n, 1, true // it was deleted
	}
	parent, inside := ID(0), false // of the previous znode
	for ; c.next < t.nodes.fresh; c.next++ {
		if work++; work > limit {
			return c.n, work, false
		}
		z := t.nodes.at(c.next)
		if z.slot == freeSlot || c.next == rootID {
			continue
		}
		if z.parent != parent {
			parent, inside = z.parent, false
			for id := parent; id != 0 && !inside; id = t.nodes.at(id).parent {
				inside = id == c.top
				work++
			}
		}
		if inside {
			c.n++
		}
	}
	return c.n, work, true
}
