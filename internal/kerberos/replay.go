package kerberos

import (
	"crypto/sha256"
	"log/slog"
	"sync"
	"time"
)

// maxReplays is how many logins a replay cache remembers.
const maxReplays = 1 << 18

// digest identifies an authenticator.
type digest [16]byte

// replays remembers the authenticators of recent logins, so that a recorded one is refused.
// It holds two generations of logins; a generation lasts for the time during which an
// authenticator is valid, so an entry is kept at least that long. With a file it remembers
// them after a restart, too. Several goroutines may use it at once.
type replays struct {
	lifetime time.Duration
	most     int
	file     *replayFile // nil: in memory alone
	mu       struct {
		sync.Mutex
		loaded       bool      // the file is read, if there is one
		ends         time.Time // of the present generation
		present, old map[digest]struct{}
	}
}

// newReplays returns a cache for authenticators that are accepted if they differ by at
// most skew from the clock: one may be valid for twice as long. Without a name there is no
// file. The file is read and written from the first login on.
func newReplays(skew time.Duration, most int, file string, log *slog.Logger) *replays {
	r := &replays{lifetime: 2 * skew, most: most}
	if file != "" {
		r.file = &replayFile{name: file, log: log}
	}
	return r
}

// add remembers an encrypted authenticator. It fails if that was seen before, or if the
// cache is full.
func (r *replays) add(authenticator []byte, now time.Time) error {
	sum := sha256.Sum256(authenticator)
	key := digest(sum[:])
	r.mu.Lock()
	defer r.mu.Unlock()
	r.loadLocked(now)
	if !now.Before(r.mu.ends) {
		r.mu.old = r.mu.present
		if !now.Before(r.mu.ends.Add(r.lifetime)) {
			r.mu.old = nil
		}
		r.mu.present, r.mu.ends = map[digest]struct{}{}, now.Add(r.lifetime)
		r.file.begin(r.mu.ends)
	}
	_, again := r.mu.present[key]
	if _, before := r.mu.old[key]; again || before {
		return refused("the ticket's authenticator was used before: a replay")
	}
	if len(r.mu.present)+len(r.mu.old) >= r.most {
		return refused("more than %d logins within %v: the replay cache is full", r.most, 2*r.lifetime)
	}
	r.mu.present[key] = struct{}{}
	r.file.add(key)
	return nil
}

// loadLocked reads the file, once. The end of a generation that is too late, since the clock
// was wrong, is brought back. REQUIRES: r.mu.
func (r *replays) loadLocked(now time.Time) {
	if r.file == nil || r.mu.loaded {
		return
	}
	r.mu.loaded = true
	present, old := r.file.load(r.most)
	if now.Before(old.ends.Add(r.lifetime)) {
		r.mu.old = old.set
	}
	r.mu.present, r.mu.ends = present.set, present.ends
	if latest := now.Add(r.lifetime); r.mu.ends.After(latest) {
		r.mu.ends = latest
	}
}
