package server

import (
	"fmt"
	"math"
	"net/url"
	"slices"
	"sync/atomic"
	"time"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/ratelimit"
	"github.com/pinfold-zk/pinfold/internal/replica"
	"github.com/pinfold-zk/pinfold/internal/watch"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/internal/znode"
	"github.com/pinfold-zk/pinfold/zk"
)

// limited is a connection's part of the limits.
//
// A turn handles as many requests as there are tokens for. Then the connection takes the
// tokens from the buckets of its session and its identity, and does not read on before
// these owe nothing. The connections of an identity get successive times, so each waits
// once. The client is not told; its socket fills up. Meanwhile its session does not count
// as silent, and the client gets replies to pings that the server has not read, so that it
// does not give the connection up.
//
// A request for a watch or an ephemeral znode that would exceed a limit is answered -1
// (system error), and has no effect: every client knows the code and none tries again. With
// -125 (quota exceeded) older versions of kazoo stop to read.
type limited struct {
	as   atomic.Pointer[identity] // set under limits.mu; nil before admit
	left bool                     // guarded by limits.mu: it is no member any more

	// Owned by serve.
	meter   ratelimit.Meter // of the session
	version uint64          // of the identity's limits that meter has
	until   time.Duration   // no request is handled before

	session atomic.Int64 // mu.session, for the count of ephemerals
	due     bool         // guarded by conn.mu: the pause is over

	waited  atomic.Int64 // nanoseconds
	refused atomic.Int64 // requests
}

// allow sets how much the turn may handle.
func (c *conn) allow(r *run) {
	r.mostRequests, r.mostBytes = math.MaxInt, math.MaxInt
	if c.limited == nil {
		return
	}
	it := c.limited.as.Load()
	it.mu.Lock()
	defer it.mu.Unlock()
	c.adoptLocked(it, r.now)
	requests, bytes := it.mu.meter.Room(max(1, len(it.mu.members)), r.now)
	ownRequests, ownBytes := c.limited.meter.Room(1, r.now)
	r.mostRequests, r.mostBytes = int(min(requests, ownRequests)), int(min(bytes, ownBytes))
}

// adoptLocked sets the session's limits if they have changed, which ends the wait for
// tokens. REQUIRES: it.mu; serve's goroutine.
func (c *conn) adoptLocked(it *identity, now time.Duration) (changed bool) {
	l := c.limited
	if changed = l.version != it.mu.version; changed {
		l.meter.Set(it.mu.session, now)
		l.version, l.until = it.mu.version, 0
	}
	return changed
}

// spend takes the tokens for requests that were handled. REQUIRES: serve's goroutine.
func (c *conn) spend(requests, bytes int) {
	if c.limited == nil || requests == 0 {
		return
	}
	now := c.s.replica.Now()
	it := c.limited.as.Load()
	it.mu.Lock()
	defer it.mu.Unlock()
	c.adoptLocked(it, now)
	c.limited.until = max(it.mu.meter.Take(int64(requests), int64(bytes), now), c.limited.meter.Take(int64(requests), int64(bytes), now))
}

// spendHandshake takes the tokens for a handshake of the identity, and makes a new session
// wait for them, but no longer than clients wait for an answer. (A session that exists could
// expire meanwhile.) False means that the connection has ended. REQUIRES: serve's goroutine,
// without c.mu.
func (c *conn) spendHandshake(bytes int, isNew bool) (open bool) {
	if c.limited == nil {
		return true
	}
	now := c.s.replica.Now()
	it := c.limited.as.Load()
	it.mu.Lock()
	c.adoptLocked(it, now)
	until := it.mu.meter.Take(1, int64(bytes), now)
	it.mu.Unlock()
	if isNew {
		c.limited.until = min(until, now+holdAtMost)
		open = c.awaitTokens()
	}
	c.limited.until = until
	return open || !isNew
}

// awaitTokens waits until the connection may handle requests again. False means that the
// connection has ended. REQUIRES: serve's goroutine, without c.mu.
func (c *conn) awaitTokens() bool {
	if c.limited == nil {
		return true
	}
	began := c.s.replica.Now()
	if c.limited.until <= began {
		return true
	}
	c.in.Release() // if nothing is left in it
	l := c.s.limits
	l.waiting.Add(1)
	c.pauseReading()
	open := c.waitForTokens()
	c.resumeReading()
	l.waiting.Add(-1)
	waited := c.s.replica.Now() - began
	c.s.stats.LimitWaits.Add(1, waited)
	c.limited.waited.Add(int64(waited))
	return open
}

