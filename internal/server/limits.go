package server

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/pinfold-zk/pinfold/internal/ratelimit"
	"github.com/pinfold-zk/pinfold/zk"
)

// Limits of sessions and identities (limitsFile). A connection counts for one identity: the
// strongest that it has proven. All connections of an identity on this server share its
// limits; each session has its own besides. limited.go is the part of a connection.
//
// The superuser is stronger than a user of SASL, which is stronger than a digest. A digest
// counts only if the file names it, because every client can make as many digests as it
// likes. The weakest identity is the address, which every connection has.

// limits is the table of identities. Its lock may be acquired with a connection's mu held,
// and an identity's after it.
type limits struct {
	now func() time.Duration

	mu struct {
		sync.Mutex
		file  *ratelimit.File
		table map[zk.ID]*identity
		sweep int // length of table from which identities without use are removed
	}

	waiting atomic.Int64 // connections that wait for tokens
}

// maxIdle bounds the identities without connections. An identity remains until its buckets
// are full: a client that connects again gains no tokens.
const maxIdle = 1 << 14

// A resource is what is limited by its number.
type resource int

const (
	watches resource = iota
	ephemerals
	resources // their number
)

// of returns the limit of a resource.
func (k resource) of(l *ratelimit.Limits) int {
	if k == watches {
		return l.Watches
	}
	return l.Ephemerals
}

// identity is what the connections of one identity share.
type identity struct {
	id zk.ID

	mu struct {
		sync.Mutex   // a leaf
		version      uint64
		session, all ratelimit.Limits // version counts their changes
		meter        ratelimit.Meter
		members      map[*conn]*[resources]int // what each has, as counted
		counts       [resources]count
	}
}

// count is how many of a resource the members of an identity have. It may be too high,
// because a member counts only when it asks for more.
type count struct {
	sum     int
	partial bool          // some members have not counted yet
	counted time.Duration // when all members were counted
}

// recountRest is the shortest time between two counts of all members.
const recountRest = 10 * time.Millisecond

func newLimits(f *ratelimit.File, now func() time.Duration) *limits {
	l := &limits{now: now}
	l.mu.file = f
	l.mu.table = map[zk.ID]*identity{}
	return l
}

// choose returns the identity that a connection counts for. REQUIRES: l.mu.
func (l *limits) choose(ids []zk.ID) zk.ID {
	for _, scheme := range [...]string{"super", "sasl", "digest"} {
		for _, id := range ids {
			if id.Scheme == scheme && (scheme != "digest" || l.mu.file.Names(id.Scheme, id.ID)) {
				return id
			}
		}
	}
	return ids[0] // its address: newConn
}

// join makes c a member of the identity for which it counts, and no longer of another one.
// False means that the identity has as many connections as it may; then c remains where it
// is. Without enforce there is no such limit. REQUIRES: c.mu, or c is in no table yet.
func (l *limits) join(c *conn, enforce bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	id := l.choose(c.mu.ids)
	old := c.limited.as.Load()
	if c.limited.left || old != nil && old.id == id {
		return true
	}
	to := l.mu.table[id]
	if to == nil {
		to = l.create(id)
	}
	if !to.add(c, enforce) {
		return false
	}
	if old != nil {
		l.remove(old, c)
	}
	c.limited.as.Store(to)
	return true
}

// create enters an identity into the table. REQUIRES: l.mu.
func (l *limits) create(id zk.ID) *identity {
	if len(l.mu.table) >= l.mu.sweep {
		l.removeIdle()
	}
	to := &identity{id: id}
	to.mu.members = map[*conn]*[resources]int{}
	for k := range to.mu.counts {
		to.mu.counts[k].counted = -recountRest
	}
	to.set(l.mu.file, l.now())
	l.mu.table[id] = to
	return to
}

// removeIdle removes identities that have no connections and whose buckets are full, and
// more if there are too many. REQUIRES: l.mu.
func (l *limits) removeIdle() {
	const atLeast = 64
	var idle []zk.ID
	for id, it := range l.mu.table {
		switch members, full := it.idle(l.now()); {
		case members > 0:
		case full:
			delete(l.mu.table, id)
		default:
			idle = append(idle, id)
		}
	}
	for _, id := range idle[min(len(idle), maxIdle):] {
		delete(l.mu.table, id)
	}
	l.mu.sweep = max(atLeast, 2*len(l.mu.table))
}

// leave removes c from its identity.
func (l *limits) leave(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.limited.left = true
	if old := c.limited.as.Load(); old != nil {
		l.remove(old, c)
	}
}

// remove removes c from an identity, and the identity if it is not needed. REQUIRES: l.mu.
func (l *limits) remove(from *identity, c *conn) {
	from.drop(c)
	if members, full := from.idle(l.now()); members == 0 && full {
		delete(l.mu.table, from.id)
	}
}

