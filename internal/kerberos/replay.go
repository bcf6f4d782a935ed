package kerberos

import (
	"crypto/sha256"
	"sync"
	"time"
)

// maxReplays is how many logins a replay cache remembers.
const maxReplays = 1 << 18

// replays remembers the authenticators of recent logins, so that a recorded one is refused.
// It holds two generations of logins; a generation lasts for the time during which an
// authenticator is valid, so an entry is kept at least that long. Several goroutines may
// use it at once.
type replays struct {
	lifetime time.Duration
	most     int
	mu       struct {
		sync.Mutex
		ends         time.Time // of the present generation
		present, old map[[16]byte]struct{}
	}
}

// newReplays returns a cache for authenticators that are accepted if they differ by at
// most skew from the clock: one may be valid for twice as long.
func newReplays(skew time.Duration, most int) *replays {
	return &replays{lifetime: 2 * skew, most: most}
}

// add remembers an encrypted authenticator. It fails if that was seen before, or if the
// cache is full.
func (r *replays) add(authenticator []byte, now time.Time) error {
	sum := sha256.Sum256(authenticator)
	key := [16]byte(sum[:])
	r.mu.Lock()
	defer r.mu.Unlock()
	if !now.Before(r.mu.ends) {
		r.mu.old = r.mu.present
		if !now.Before(r.mu.ends.Add(r.lifetime)) {
			r.mu.old = nil
		}
		r.mu.present, r.mu.ends = map[[16]byte]struct{}{}, now.Add(r.lifetime)
	}
	_, again := r.mu.present[key]
	if _, before := r.mu.old[key]; again || before {
		return refused("the ticket's authenticator was used before: a replay")
	}
	if len(r.mu.present)+len(r.mu.old) >= r.most {
		return refused("more than %d logins within %v: the replay cache is full", r.most, 2*r.lifetime)
	}
	r.mu.present[key] = struct{}{}
	return nil
}
