package server

import (
	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/replica"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/internal/znode"
	"github.com/pinfold-zk/pinfold/zk"
)

// appendNames appends the result of a getChildren in a multiRead. It copies the names in pieces, and
// pauses between them; id is the znode at path. The list is the state at its last piece: if a child is created or
// deleted meanwhile, the list begins again, and after longTries of them it is built under one hold of the lock.
//
// If the code is not OK, nothing was appended. fits is false if the reply has become longer than hardOutBytes. The
// caller must check c.mu.closed and c.mu.short: with these the result is not complete.
// REQUIRES: c.mu and the tree's lock.
func (c *conn) appendNames(t replica.View, q *request, path string, id znode.ID) (fits bool, code zk.Code) {
	start := len(c.mu.out.Buf) - c.mu.begin
	for tries := 1; ; tries++ {
		c.mu.out.Buf = c.mu.out.Buf[:c.mu.begin+start]
		c.mu.out.Buf = wire.MultiHeader{Type: wire.OpGetChildren}.Append(c.mu.out.Buf)
		c.mu.out.Buf = jute.AppendInt(c.mu.out.Buf, int32(t.NumChildren(id)))
		for first, next := t.Mode(id), 0; ; {
			var more int
			next, more = c.appendNamesFrom(t, id, next, tries > longTries)
			switch {
			case next == t.NumChildren(id):
				return true, zk.OK
			case len(c.mu.out.Buf)-c.mu.begin+more > hardOutBytes:
				return false, zk.OK
			case more > 0 && !c.enlargeBy(t, max(more, len(c.mu.out.Buf))), more == 0 && !c.rest(t, nil):
				return true, zk.OK
			}
			was := id
			if id, code = c.find(t, q, path); code != zk.OK { // the lock was released
				c.mu.out.Buf = c.mu.out.Buf[:c.mu.begin+start]
				return true, code
			}
			if m := t.Mode(id); id != was || m.Czxid != first.Czxid || m.Pzxid != first.Pzxid || m.Cversion != first.Cversion {
				break
			}
		}
	}
}

// appendNamesFrom appends the names of children from the next on, and returns the first that is left: at the end of a
// piece of work, unless whole; or at a name for which a large reply has no place, the
// bytes of which it returns too. REQUIRES: c.mu and the tree's lock.
func (c *conn) appendNamesFrom(t replica.View, id znode.ID, next int, whole bool) (left, more int) {
	from := next
	left = t.ChildrenFrom(id, next, func(name string) bool {
		n := 4 + len(name)
		work := 1 + znode.BytesUnits(n)
		if next > from && !whole && c.mu.work+work > znode.PieceUnits {
			return false
		}
		if c.lacks(n) {
			if len(c.mu.out.Buf)+n > largeReply {
				more = n
				return false
			}
			work += znode.BytesUnits(len(c.mu.out.Buf)) // it is copied
		}
		c.mu.work += work
		c.mu.out.Buf = jute.AppendString(c.mu.out.Buf, name)
		next++
		return true
	})
	return left, more
}
