package ratelimit

import (
	"net/netip"
	"time"
)

// The first failed logins of an address cost nothing; each further one makes it wait longer.
const (
	FreeFailures = 3
	FirstPenalty = 100 * time.Millisecond

	longestPenalty  = 3 * time.Second
	forgiveAfter    = time.Minute // without a failure
	mostOffenders   = 10000       // addresses that are remembered
	prefixBitsOfIP6 = 64          // addresses of IPv6 with the same first bits count as one
)

// Penalties remembers from which addresses logins have failed, and says how long these wait,
// so that passwords can be tried only slowly. Connections from this machine never wait: a
// proxy here may carry those of many clients. The zero value has no address. The caller
// serializes its calls. The origin of now is the caller's.
type Penalties struct{ offenders map[netip.Addr]offender }

type offender struct {
	failures int
	last     time.Duration
}

// Failed notes a failed login, and returns how long its connection waits.
func (p *Penalties) Failed(from netip.Addr, now time.Duration) time.Duration {
	from = HostOf(from)
	if from.IsLoopback() {
		return 0
	}
	wait := p.Wait(from, now)
	o := p.offenders[from]
	if now-o.last > forgiveAfter {
		o.failures = 0
	}
	if o.failures == 0 && len(p.offenders) >= mostOffenders {
		p.forget(now)
	}
	if p.offenders == nil {
		p.offenders = map[netip.Addr]offender{}
	}
	p.offenders[from] = offender{min(o.failures+1, 30), now}
	return wait
}

// Wait returns how long the connection of the next failed login of an address would wait.
func (p *Penalties) Wait(from netip.Addr, now time.Duration) time.Duration {
	o := p.offenders[HostOf(from)]
	if o.failures < FreeFailures || now-o.last > forgiveAfter {
		return 0
	}
	return min(FirstPenalty<<min(o.failures-FreeFailures, 5), longestPenalty)
}

// Forgive forgets the failures of an address.
func (p *Penalties) Forgive(from netip.Addr) { delete(p.offenders, HostOf(from)) }

// HostOf returns the address under which a machine is counted: those of IPv6 with the same first
// bits count as one.
func HostOf(from netip.Addr) netip.Addr {
	from = from.Unmap().WithZone("")
	if from.Is6() && !from.IsLoopback() {
		prefix, _ := from.Prefix(prefixBitsOfIP6) // fails only with too many bits
		from = prefix.Addr()
	}
	return from
}

// forget drops the addresses that are forgiven; all of them if there are none.
func (p *Penalties) forget(now time.Duration) {
	for a, o := range p.offenders {
		if now-o.last > forgiveAfter {
			delete(p.offenders, a)
		}
	}
	if len(p.offenders) >= mostOffenders {
		clear(p.offenders)
	}
}
