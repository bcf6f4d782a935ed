package election

import (
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/internal/zab/quorum"
	"github.com/pinfold-zk/pinfold/zk"
)

var (
	seedFlag  = flag.Uint64("seed", 0, "run the simulations with this seed only")
	seedsFlag = flag.Uint64("seeds", 200, "how many seeds the simulations run")
)

// eachSeed runs f with every seed. A failing one says how to run it again.
func eachSeed(t *testing.T, f func(seed uint64) error) {
	first, last := uint64(1), *seedsFlag
	if *seedFlag != 0 {
		first, last = *seedFlag, *seedFlag
	}
	for seed := first; seed <= last; seed++ {
		if err := f(seed); err != nil {
			t.Fatalf("seed=%d: %v\n\tgo test ./internal/zab/election -run %s -seed %d", seed, err, t.Name(), seed)
		}
	}
}

// randomCluster has 1 to 7 voters, most often 3 or 5, up to 2 observers, and
// sometimes weights and groups.
func randomCluster(rng *rand.Rand) *cluster {
	n := []int64{1, 2, 3, 3, 3, 3, 4, 5, 5, 5, 7}[rng.IntN(11)]
	weights, groups := map[int64]int64{}, map[int64]int64{}
	hierarchy := rng.IntN(4) == 0
	for id := int64(1); id <= n; id++ {
		groups[id] = 1
		if hierarchy {
			weights[id], groups[id] = int64(rng.IntN(3)), int64(rng.IntN(2))
		}
	}
	system, err := quorum.Weighted(weights, groups)
	if err != nil { // nobody has weight
		return randomCluster(rng)
	}
	c := newCluster(system)
	c.elected = c.settle
	for id := int64(1); id <= n+int64(rng.IntN(3)); id++ {
		c.servers[id] = &server{cfg: Config{
			ID: id, Electorate: Electorate{System: system, Observer: id > n},
			EarlyFinish: rng.IntN(3) > 0, MaxNotify: 3 * time.Second,
		}}
	}
	return c
}

// randomHistory gives servers different logs.
func randomHistory(rng *rand.Rand, c *cluster) {
	for _, id := range c.ids() {
		s := c.servers[id]
		s.epoch = int64(1 + rng.IntN(2))
		s.accepted = s.epoch
		s.last = zk.MakeZxid(uint32(s.epoch), uint32(rng.IntN(3)))
	}
}

// chaos is what may happen to a cluster.
type chaos struct {
	*cluster
	rng       *rand.Rand
	loss, dup float64
	slowest   time.Duration
	heard     []packet // some of the messages that were sent, to be sent again
}

func newChaos(seed uint64) *chaos {
	rng := rand.New(rand.NewPCG(seed, 1))
	x := &chaos{cluster: randomCluster(rng), rng: rng, slowest: 20 * time.Millisecond}
	randomHistory(rng, x.cluster)
	x.fate = func(from, to int64) (out []time.Duration) {
		if rng.Float64() >= x.loss {
			out = append(out, between(rng, 0, x.slowest))
		}
		if rng.Float64() < x.dup {
			out = append(out, between(rng, 0, 10*x.slowest))
		}
		return out
	}
	return x
}

// remember keeps some messages that are on their way.
func (x *chaos) remember() {
	for _, p := range x.flight {
		if x.rng.IntN(10) == 0 {
			x.heard = append(x.heard, p)
		}
	}
	if len(x.heard) > 50 {
		x.heard = x.heard[len(x.heard)-50:]
	}
}

// mishap lets one thing happen.
func (x *chaos) mishap() {
	ids := x.ids()
	s := x.servers[ids[x.rng.IntN(len(ids))]]
	other := x.servers[ids[x.rng.IntN(len(ids))]]
	switch x.rng.IntN(10) {
	case 0, 1:
		if s.e != nil {
			x.kill(s)
			if x.rng.IntN(2) == 0 {
				x.tellLinks()
			}
		}
	case 2, 3:
		if s.e == nil {
			x.start(s)
		}
	case 4:
		x.cut[[2]int64{s.cfg.ID, other.cfg.ID}] = true
	case 5:
		clear(x.cut)
	case 6:
		x.tellLinks()
	case 7:
		if len(x.heard) > 0 {
			p := x.heard[x.rng.IntN(len(x.heard))]
			if x.servers[p.from].e == p.life || x.rng.IntN(3) == 0 {
				x.inject(x.now, p.from, p.to, p.life, p.payload)
			}
		}
	case 8:
		if s.e != nil {
			x.look(s)
		}
	case 9:
		if s.e != nil {
			for range x.rng.IntN(4) {
				x.write(s, func() bool { return x.rng.IntN(2) == 0 })
			}
		}
	}
}

