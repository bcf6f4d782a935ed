package server

import (
	"github.com/pinfold-zk/pinfold/internal/replica"
	"github.com/pinfold-zk/pinfold/internal/socket"
	"github.com/pinfold-zk/pinfold/internal/wire"
)

// Requests in flight were read and are not answered yet: the pipeline holds their bytes,
// on this server and on the leader, and every later write waits for the work that they
// are. Their weight is charged to a budget of the complete server (globalOutstandingBytes).
// A connection may have as much in flight as then remains free, so the connection that has
// most is the first to wait. While it waits the server does not read from it, and its
// client's socket fills up.
//
// Requests of at most smallRequest are charged, but do not wait individually: the
// server stops reading from a connection that has exceeded its share with them, and
// globalOutstandingLimit bounds their number. A connection that has no more than the free
// bytes of socket.Budget in flight never waits, so a client with small requests is served
// whatever others do.
//
// Of large requests only some enter the pipeline at a time, in the order in which they have
// been charged; see heavy.
//
// A session whose connection waits here does not count as silent: its client may have sent
// bytes that are not read yet.

// opWeight is the least weight of a write, and of one operation of a multi, in bytes: about
// the memory that the pipeline needs for it, and no less than the bytes that take as long to
// be written.
const opWeight = 512

// weigh returns the weight of a write: its bytes, or opWeight for each operation if that
// is more. No multi weighs so much that it would never be admitted; so at most two of the
// longest are in flight.
func (s *Server) weigh(q *request) int {
	n := max(len(q.body), opWeight)
	if q.Op != wire.OpMulti {
		return n
	}
	most := s.flight.Most()
	return max(n, min(opWeight*wire.CountMulti(q.body, most/opWeight+1), most))
}

// writeRun is the most that a connection submits in one turn: then others have theirs, and
// Order begins. So many of the smallest writes never wait.
const writeRun = socket.FreeBytes / opWeight

// smallRequest is the weight of the heaviest request that is charged together with the
// others of its turn.
const smallRequest = 4 << 10

// flight is a connection's part of the requests in flight.
type flight struct {
	account socket.Account
	settled int // owned by the applier: weight answered and not released yet
	left    int // owned by the applier: the heavy requests' part of settled
}

// admit counts a request of weight n. If there is no room it sets r.blocked and returns
// false. REQUIRES: serve's goroutine.
func (c *conn) admit(n int, r *run) bool {
	switch {
	case n <= smallRequest:
		r.charge += n
	case c.granted == n:
		c.granted = 0
	case !c.flight.account.Grow(n):
		r.blocked = n
		return false
	case !c.s.heavy.tryEnter(n):
		c.flight.account.Charge(-n)
		r.blocked = n
		return false
	}
	return true
}

// chargeTurn charges the weight that a turn has submitted, and releases weight that was
// granted to a request and not used.
func (c *conn) chargeTurn(r *run) {
	if r.charge|c.granted == 0 { // it has submitted nothing
		return
	}
	c.flight.account.Charge(r.charge - c.granted)
	c.s.heavy.leave(c.granted)
	c.granted = 0
}

// awaitFlight waits until the connection may have n more in flight, and charges and enters
// that for the next turn, which follows at once. False means that the connection has ended. REQUIRES: the
// goroutine of serve, without c.mu.
func (c *conn) awaitFlight(n int) bool {
	if n == 0 && c.flight.account.CanGrow(0) {
		return true
	}
	c.s.stats.Stalled.Add(1)
	c.pauseReading()
	ok := c.flight.account.AwaitGrow(n, socket.Forever)
	if ok && !c.s.heavy.enter(n, c.flight.account.Closed()) {
		c.flight.account.Charge(-n)
		ok = false
	}
	c.granted = 0
	if ok {
		c.granted = n
	}
	c.resumeReading()
	return ok
}

// settle records that a request was answered. Only the applier calls it. The weight is
// released when the batch is applied.
func (c *conn) settle(req *replica.Request) {
	if req.Weight > 0 {
		c.s.large.done(req.Size)
		c.flight.settled += req.Weight
		c.flight.left += c.s.heavy.part(req.Weight)
		c.s.markDirty(c)
	}
}

// releaseSettled releases the settled weight. Only the applier calls it.
func (c *conn) releaseSettled() {
	if c.flight.settled > 0 {
		c.flight.account.Charge(-c.flight.settled)
		c.s.heavy.leave(c.flight.left)
		c.flight.settled, c.flight.left = 0, 0
	}
}

// dropRequest releases a request that will not be answered.
func (c *conn) dropRequest(bytes, weight int) {
	c.s.large.done(bytes)
	c.flight.account.Charge(-weight)
	c.s.heavy.leave(weight)
}
