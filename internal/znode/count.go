package znode

import (
	"slices"

	"github.com/pinfold-zk/pinfold/zk"
)

// A Count counts the descendants of a znode, in pieces between which transactions may be
// applied. A znode that exists all the time is counted once. One that is created or deleted
// meanwhile may or may not be counted; Apache's count has the same property.
//
// Next needs the tree's read lock; the lock may be released between the calls.
type Count struct {
	tree  *Tree
	stack []countFrame
	n     int
}

// countFrame is a znode whose children are being counted. Its czxid distinguishes it from
// a later znode of the same ID.
type countFrame struct {
	id    ID
	czxid zk.Zxid
	kids  []ID // as they were when the frame was pushed
}

// CountBelow begins to count the znodes below id.
func (t *Tree) CountBelow(id ID) *Count {
	c := &Count{tree: t}
	c.push(id)
	return c
}

func (c *Count) push(id ID) {
	n := c.tree.nodes.at(id)
	if kids := c.tree.kids[n.kids]; len(kids) > 0 {
		c.stack = append(c.stack, countFrame{id, n.czxid, slices.Clone(kids)})
	}
}

// Next continues for about limit units of work, and returns the work done. done means
// that the count is complete; n is the result.
func (c *Count) Next(limit int) (n, work int, done bool) {
	for ; len(c.stack) > 0; work++ {
		if work >= limit {
			return c.n, work, false
		}
		f := &c.stack[len(c.stack)-1]
		if len(f.kids) == 0 || !c.tree.is(f.id, f.czxid) {
			c.stack = c.stack[:len(c.stack)-1]
			continue
		}
		kid := f.kids[len(f.kids)-1]
		f.kids = f.kids[:len(f.kids)-1]
		if n := c.tree.nodes.at(kid); n.slot == freeSlot || n.parent != f.id {
			continue
		}
		c.n++
		c.push(kid)
		work += BytesUnits(4 * len(c.tree.kids[c.tree.nodes.at(kid).kids]))
	}
	return c.n, work, true
}
