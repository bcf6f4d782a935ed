package server

import (
	"github.com/pinfold-zk/pinfold/internal/access"
	"github.com/pinfold-zk/pinfold/internal/replica"
	"github.com/pinfold-zk/pinfold/internal/watch"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/internal/znode"
	"github.com/pinfold-zk/pinfold/zk"
)

// Reads share the tree's lock, and the applier waits for all of them. So the connection
// counts the work that it does under one hold of the lock (mu.work), and bounds it by
// znode.PieceUnits: a turn ends when a piece is complete, and a single request that takes
// more work pauses.
//
// The applier answers reads that follow pending writes of their session, and cannot pause.
// Reads that may be expensive, or long, are not queued for it: the connection stops in
// front of them until the writes are answered (awaitAnswered).

// pause releases the tree's lock and c.mu if a whole piece of work was done under them,
// and acquires them again. It reports false if the request must not be answered any more.
// REQUIRES: c.mu and the tree's lock.
func (c *conn) pause(t replica.View) bool { return c.mu.work < znode.PieceUnits || c.rest(t, nil) }

// fitsPiece reports whether n units of work, which are done in one piece, may be added to the present one. REQUIRES: c.mu.
func (c *conn) fitsPiece(n int) bool {
	return c.mu.forced || c.mu.work < znode.PieceUnits/2 || c.mu.work+n <= znode.PieceUnits
}

// rest releases the tree's lock and c.mu, calls work unless it is nil, and acquires the
// locks again. work gets the reply that is being built, and returns it with its additions.
// The applier keeps its locks. rest reports false if the request must not be answered any
// more. REQUIRES: c.mu and the tree's lock.
func (c *conn) rest(t replica.View, work func(reply []byte) []byte) bool {
	if c.mu.forced {
		if work != nil {
			c.mu.out.Buf = work(c.mu.out.Buf)
		}
		return true
	}
	reply := c.putAside()
	c.endPiece()
	c.mu.Unlock()
	same := t.Pause(func() {
		if work != nil {
			reply = work(reply)
		}
	})
	c.mu.Lock()
	if !same || c.mu.closed {
		c.mu.aside, c.mu.apart = nil, false
		c.killLocked("the tree is another one")
		return false
	}
	c.mu.aside, c.mu.out.Buf = c.mu.out.Buf, reply
	return true
}

// ownPath returns a path that a watch may keep, as AddWatch wants it: a copy that is made without the locks, if path is long.
// After that the caller looks up its znode. ok is false if the request must not be answered any more. A read with a
// long path is never left to the applier. REQUIRES: c.mu and the tree's lock.
func (c *conn) ownPath(t replica.View, path string) (own string, ok bool) {
	if len(path) < watch.LongPath {
		return path, true
	}
	copied := ""
	ok = c.rest(t, func(reply []byte) []byte { copied = c.s.cloneLong(path); return reply })
	return copied, ok
}

// whole waits until the View shows path, and the children of path, as one transaction left
// them. False means that the request must not be answered any more.
// REQUIRES: c.mu and the tree's lock.
func (c *conn) whole(t replica.View, path string) bool {
	return t.AnyChanging() == nil || c.awaitPath(t, path)
}

// awaitPath waits for whole.
func (c *conn) awaitPath(t replica.View, path string) bool {
	return c.awaitWhole(t, func() <-chan struct{} { return t.Changing(path) })
}

// awaitWhole waits, without the locks, as long as changing returns a channel that is not
// closed. The applier never meets one: no transaction is being applied while it reads.
func (c *conn) awaitWhole(t replica.View, changing func() <-chan struct{}) bool {
	for part := changing(); part != nil; part = changing() {
		if !c.rest(t, func(reply []byte) []byte { <-part; return reply }) {
			return false
		}
	}
	return true
}

// putAside removes the reply that is being built from the output: other goroutines append
// to the output while c.mu is released.
func (c *conn) putAside() (reply []byte) {
	out := &c.mu.out
	c.mu.stats.reads.endReply(c.s.stats.readsBy, len(out.Buf))
	if c.mu.apart {
		reply, out.Buf, c.mu.aside = out.Buf, c.mu.aside, nil
		return reply
	}
	c.mu.apart = true
	if c.mu.begin == 0 { // with its room: a copy would be made again as it grows
		reply, out.Buf = out.Buf, nil
		return reply
	}
	reply = append([]byte(nil), out.Buf[c.mu.begin:]...)
	out.Buf, c.mu.begin = out.Buf[:c.mu.begin], 0
	return reply
}

// dropReply drops the reply that is being built.
func (c *conn) dropReply() {
	out := &c.mu.out
	switch {
	case c.mu.closed:
		out.Buf = nil
	case c.mu.apart:
		out.Buf = c.mu.aside
	default:
		out.Buf = out.Buf[:c.mu.begin]
	}
	if c.mu.apart, c.mu.aside = false, nil; len(out.Buf) == 0 {
		out.Buf = nil // it may be large, and is not charged
	}
}

// rejoin appends a reply that was put aside to the output, which others may have appended
// to, and returns where in out.Buf the reply begins. A large reply is not copied: what is before it becomes a
// buffer of its own.
func (c *conn) rejoin() (at int) {
	if !c.mu.apart {
		return c.mu.begin
	}
	reply, out := c.mu.out.Buf, &c.mu.out
	out.Buf, c.mu.aside, c.mu.apart = c.mu.aside, nil, false
	switch at = len(out.Buf); {
	case at == 0:
		out.Buf = reply
	case len(reply) > largeReply:
		out.Split()
		out.Buf, at = reply, 0
	default:
		out.Buf = append(out.Buf, reply...)
	}
	return at
}

// endPiece starts the count of the next piece of work. REQUIRES: c.mu.
func (c *conn) endPiece() {
	if c.s.pieceDone != nil {
		c.s.pieceDone(c.mu.work)
	}
	c.mu.work = 0
}

// pathUnit is how many bytes of a path are a unit of work: a look-up hashes them, and
// compares the names of the znodes on the path.
const pathUnit = 64

// checkWork is the work of a look at a znode and of a check of its ACL: of an identity up to 0.1 µs, which is what the look-up in a
// long ACL takes.
func checkWork(path string, ids []zk.ID) int { return 1 + len(path)/pathUnit + len(ids)/4 }

// index builds the index of a long ACL, without the lock. again means that the lock was
// released: the caller must look up its znode again, and check whether c is closed.
func (c *conn) index(t replica.View, l *access.List) (again bool) {
	if !c.s.auth.NeedsIndex(l) {
		return false
	}
	if l.Len() < znode.PieceUnits/8 {
		c.s.auth.Index(l)
		c.mu.work += l.Len() / 4
		return false
	}
	c.rest(t, func(reply []byte) []byte { c.s.auth.Index(l); return reply })
	return true
}

// isExpensive reports whether a read may take more than a piece of work.
func isExpensive(op wire.OpCode) bool {
	switch op {
	case wire.OpMultiRead, wire.OpGetAllChildrenNumber, wire.OpGetEphemerals, wire.OpSetWatches, wire.OpSetWatches2:
		return true
	}
	return false
}
