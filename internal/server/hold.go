package server

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/pinfold-zk/pinfold/internal/replica"
	"github.com/pinfold-zk/pinfold/internal/wire"
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
// waits, as it does for every session; there is no other.

// holdAtMost is how long handshakes are held.
const holdAtMost = 500 * time.Millisecond

// heldConn is a connection whose handshake is held.
type heldConn struct {
	c     *conn
	req   wire.ConnectRequest // with a password of its own
	ahead bool                // until req.LastZxidSeen is applied, else until there is a quorum
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
	s.hold(heldConn{c: c, req: *req})
	if s.replica.Mode() != replica.Idle {
		s.Admit() // it may have looked before we were there
	}
	return true
}

// awaitZxid holds a handshake until what the client has seen is applied.
func (s *Server) awaitZxid(c *conn, req *wire.ConnectRequest) {
	s.hold(heldConn{c: c, req: *req, ahead: true})
	if s.replica.LastApplied() >= req.LastZxidSeen {
		s.catchUp() // likewise
	}
}

func (s *Server) hold(h heldConn) {
	h.req.Password = slices.Clone(h.req.Password)
	s.mu.Lock()
	s.mu.held[h.c] = h
	s.mu.Unlock()
	if h.ahead {
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
		return held, c.tooNew(h.req.LastZxidSeen)
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

// takeHeld takes out those that which chooses, in the order in which they came.
func (s *Server) takeHeld(which func(*heldConn) bool) (taken []heldConn) {
	s.mu.Lock()
	for _, h := range s.mu.held {
		if which(&h) {
			taken = append(taken, h)
			s.dropHeld(h)
		}
	}
	s.mu.Unlock()
	slices.SortFunc(taken, func(a, b heldConn) int { return cmp.Compare(a.c.serial, b.c.serial) })
	return taken
}

// Admit goes on with the handshakes that waited for a quorum (replica.Clients).
func (s *Server) Admit() { s.goOn(s.takeHeld(func(h *heldConn) bool { return !h.ahead })) }

// catchUp goes on with the handshakes whose clients have seen nothing that is not
// applied. Who applies calls it.
func (s *Server) catchUp() {
	last := s.replica.LastApplied()
	s.goOn(s.takeHeld(func(h *heldConn) bool { return h.ahead && h.req.LastZxidSeen <= last }))
}

func (s *Server) goOn(held []heldConn) {
	for i := range held {
		if c := held[i].c; !c.isClosed() {
			if err := c.begin(&held[i].req, s.mode()); err != nil {
				c.noteEnd(err)
				c.kill("refused")
			}
		}
	}
}

func (c *conn) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.closed
}