// identities returns the length of the table; 0 without limits.
func (l *limits) identities() int64 {
	if l == nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return int64(len(l.mu.table))
}

// waitingConns returns how many connections wait for tokens.
func (l *limits) waitingConns() int64 {
	if l == nil {
		return 0
	}
	return l.waiting.Load()
}

// SetLimits replaces the limits while the server runs. Connections and watches that exceed
// the new ones remain. A bucket whose rate changes becomes full.
//
// REQUIRES: Options.Limits was set.
func (s *Server) SetLimits(f *ratelimit.File) {
	l := s.limits
	l.mu.Lock()
	l.mu.file = f
	for _, it := range l.mu.table {
		it.set(f, l.now())
	}
	l.mu.Unlock()
	s.eachConn(func(c *conn) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if !c.mu.closed {
			l.join(c, false) // the file may name other digests now
			c.mu.wake()      // it may wait for tokens
		}
	}, nil)
}

// set gives the identity its limits.
func (it *identity) set(f *ratelimit.File, now time.Duration) {
	session, all := f.Of(it.id.Scheme, it.id.ID)
	it.mu.Lock()
	defer it.mu.Unlock()
	if it.mu.version > 0 && it.mu.session == session && it.mu.all == all {
		return
	}
	it.mu.version++
	it.mu.session, it.mu.all = session, all
	it.mu.meter.Set(all, now)
	it.recountLocked()
}

// recountLocked makes the next request for more of any resource count all members.
// REQUIRES: it.mu.
func (it *identity) recountLocked() {
	for k := range it.mu.counts {
		it.mu.counts[k].partial = true
	}
}

// add makes c a member, unless there are too many and enforce is set.
func (it *identity) add(c *conn, enforce bool) bool {
	it.mu.Lock()
	defer it.mu.Unlock()
	if most := it.mu.all.Connections; enforce && most > 0 && len(it.mu.members) >= most {
		return false
	}
	it.mu.members[c] = new([resources]int)
	it.recountLocked()
	return true
}

// drop removes a member.
func (it *identity) drop(c *conn) {
	it.mu.Lock()
	defer it.mu.Unlock()
	counted := it.mu.members[c]
	if counted == nil {
		return
	}
	delete(it.mu.members, c)
	for k := range it.mu.counts {
		it.mu.counts[k].sum -= counted[k]
	}
}

// hasSession is called when a member has its session, which may have ephemerals already.
func (it *identity) hasSession() {
	it.mu.Lock()
	defer it.mu.Unlock()
	it.recountLocked()
}

// idle returns the number of members, and whether the buckets are full.
func (it *identity) idle(now time.Duration) (members int, full bool) {
	it.mu.Lock()
	defer it.mu.Unlock()
	return len(it.mu.members), it.mu.meter.Full(now)
}

// limitsOf returns the limits of a resource; 0 is no limit.
func (it *identity) limitsOf(k resource) (session, all int) {
	it.mu.Lock()
	defer it.mu.Unlock()
	return k.of(&it.mu.session), k.of(&it.mu.all)
}

// reserve counts more of a resource for a member that has so many. If the identity has no
// room, or may have too little because not all members are counted, it changes nothing,
// and recount reports whether counting them may help.
func (it *identity) reserve(c *conn, k resource, have, more int, now time.Duration) (ok, recount bool) {
	it.mu.Lock()
	defer it.mu.Unlock()
	counted := it.mu.members[c]
	if counted == nil {
		return true, false // it counts for another identity now
	}
	n := &it.mu.counts[k]
	n.sum += have - counted[k]
	counted[k] = have
	recount = now-n.counted >= recountRest
	most := k.of(&it.mu.all)
	if most > 0 && n.partial && recount {
		return false, true
	}
	if most > 0 && n.sum+more > most {
		return false, recount
	}
	n.sum += more
	counted[k] += more
	return true, false
}

// list returns the members.
func (it *identity) list() []*conn {
	it.mu.Lock()
	defer it.mu.Unlock()
	list := make([]*conn, 0, len(it.mu.members))
	for c := range it.mu.members {
		list = append(list, c)
	}
	return list
}

// counted records how many of a resource members have: have is by the index in list.
func (it *identity) counted(k resource, list []*conn, have []int, now time.Duration) {
	it.mu.Lock()
	defer it.mu.Unlock()
	n := &it.mu.counts[k]
	for i, c := range list {
		if counted := it.mu.members[c]; counted != nil {
			n.sum += have[i] - counted[k]
			counted[k] = have[i]
		}
	}
	n.partial, n.counted = false, now
}
