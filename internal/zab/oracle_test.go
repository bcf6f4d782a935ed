package zab

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/internal/zab/election"
	"github.com/pinfold-zk/pinfold/zk"
)

// oracleConfig is that of one of two voters with an oracle.
func oracleConfig() Config {
	cfg := testConfig(2)
	cfg.Oracle = true
	return cfg
}

// permit has the oracle speak.
func (o *solo) permit(yes bool) {
	o.core.ConsultOracle(o.now, yes)
	o.drive()
}

// waitAlone lets the time pass that an election takes, with the oracle's permission.
func (o *solo) waitAlone() {
	o.permit(true)
	for range 2 {
		o.tick(election.DefaultFinalizeWait / 2)
		o.permit(true)
	}
	o.persist()
}

// leadsAlone is a server that the oracle permits, with a history, without the other one.
func leadsAlone(t *testing.T, cfg Config, s State) *solo {
	o := newSolo(t, cfg, s)
	o.waitAlone()
	want(t, "role", o.core.role, Leading)
	want(t, "serves", o.seen.Serving, true)
	return o
}

// joins makes server 2 a follower of a leader that serves, up to NEWLEADER.
func (o *solo) joins(s State) LinkID {
	l := o.accept()
	o.step(l, infoOf(2, s.AcceptedEpoch))
	o.step(l, ackEpochOf(int32(s.CurrentEpoch), s.Last))
	return l
}

// Of two voters, the one that the oracle permits leads without the other, once it has waited for that
// one's vote; without permission neither does, nor of three.
func TestAVoterLeadsAloneIfTheOraclePermits(t *testing.T) {
	leadsAlone(t, oracleConfig(), history(4, 3))
	for _, tt := range []struct {
		what    string
		cfg     Config
		permits bool
	}{
		{"not permitted", oracleConfig(), false},
		{"three voters", func() Config { c := testConfig(3); c.Oracle = true; return c }(), true},
		{"weights", func() Config {
			c := oracleConfig()
			c.Members = must(NewMembership(0, []Member{{ID: 1, Weight: 1}, {ID: 2, Weight: 2}}, nil))
			return c
		}(), true},
	} {
		o := newSolo(t, tt.cfg, State{})
		o.permit(tt.permits)
		for range 30 {
			o.tick(100 * ms)
			o.permit(tt.permits)
		}
		want(t, tt.what, o.core.role, Looking)
	}
}

// A permission that comes during an election counts in it.
func TestAPermissionDuringAnElection(t *testing.T) {
	o := newSolo(t, oracleConfig(), State{})
	o.tick(time.Second)
	want(t, "role", o.core.role, Looking)
	o.waitAlone()
	want(t, "role", o.core.role, Leading)
}

// A leader that loses its only follower goes on if it may, with what has waited for that follower.
// Otherwise it leaves, as soon as the follower is lost, or the permission.
func TestALeaderLosesItsOnlyFollower(t *testing.T) {
	lost := func(permits bool) *solo {
		o, links := leads(t, oracleConfig(), State{}, 2)
		o.permit(permits)
		o.propose(2)
		o.persist()
		want(t, "committed with a follower", o.core.committed, 0)
		o.core.LinkDown(o.now, links[2], errors.New("gone"))
		o.drive()
		return o
	}
	o := lost(false)
	want(t, "role without permission", o.core.role, Looking)

	o = lost(true)
	want(t, "role", o.core.role, Leading)
	want(t, "committed alone", o.core.committed, zk.MakeZxid(1, 2))
	o.propose(1)
	want(t, "committed before it is durable", o.core.committed, zk.MakeZxid(1, 2))
	o.persist()
	want(t, "committed then", o.core.committed, zk.MakeZxid(1, 3))
	o.permit(false)
	want(t, "role when it is forbidden", o.core.role, Looking)
	want(t, "why", strings.Contains(o.left(), "oracle"), true)
}

// A permission that is not told again ends: the oracle may be out of reach, or this process was
// stopped.
func TestAPermissionEnds(t *testing.T) {
	o := leadsAlone(t, oracleConfig(), State{})
	for range 10 {
		o.tick(o.core.cfg.Tick)
		o.permit(true)
	}
	want(t, "role while it is told again", o.core.role, Leading)
	o.tick(oracleTicks*o.core.cfg.Tick - 1)
	want(t, "role before the end", o.core.role, Leading)
	o.tick(1)
	want(t, "role at the end", o.core.role, Looking)
}

