package server

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pinfold-zk/pinfold/internal/config"
)

// throttle is the token bucket before the handshake (features page, section 17). A
// connection costs a token or, with weights, a number of tokens that depends on the
// kind of session. It is closed if there are too few tokens. While tokens are short,
// some connections are dropped at random before the bucket is empty (BLUE).
type throttle struct {
	cfg *config.Throttle

	mu       *sync.Mutex
	tokens   int
	filled   time.Time
	frozen   time.Time // the dropping probability may not change before this time
	dropping float64
}

func newThrottle(cfg *config.Throttle) throttle {
	return throttle{cfg: cfg, mu: new(sync.Mutex), tokens: cfg.Tokens, filled: time.Now()}
}

// admit reports whether a connection may enter. renewal means that it resumes a
// session.
func (t *throttle) admit(renewal bool) bool {
	if t.cfg.Tokens <= 0 {
		return true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	t.fill(now)
	cost := 1
	if t.cfg.Weighted {
		cost = t.cfg.GlobalWeight
		if renewal {
			cost = t.cfg.RenewalWeight
		}
	}
	if t.cfg.FreezeTime >= 0 {
		t.adjust(now, cost)
		if t.dropping > 0 && rand.Float64() < t.dropping {
			return false
		}
	}
	if t.tokens < cost {
		return false
	}
	t.tokens -= cost
	return true
}

// fill adds the tokens of the fill intervals that have passed.
func (t *throttle) fill(now time.Time) {
	if t.cfg.FillTime <= 0 {
		return
	}
	steps := int(now.Sub(t.filled) / t.cfg.FillTime)
	if steps <= 0 {
		return
	}
	t.filled = t.filled.Add(time.Duration(steps) * t.cfg.FillTime)
	if missing := t.cfg.Tokens - t.tokens; steps > missing {
		steps = missing // also prevents an overflow of the product below
	}
	t.tokens = min(t.tokens+steps*t.cfg.FillCount, t.cfg.Tokens)
}

// adjust raises the dropping probability when the bucket is empty, and lowers it when
// the bucket is full enough.
func (t *throttle) adjust(now time.Time, cost int) {
	if now.Before(t.frozen) {
		return
	}
	switch {
	case t.tokens < cost:
		t.dropping = min(t.dropping+t.cfg.DropIncrease, 1)
	case float64(t.tokens) > float64(t.cfg.Tokens)*t.cfg.DecreaseAt:
		t.dropping = max(t.dropping-t.cfg.DropDecrease, 0)
	default:
		return
	}
	t.frozen = now.Add(t.cfg.FreezeTime)
}

// largeRequests bounds the bytes of large requests that are in the pipeline.
type largeRequests struct {
	threshold, limit int64
	inFlight         *atomic.Int64
}

func newLargeRequests(cfg *config.Requests) largeRequests {
	return largeRequests{int64(cfg.LargeBytes), int64(cfg.LargeMaxBytes), new(atomic.Int64)}
}

// admit counts a request, unless it is large and there is no room for it.
func (l *largeRequests) admit(bytes int) bool {
	if l.threshold < 0 || int64(bytes) <= l.threshold {
		return true
	}
	if l.inFlight.Add(int64(bytes)) > l.limit {
		l.inFlight.Add(int64(-bytes))
		return false
	}
	return true
}

// done counts a request as finished.
func (l *largeRequests) done(bytes int) {
	if l.threshold >= 0 && int64(bytes) > l.threshold {
		l.inFlight.Add(int64(-bytes))
	}
}

// dropProbability returns the current probability to drop a connection.
func (t *throttle) dropProbability() float64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.dropping
}
