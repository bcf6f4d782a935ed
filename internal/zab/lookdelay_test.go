package zab

import (
	"slices"
	"testing"
	"time"
)

// looksAfter is how long a learner of 2 waits before the next election when it has
// lost its link, as its deadlines have it.
func looksAfter(t *testing.T, id int64, observer bool, delay time.Duration) time.Duration {
	t.Helper()
	cfg := testConfig(3)
	cfg.ID, cfg.LookDelay = id, delay
	if observer {
		cfg.Members = observing(3, id)
	}
	o, l := follows2(t, cfg, State{AcceptedEpoch: 5, CurrentEpoch: 5})
	began := o.now
	looking := func() bool {
		return slices.ContainsFunc(o.told, func(e Event) bool { return e.Kind == EventLooking })
	}
	o.core.LinkDown(o.now, l, errLink)
	o.drive()
	for !looking() && o.now < began+time.Minute {
		o.tick(o.core.Deadline() - o.now)
	}
	return o.now - began
}

// Observers that have lost their leader look for one again after a while that
// differs from one to the next and is less than LookDelay
// (observer.reconnectDelayMs and observer.election.DelayMs); participants at once.
func TestObserversWaitBeforeTheyLook(t *testing.T) {
	const delay = 400 * ms
	var waits []time.Duration
	for id := int64(11); id <= 30; id++ {
		waits = append(waits, looksAfter(t, id, true, delay))
	}
	slices.Sort(waits)
	if waits[len(waits)-1] >= delay || waits[0] > delay/4 || waits[len(waits)-1] < 3*delay/4 || len(slices.Compact(waits)) < 20 {
		t.Errorf("twenty observers wait %v", waits)
	}
	for _, at := range []time.Duration{looksAfter(t, 11, true, 0), looksAfter(t, 1, false, delay)} {
		if at != 0 {
			t.Errorf("without a delay, or with a vote, it waits %v", at)
		}
	}
}
