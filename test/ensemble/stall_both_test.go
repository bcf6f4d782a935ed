package ensemble

import (
	"context"
	"slices"
	"time"

	"github.com/pinfold-zk/pinfold/test/ensemble/cluster"
)

// Of a stall of both followers: how long after it begins an acknowledgement may still come that was on its way, and how long
// after one disk is back the first write may be acknowledged.
const (
	underWay   = time.Second
	backWanted = time.Second
	backAtMost = 4 * time.Second
)

// stallBoth observes a stall of the disks of all followers, so that the leader cannot commit. One disk is back before
// the others. Of Pinfold's: reads go on as long as the leader keeps its role, which it leaves after 30 s, no
// session is lost, and writes are acknowledged soon after the first disk is back.
func (r *rig) stallBoth(s stall, disks map[*cluster.Member]*cluster.SlowDisk) {
	r.t.Helper()
	leader, _ := r.leader()
	c := r.crowd(s, leader)
	<-time.After(settleForLoad)
	apache := slices.ContainsFunc(r.specs, func(m cluster.Spec) bool { return m.Kind.IsApache() })
	if apache {
		<-time.After(warmJVM)
	}
	epoch := r.epoch()
	followers := slices.DeleteFunc(r.e.Voters(), func(m *cluster.Member) bool { return m == leader })
	began := time.Now()
	for _, m := range followers {
		r.must(disks[m].Freeze())
	}
	frozen := time.Now()
	left := r.leavesWithin(leader, s.lasts)
	<-time.After(time.Until(began.Add(s.lasts)))
	thawed := time.Now()
	for _, m := range followers {
		r.must(disks[m].Thaw())
		<-time.After(afterStall)
	}
	done := time.Now()
	r.whole()
	lost, suspended, err := c.lost(r.within(patience))
	r.must(err)

	all := func(*visitor) bool { return true }
	serves := min(s.lasts, handOverFrom) // as long as a leader surely keeps its role
	v := bothStalled{
		left: left, during: len(c.took(c.writers, frozen.Add(underWay), thawed)), back: c.firstWrite(thawed, done),
		reads: c.longestGap(c.readers, began, began.Add(serves), all), readsAfter: c.longestGap(c.readers, began, done, all),
		lost: lost, suspended: suspended, sessions: len(c.all()), elections: r.epoch() - epoch,
	}
	ms := func(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
	r.t.Logf("RESULT %s %s: %d writes acknowledged meanwhile; reads: longest gap %v in the first %v, %v in all; the leader left its role after %v; a write was acknowledged %v after the first disk was back; "+
		"%d of %d sessions lost, %d connections lost, %d elections", cluster.FormatSpecs(r.specs), s.name, v.during, ms(v.reads), serves, ms(v.readsAfter), ms(v.left), ms(v.back),
		v.lost, v.sessions, v.suspended, v.elections)
	c.end()
	if !apache {
		r.judgeBoth(v)
	}
	for _, complaint := range r.e.Complaints() {
		r.t.Error(complaint)
	}
}

// A bothStalled is what visitors noticed of a stall of both followers.
type bothStalled struct {
	left              time.Duration // when the leader left its role; 0: it did not
	during            int           // writes acknowledged in the stall
	back              time.Duration // from the return of the first disk to an acknowledged write; 0: there was none
	reads, readsAfter time.Duration // longest gaps, until the leader may leave its role, and in all
	lost, suspended   int64
	sessions          int
	elections         int64
}

// leavesWithin returns after which time a member says no longer that it leads, 0 if it still does.
func (r *rig) leavesWithin(m *cluster.Member, limit time.Duration) time.Duration {
	began := time.Now()
	ctx, cancel := context.WithTimeout(r.t.Context(), limit)
	defer cancel()
	if m.WaitNoLongerLeads(ctx) != nil {
		return 0
	}
	return time.Since(began)
}

// firstWrite returns how long after from the first write was acknowledged, 0 if none was until to.
func (c *crowd) firstWrite(from, to time.Time) (first time.Duration) {
	begin, end := from.Sub(c.origin), to.Sub(c.origin)
	for _, v := range c.writers {
		for _, at := range v.times() {
			if at > begin && at < end && (first == 0 || at-begin < first) {
				first = at - begin
			}
		}
	}
	return first
}

// judgeBoth fails the test if more was noticed than what a stall of both followers must cause.
func (r *rig) judgeBoth(v bothStalled) {
	r.t.Helper()
	if v.during > 0 {
		r.t.Errorf("%d writes were acknowledged without a quorum of disks", v.during)
	}
	if v.left < handOverFrom || v.left > handOverTo {
		r.t.Errorf("the leader left its role after %v, want %v to %v", v.left, handOverFrom, handOverTo)
	}
	if v.reads > acceptedGap {
		r.t.Errorf("a session had no answer to a read for %v while the leader had its role", v.reads)
	}
	if v.back > backWanted {
		r.t.Logf("the goal is missed: the first write was acknowledged %v after a disk was back, wanted is %v", v.back, backWanted)
	}
	if v.back == 0 || v.back > backAtMost {
		r.t.Errorf("the first write was acknowledged %v after a disk was back", v.back)
	}
	if v.lost > 0 {
		r.t.Errorf("%d of %d sessions were lost, though their clients pinged", v.lost, v.sessions)
	}
}
