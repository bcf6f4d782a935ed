package znode

import "github.com/pinfold-zk/pinfold/zk"

// A Count counts the descendants of a znode, in pieces between which transactions may be
// applied. A znode that exists all the time is counted once. One that is created or deleted
// meanwhile may or may not be counted; Apache's count has the same property.
//
// A small subtree is walked. For a large one the Count goes over the node table, since the
// ID of a znode does not change and a list of children does: it needs little memory, and is
// complete after one pass, whatever the depth of the znodes.
//
// Next needs the tree's read lock; the lock may be released between the calls.
type Count struct {
	tree  *Tree
	top   ID
	czxid zk.Zxid
	next  ID // the first znode that the pass has not seen; 0: there is no pass yet
	n     int
	known *ancestry // nil: there is no pass yet
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
	c.next, c.known = rootID, new(ancestry)
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
			var steps int
			parent = z.parent
			inside, steps = c.known.inside(t, c.top, parent)
			work += steps
		}
		if inside {
			c.n++
		}
	}
	return c.n, work, true
}

// An ancestry knows of some znodes whether they are a certain one or below it. Without it, the count of a deep
// subtree would go from every znode up to the top. Of the znodes that share a place it knows the last one, so it needs
// little memory, and the way up from any znode is short on average.
//
// It remains right for the ancestors of a znode that exists all the time, since these exist all the time too. For others
// it may be wrong: their IDs may have been used again.
type ancestry [256]ancestor

type ancestor struct {
	id     ID
	inside bool
}

// at returns the place for what is known of id. IDs at equal distances get different ones.
func (known *ancestry) at(id ID) *ancestor { return &known[uint32(id)*2654435769>>24] }

// inside reports whether id is top or below it, and returns how many znodes it has looked at.
func (known *ancestry) inside(t *Tree, top, id ID) (inside bool, steps int) {
	end := id
	for ; end != 0 && end != top; end = t.nodes.at(end).parent {
		steps++
		if k := known.at(end); k.id == end {
			inside = k.inside
			break
		}
	}
	inside = inside || end == top
	each := 1 + steps/4 // what is known is to be spread over the way: the znodes of a long one would replace all others
	for i := 0; id != end; i, id = i+1, t.nodes.at(id).parent {
		if i%each == 0 {
			k := known.at(id)
			k.id, k.inside = id, inside
		}
	}
	return inside, steps
}