// From when a follower is being synchronized, whatever is committed needs its acknowledgement,
// whatever the oracle says.
func TestAFollowerComesBackToALeaderThatIsAlone(t *testing.T) {
	o := leadsAlone(t, oracleConfig(), history(4, 3))
	epoch := o.core.epoch
	o.propose(1)
	o.persist()
	first := zk.MakeZxid(epoch, 1)
	want(t, "committed alone", o.core.committed, first)
	l := o.joins(history(4, 2))
	o.propose(1)
	o.persist()
	want(t, "committed while it is synchronized", o.core.committed, first)
	o.ack(l, zk.MakeZxid(epoch, 0))
	want(t, "committed when it has NEWLEADER", o.core.committed, first)
	o.ack(l, first+1)
	want(t, "committed when it has the proposal", o.core.committed, first+1)
	o.permit(false)
	want(t, "role without permission", o.core.role, Leading)
}

// The two voters never begin the same epoch alone, whatever each has accepted.
func TestEpochsBegunAloneDiffer(t *testing.T) {
	for accepted1 := range uint32(6) {
		for accepted2 := range uint32(6) {
			a := leadsAlone(t, oracleConfig(), State{AcceptedEpoch: accepted1})
			cfg := oracleConfig()
			cfg.ID = 2
			b := leadsAlone(t, cfg, State{AcceptedEpoch: accepted2})
			if a.core.epoch == b.core.epoch || a.core.epoch <= accepted1 || b.core.epoch <= accepted2 {
				t.Errorf("servers that have accepted %d and %d begin %d and %d alone", accepted1, accepted2, a.core.epoch, b.core.epoch)
			}
		}
	}
}

// A voter that the oracle does not permit joins a leader that has no follower; one that it permits
// does not, since the other one should not lead.
func TestAVoterJoinsALeaderThatIsAlone(t *testing.T) {
	for _, permits := range []bool{false, true} {
		o := newSolo(t, oracleConfig(), State{})
		o.permit(permits)
		n := noteOf(2, 2, 7)
		n.State = election.Leading
		o.core.Notification(o.now, n)
		o.drive()
		want(t, "follows", o.core.role == Following, !permits)
	}
}

// oracle is an oracle that keeps both of its promises: it knows which servers are up, and which of
// the two voters may have committed something alone.
type oracle struct {
	*chaos
	says  [3]bool // by voter
	ahead [3]bool // it may have committed what the other one lacks
}

// step lets the oracle change its mind, and tells each voter what it says.
func (x *oracle) step() {
	for id := range int64(2) {
		id, other := id+1, 2-id
		s, o := x.servers[id], x.servers[other]
		if s.core != nil {
			l := s.core.leader.holders[other]
			x.ahead[id] = s.core.permitted || x.ahead[id] && !(l != nil && l.newAcked)
		}
		switch {
		case x.rng.IntN(40) > 0:
		case x.says[id]:
			x.says[id] = x.rng.IntN(2) == 0
		default:
			x.says[id] = !x.says[other] && !x.ahead[other] && (o.core == nil || !o.core.permitted)
		}
		if s.core != nil && x.rng.IntN(8) == 0 {
			x.ahead[id] = x.ahead[id] || x.says[id]
			s.core.ConsultOracle(x.now, x.says[id])
			s.drive()
		}
	}
}

// All promises hold in random schedules with two voters and an oracle that keeps its own, and
// transactions are committed by a voter that is alone.
func TestOracleChaos(t *testing.T) {
	first, last := seedRange(*seedsFlag / 2)
	alone := 0
	for seed := first; seed <= last; seed++ {
		rng := rand.New(rand.NewPCG(seed, 11))
		observers := rng.IntN(2)
		x := &oracle{chaos: chaosOf(rng, 2, observers, Config{
			Tick: 20 * ms, InitLimit: 5 + rng.IntN(10), SyncLimit: 1 + rng.IntN(5), Window: rng.IntN(6), SizeFactor: 0.33,
			FinalizeWait: 10 * ms, MinNotify: 10 * ms, MaxNotify: 100 * ms, Oracle: true,
		})}
		x.check.lenient = true // a leader that is alone has no majority
		x.before = func() {
			x.step()
			if s := x.leader(); s != nil && s.core.alone() && s.core.committed.Epoch() == s.core.epoch {
				alone++
			}
		}
		if _, err := x.runSafely(); err != nil {
			t.Fatalf("seed=%d: %v\n\tgo test ./internal/zab -run TestOracleChaos -seed %d -show", seed, err, seed)
		}
	}
	if *seedFlag == 0 && alone < int(last) {
		t.Errorf("a voter that was alone has committed something in %d steps of %d seeds: too few", alone, last)
	}
}
