package election

import (
	"fmt"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/zk"
)

// candidate is what a living server stands for.
func candidate(s *server) Vote {
	return Vote{Leader: s.cfg.ID, Zxid: s.last, PeerEpoch: s.epoch}
}

// best returns the best candidate among the living servers that may lead.
func (c *cluster) best() Vote {
	best := Vote{Leader: NoCandidate}
	judge := New(Config{Electorate: Electorate{System: c.system}})
	for _, s := range c.living() {
		if v := candidate(s); !s.cfg.Observer && judge.beats(v, best) {
			best = v
		}
	}
	return best
}

// choose returns the servers that live, in random order: all, or some that are
// a quorum.
func (x *chaos) choose() []*server {
	dead := map[int64]bool{}
	few := x.rng.IntN(2) == 0
	for range x.ids() {
		id := x.ids()[x.rng.IntN(len(x.ids()))]
		enough := x.system.Quorum(func(v int64) bool { return v != id && !dead[v] })
		if few && enough {
			dead[id] = true
		}
	}
	var alive []*server
	for _, i := range x.rng.Perm(len(x.ids())) {
		if id := x.ids()[i]; !dead[id] {
			alive = append(alive, x.servers[id])
		}
	}
	return alive
}

// All that are alive look for the first time, and messages flow faster than the
// wait: the best of them is elected by all, once, whoever else is dead.
func TestBestIsElected(t *testing.T) {
	eachSeed(t, func(seed uint64) error {
		x := newChaos(seed)
		return x.electBest(x.choose())
	})
}

func (x *chaos) electBest(alive []*server) error {
	x.slowest = 15 * ms
	results := 0
	x.elected = func(s *server, r Result) {
		results++
		x.settle(s, r)
	}
	for _, s := range alive {
		x.start(s)
		x.run(x.now + between(x.rng, 0, 10*ms))
	}
	began := x.now
	x.tellLinks()
	x.run(x.now + 10*time.Second)
	want := x.best()
	for _, s := range alive {
		if v := s.e.Vote(); s.e.State() == Looking || v.Leader != want.Leader || v.Zxid != want.Zxid {
			return fmt.Errorf("%d after %v: %v, the best is %v", s.cfg.ID, x.now-began, s.e, want)
		}
	}
	if results != len(alive) || len(x.broken) > 0 {
		return fmt.Errorf("%d results of %d servers, %q", results, len(alive), x.broken)
	}
	return nil
}

// Whoever ends an election by votes, with messages lost, repeated and late, has
// the best candidate of the quorum that agrees with it.
func TestBestOfTheQuorum(t *testing.T) {
	eachSeed(t, func(seed uint64) error {
		x := newChaos(seed)
		x.loss, x.dup, x.slowest = 0.3*x.rng.Float64(), 0.2, 250*ms
		x.elected = func(s *server, r Result) {
			if s.e.backed() {
				x.checkBestOfQuorum(s, r)
			}
			x.settle(s, r)
		}
		for _, id := range x.ids() {
			x.start(x.servers[id])
			x.run(x.now + between(x.rng, 0, 100*ms))
		}
		x.run(x.now + 20*time.Second)
		if len(x.broken) > 0 {
			return fmt.Errorf("%q", x.broken)
		}
		return nil
	})
}

func (x *chaos) checkBestOfQuorum(s *server, r Result) {
	for i, id := range x.system.Voters() {
		b := s.e.received[i]
		if b.cast && b.state == Looking && b.Vote == r && s.e.beats(candidate(x.servers[id]), r) {
			x.breaks("%d elected %v with the vote of %d, which is better", s.cfg.ID, r, id)
		}
	}
}

// kill -9 of the leader, whose links are reset, while the others are in step:
// they elect the best of them within the time of four messages, without a timer,
// however far apart they notice it.
func TestFailoverNeedsNoTimer(t *testing.T) {
	eachSeed(t, func(seed uint64) error {
		x := newChaos(seed)
		for _, id := range x.ids() {
			x.servers[id].cfg.EarlyFinish = true
			x.start(x.servers[id])
		}
		x.pass(5*time.Second, func() {})
		if err := x.agreed(); err != nil {
			return err
		}
		leader := x.reigning()
		for range 3 {
			x.write(leader, func() bool { return x.rng.IntN(2) == 0 })
		}
		x.kill(leader)
		if !x.system.Quorum(func(id int64) bool { return x.servers[id].e != nil }) {
			return nil
		}
		return x.failOver()
	})
}

// reigning returns the leader.
func (c *cluster) reigning() *server {
	for _, s := range c.living() {
		if s.reigns && s.e.State() == Leading {
			return s
		}
	}
	return nil
}

// failOver lets the living notice, in any order, that their leader is dead.
func (x *chaos) failOver() error {
	const hop = 5 * ms
	arrival := map[[2]int64]time.Duration{}
	x.fate = func(from, to int64) []time.Duration { // a link keeps the order
		link := [2]int64{from, to}
		arrival[link] = max(arrival[link], x.now+between(x.rng, ms, hop))
		return []time.Duration{arrival[link] - x.now}
	}
	alive := x.living()
	apart := between(x.rng, 0, 150*ms)
	last := x.now
	for _, i := range x.rng.Perm(len(alive)) {
		x.run(x.now + between(x.rng, 0, apart/time.Duration(len(alive))))
		if s := alive[i]; s.e.State() != Looking {
			if !s.cfg.Observer {
				last = x.now
			}
			x.look(s)
		}
		x.tellLinks()
	}
	x.run(last + 4*hop)
	want := x.best()
	for _, s := range alive {
		if v := s.e.Vote(); !s.cfg.Observer && (s.e.State() == Looking || v.Leader != want.Leader) {
			return fmt.Errorf("%d, %v after the last noticed: %v, the best is %v", s.cfg.ID, x.now-last, s.e, want)
		}
	}
	return nil
}

// Two servers in step, of three; the death of the third is known. One message
// each way: the first that is told wins no less than the last.
func TestTwoSurvivorsNeedOneExchange(t *testing.T) {
	for _, z := range []struct{ one, two zk.Zxid }{{9, 9}, {9, 8}, {8, 9}} {
		a, b := New(Config{ID: 1, Electorate: Electorate{System: three}, EarlyFinish: true}), New(Config{ID: 2, Electorate: Electorate{System: three}, EarlyFinish: true})
		for _, e := range []*Election{a, b} {
			e.Look(0, 5, 1)
			e.Settle(Following, 3, 1)
			e.Unreachable(3)
			e.Messages()
		}
		a.Look(ms, z.one, 1)
		toB := sentTo(t, a, 2)
		b.Step(2*ms, toB)
		b.Messages()
		b.Look(3*ms, z.two, 1)
		a.Step(4*ms, sentTo(t, b, 1))
		if a.State() == Looking {
			t.Fatalf("%v: a is %v, b is %v", z, a, b)
		}
		if b.State() == Looking {
			b.Step(5*ms, sentTo(t, a, 2))
		}
		if a.Vote() != b.Vote() || a.State() == Looking || b.State() == Looking {
			t.Errorf("%v: a is %v, b is %v", z, a, b)
		}
	}
}

// sentTo returns what e sends to a server now.
func sentTo(t *testing.T, e *Election, to int64) Notification {
	t.Helper()
	for _, m := range e.Messages() {
		if m.To == to {
			return m.Notification
		}
	}
	t.Fatalf("%v sends nothing to %d", e, to)
	return Notification{}
}
