package replica

import (
	"time"

	"github.com/pinfold-zk/pinfold/internal/zab"
)

// A round is what a leader proposes at once: one packet to each follower, one fsync
// on each server. Clients that have waited for a round come back together, when
// they have their answers, though not in the same microsecond. A leader that begins
// the next round with the first of them has the others wait for the one after that:
// a request then takes nearly two rounds, and these are half as large. So a leader
// whose log is idle waits for as many requests as it has answered.
//
// Whether clients come back at once cannot be known, but remembered: after a wait
// that was in vain some rounds begin at once, twice as many each time.
type gathering struct {
	answered int           // transactions committed since the last round began
	held     int           // requests of this server's clients that wait in the inbox
	until    time.Duration // when waiting ends; 0 while nobody waits
	began    time.Duration // the last round
	took     time.Duration // from there to its commit
	skip     int           // rounds that are to begin at once
	misses   int           // waits in vain, one after the other; at most maxMisses
}

const (
	maxGather   = time.Millisecond // a wait, at most; otherwise as long as the last round took
	maxGathered = 256              // requests that may be held; more are a round worth its fsync
	maxMisses   = 6                // 2^6: one wait in 64 rounds, to see whether it pays again
)

// committed counts n transactions that clients will hear of now.
func (g *gathering) committed(n int, now time.Duration) {
	g.answered += n
	g.took = now - g.began
}

// hold is how many requests do not make a round yet.
func (g *gathering) hold(now time.Duration) int {
	if g.skip > 0 || g.answered == 0 || g.until > 0 && now >= g.until {
		return 0
	}
	return min(g.answered-1, maxGathered)
}

// wait notes that requests are held.
func (g *gathering) wait(now time.Duration) {
	if g.until == 0 {
		g.until = now + min(g.took, maxGather)
	}
}

// begin notes that a round begins.
func (g *gathering) begin(now time.Duration) {
	switch {
	case g.until == 0:
		g.skip = max(g.skip-1, 0)
	case now < g.until:
		g.misses = 0
	default:
		g.misses = min(g.misses+1, maxMisses)
		g.skip = 1<<g.misses - 1
	}
	g.answered, g.held, g.until, g.began = 0, 0, 0, now
}

// holdsBack is how many requests wait for others before they are proposed: a
// leader gathers them while its log is written, and while it expects more.
func (r *Replica) holdsBack() int {
	switch {
	case r.core == nil || r.role != zab.Leading:
		return 0
	case r.unlogged.Load() > 0:
		return smallBatch
	}
	return r.gathering.hold(r.Now())
}

// roundIsDue reports whether what has gathered is to be proposed now.
func (r *Replica) roundIsDue() bool {
	waiting := r.gathering.held + len(r.incoming)
	if waiting == 0 {
		return false
	}
	if waiting > r.holdsBack() {
		return true
	}
	if r.unlogged.Load() == 0 {
		r.gathering.wait(r.Now())
	}
	return false
}
