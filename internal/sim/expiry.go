package sim

import (
	"time"

	"github.com/pinfold-zk/pinfold/internal/txn"
)

// heard notes that a server has read something from the client of a session. A member that only
// reads reports it to no leader.
func (c *client) heard(k *clientConn) {
	life := c.s.history.sessions[c.session]
	if k.joined && c.conn == k && c.home.m == k.m {
		c.home.heard = c.s.now
	}
	if life == nil || !k.joined || c.conn != k || k.reads {
		return
	}
	life.heard = append(life.heard, c.s.now)
}

// disturbed notes that something happens that may keep a leader from learning that
// a client lives: a fault, until it is over; a member that begins or ends a role; a
// link that begins or ends.
func (s *Sim) disturbed(until time.Duration) { s.quiet = max(s.quiet, until) }

// endsEarly checks a session that the leader ends by itself, or calls ended. Where
// nothing goes wrong, a server has heard nothing of the client for the session's
// timeout, beside what the server may not have reported to the leader yet.
func (h *history) endsEarly(tx *txn.Txn) {
	s, life := h.s, h.sessions[tx.Session]
	p := &s.profile
	decided := s.check.broadcast[tx.Zxid].at
	report := 3*p.tick + 4*p.netDelay + 20*p.loopDelay
	if p.slowPacket > 0 {
		return
	}
	for i := len(life.heard) - 1; i >= 0; i-- {
		at := life.heard[i]
		if at > decided-report {
			continue
		}
		if at < s.quiet+report {
			return
		}
		s.cover.Expiries++
		if float64(decided-at)*(1+p.drift) < float64(life.timeout) {
			s.fail("SessionExpiry", "session %v, timeout %v, is ended at %v though a server has heard of it at %v, and nothing goes wrong since %v",
				tx.Session, life.timeout, decided, at, s.quiet)
		}
		return
	}
}
