package zab

import (
	"math/rand/v2"
	"testing"
	"time"
)

// All promises hold in random schedules in which observers use any voter, and most of what they are told
// comes from followers.
func TestMasterChaos(t *testing.T) {
	first, last := seedRange(*seedsFlag / 2)
	served := 0
	for seed := first; seed <= last; seed++ {
		rng := rand.New(rand.NewPCG(seed, 13))
		voters, observers := []int{2, 3, 3, 3, 5}[rng.IntN(5)], 1+rng.IntN(3)
		cfg := Config{
			Tick: 20 * ms, InitLimit: 5 + rng.IntN(10), SyncLimit: 1 + rng.IntN(5), Window: rng.IntN(6),
			SizeFactor: []float64{0.33, 0.33, -1}[rng.IntN(3)], ForceSnap: rng.IntN(6) == 0,
			FinalizeWait: 10 * ms, MinNotify: 10 * ms, MaxNotify: 100 * ms, ObserverMasters: true,
		}
		cfg.StallAfter = time.Duration(10+rng.IntN(400)) * ms
		cfg.ProgressLimit = time.Duration(seed%3) * cfg.Tick
		x := chaosOf(rng, voters, observers, cfg)
		x.before = func() {
			if x.healing {
				x.faults = 0 // or transactions go on to be proposed, and no two servers have the same
			}
			for _, s := range x.servers[1 : voters+1] {
				if s.core == nil || s.core.role != Following {
					continue
				}
				for _, l := range s.core.leader.learners {
					if l.state == upToDate {
						served++
					}
				}
			}
		}
		if _, err := x.runSafely(); err != nil {
			t.Fatalf("seed=%d: %v\n\tgo test ./internal/zab -run TestMasterChaos -seed %d -show", seed, err, seed)
		}
	}
	if *seedFlag == 0 && served < 50*int(last) {
		t.Errorf("observers were served by followers in %d steps of %d seeds: too few", served, last)
	}
	t.Logf("%d observers were served by followers, counted at each step", served)
}

// An observer uses any voter, but for a snapshot that is to replace what it has it goes to the leader:
// another server may know less to be committed than the observer has delivered.
func TestASnapshotComesFromTheLeader(t *testing.T) {
	cfg := testConfig(3)
	cfg.ID, cfg.ObserverMasters = 4, true
	o := newSolo(t, cfg, history(4, 1))
	masters := func() map[int64]bool {
		all := map[int64]bool{}
		for range 30 {
			all[o.core.chooseMaster(Observing, 2)] = true
		}
		return all
	}
	want(t, "servers that an observer uses", len(masters()), 3)
	o.core.needSnap = true
	all := masters()
	want(t, "servers that it asks for a snapshot", len(all), 1)
	want(t, "the leader is one", all[2], true)
}
