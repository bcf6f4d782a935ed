// Package ratelimit says how much each session and each identity may use of a server:
// it reads the limits from their file, and measures rates by token buckets. It also says how
// many lines of a kind are logged, and how long an address waits after failed logins. Time is
// an argument; nothing here waits.
//
//	limits.go     limits, and the file that they are read from
//	meter.go      token buckets
//	lines.go      lines of the log
//	penalties.go  failed logins
package ratelimit

import (
	"math"
	"time"
)

// Burst is the time in which an empty bucket becomes full: a client that was idle may use
// the tokens of this time at once.
const Burst = time.Second

// quantum is the time whose tokens the callers may always use together. A client that is limited
// to many small requests is so served in batches, and its connection wakes rarely.
const quantum = 10 * time.Millisecond

// maxDebt bounds how long after a Take a bucket is empty, whatever was taken.
const maxDebt = time.Hour

// A bucket holds tokens that arrive at a rate, up to those of Burst. Tokens may be taken
// that are not there: the bucket then owes them, and is empty until they have arrived. So
// one time is the complete state: when the bucket was empty, or will be.
type bucket struct {
	rate  int64 // tokens in a second; 0 or less: there is no limit
	empty time.Duration
}

// fill makes the bucket full.
func (b *bucket) fill(now time.Duration) { b.empty = now - Burst }

// set changes the rate. A bucket whose rate has changed is full.
func (b *bucket) set(rate int64, now time.Duration) {
	if b.rate != rate {
		b.rate = rate
		b.fill(now)
	}
}

// room returns how many tokens one of several callers may take together: its share of those
// that are there, or of those of a quantum, and at least one.
func (b *bucket) room(callers int, now time.Duration) int64 {
	if b.rate <= 0 {
		return math.MaxInt64
	}
	span := min(max(now-b.empty, quantum), Burst)
	return max(1, int64(float64(b.rate)*span.Seconds()/float64(callers)))
}

// take takes n tokens and returns when the bucket owes none of them.
func (b *bucket) take(n int64, now time.Duration) (until time.Duration) {
	if b.rate <= 0 {
		return now
	}
	cost := min(float64(n)/float64(b.rate), maxDebt.Seconds())
	b.empty = min(max(b.empty, now-Burst)+time.Duration(cost*float64(time.Second)), now+maxDebt)
	return b.empty
}

// A Meter measures requests and bytes against their rates. The zero Meter limits
// nothing.
type Meter struct{ requests, bytes bucket }

// Set changes the rates, per second; 0 means no limit. The bucket of a rate that has
// changed is full.
func (m *Meter) Set(l Limits, now time.Duration) {
	m.requests.set(l.Requests, now)
	m.bytes.set(l.Bytes, now)
}

// Room returns how many requests, and how many bytes of them, may be handled before the
// next Take, for one of several callers that share the Meter: if all of them do so at the
// same time, they exceed the tokens that are there by little. Both are at least 1. The last
// request may exceed the bytes.
func (m *Meter) Room(callers int, now time.Duration) (requests, bytes int64) {
	return m.requests.room(callers, now), m.bytes.room(callers, now)
}

// Take records requests that were handled. It returns the time before which no more should
// be handled for the caller; that time is not after now if tokens are left. If several
// callers share a Meter, they get successive times, in the order of their calls: each
// waits once, and all together keep the rates.
func (m *Meter) Take(requests, bytes int64, now time.Duration) (until time.Duration) {
	return max(m.requests.take(requests, now), m.bytes.take(bytes, now))
}

// Full reports whether a new Meter with the same rates would behave in the same way.
func (m *Meter) Full(now time.Duration) bool {
	full := func(b *bucket) bool { return b.rate <= 0 || b.empty <= now-Burst }
	return full(&m.requests) && full(&m.bytes)
}
