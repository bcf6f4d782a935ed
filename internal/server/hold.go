package server

import (
	"fmt"
	"slices"
	"time"

	"github.com/pinfold-zk/pinfold/internal/replica"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// A server without a quorum cannot give sessions to clients. Apache closes the
// connection at once, and the client tries the other servers, waiting longer each time.
// Here an election takes some tens of milliseconds, so the server holds the handshake
// until there is a leader, and answers it then.
//
// It holds a handshake only while an election is likely to end: for holdAtMost, or a
// tick if that is less, after the server has lost its quorum or has started. After
// that, as on a server that is cut off, it closes connections at once. It also does so
// if it has left its role because its disk stalls: then the others elect a leader
// without it.
//
// The server holds a client that has seen a later state than this member of an ensemble
// has (P7) for the same time: the client comes from another server, and what it has
// seen is probably on its way here, or waits to be applied here.
//
// A held connection counts like any other, also for maxClientCnxns. Its goroutine
// waits, as it does for every session. The replica only wakes this goroutine, which
// continues the handshake itself: so thousands of clients that reconnect at the end of
// an election do not keep the replica's stages busy.

// holdAtMost is the longest time for which a handshake is held.
const holdAtMost = 500 * time.Millisecond

// heldConn is a connection whose handshake is held.
type heldConn struct {
	c        *conn
	admitted chan<- struct{} // that of its handshake
	ahead    bool            // wait until seen is applied; otherwise until there is a quorum
	seen     zk.Zxid         // the last zxid that the client has seen
}

func (s *Server) holdFor() time.Duration { return min(holdAtMost, s.cfg.Session.Tick) }

// errNoQuorum ends a connection to a server without a quorum.
var errNoQuorum = fmt.Errorf("%w: this server has no quorum", errEnd)

// awaitQuorum holds a handshake until there is a quorum. It returns false if waiting is
// useless. REQUIRES: serve's goroutine; mu.handshake is set.
func (s *Server) awaitQuorum(c *conn, req *wire.ConnectRequest) bool {
	until := s.replica.Since() + s.holdFor()
	if s.replica.Mode() != replica.Idle || s.replica.Stopping() || s.replica.DiskAway() || s.replica.Now() >= until {
		return false
	}
	c.mu.handshake.patience = until
	s.hold(c, req, false)
	if s.replica.Mode() != replica.Idle {
		s.Admit() // there may be a quorum since before c was in the table
	}
	return true
}

// awaitZxid holds a handshake until the last zxid that the client has seen is applied.
func (s *Server) awaitZxid(c *conn, req *wire.ConnectRequest) {
	s.hold(c, req, true)
	if s.replica.LastApplied() >= req.LastZxidSeen {
		s.catchUp() // as in awaitQuorum
	}
}

// hold enters a connection into the table. REQUIRES: serve's goroutine.
func (s *Server) hold(c *conn, req *wire.ConnectRequest, ahead bool) {
	h := c.mu.handshake
	if h.admitted == nil {
		h.admitted = make(chan struct{}, 1)
		held := *req
		held.Password = slices.Clone(req.Password) // req.Password aliases the input
		h.held = &held
	}
	s.mu.Lock()
	s.mu.held[c] = heldConn{c: c, admitted: h.admitted, ahead: ahead, seen: req.LastZxidSeen}
	s.mu.Unlock()
	if ahead {
		s.ahead.Add(1)
	}
}

// unhold removes a connection from the table; held is false if it was not in it any
// more. err is the reason why its wait has failed.
func (s *Server) unhold(c *conn) (held bool, err error) {
	s.mu.Lock()
	h, held := s.mu.held[c]
	s.dropHeld(h)
	s.mu.Unlock()
	if h.ahead {
		return held, c.tooNew(h.seen)
	}
	return held, errNoQuorum
}

// dropHeld removes h from the table, if it is there. REQUIRES: s.mu.
func (s *Server) dropHeld(h heldConn) {
	delete(s.mu.held, h.c)
	if h.ahead {
		s.ahead.Add(-1)
	}
}

// wakeHeld removes the connections for which which returns true from the table, and
// wakes the goroutine of each. It never blocks: admitted has room, because a connection
// is entered again only after its goroutine was woken.
func (s *Server) wakeHeld(which func(*heldConn) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.mu.held {
		if which(&h) {
			s.dropHeld(h)
			h.admitted <- struct{}{}
		}
	}
}

// Admit wakes the handshakes that wait for a quorum (replica.Clients).
func (s *Server) Admit() { s.wakeHeld(func(h *heldConn) bool { return !h.ahead }) }

// catchUp wakes the handshakes whose clients have seen no more than what is applied.
// Flush calls it, in the stage Apply.
func (s *Server) catchUp() {
	last := s.replica.LastApplied()
	s.wakeHeld(func(h *heldConn) bool { return h.ahead && h.seen <= last })
}
