package server

import (
	"net/netip"
	"slices"
	"sync"

	"github.com/pinfold-zk/pinfold/internal/ratelimit"
	"github.com/pinfold-zk/pinfold/internal/replica"
	"github.com/pinfold-zk/pinfold/internal/session"
	"github.com/pinfold-zk/pinfold/zk"
)

// endedPiece is how many sessions forgetEnded looks up under one hold of the tree's lock.
const endedPiece = 1024

// opened counts the sessions that clients have opened at this server, by their addresses.
// A session lasts longer than its connection, so that limits of connections do not bound
// them. All sessions, which every server of an ensemble holds, are charged to the budget
// sessionBytes. An address may open as many here as would then still be free: the one that
// has most is refused first, and others still open theirs.
//
// A client whose new session is refused is disconnected, as by Apache's connection
// throttle: the protocol has no other answer that does not tell it that its session has
// expired.
type opened struct {
	mu    sync.Mutex
	at    map[zk.SessionID]*opener
	by    map[netip.Addr]*opener
	stale bool // sessions may have ended without a call of end
}

// opener is an address that has opened sessions.
type opener struct {
	addr netip.Addr
	n    int
}

// begin counts a session for an address, once.
func (o *opened) begin(id zk.SessionID, addr netip.Addr) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.at == nil {
		o.at, o.by = map[zk.SessionID]*opener{}, map[netip.Addr]*opener{}
	}
	if o.at[id] != nil {
		return
	}
	by := o.by[addr]
	if by == nil {
		by = &opener{addr: addr}
		o.by[addr] = by
	}
	by.n++
	o.at[id] = by
}

// end counts a session out that is over; one that was opened elsewhere has no effect.
func (o *opened) end(id zk.SessionID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	by := o.at[id]
	if by == nil {
		return
	}
	delete(o.at, id)
	if by.n--; by.n == 0 {
		delete(o.by, by.addr)
	}
}

// of returns how many sessions an address has.
func (o *opened) of(addr netip.Addr) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	if by := o.by[addr]; by != nil {
		return by.n
	}
	return 0
}

// doubt records that sessions may have ended unnoticed: a leader's snapshot has replaced
// the tree, or the end of the log was cut off.
func (o *opened) doubt() {
	o.mu.Lock()
	o.stale = true
	o.mu.Unlock()
}

// doubtful returns all sessions if doubt was called since the last call.
func (o *opened) doubtful() (list []zk.SessionID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.stale {
		return nil
	}
	o.stale = false
	for id := range o.at {
		list = append(list, id)
	}
	return list
}

// LocalEnded counts a local session out (replica.Clients).
func (s *Server) LocalEnded(id zk.SessionID) { s.opened.end(id) }

// sessionOpened counts a session in that c has opened, or, if it is local, resumed.
func (c *conn) sessionOpened(id zk.SessionID) {
	if c.s.cfg.Session.Bytes > 0 {
		c.s.opened.begin(id, ratelimit.HostOf(c.remote.Addr()))
	}
}

// forgetEnded counts the sessions out that have ended unnoticed. A local session, which the
// tree does not have, then counts with all sessions, and for no address.
func (s *Server) forgetEnded() {
	for part := range slices.Chunk(s.opened.doubtful(), endedPiece) {
		s.replica.View(func(t replica.View) {
			for _, id := range part {
				if !t.HasSession(id) {
					s.opened.end(id)
				}
			}
		})
	}
}

// mayOpen reports whether a client at addr may open one more session. REQUIRES: no lock.
func (s *Server) mayOpen(addr netip.Addr) bool {
	limit := s.cfg.Session.Bytes
	if limit == 0 {
		return true
	}
	s.forgetEnded()
	return (s.opened.of(ratelimit.HostOf(addr))+1)*session.Weight <= limit-s.sessionBytes()-session.Weight
}

// sessionBytes returns what all sessions take of the budget.
func (s *Server) sessionBytes() (n int) {
	s.replica.View(func(t replica.View) { n = t.SessionCount() })
	return session.Weight * (n + int(s.replica.Stats().LocalSessions.Load()))
}