// waitForTokens is the wait of awaitTokens. It ends early if the limits change.
func (c *conn) waitForTokens() (open bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.limited
	between := max(time.Duration(c.mu.timeout)*time.Millisecond/pingParts, minPingRest)
	ping := c.s.replica.Now() + between
	for !c.mu.closed && !c.limitsChanged() {
		now := c.s.replica.Now()
		switch {
		case now >= l.until:
			return true
		case now >= ping:
			c.answerPingEarly()
			ping = now + between
			continue
		}
		l.due = false
		timer := time.AfterFunc(min(l.until, ping)-now, c.endPause)
		for !l.due && !c.mu.closed && !c.limitsChanged() {
			c.mu.wait()
		}
		timer.Stop()
	}
	return !c.mu.closed
}

// While a connection waits for tokens, its client gets pingParts replies to pings in its
// session's timeout, but at most one in minPingRest. kazoo gives a connection up if it hears
// nothing for a third of the timeout, less up to 400 ms, and its last ping is not answered.
const (
	pingParts   = 8
	minPingRest = 100 * time.Millisecond
)

func (c *conn) endPause() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limited.due = true
	c.mu.wake()
}

// limitsChanged reports whether the identity has other limits than the session has adopted.
func (c *conn) limitsChanged() bool {
	it := c.limited.as.Load()
	it.mu.Lock()
	defer it.mu.Unlock()
	return c.limited.version != it.mu.version
}

// answerPingEarly sends the reply to a ping that the server has not read yet, if the client
// has read what was sent before. It shows no later state than the last reply. REQUIRES: c.mu.
func (c *conn) answerPingEarly() {
	if !c.open || c.mu.closing || c.mu.out.Unsent() > 0 {
		return
	}
	c.replyErrLocked(wire.XidPing, max(c.mu.stats.lastZxid, 0), zk.OK)
	c.mu.out.Flush(false)
}

// changeIdentity makes the connection count for an identity that it has proven now. It
// ends the connection if the identity has too many. REQUIRES: c.mu; serve's goroutine.
func (c *conn) changeIdentity() {
	if c.limited == nil || c.s.limits.join(c, true) {
		return
	}
	c.s.stats.Rejected.Add(1)
	c.s.stats.LimitConns.Add(1)
	c.s.refused.Warn("connection closed: its identity has too many connections (limitsFile)", "client", c.remote)
	c.leaveLocked()
}

// watchWork is how much work a watch counts as, so that a connection that leaves readRun of
// them has done a piece, and takes turns with the others that do. It takes less time; but they
// would wait for each other's lock of the watch tables while they hold that of the tree.
const watchWork = znode.PieceUnits / readRun

// watch registers a watch, unless the session or its identity has too many, or all watches
// take too much memory. REQUIRES: c.mu and the tree's lock.
func (c *conn) watch(t replica.View, path string, k watch.Kind) zk.Code {
	if c.limited != nil && !c.mayWatch(path, k) {
		return c.refuseRequest()
	}
	c.mu.work += watchWork
	if !t.AddWatch(c.id, path, k) {
		c.s.stats.LimitRefused.Add(1)
		c.s.refused.Warn("a watch was refused: all watches take too much memory (watchBytes)", "client", c.remote)
		return zk.ErrSystem
	}
	return zk.OK
}

// watchesFit reports whether there is room for the watches that the client restores. If
// not, it ends the connection, as mayRenew does. REQUIRES: c.mu.
func (c *conn) watchesFit(r *wire.SetWatches) (fit bool) {
	paths := slices.Concat(r.Data, r.Exist, r.Child, r.Persistent, r.Persistent, r.PersistentRecursive)
	c.s.replica.Watches(func(t *watch.Tables) { fit = t.Fits(c.id, paths) })
	if !fit {
		c.s.stats.LimitRefused.Add(1)
		c.s.refused.Warn("connection closed: there is no room for the watches that the client restores (watchBytes)", "client", c.remote)
		c.closeLocked()
	}
	return fit
}

// refuseRequest counts a request that a limit refuses, and returns its code.
func (c *conn) refuseRequest() zk.Code {
	c.s.stats.LimitRefused.Add(1)
	c.limited.refused.Add(1)
	c.s.refused.Warn("a request was refused: too many watches or ephemerals (limitsFile)", "client", c.remote)
	return zk.ErrSystem
}

// mayWatch reports whether the connection may register a watch. One that it has may be
// registered again.
func (c *conn) mayWatch(path string, k watch.Kind) bool {
	if session, all := c.limited.as.Load().limitsOf(watches); session == 0 && all == 0 {
		return true
	}
	have, again, more := 0, false, 1
	c.s.replica.Watches(func(t *watch.Tables) {
		have = t.Count(c.id)
		again = t.Contains(c.id, path, watcherType(k))
	})
	if k == watch.Persistent {
		more = 2 // it is in both tables
	}
	return again || c.mayHave(watches, have, more, replica.View{})
}

