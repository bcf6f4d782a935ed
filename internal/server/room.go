package server

import "time"

// Large replies count against the server's budget of buffers before they are
// built (socket.Budget); long.go has the very large ones. A reply for which there is no room is not built: its
// request stays in the input, the connection sends what it has, waits until there
// is room, and answers again. The connection that holds most waits first; replies
// of less than largeReply never wait.
//
// Replies to reads that waited behind the session's own writes are built by the
// applier, which waits for nobody: they are charged and not held up. Their number
// is bounded by maxExpected.

const (
	largeReply   = 64 << 10         // bytes from which a reply needs room
	roomPatience = 10 * time.Second // how long a reply waits for room
)

// room reports whether there is room for n more bytes of output, and reserves it
// until the output is flushed. If there is none, mu.short is set. REQUIRES: c.mu.
func (c *conn) room(n int) bool {
	want := len(c.mu.out.Buf) + len(c.mu.aside) + n
	switch {
	case want <= largeReply, want <= c.mu.reserved:
		return true
	case c.mu.forced, c.stepped: // they wait for nobody
		c.account.Charge(want - c.mu.reserved)
	case !c.account.Grow(want - c.mu.reserved):
		c.mu.short = want
		return false
	}
	c.mu.reserved = want
	return true
}

// releaseRoom ends what room has reserved. REQUIRES: c.mu.
func (c *conn) releaseRoom() {
	c.account.Charge(-c.mu.reserved)
	c.mu.reserved = 0
}

// awaitRoomForReply waits, after the output is sent, until there is room for the
// reply that found none, and reserves it. If there is none for roomPatience, or
// the reply is more than a third of the budget, the connection ends. REQUIRES: the
// goroutine of serve, without c.mu.
func (c *conn) awaitRoomForReply() {
	c.mu.Lock()
	need := c.mu.short
	c.mu.short = 0
	c.mu.Unlock()
	if !c.awaitRoomFor(need) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.reserved = need
	if c.mu.closed {
		c.releaseRoom()
	}
}

// awaitRoomFor waits until the output is sent and the account has room for need bytes,
// and charges them. False means that the connection has ended, as awaitRoomForReply
// says. REQUIRES: the goroutine of serve, without c.mu.
func (c *conn) awaitRoomFor(need int) bool {
	c.mu.Lock()
	for !c.mu.closed && c.mu.out.Unsent()+c.mu.longBytes > 0 && c.mu.out.Writing() {
		c.mu.Wait()
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
