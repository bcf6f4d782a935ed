package transport

import (
	"log/slog"
	"sync"
	"time"
)

// How many lines refusals write: refusalBurst at once, then one each
// refusalPeriod.
const (
	refusalBurst  = 20
	refusalPeriod = time.Second
)

// refusals logs who was turned away and why. A flood of connections makes a few
// lines, which say how many are left out.
type refusals struct {
	log *slog.Logger
	mu  struct {
		sync.Mutex
		full    time.Time // when a whole burst is allowed again
		omitted int
	}
}

// note writes a line, or counts it.
func (r *refusals) note(port, remote string, reason error) {
	now := time.Now()
	r.mu.Lock()
	if r.mu.full.Before(now) {
		r.mu.full = now
	}
	if r.mu.full.Sub(now) > (refusalBurst-1)*refusalPeriod {
		r.mu.omitted++
		r.mu.Unlock()
		return
	}
	r.mu.full = r.mu.full.Add(refusalPeriod)
	omitted := r.mu.omitted
	r.mu.omitted = 0
	r.mu.Unlock()
	attrs := []any{"port", port, "remote", remote, "err", reason}
	if omitted > 0 {
		attrs = append(attrs, "omitted", omitted)
	}
	r.log.Warn("connection refused", attrs...)
}
