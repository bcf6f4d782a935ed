package server

import (
	"github.com/pinfold-zk/pinfold/internal/socket"
)

// Requests in flight were read and are not answered yet: the pipeline holds their bytes,
// on this server and on the leader. They are charged to a budget of the complete server
// (globalOutstandingBytes). A connection may have as many bytes in flight as then remain
// free, so the connection that has most is the first to wait. While it waits the server
// does not read from it, and its client's socket fills up.
//
// Requests of at most smallRequest bytes are charged, but do not wait individually: the
// server stops reading from a connection that has exceeded its share with them, and
// globalOutstandingLimit bounds their number. A connection that has no more than the free
// bytes of socket.Budget in flight never waits, so a client with small requests is served
// whatever others do.
//
// A session whose connection waits here does not count as silent: its client may have sent
// bytes that are not read yet.

// smallRequest is the largest request that is charged together with the others of its
// turn.
const smallRequest = 4 << 10

// flight is a connection's part of the requests in flight.
type flight struct {
	account socket.Account
	granted int // owned by serve: charged for the request that waited
	settled int // owned by the applier: bytes answered and not released yet
}

// admit counts a request of n bytes. If there is no room it sets r.blocked and returns
// false. REQUIRES: serve's goroutine.
func (c *conn) admit(n int, r *run) bool {
	switch {
	case n <= smallRequest, c.stepped: // a stepped connection never waits
		r.charge += n
	case c.flight.granted == n:
		c.flight.granted = 0
	case !c.flight.account.Grow(n):
		r.blocked = n
		return false
	}
	return true
}

// chargeTurn charges the bytes that a turn has submitted, and releases bytes that were
// granted to a request and not used.
func (c *conn) chargeTurn(r *run) {
	if n := r.charge - c.flight.granted; n != 0 {
		c.flight.account.Charge(n)
		c.flight.granted = 0
	}
}

// awaitFlight waits until the connection may have n more bytes in flight, and charges
// them for the next turn. False means that the connection has ended. REQUIRES: the
// goroutine of serve, without c.mu.
func (c *conn) awaitFlight(n int) bool {
	if n == 0 && c.flight.account.Fits() {
		return true
	}
	c.s.stats.Stalled.Add(1)
	c.pauseReading()
	ok := c.flight.account.AwaitGrow(n, socket.Forever)
	c.flight.granted = 0
	if ok {
		c.flight.granted = n
	}
	c.resumeReading()
	return ok
}

// settle records that a request of n bytes was answered. Only the applier calls it. The
// bytes are released when the batch is applied.
func (c *conn) settle(n int) {
	if n > 0 {
		c.s.large.done(n)
		c.flight.settled += n
		c.s.markDirty(c)
	}
}

// releaseSettled releases the settled bytes. Only the applier calls it.
func (c *conn) releaseSettled() {
	if n := c.flight.settled; n > 0 {
		c.flight.settled = 0
		c.flight.account.Charge(-n)
	}
}

// dropRequest releases a request of n bytes that will not be answered.
func (c *conn) dropRequest(n int) {
	c.s.large.done(n)
	c.flight.account.Charge(-n)
}
