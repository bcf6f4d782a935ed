package ensemble

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/test/ensemble/cluster"
)

// Of TestRollingRestart: the visitors, and the gap that it wants. Nothing fails because
// the machine is slow.
const (
	restartWriters = 10
	wantedRestart  = 20 * time.Millisecond
)

// TestRollingRestart stops each member in turn by SIGTERM, the leader last, and starts it
// again, while sessions at all members write, read and ping. It prints the longest time in
// which no write was acknowledged, and fails if a session is lost, or if there are more
// elections than leaders that were stopped.
func TestRollingRestart(t *testing.T) {
	for _, members := range mixtures(t, "pinfold,pinfold,pinfold") {
		t.Run(members, func(t *testing.T) {
			r := newRig(t, members, rigOptions{})
			for i := range max(*rounds, 1) {
				r.rollingRestart(i + 1)
			}
		})
	}
}

// rollingRestart restarts all members once, and reports.
func (r *rig) rollingRestart(round int) {
	r.t.Helper()
	c := newCrowd(r.t, r.e)
	for i := range restartWriters {
		c.writer(r.e.Members[i%len(r.e.Members)], 1)
	}
	for _, m := range r.e.Members {
		c.reader(m)
		c.pinger(m)
	}
	leader, _ := r.leader()
	order := slices.DeleteFunc(slices.Clone(r.e.Members), func(m *cluster.Member) bool { return m == leader })
	order = append(order, leader)
	<-time.After(settleForLoad)
	epoch, quiet := r.epoch(), time.Now()
	<-time.After(beforeStall)
	calm := time.Now()
	gap := func(from, to time.Time) (time.Duration, time.Duration) {
		gap, at := c.writesGap(from, to)
		return gap.Round(time.Millisecond / 10), at.Round(time.Millisecond)
	}
	failed := func() (n int64) {
		for _, v := range c.writers {
			n += v.failed.Load()
		}
		return n
	}
	report := ""
	for _, m := range order {
		began, failedBefore := time.Now(), failed()
		r.must(m.Stop())
		stopped := time.Since(began)
		r.must(m.Start())
		_, err := r.e.WaitCaughtUp(r.within(patience), m)
		r.must(err)
		<-time.After(settleForLoad)
		longest, at := gap(began, time.Now())
		report += fmt.Sprintf("; %v: longest gap %v, %v after SIGTERM, stopped in %v, %d writes without an answer",
			m, longest, at, stopped.Round(time.Millisecond), failed()-failedBefore)
	}
	done := time.Now()
	lost, suspended, err := c.lost(r.within(patience))
	r.must(err)
	all, _ := gap(calm, done)
	before, _ := gap(quiet, calm)
	machine := c.longestGap([]*visitor{&c.clock}, calm, done, func(*visitor) bool { return true })
	elections := r.epoch() - epoch
	r.t.Logf("RESULT rolling restart %d of %s: longest gap of acknowledged writes %v (before %v, processor %v), %d of %d sessions lost, %d connections lost, %d elections%s",
		round, cluster.FormatSpecs(r.specs), all, before, machine.Round(time.Millisecond/10), lost, len(c.all()), suspended, elections, report)
	if all > wantedRestart {
		r.t.Logf("the goal is missed: no write was acknowledged for %v, wanted is %v", all, wantedRestart)
	}
	if lost > 0 {
		r.t.Errorf("%d of %d sessions were lost, though their clients pinged", lost, len(c.all()))
	}
	c.end()
	for _, complaint := range r.e.Complaints() {
		r.t.Error(complaint)
	}
}
