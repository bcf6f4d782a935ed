package replica

import (
	"testing"
	"time"
)

// A leader waits for as many requests as it has answered, as long as the last round
// took; after a wait in vain some rounds begin at once, twice as many each time.
func TestGathering(t *testing.T) {
	const round = 400 * time.Microsecond
	var g gathering
	now := time.Second
	if n := g.hold(now); n != 0 {
		t.Fatalf("%d held with nobody answered", n)
	}
	// next commits a round of ten, and reports whether a request then waits.
	next := func() bool {
		g.begin(now)
		now += round
		g.committed(7, now)
		g.committed(3, now)
		return g.hold(now) == 9
	}
	for range 3 { // all come back in time
		if !next() {
			t.Fatal("not waited")
		}
		g.wait(now)
		now += round / 2
		g.wait(now) // another one; it does not wait longer for that
		if at := now + round/2; g.until != at {
			t.Fatalf("waits until %v, want %v", g.until, at)
		}
	}
	for misses := 1; misses <= maxMisses+1; misses++ { // somebody does not
		if !next() {
			t.Fatal("not waited")
		}
		g.wait(now)
		now += round
		if n := g.hold(now); n != 0 {
			t.Fatalf("%d held when the time is over", n)
		}
		for skipped := range 1<<min(misses, maxMisses) - 1 {
			if next() {
				t.Fatalf("after %d waits in vain, and %d rounds without, there is another", misses, skipped)
			}
		}
	}
	if !next() {
		t.Fatal("not waited")
	}
	g.wait(now)
	if next(); g.misses != 0 {
		t.Error("a wait that was worth it leaves misses")
	}
}

// A long round is not waited for as long.
func TestGatheringEnds(t *testing.T) {
	var g gathering
	g.begin(time.Second)
	g.committed(5, time.Minute)
	g.wait(time.Minute)
	if d := g.until - time.Minute; d != maxGather {
		t.Errorf("waits for %v", d)
	}
	g.committed(100_000, time.Minute)
	if n := g.hold(time.Minute); n != maxGathered {
		t.Errorf("%d held", n)
	}
}

// What a leader holds it proposes when there is enough, or when the time is over.
func TestLeaderWaitsForTheAnswered(t *testing.T) {
	inGroup(t, 3, 0, nil, func(g *group) {
		m := g.leader()
		g.session(m, 50000)
		before := m.rep.LastApplied()
		answered := func() {
			m.rep.turn.Lock()
			defer m.rep.turn.Unlock()
			m.rep.gathering = gathering{answered: 3, took: time.Hour}
		}
		answered()
		m.rep.Bring(m.sessions(1))
		pass(maxGather / 2)
		if z := m.rep.LastApplied(); z != before {
			t.Fatalf("applied %v, before %v", z, before)
		}
		pass(maxGather)
		if z := m.rep.LastApplied(); z != before+1 {
			t.Fatalf("when the time is over applied %v, before %v", z, before)
		}
		answered()
		f := g.in(Follower)[0]
		f.rep.Bring(f.sessions(1))
		m.rep.Bring(m.sessions(1))
		pass(maxGather / 2)
		if z := m.rep.LastApplied(); z != before+1 {
			t.Fatalf("two of three are proposed: %v", z)
		}
		m.rep.Bring(m.sessions(1))
		pass(maxGather / 4)
		if z := m.rep.LastApplied(); z != before+4 {
			t.Fatalf("three of three: applied %v, before %v", z, before+1)
		}
		g.agree()
	})
}
