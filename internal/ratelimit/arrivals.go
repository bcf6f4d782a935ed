package ratelimit

import (
	"net/netip"
	"time"
)

// ArrivalsPerSecond is how many connections of one address are admitted in a second.
const ArrivalsPerSecond = 100

const (
	betweenArrivals = time.Second / ArrivalsPerSecond
	mostArriving    = 10000 // addresses that are remembered
)

// Arrivals bounds how many connections of one address are admitted in a second. Addresses of IPv6 with the same first
// bits count as one. The zero value has no address, and Burst is to be set. The caller serializes its calls. The origin of now is the caller's.
type Arrivals struct {
	Burst int // of connections that an address may open at once, after a while without any

	next map[netip.Addr]time.Duration // when the last admission of an address would have been at an even rate
}

// Admit reports whether a connection may be admitted. One that may not takes nothing of what is allowed.
func (a *Arrivals) Admit(from netip.Addr, now time.Duration) bool {
	from = HostOf(from)
	next, known := a.next[from]
	if !known || next < now-a.memory() {
		next = now - a.memory()
	}
	if next += betweenArrivals; next > now {
		return false
	}
	if !known && len(a.next) >= mostArriving {
		a.forget(now)
	}
	if a.next == nil {
		a.next = map[netip.Addr]time.Duration{}
	}
	a.next[from] = next
	return true
}

// memory is the time after which an address may have a burst again.
func (a *Arrivals) memory() time.Duration { return time.Duration(a.Burst) * betweenArrivals }

// forget drops the addresses that may have a burst again; all if there are none.
func (a *Arrivals) forget(now time.Duration) {
	for from, next := range a.next {
		if next <= now-a.memory() {
			delete(a.next, from)
		}
	}
	if len(a.next) >= mostArriving {
		clear(a.next)
	}
}
