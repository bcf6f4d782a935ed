package pipeline

import (
	"math"
	"time"
)

// A round is what a leader proposes at once: one packet to each follower, one fsync
// on each server. Clients that have waited for a round come back together when
// they have their answers, though not in the same microsecond. A leader that begins
// the next round with the first of them makes the others wait for the round after
// that: a request then takes nearly two rounds, and rounds are half as large. So a
// leader whose log is idle waits for as many requests as it has answered (ADR 11).
//
// While its log is written a leader waits as well, until the last round is committed
// and for no longer than maxGather: if its own disk is slow, the disks of a quorum
// commit without it.
//
// Whether clients send their next requests at once is not known; the last waits tell it.
// After a wait in which no request came some rounds begin at once, twice as many each
// time.
type rounds struct {
	gathers  bool          // this server leads an ensemble
	asked    int           // requests of the last round
	answered int           // transactions committed since it began
	until    time.Duration // when the wait for the clients that were answered ends; 0 while none waits
	logUntil time.Duration // when the wait for the log ends; 0 while none waits
	began    time.Duration // the last round
	took     time.Duration // from there to its commit
	skip     int           // rounds that are to begin at once
	misses   int           // waits in which no request came, one after the other; at most maxMisses
}

const (
	maxGather   = time.Millisecond // the longest wait; otherwise as long as the last round took
	maxGathered = 256              // the most requests that wait; more are a round worth its fsync
	maxMisses   = 6                // 2^6: one wait in 64 rounds, to see whether it pays again
)

// Never is later than any time.
const Never = time.Duration(math.MaxInt64)

// Gather tells whether this server leads an ensemble, and so gathers requests for
// its rounds. Others pass every request on at once. What was remembered is forgotten.
func (m *Machine) Gather(yes bool) { m.rounds = rounds{gathers: yes} }

// Alone tells that this server has no ensemble. What its disk has not made durable no
// other server commits, so a round waits while jobs wait for Log, and a small one until Log has ended its
// write: the next write carries them all, and one batch costs less than many. Otherwise the first client that comes
// while Log writes would have the next write for itself, and the others the one after that (ADR 11).
func (m *Machine) Alone() { m.alone = true }

// Committed counts n transactions that clients will hear of now.
func (m *Machine) Committed(n int, now time.Duration) {
	m.rounds.answered += n
	m.rounds.took = now - m.rounds.began
}

// Forwards tells how many requests of learners wait for a round.
func (m *Machine) Forwards(n int) { m.forwards = n }

// Round reports whether Order is to make a round now of all the requests that wait,
// this server's clients' and the learners'. They are counted out then. Order's owner
// asks, until it hears no.
func (m *Machine) Round(now time.Duration) bool {
	if !m.roundDue(now) {
		return false
	}
	m.rounds.begin(m.requests+m.forwards, now)
	m.requests, m.forwards = 0, 0
	return true
}

// roundDue reports whether the requests that wait are a round. If not, it notes
// until when they wait.
func (m *Machine) roundDue(now time.Duration) bool {
	r, waiting := &m.rounds, m.requests+m.forwards
	switch {
	case waiting == 0:
		return false
	case m.closing:
		return true
	case m.alone:
		return m.jobs == 0 && (m.writing == 0 || waiting > SmallBatch)
	case !r.gathers:
		return true
	case m.Unlogged() > 0 && r.answered < r.asked:
		if r.logUntil == 0 {
			r.logUntil = now + maxGather
		}
		return waiting > SmallBatch || now >= r.logUntil
	case r.skip > 0 || waiting >= min(r.answered, maxGathered+1):
		return true
	case r.until == 0:
		r.until = now + min(r.took, maxGather)
	}
	return now >= r.until
}

// due is when Order has something to do by the clock: its deadline, or the end of
// a wait for a round. While a worker runs Order it is Never: the Orderer is woken when
// that has ended.
func (m *Machine) due() time.Duration {
	if m.owned[Order] {
		return Never
	}
	at := m.deadline
	if m.requests+m.forwards == 0 {
		return at
	}
	for _, until := range [...]time.Duration{m.rounds.until, m.rounds.logUntil} {
		if until > 0 {
			at = min(at, until)
		}
	}
	return at
}

// begin notes that a round of n requests begins.
func (r *rounds) begin(n int, now time.Duration) {
	switch {
	case r.until == 0:
		r.skip = max(r.skip-1, 0)
	case now < r.until:
		r.misses = 0
	default:
		r.misses = min(r.misses+1, maxMisses)
		r.skip = 1<<r.misses - 1
	}
	r.answered, r.asked, r.until, r.logUntil, r.began = 0, n, 0, 0, now
}