// pass lets time pass, with owners at work.
func (x *chaos) pass(span time.Duration, each func()) {
	for end := x.now + span; x.now < end; {
		x.run(x.now + ownerPause)
		x.attend()
		each()
	}
}

// heal repairs everything but, sometimes, servers that leave a quorum.
func (x *chaos) heal() {
	clear(x.cut)
	x.loss, x.dup = 0, 0
	order := x.rng.Perm(len(x.ids()))
	keep := x.rng.IntN(2) == 0
	for _, i := range order {
		s := x.servers[x.ids()[i]]
		alive := x.system.Quorum(func(id int64) bool { return x.servers[id].e != nil })
		if s.e == nil && !(keep && alive) {
			x.start(s)
		}
	}
	x.tellLinks()
}

// agreed returns why not all living servers follow one reigning leader.
func (c *cluster) agreed() error {
	var leader *server
	for _, s := range c.living() {
		if s.reigns && s.e.State() == Leading {
			if leader != nil {
				return fmt.Errorf("%d and %d both lead", leader.cfg.ID, s.cfg.ID)
			}
			leader = s
		}
	}
	if leader == nil {
		return fmt.Errorf("nobody leads")
	}
	for _, s := range c.living() {
		v := s.e.Vote()
		if s.e.State() == Looking || v.Leader != leader.cfg.ID || v.PeerEpoch != leader.epoch {
			return fmt.Errorf("%d: %v, not of %d in epoch %d", s.cfg.ID, s.e, leader.cfg.ID, leader.epoch)
		}
	}
	return nil
}

// settledWithin is the time in which a healed ensemble has a leader: the longest
// pause before a vote is sent again, the patience of owners with a leader that
// was none, and some rounds.
const settledWithin = 3*time.Second + 2*discoveryLimit + 4*time.Second

// outcome is a run's trace as a number, its length, and what went wrong.
type outcome struct {
	hash  uint64
	lines int
	err   error
}

// chaoticRun is one seed: faults, then healing, then agreement and silence.
func chaoticRun(seed uint64, log func(string)) outcome {
	x := newChaos(seed)
	h := fnv.New64a()
	var o outcome
	x.on = func(line string) {
		o.lines++
		fmt.Fprintf(h, "%v %s\n", x.now, line)
		if log != nil {
			log(fmt.Sprintf("%v %s", x.now, line))
		}
	}
	x.loss, x.dup = 0.3*x.rng.Float64(), 0.2*x.rng.Float64()
	x.slowest = between(x.rng, time.Millisecond, 300*time.Millisecond)
	for _, id := range x.ids() {
		if x.rng.IntN(4) > 0 {
			x.start(x.servers[id])
		}
	}
	x.pass(15*time.Second, func() {
		x.remember()
		if x.rng.IntN(5) == 0 {
			x.mishap()
		}
	})
	x.slowest = 20 * time.Millisecond
	x.heal()
	o.err = x.recover()
	o.hash = h.Sum64()
	return o
}

// recover checks that a healed ensemble finds its leader in time, keeps it, and
// is silent then.
func (x *chaos) recover() error {
	healed := x.now
	for x.agreed() != nil && x.now-healed < settledWithin {
		x.pass(ownerPause, func() {})
	}
	if err := x.agreed(); err != nil {
		return fmt.Errorf("%v after healing: %w", x.now-healed, err)
	}
	x.pass(4*time.Second, func() {})
	sent, reigns := x.sent, len(x.reigns)
	x.pass(2*time.Second, func() {})
	switch err := x.agreed(); {
	case err != nil:
		return fmt.Errorf("it did not last: %w", err)
	case x.sent != sent || len(x.reigns) != reigns:
		return fmt.Errorf("invariant 5: %d messages in a settled ensemble", x.sent-sent)
	case len(x.broken) > 0:
		return fmt.Errorf("broken:\n\t%s", strings.Join(x.broken, "\n\t"))
	}
	return nil
}

// Faults of every kind, then a healed ensemble: one leader, all agree on it and
// on its epoch, in bounded time, and then silence. Invariants 1 to 5.
func TestChaos(t *testing.T) {
	eachSeed(t, func(seed uint64) error { return chaoticRun(seed, nil).err })
}

// Invariant 6: a seed determines every message.
func TestDeterminism(t *testing.T) {
	eachSeed(t, func(seed uint64) error {
		if seed%10 != 0 {
			return nil
		}
		a, b := chaoticRun(seed, nil), chaoticRun(seed, nil)
		if a.hash != b.hash || a.lines != b.lines || a.lines == 0 {
			return fmt.Errorf("invariant 6: %d lines %x, then %d lines %x", a.lines, a.hash, b.lines, b.hash)
		}
		return nil
	})
}
