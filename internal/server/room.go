package server

import (
	"strings"
	"time"
	"unsafe"

	"github.com/pinfold-zk/pinfold/internal/auth"
	"github.com/pinfold-zk/pinfold/internal/rawio"
	"github.com/pinfold-zk/pinfold/internal/replica"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/internal/znode"
	"github.com/pinfold-zk/pinfold/zk"
)

// A large reply is charged to the server's budget of buffers (socket.Budget) before it is
// built; long.go has the very large ones. If there is no room, the connection does not
// build the reply: the request remains in the input, and the connection sends its output,
// waits for room, and answers the request again. The connection that holds most waits
// first. Replies of at most largeReply bytes never wait.
//
// The applier builds the replies to reads that have waited for the session's own writes.
// It must not wait, so these replies are charged without waiting. They were charged, as far
// as they could be foreseen, when the reads were queued (pendingFits).

const (
	largeReply   = 64 << 10         // bytes from which a reply needs room
	roomPatience = 10 * time.Second // how long a reply waits for room
)

// room reports whether there is room for n more bytes of output, and reserves it
// until the output is flushed. If there is none, mu.short is set. REQUIRES: c.mu.
func (c *conn) room(n int) bool {
	want := len(c.mu.out.Buf) + len(c.mu.aside) + c.mu.shared + n
	switch {
	case want <= largeReply, want <= c.mu.reserved:
		return true
	case c.mu.forced: // the applier never waits
		c.account.Charge(want - c.mu.reserved)
	case !c.account.Grow(want - c.mu.reserved):
		c.mu.short = want
		return false
	}
	c.mu.reserved = want
	return true
}

// resultBytes is how many bytes the result of an operation in a multiRead has besides data or
// names, with the end of the list.
const resultBytes = 2*9 + 4 + wire.StatLen

// mostCounted is how many children are looked at to foresee the length of their names.
const mostCounted = 512

// lacks reports whether the buffer of the output has no place for n more bytes, so that to append them copies it.
func (c *conn) lacks(n int) bool { return cap(c.mu.out.Buf)-len(c.mu.out.Buf) < n }

// outgrows reports whether the buffer of a large reply has no place for the result of an operation on a znode, as far as
// it can be foreseen.
func (c *conn) outgrows(t replica.View, id znode.ID, op wire.OpCode) bool {
	n := c.foresee(t, id, op)
	return len(c.mu.out.Buf)+n > largeReply && c.lacks(n)
}

// foresee returns how many bytes the result of a getData, or of an operation in a multiRead, will have: at most, unless there are more than
// mostCounted children.
func (c *conn) foresee(t replica.View, id znode.ID, op wire.OpCode) (n int) {
	switch count := t.NumChildren(id); {
	case op == wire.OpGetData:
		n = t.DataLen(id)
	case count > mostCounted:
		n = 16 * count
	default:
		t.Children(id, func(name string) { n += 4 + len(name) })
		c.mu.work += count / 4
	}
	return resultBytes + n
}

// enlarge gives the reply to a multiRead a buffer for the results of ops, as far as they can be foreseen:
// without the locks, since what is in the buffer is copied, and new memory comes page by page. The first of ops
// is on the znode id. False means that the request must not be answered now: there is
// no room, or it has ended. Otherwise the lock was released: the caller must look up its znode again.
// REQUIRES: c.mu and the tree's lock.
func (c *conn) enlarge(t replica.View, ops []wire.MultiOp, id znode.ID) bool {
	first, all := c.foresee(t, id, ops[0].Type), 0
	for i := 0; i < len(ops) && all <= hardOutBytes; i++ { // beyond, the connection will be closed, unless something changes
		if id := t.Lookup(ops[i].Path); id != 0 {
			all += c.foresee(t, id, ops[i].Type)
		} else {
			all += resultBytes
		}
		if c.mu.work += 1 + len(ops[i].Path)/pathUnit; !c.pause(t) {
			return false
		}
	}
	all = max(all, first)
	now := len(c.mu.out.Buf) + len(c.mu.aside)
	if c.enlargeBy(t, all) {
		return true
	}
	if c.mu.short > 0 {
		c.mu.short = max(now+first, min(now+all, c.s.budget.Most()))
	}
	return false
}

