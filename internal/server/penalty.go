package server

import (
	"net/netip"
	"sync"
	"time"

	"github.com/pinfold-zk/pinfold/zk"
)

// A client whose login has failed gets the reply late: the goroutine of its connection waits
// before it sends it, the longer the more logins from its address have failed; the first three
// cost nothing. So passwords can be tried only slowly, and other clients, with the same address
// or not, never wait.
const (
	freeFailures    = 3
	firstPenalty    = 100 * time.Millisecond
	longestPenalty  = 3 * time.Second
	forgiveAfter    = time.Minute // without a failure
	mostOffenders   = 10000       // addresses that are remembered
	prefixBitsOfIP6 = 64          // addresses of IPv6 with the same first bits count as one
)

// penalties remembers from which addresses logins have failed.
type penalties struct {
	mu struct {
		sync.Mutex
		offenders map[netip.Addr]offender
	}
}

type offender struct {
	failures int
	last     time.Duration // by Replica.Now
}

// hostOf returns the address under which a client's machine is counted: those of IPv6 with the same
// first bits count as one.
func hostOf(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	if a.Is6() && !a.IsLoopback() {
		prefix, _ := a.Prefix(prefixBitsOfIP6) // fails only with too many bits
		return prefix.Addr()
	}
	return a
}

// failed notes a failed login, and returns how long its connection waits. Connections from
// this machine never wait: a proxy here may carry those of many clients.
func (p *penalties) failed(from netip.Addr, now time.Duration) time.Duration {
	if from = hostOf(from); from.IsLoopback() {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	o := p.mu.offenders[from]
	if now-o.last > forgiveAfter {
		o.failures = 0
	}
	if o.failures == 0 && len(p.mu.offenders) >= mostOffenders {
		p.forget(now)
	}
	if p.mu.offenders == nil {
		p.mu.offenders = map[netip.Addr]offender{}
	}
	p.mu.offenders[from] = offender{min(o.failures+1, 30), now}
	if o.failures < freeFailures {
		return 0
	}
	return min(firstPenalty<<min(o.failures-freeFailures, 5), longestPenalty)
}

// forget drops the addresses that are forgiven; all of them if there are none. REQUIRES: p.mu.
func (p *penalties) forget(now time.Duration) {
	for a, o := range p.mu.offenders {
		if now-o.last > forgiveAfter {
			delete(p.mu.offenders, a)
		}
	}
	if len(p.mu.offenders) >= mostOffenders {
		clear(p.mu.offenders)
	}
}

// penalize counts a failed login and makes awaitPenalty wait. REQUIRES: the goroutine of serve.
func (c *conn) penalize() {
	c.s.stats.LoginsFailed.Add(1)
	if !c.stepped {
		c.penalty = c.s.penalties.failed(c.remote.Addr(), c.s.replica.Now())
	}
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
