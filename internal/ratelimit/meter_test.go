package ratelimit

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// A model of a bucket: tokens as a number, which grows with time.
type modelBucket struct {
	rate, tokens float64
	at           time.Duration
}

func (m *modelBucket) advance(now time.Duration) {
	m.tokens = min(m.tokens+m.rate*(now-m.at).Seconds(), m.rate*Burst.Seconds())
	m.at = now
}

// until is when the tokens are no longer owed.
func (m *modelBucket) until() time.Duration {
	return m.at - time.Duration(m.tokens/m.rate*float64(time.Second))
}

// A Meter is what a naive bucket is, at random times, with random takes and changes of the
// rates.
func TestModel(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		rates := Limits{Requests: 1 + rng.Int64N(5000), Bytes: 1 + rng.Int64N(1e7)}
		now := time.Duration(rng.Int64N(int64(time.Hour)))
		var m Meter
		m.Set(rates, now)
		full := func(rate int64) *modelBucket { return &modelBucket{float64(rate), float64(rate), now} }
		requests, bytes := full(rates.Requests), full(rates.Bytes)
		for step := range 300 {
			now += time.Duration(rng.Int64N(int64(500 * time.Millisecond)))
			requests.advance(now)
			bytes.advance(now)
			if rng.IntN(50) == 0 {
				rates.Requests = 1 + rng.Int64N(5000)
				m.Set(rates, now)
				requests = full(rates.Requests)
			}
			callers := 1 + rng.IntN(5)
			r, b := m.Room(callers, now)
			checkRoom(t, seed, step, r, callers, requests)
			checkRoom(t, seed, step, b, callers, bytes)
			n, size := rng.Int64N(20), rng.Int64N(50_000)
			requests.tokens -= float64(n)
			bytes.tokens -= float64(size)
			got, want := m.Take(n, size, now), max(requests.until(), bytes.until())
			if d := got - want; d > time.Microsecond || d < -time.Microsecond {
				t.Fatalf("seed %d, step %d: Take: %v, the model says %v", seed, step, got, want)
			}
			if full := requests.tokens >= requests.rate && bytes.tokens >= bytes.rate; m.Full(now) && !full && n+size > 0 {
				t.Fatalf("seed %d, step %d: it is full", seed, step)
			}
		}
	}
}

func checkRoom(t *testing.T, seed uint64, step int, got int64, callers int, m *modelBucket) {
	t.Helper()
	want := max(1, max(m.tokens, m.rate*quantum.Seconds())/float64(callers))
	if math.Abs(float64(got)-want) > 1 {
		t.Fatalf("seed %d, step %d: Room: %d, the model says %v", seed, step, got, want)
	}
}

// Callers that share a Meter, and each wait for the time of their own Take, keep the rate
// together, and have equal shares.
func TestSharedMeterKeepsTheRate(t *testing.T) {
	const rate, callers, span = 100, 20, time.Minute
	var m Meter
	m.Set(Limits{Requests: rate}, 0)
	var until [callers]time.Duration
	var done [callers]int64
	for now := time.Duration(0); now < span; now += time.Millisecond {
		var took [callers]int64 // all look before any takes
		for i := range until {
			if until[i] <= now {
				took[i], _ = m.Room(callers, now)
			}
		}
		for i, n := range took {
			if n > 0 {
				done[i] += n
				until[i] = m.Take(n, 0, now)
			}
		}
	}
	total := int64(0)
	for i := range done {
		total += done[i]
	}
	if want := int64(rate * (span + Burst).Seconds()); total < want-rate || total > want+callers {
		t.Errorf("%d requests in a minute, want about %d", total, want)
	}
	for i := range callers {
		if d := done[i] - done[callers-1]; d > 2 || d < -2 {
			t.Errorf("caller %d: %d requests, the last one %d", i, done[i], done[callers-1])
		}
	}
}

func TestUnlimited(t *testing.T) {
	var m Meter
	m.Set(Limits{}, time.Second)
	if r, b := m.Room(7, time.Minute); r != math.MaxInt64 || b != math.MaxInt64 {
		t.Errorf("Room: %d, %d", r, b)
	}
	if until := m.Take(1<<40, 1<<40, time.Minute); until > time.Minute || !m.Full(time.Minute) {
		t.Errorf("Take: %v", until)
	}
}

// Whatever is taken, the debt is bounded, and nothing overflows.
func TestDebtIsBounded(t *testing.T) {
	var m Meter
	m.Set(Limits{Requests: 1, Bytes: 1}, 0)
	for range 5 {
		if until := m.Take(math.MaxInt64, math.MaxInt64, time.Minute); until > time.Minute+maxDebt || until < time.Minute {
			t.Fatalf("Take: %v", until)
		}
	}
	m.Set(Limits{Requests: 2, Bytes: 2}, time.Minute) // a correction of the file counts at once
	if !m.Full(time.Minute) {
		t.Error("a bucket with a new rate is not full")
	}
}