// enlargeBy gives the reply that is being built a buffer with place for n more bytes, without the locks. What it
// returns means the same as that of enlarge. REQUIRES: c.mu and the tree's lock.
func (c *conn) enlargeBy(t replica.View, n int) bool {
	buffer := c.s.newLargeBuffer
	if c.mu.forced { // the applier never waits
		buffer = rawio.Populated
	}
	return c.room(n+largeReply/2) && c.rest(t, func(reply []byte) []byte {
		return append(buffer(len(reply)+n), reply...)
	})
}

// newLargeBuffer returns an empty buffer for a large reply of n bytes, new or kept. Such buffers are made in turns: they make
// collections of garbage frequent. REQUIRES: no lock is held.
func (s *Server) newLargeBuffer(n int) []byte {
	place := s.making.begin()
	defer place.end()
	if kept := s.spare.Get(n); kept != nil {
		return kept
	}
	return rawio.Populated(n)
}

// cloneLong is strings.Clone for a string that is as long as a large reply, under the same conditions.
func (s *Server) cloneLong(long string) string {
	place := s.making.begin()
	defer place.end()
	return strings.Clone(long)
}

// spareBytes is how much memory of large buffers a server keeps for the next requests and replies: a few of a megabyte.
const spareBytes = 8 << 20

// ReleaseSpare releases the buffers that are kept for the next large requests and replies, up to 8 MiB. A server that is idle
// calls it. Any goroutine may call it at any time; buffers in use stay.
func (s *Server) ReleaseSpare() { s.spare.Release() }

// setIdentities replaces the identities of the connection if there is room for them. REQUIRES:
// c.mu.
func (c *conn) setIdentities(ids []zk.ID) bool {
	n := auth.IdentityBytes(ids) + len(ids)*int(unsafe.Sizeof(zk.ID{}))
	if !c.mu.closed {
		if !c.account.Grow(n - c.mu.identified) {
			return false
		}
		c.mu.identified = n
	}
	c.mu.ids = ids
	return true
}

// releaseRoom releases what room has reserved. REQUIRES: c.mu.
func (c *conn) releaseRoom() {
	c.account.Charge(-c.mu.reserved)
	c.mu.reserved = 0
}

// awaitRoomForReply waits until the output is sent, and then until there is room for the
// reply that needs mu.short bytes, and reserves it. If there is no room for roomPatience,
// or the reply is larger than a third of the budget, it ends the connection. REQUIRES:
// serve's goroutine, without c.mu.
func (c *conn) awaitRoomForReply() {
	c.mu.Lock()
	need := c.mu.short
	c.mu.short = 0
	c.mu.Unlock()
	if !c.awaitRoomFor(need) {
		return
	}
	buf := c.s.newLargeBuffer(need) // one that grows would take twice as much
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.reserved = need
	switch {
	case c.mu.closed:
		c.releaseRoom()
	case c.mu.out.Buf == nil:
		c.mu.out.Buf = buf
	}
}

// awaitRoomFor waits until the output is sent and the account has room for need bytes,
// and charges them. False means that it has ended the connection, under the conditions of
// awaitRoomForReply. REQUIRES: serve's goroutine, without c.mu.
func (c *conn) awaitRoomFor(need int) bool {
	c.mu.Lock()
	for !c.mu.closed && c.mu.out.Unsent()+c.mu.longBytes > 0 && c.mu.out.Writing() {
		c.mu.wait()
	}
	c.releaseRoom()
	c.mu.Unlock()
	if c.account.AwaitGrow(need, roomPatience) {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.mu.closed {
		c.s.stats.SlowClients.Add(1)
		c.s.refused.Warn("connection closed: no room for a reply in connectionBufferBytes", "client", c.remote,
			"reply_bytes", need, "buffered_bytes", c.s.budget.Used(), "limit_bytes", c.s.cfg.Client.BufferBytes)
	}
	c.leaveLocked()
	return false
}