// watcherType returns the type that finds a watch of kind k.
func watcherType(k watch.Kind) zk.WatcherType {
	switch k {
	case watch.Child:
		return zk.WatcherChildren
	case watch.Persistent:
		return zk.WatcherPersistent
	case watch.Recursive:
		return zk.WatcherPersistentRecursive
	}
	return zk.WatcherData
}

// mayRenew reports whether the connection may have all watches that r asks for again. If
// not, it ends the connection: clients do not look at the answer to setWatches, and would
// wait for events that never come. REQUIRES: c.mu.
func (c *conn) mayRenew(r *wire.SetWatches) bool {
	if c.limited == nil {
		return true
	}
	if session, all := c.limited.as.Load().limitsOf(watches); session == 0 && all == 0 {
		return true
	}
	have := 0
	c.s.replica.Watches(func(t *watch.Tables) { have = t.Count(c.id) })
	more := len(r.Data) + len(r.Exist) + len(r.Child) + 2*len(r.Persistent) + len(r.PersistentRecursive)
	if c.mayHave(watches, have, more, replica.View{}) {
		return true
	}
	c.refuseRequest()
	c.s.refused.Warn("connection closed: the client restores more watches than it may have (limitsFile)", "client", c.remote, "watches", more)
	c.closeLocked()
	return false
}

// mayHave reports whether the connection, which has so many of a resource, may have more,
// and then counts them. t is needed for ephemerals.
func (c *conn) mayHave(k resource, have, more int, t replica.View) bool {
	it := c.limited.as.Load()
	if session, _ := it.limitsOf(k); session > 0 && have+more > session {
		return false
	}
	ok, recount := it.reserve(c, k, have, more, c.s.replica.Now())
	if !ok && recount {
		c.recount(it, k, t)
		ok, _ = it.reserve(c, k, have, more, c.s.replica.Now())
	}
	return ok
}

// recount counts what the members of an identity have.
func (c *conn) recount(it *identity, k resource, t replica.View) {
	list := it.list()
	have := make([]int, len(list))
	if k == watches {
		c.s.replica.Watches(func(t *watch.Tables) {
			for i, m := range list {
				have[i] = t.Count(m.id)
			}
		})
	} else {
		for i, m := range list {
			have[i] = t.EphemeralsOf(zk.SessionID(m.limited.session.Load()))
		}
	}
	c.mu.work += len(list)
	it.counted(k, list, have, c.s.replica.Now())
}

// newEphemerals returns how many ephemeral znodes a write would create, 0 if they are not
// limited. REQUIRES: c.mu.
func (c *conn) newEphemerals(q *request) (n int) {
	if c.limited == nil {
		return 0
	}
	switch q.Op {
	case wire.OpCreate, wire.OpCreate2, wire.OpMulti:
	default:
		return 0
	}
	if session, all := c.limited.as.Load().limitsOf(ephemerals); session == 0 && all == 0 {
		return 0
	}
	d := jute.NewDecoder(q.body)
	if q.Op != wire.OpMulti {
		var r wire.CreateRequest
		if r.Decode(&d, q.Op); r.Flags.IsEphemeral() {
			n = 1
		}
		return n
	}
	for _, op := range wire.DecodeMulti(&d, wire.OpMulti, nil) {
		if (op.Type == wire.OpCreate || op.Type == wire.OpCreate2) && op.Flags.IsEphemeral() {
			n++
		}
	}
	return n
}

// refuseEphemerals refuses a write that would create n ephemeral znodes, if these are too
// many. What the session's pending writes create is counted in advance. If there may be
// too many for that reason alone, the turn stops until these writes are answered.
// REQUIRES: c.mu and the tree's lock.
func (c *conn) refuseEphemerals(t replica.View, q *request, n int, r *run) (refused bool) {
	have := t.EphemeralsOf(c.mu.session) + c.mu.pending.ephemerals
	switch {
	case c.mayHave(ephemerals, have, n, t):
		return false
	case !c.mu.pending.empty():
		r.mustWait = true
	default:
		c.replyErrLocked(q.Xid, t.LastZxid(), c.refuseRequest())
	}
	return true
}

// appendLimits appends what cons shows about the limits. REQUIRES: c.mu.
func (c *conn) appendLimits(b []byte) []byte {
	l := c.limited
	if l == nil {
		return b
	}
	id := l.as.Load().id
	name := c.s.auth.UserName(id)
	return fmt.Appendf(b, ",limit=%s:%s,lwait=%d,lrefused=%d", id.Scheme, url.PathEscape(name), time.Duration(l.waited.Load()).Milliseconds(), l.refused.Load())
}

// setSession tells the limits which session the connection has.
func (c *conn) setSession(id zk.SessionID) {
	if c.limited != nil {
		c.limited.session.Store(int64(id))
		c.limited.as.Load().hasSession()
	}
}
