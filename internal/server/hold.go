package server

import (
	"fmt"
	"slices"
	"time"

	"github.com/pinfold-zk/pinfold/internal/replica"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// A server without a quorum cannot give anybody a session. Apache closes the
// connection at once, and the client goes round the servers, waiting longer each
// time. Our elections take some tens of milliseconds, so that a handshake is held
// until the next leader is there, and answered then.
//
// It is held only while an election is likely to end: until holdAtMost, or a tick
// if that is less, after the server has lost its quorum or has started. After
// that, as on a server that is cut off, connections are closed at once; so they are on
// one that has left its role because its disk stalls, as the others elect a leader
// without it.
//
// A client that has seen a later state than this server of an ensemble has (P7) is held
// as well, for as long: it comes from another server, and what it has seen is most
// likely on its way here, or waits to be applied here.
//
// A held connection counts as any other, for maxClientCnxns too. Its goroutine
// waits, as it does for every session. The replica only wakes it: it goes on with the
// handshake itself, so that thousands of clients that come back at the end of an election
// do not keep the stages busy.

// holdAtMost is how long handshakes are held.
const holdAtMost = 500 * time.Millisecond

// heldConn is a connection whose handshake is held.
type heldConn struct {
	c     *conn
	ahead bool    // until seen is applied, else until there is a quorum
	seen  zk.Zxid // by the client
}

func (s *Server) holdFor() time.Duration { return min(holdAtMost, s.cfg.Session.Tick) }

// errNoQuorum ends a connection to a server without a quorum.
var errNoQuorum = fmt.Errorf("%w: this server has no quorum", errEnd)

// awaitQuorum holds a handshake until there is a quorum; false means that there is
// nothing to wait for. REQUIRES: to be in serve's goroutine; mu.ready is set.
func (s *Server) awaitQuorum(c *conn, req *wire.ConnectRequest) bool {
	until := s.replica.Since() + s.holdFor()
	if s.replica.Mode() != replica.Idle || s.replica.Stopping() || s.replica.DiskAway() || s.replica.Now() >= until {
		return false
	}
	c.patience = until
	s.hold(c, req, false)
	if s.replica.Mode() != replica.Idle {
		s.Admit() // it may have looked before we were there
	}
	return true
}

// awaitZxid holds a handshake until what the client has seen is applied.
func (s *Server) awaitZxid(c *conn, req *wire.ConnectRequest) {
	s.hold(c, req, true)
	if s.replica.LastApplied() >= req.LastZxidSeen {
		s.catchUp() // likewise
	}
}

// hold enters a connection into the table. REQUIRES: to be in serve's goroutine.
func (s *Server) hold(c *conn, req *wire.ConnectRequest, ahead bool) {
	if c.admitted == nil {
		c.admitted = make(chan struct{}, 1)
		c.heldRequest = *req
		c.heldRequest.Password = slices.Clone(req.Password) // that of req is part of the input
	}
	s.mu.Lock()
	s.mu.held[c] = heldConn{c: c, ahead: ahead, seen: req.LastZxidSeen}
	s.mu.Unlock()
	if ahead {
		s.ahead.Add(1)
	}
}

// unhold takes a connection back; held is false if it is not held any more. err is
// what it has waited for in vain.
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

// dropHeld takes h out, if it is there. REQUIRES: s.mu.
func (s *Server) dropHeld(h heldConn) {
	delete(s.mu.held, h.c)
	if h.ahead {
		s.ahead.Add(-1)
	}
}

// wakeHeld removes the connections that which chooses from the table, and wakes the
// goroutine of each. It never blocks: admitted has room, because a connection is entered
// again only after its goroutine was woken.
func (s *Server) wakeHeld(which func(*heldConn) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.mu.held {
		if which(&h) {
			s.dropHeld(h)
			h.c.admitted <- struct{}{}
		}
	}
}

// Admit wakes the handshakes that wait for a quorum (replica.Clients).
func (s *Server) Admit() { s.wakeHeld(func(h *heldConn) bool { return !h.ahead }) }

// catchUp wakes the handshakes whose clients have seen nothing that is not applied.
// Flush calls it, from the stage Apply.
func (s *Server) catchUp() {
	last := s.replica.LastApplied()
	s.wakeHeld(func(h *heldConn) bool { return h.ahead && h.seen <= last })
}
