package zab

import (
	"fmt"
	"testing"
	"time"

	drawn "github.com/pinfold-zk/pinfold/test/stranger"
)

// stranger is somebody who reaches both ports of every server, is none of them, and
// says anything: in the name of any server, with numbers that are near to what is
// true, or as large as they can be.
type stranger struct {
	*chaos
	own []strangeLink
}

type strangeLink struct {
	to *server
	id LinkID
}

// attack says one thing to one server.
func (x *stranger) attack() {
	s := x.servers[1+x.rng.IntN(len(x.servers)-1)]
	if s.core == nil {
		return
	}
	switch n := len(x.own); {
	case x.rng.IntN(3) == 0:
		s.core.Notification(x.now, drawn.DrawNotification(x.rng, x.target(s.core)))
	case n == 0 || x.rng.IntN(6) == 0:
		l := strangeLink{s, x.newLinkID()}
		x.own = append(x.own, l)
		s.core.LinkUp(x.now, l.id)
	default:
		l := x.own[n-1-x.rng.IntN(min(n, 8))]
		if s = l.to; s.core != nil {
			s.core.Step(x.now, l.id, []Packet{x.packet(s.core)})
		}
	}
	if s.core != nil {
		s.drive()
	}
}

// stop closes all links of the stranger.
func (x *stranger) stop() {
	for _, l := range x.own {
		if l.to.core != nil {
			l.to.core.LinkDown(x.now, l.id, errLink)
			l.to.drive()
		}
	}
	x.own = nil
}

// target is what the stranger knows of a server.
func (x *stranger) target(c *Core) *drawn.Target {
	return &drawn.Target{
		Servers: len(x.servers) - 1, AcceptedEpoch: c.acceptedEpoch, CurrentEpoch: c.currentEpoch, Epoch: c.epoch, EpochLead: maxEpochLead,
		Last: c.last, Committed: c.committed, ElectionEpoch: c.election.ElectionEpoch(),
	}
}

func (x *stranger) packet(c *Core) Packet {
	p := drawn.DrawPacket(x.rng, x.target(c))
	return Packet{Type: PacketType(p.Type), Zxid: p.Zxid, Data: p.Data}
}

func newStranger(seed uint64) *stranger {
	x := &stranger{chaos: newChaos(seed)}
	cfg := Config{
		Tick: 200 * ms, InitLimit: 25, SyncLimit: 5, Window: 4, SizeFactor: 0.33,
		FinalizeWait: 10 * ms, MinNotify: 10 * ms, MaxNotify: 100 * ms,
	}
	voters := 3 + 2*x.rng.IntN(2)
	x.cluster = newCluster(voters, x.rng.IntN(2), cfg)
	x.slowDisk = make([]int, len(x.servers))
	x.showTrace()
	return x
}

// replayStranger is how to run one seed again.
const replayStranger = "go test ./internal/zab -run '%s' -seed %d"

func strangerSeeds(n uint64) (first, last uint64) {
	if *seedFlag != 0 {
		return *seedFlag, *seedFlag
	}
	return 1, n
}

// A stranger disturbs no ensemble whose members are all there: no role is lost, no
// epoch begins, writes go on, and all invariants hold.
func TestAStrangerDisturbsNobody(t *testing.T) {
	first, last := strangerSeeds(100)
	for seed := first; seed <= last; seed++ {
		if err := undisturbed(t, seed); err != nil {
			t.Fatalf("seed=%d: %v\n\t"+replayStranger, seed, err, "TestAStrangerDisturbsNobody", seed)
		}
	}
}

func undisturbed(t *testing.T, seed uint64) error {
	x := newStranger(seed)
	x.healing, x.proposals, x.syncs = true, 0, 0
	x.until(t, seed, "all serve", time.Minute, x.whole, true)
	x.proposals, x.syncs = 20, 10
	var terms []uint64
	epoch := x.servers[1].epoch
	for _, s := range x.servers[1:] {
		terms = append(terms, s.term)
	}
	shown := x.check.shown()
	for range 10 {
		for range 200 {
			x.attack()
			if x.step(); x.violation != nil {
				return x.violation
			}
		}
		for x.act() { // what is under way arrives
		}
		x.idle()
	}
	for i, s := range x.servers[1:] {
		if s.term != terms[i] || !s.serving || s.epoch != epoch || s.core.acceptedEpoch != epoch {
			return fmt.Errorf("server %d has lost its role: %s", s.id, x.state())
		}
	}
	if x.check.shown() <= shown {
		return fmt.Errorf("no write was committed: %s", x.state())
	}
	return nil
}

// While servers fail and come back, a stranger can act in the name of those that are
// away, and no protocol without proofs of identity can promise anything. When the
// stranger has gone, and a majority is there, it elects a leader and serves.
func TestAMajorityServesWhenAStrangerHasGone(t *testing.T) {
	first, last := strangerSeeds(100)
	for seed := first; seed <= last; seed++ {
		if err := recovers(seed); err != nil {
			t.Fatalf("seed=%d: %v\n\t"+replayStranger, seed, err, "TestAMajorityServesWhenAStrangerHasGone", seed)
		}
	}
}

func recovers(seed uint64) error {
	x := newStranger(seed)
	x.check.off = true
	x.faults, x.proposals = 20, 50
	for _, s := range x.servers[1:] {
		s.start()
	}
	for range 1000 {
		x.attack()
		x.step()
	}
	x.stop()
	x.healing, x.proposals, x.syncs = true, 0, 0
	for i := range x.blocked {
		clear(x.blocked[i])
		clear(x.notes[i])
	}
	clear(x.slowDisk)
	for _, s := range x.servers[1:] {
		if s.core == nil {
			s.start()
		}
		if s.core.acceptedEpoch > maxEpoch/2 {
			return fmt.Errorf("server %d has accepted epoch %d", s.id, s.core.acceptedEpoch)
		}
		for _, o := range x.servers[1:] {
			s.core.PeerUp(x.now, o.id)
			s.drive()
		}
	}
	for end := x.now + x.servers[1].core.ticks(x.servers[1].cfg.InitLimit) + 4*time.Second; x.now < end; {
		x.step()
		s := x.leader()
		if s == nil {
			continue
		}
		es := s.propose(1)
		for s.serving && s.role == Leading && x.now < end && es != nil {
			if x.step(); s.commit >= es[0].Zxid {
				return nil
			}
		}
	}
	return fmt.Errorf("nobody serves: %s", x.state())
}
