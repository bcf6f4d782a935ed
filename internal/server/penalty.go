package server

import (
	"net/netip"
	"sync"
	"time"

	"github.com/pinfold-zk/pinfold/internal/ratelimit"
	"github.com/pinfold-zk/pinfold/zk"
)

// penalties is a ratelimit.Penalties for all connections. A client whose login has failed gets
// the reply late: the goroutine of its connection waits before it sends it. Other clients,
// with the same address or not, never wait.
type penalties struct {
	mu struct {
		sync.Mutex
		ratelimit.Penalties
	}
}

// failed notes a failed login, and returns how long its connection waits.
func (p *penalties) failed(from netip.Addr, now time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.Failed(from, now)
}

// penalize counts a failed login and makes awaitPenalty wait. REQUIRES: the goroutine of serve.
func (c *conn) penalize() {
	c.s.stats.LoginsFailed.Add(1)
	c.penalty = c.s.penalties.failed(c.remote.Addr(), c.s.replica.Now())
}

// awaitPenalty waits before the reply to a failed login is sent. REQUIRES: the goroutine of
// serve, without c.mu.
func (c *conn) awaitPenalty() {
	if c.penalty == 0 {
		return
	}
	timer := time.NewTimer(c.penalty)
	defer timer.Stop()
	c.penalty = 0
	select {
	case <-timer.C:
	case <-c.flight.account.Closed():
	}
}

// missedSuper reports whether a new identity has the superuser's name, and another password.
func (c *conn) missedSuper(ids []zk.ID) bool {
	return len(ids) > 0 && c.s.auth.MissesSuper(ids[len(ids)-1])
}
