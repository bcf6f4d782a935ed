package zab

import (
	"slices"
	"strings"
	"testing"

	"github.com/pinfold-zk/pinfold/zk"
)

// observe has an observer come with a history, and returns its link.
func (o *solo) observe(id int64, last zk.Zxid) LinkID {
	l := o.accept()
	info := infoOf(id, 6)
	info.Type = ObserverInfo
	o.step(l, info)
	o.step(l, ackEpochOf(-1, last))
	return l
}

// Observers beyond the limit of concurrent synchronizations are refused, until one
// has ended; participants are not, and count (leader.maxConcurrentSnapSyncs,
// leader.maxConcurrentDiffSyncs).
func TestConcurrentSyncsAreLimited(t *testing.T) {
	for _, tt := range []struct {
		first    string
		force    bool
		snap     int
		diff     int
		expected string
	}{
		{"SNAP <4,4>", true, 2, 1, "being sent a snapshot"},
		{"DIFF <4,4>", false, 1, 2, "being sent transactions"},
	} {
		cfg := testConfig(5)
		cfg.ForceSnap, cfg.MaxSnapSyncs, cfg.MaxDiffSyncs = tt.force, tt.snap, tt.diff
		s := State{AcceptedEpoch: 5, CurrentEpoch: 5, Last: zk.MakeZxid(4, 4)}
		o, _ := leads(t, cfg, s, 2, 3)
		newLeader := zk.MakeZxid(o.core.epoch, 0)

		begins := func(l LinkID, running int) {
			t.Helper()
			if !strings.HasPrefix(o.says(l), tt.first) || !slices.Contains(o.links, l) {
				t.Errorf("link %d is sent %q, want %s", l, o.says(l), tt.first)
			}
			if !slices.ContainsFunc(o.told, func(e Event) bool { return e.Kind == EventSyncing && e.Running == running }) {
				t.Errorf("the events do not say that %d learners are being sent it: %+v", running, o.told)
			}
		}
		refused := func(l LinkID) {
			t.Helper()
			told := slices.ContainsFunc(o.told, func(e Event) bool { return e.Kind == EventRefused && strings.Contains(e.Reason, tt.expected) })
			if slices.Contains(o.links, l) || o.says(l) != "" || !told {
				t.Errorf("link %d is sent %q, and the events are %+v", l, o.says(l), o.told)
			}
		}
		first := o.observe(11, s.Last)
		begins(first, 1)
		participant := o.join(4, 6, -1, s.Last)
		begins(participant, 2)
		refused(o.observe(12, s.Last))
		o.ack(first, newLeader)
		third := o.observe(12, s.Last)
		begins(third, 2)
		refused(o.observe(13, s.Last))
		o.core.LinkDown(o.now, third, errLink)
		o.drive()
		begins(o.observe(13, s.Last), 2)
		begins(o.join(5, 6, -1, s.Last), 3) // a participant, beyond the limit
		refused(o.observe(14, s.Last))
	}
}
