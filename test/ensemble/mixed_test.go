package ensemble

import (
	"context"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/test/ensemble/cluster"
)

// smallFiles has snapshots and new log files come often, so that kills meet them.
func smallFiles() []string { return []string{"snapCount=3000", "preAllocSize=1024"} }

// TestMixed has every voter lead and kills it then, restarts and pauses members,
// and kills all of them at once, under load.
func TestMixed(t *testing.T) {
	for _, members := range mixtures(t,
		"apache,apache,pinfold", "apache,pinfold,pinfold", "pinfold,pinfold,pinfold",
		"apache,apache,apache,pinfold:observer", "pinfold,pinfold,pinfold,apache:observer",
	) {
		t.Run(members, func(t *testing.T) {
			r := newRig(t, members, rigOptions{lines: smallFiles()})
			r.load()
			for range *rounds {
				r.leadersKilled()
				r.restarts()
				r.pauses()
				r.blackout()
			}
			r.finish()
		})
	}
}

// leadersKilled has every voter lead and kills it.
func (r *rig) leadersKilled() {
	r.t.Helper()
	voters := r.e.Voters()
	for _, i := range r.rng.Perm(len(voters)) {
		m := voters[i]
		if len(voters)%2 == 1 && len(voters) > 1 {
			ctx := r.within(patience)
			r.must(r.e.Elect(ctx, m, func(ctx context.Context) error { return r.l.WaitProgress(ctx, 100) }))
		} else {
			var err error
			m, err = r.e.WaitLeader(r.within(patience), func(*cluster.Member) bool { return true })
			r.must(err)
		}
		r.progress()
		r.step("kill -9 of the leader, %v", m)
		m.Kill()
		r.progress()
		r.must(m.Start())
		_, err := r.e.WaitCaughtUp(r.within(patience), m)
		r.must(err)
		r.progress()
	}
}

// restarts stops members with SIGTERM and starts them again, one after the other.
func (r *rig) restarts() {
	r.t.Helper()
	for _, i := range r.rng.Perm(len(r.e.Members)) {
		m := r.e.Members[i]
		r.step("restart of %v", m)
		if err := m.Stop(); err != nil {
			r.t.Errorf("%v\n%s", err, m.Tail())
		}
		r.progress()
		r.must(m.Start())
		_, err := r.e.WaitCaughtUp(r.within(patience), m)
		r.must(err)
	}
}

// Pauses of a member: one after which nobody has noticed much, and one after
// which it has lost its place (syncLimit is 10 s).
const (
	shortPause = 3 * time.Second
	longPause  = 13 * time.Second
)

// pauses stops members with SIGSTOP for a while: the leader and another, for a
// short and a long time.
func (r *rig) pauses() {
	r.t.Helper()
	for _, d := range []time.Duration{shortPause, longPause} {
		leader, err := r.e.WaitLeader(r.within(patience), func(*cluster.Member) bool { return true })
		r.must(err)
		r.pause(leader, d)
		other := leader
		for other == leader {
			other = r.e.Members[r.rng.IntN(len(r.e.Members))]
		}
		r.pause(other, d)
	}
}

func (r *rig) pause(m *cluster.Member, d time.Duration) {
	r.t.Helper()
	r.step("SIGSTOP of %v for %v", m, d)
	r.paused = max(r.paused, d)
	r.must(m.Pause())
	<-time.After(d)
	r.must(m.Resume())
	r.whole()
	r.progress()
}

// blackout kills all members at once.
func (r *rig) blackout() {
	r.t.Helper()
	r.step("kill -9 of all members")
	for _, m := range r.e.Members {
		m.Kill()
	}
	r.whole()
	r.progress()
}
