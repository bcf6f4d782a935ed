package ensemble

import (
	"os"
	"testing"

	"github.com/pinfold-zk/pinfold/test/ensemble/cluster"
)

// TestPartitions cuts links between members under load, both ways and one way,
// through proxies.
func TestPartitions(t *testing.T) {
	for _, members := range mixtures(t, "apache,apache,pinfold", "apache,pinfold,pinfold", "pinfold,pinfold,pinfold") {
		t.Run(members, func(t *testing.T) {
			r := newRig(t, members, rigOptions{lines: smallFiles(), links: true})
			r.load()
			for range *rounds {
				r.leaderIsolated(false)
				r.leaderIsolated(true)
				r.followerIsolated()
				r.followerDeaf()
				r.leaderDeaf()
				r.bridge()
			}
			r.finish()
		})
	}
}

// leader waits until a member leads, and returns it and another voter.
func (r *rig) leader() (leader, other *cluster.Member) {
	r.t.Helper()
	leader, err := r.e.WaitLeader(r.within(patience), func(*cluster.Member) bool { return true })
	r.must(err)
	voters := r.e.Voters()
	for other = leader; other == leader; {
		other = voters[r.rng.IntN(len(voters))]
	}
	return leader, other
}

// healed ends a partition and demands that all is as before.
func (r *rig) healed(reset bool) {
	r.t.Helper()
	r.step("healed")
	r.e.Links.Heal(reset)
	r.whole()
	r.progress()
}

// leaderIsolated cuts the leader off. The others must elect another and get on.
func (r *rig) leaderIsolated(reset bool) {
	r.t.Helper()
	old, _ := r.leader()
	r.step("the leader %v is cut off", old)
	r.e.Links.Isolate(old.ID)
	_, err := r.e.WaitLeader(r.within(patience), func(m *cluster.Member) bool { return m != old })
	r.must(err)
	r.progress()
	// The old leader may say that it leads only until it misses its followers.
	r.must(old.WaitNoLongerLeads(r.within(patience)))
	r.healed(reset)
}

// followerIsolated cuts a follower off, for long enough to lose its place.
func (r *rig) followerIsolated() {
	r.t.Helper()
	leader, other := r.leader()
	r.step("the follower %v is cut off", other)
	r.e.Links.Isolate(other.ID)
	r.must(other.WaitNoRole(r.within(patience)))
	r.progress()
	now, _ := r.leader()
	if now != leader {
		r.t.Errorf("the leader %v gave way to %v when a follower was cut off", leader, now)
	}
	r.healed(false)
}

// followerDeaf has nothing reach a follower from the leader; what the follower
// sends arrives.
func (r *rig) followerDeaf() {
	r.t.Helper()
	leader, other := r.leader()
	r.step("nothing of the leader %v reaches %v", leader, other)
	r.e.Links.Hold(leader.ID, other.ID)
	r.must(other.WaitNoRole(r.within(patience)))
	r.progress()
	r.healed(true)
}

// leaderDeaf has nothing reach the leader; what it sends arrives. It must step
// down.
func (r *rig) leaderDeaf() {
	r.t.Helper()
	leader, _ := r.leader()
	r.step("nothing reaches the leader %v", leader)
	for _, m := range r.e.Members {
		if m != leader {
			r.e.Links.Hold(m.ID, leader.ID)
		}
	}
	r.must(leader.WaitNoLongerLeads(r.within(patience)))
	r.healed(true)
}

// bridge cuts two members off from each other, of which one leads; all others
// reach both.
func (r *rig) bridge() {
	r.t.Helper()
	leader, other := r.leader()
	r.step("the leader %v and %v do not reach each other", leader, other)
	r.e.Links.Hold(leader.ID, other.ID)
	r.e.Links.Hold(other.ID, leader.ID)
	r.must(other.WaitNoRole(r.within(patience)))
	r.healed(false)
}

// diskMegabytes hold the snapshots and logs of a test that is left alone.
const diskMegabytes = 48

// TestFullDisk fills the disk of a follower and then that of the leader, under
// load.
func TestFullDisk(t *testing.T) {
	for _, members := range mixtures(t, "apache,apache,pinfold", "apache,pinfold,pinfold", "pinfold,pinfold,pinfold") {
		t.Run(members, func(t *testing.T) {
			if os.Getuid() != 0 {
				t.Skip("SKIPPED: only root may mount a small disk")
			}
			disks := map[*cluster.Member]*cluster.Disk{}
			r := newRig(t, members, rigOptions{
				lines: []string{"snapCount=20000", "preAllocSize=1024", "diskReserveBytes=0"}, // otherwise writes are refused first
				before: func(e *cluster.Ensemble) {
					for _, m := range e.Members {
						d, err := cluster.LimitDisk(m, diskMegabytes)
						if err != nil {
							t.Fatal(err)
						}
						disks[m] = d
						t.Cleanup(func() { removeDisk(t, m, d) })
					}
				},
			})
			r.load()
			for range *rounds {
				_, other := r.leader()
				r.fullDisk(other, disks[other])
				leader, _ := r.leader()
				r.fullDisk(leader, disks[leader])
			}
			r.finish()
		})
	}
}

// removeDisk ends the member and its disk; of a test that has failed it keeps
// what was on it.
func removeDisk(t *testing.T, m *cluster.Member, d *cluster.Disk) {
	m.Kill()
	if t.Failed() {
		if err := os.CopyFS(m.DataDir+"-of-the-disk", os.DirFS(m.DataDir)); err != nil {
			t.Error(err)
		}
	}
	if err := d.Unmount(); err != nil {
		t.Error(err)
	}
}

// fullDisk fills a member's disk, demands that the others get on, and that the
// member comes back when there is room: by itself or when it is started again.
func (r *rig) fullDisk(m *cluster.Member, d *cluster.Disk) {
	r.t.Helper()
	r.step("the disk of %v is full", m)
	r.must(d.Fill())
	r.progress()
	r.must(m.WaitNoRole(r.within(patience)))
	r.progress()
	r.step("%v has no role; its process lives: %v", m, m.Running())
	r.must(d.Free())
	m.Kill()
	r.whole()
	r.progress()
}
