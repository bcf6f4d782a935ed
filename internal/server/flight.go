package server

import (
	"github.com/pinfold-zk/pinfold/internal/socket"
)

// Requests in flight are those that were read and are not answered yet: the pipeline
// holds their bytes, on this server and on the leader. They are charged to a budget of
// the whole server (globalOutstandingBytes). A connection may have as many bytes in
// flight as would then still be free, so the connection that has most waits first.
// While it waits it is not read from, and its client's socket fills up.
//
// Requests of at most smallRequest bytes are charged and not held up one by one: a
// connection that has taken more than its share with them is not read from either, and
// globalOutstandingLimit bounds their number. A connection with socket.Budget's free
// bytes in flight never waits, so a client with small requests is served whatever
// others do.
//
// A session whose connection waits here is not silent: its client may well have sent
// something that is not read.

// smallRequest is the length of a request up to which it is charged with the others of
// its turn.
const smallRequest = 4 << 10

// flight is a connection's part in the requests in flight.
type flight struct {
	account socket.Account
	granted int // owned by serve: charged for the request that waited
	settled int // owned by the applier: bytes answered and not released yet
}

// admit counts a request of n bytes in. If there is no room it reports false, and
// r.blocked is set. REQUIRES: to be in serve's goroutine.
func (c *conn) admit(n int, r *run) bool {
	switch {
	case n <= smallRequest, c.stepped: // a stepped connection waits for nobody
		r.charge += n
	case c.flight.granted == n:
		c.flight.granted = 0
	case !c.flight.account.Grow(n):
		r.blocked = n
		return false
	}
	return true
}

// chargeTurn charges what a turn has submitted, and returns what was granted to a
// request that was not submitted in the end.
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

// settle counts a request of n bytes out that was answered. Only who applies calls it;
// what is settled is released when the batch is applied.
func (c *conn) settle(n int) {
	if n > 0 {
		c.s.large.done(n)
		c.flight.settled += n
		c.s.markDirty(c)
	}
}

// releaseSettled releases what was settled. Only who applies calls it.
func (c *conn) releaseSettled() {
	if n := c.flight.settled; n > 0 {
		c.flight.settled = 0
		c.flight.account.Charge(-n)
	}
}

// dropRequest counts a request of n bytes out that will not be answered.
func (c *conn) dropRequest(n int) {
	c.s.large.done(n)
	c.flight.account.Charge(-n)
}
