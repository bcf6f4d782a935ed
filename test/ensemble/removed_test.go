package ensemble

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/test/ensemble/client"
	"github.com/pinfold-zk/pinfold/test/ensemble/cluster"
	"github.com/pinfold-zk/pinfold/zk"
)

// Of TestRemovedMemberGoesOn: the longest time without an acknowledged write that a removed member may cause, apart
// from what the machine takes; how long the members are observed; how often the removed one is stopped and killed; and
// how much later than syncLimit it may stop answering.
const (
	removedGap    = 500 * time.Millisecond
	removedWatch  = 5 * time.Second
	removedRounds = 20
	removedPause  = 300 * time.Millisecond
	removedLate   = 2 * time.Second
	syncLimit     = 5 * tickTime
)

// TestRemovedMemberGoesOn removes the last of four members, each on a host of its own, and has it go on as one: cut off, so
// that it does not hear of its removal, and later with a zoo.cfg that makes it keep the old list, stopped and killed
// again and again. The others must not notice: the same leader in the same epoch, no gap, no session lost. Neither its
// vote nor its acknowledgement counts. Root only.
func TestRemovedMemberGoesOn(t *testing.T) {
	for _, members := range mixtures(t, "pinfold,pinfold,pinfold,pinfold") {
		t.Run(members, func(t *testing.T) {
			o := onHosts(t)
			if !cluster.CanLose() {
				t.Fatal("packets are lost by iptables: install it")
			}
			start := o.before
			o.lines = append(reconfigLines(), smallFiles()...)
			o.before = func(e *cluster.Ensemble) {
				if err := listClients(e); err != nil {
					t.Fatal(err)
				}
				start(e)
			}
			d := &removed{membership: &membership{rig: newRig(t, members, o), roles: map[int]string{
				1: participant, 2: participant, 3: participant, 4: participant,
			}}}
			d.gone = d.e.Member(4)
			d.begin()
			d.hasNotHeard()
			d.willNotHear()
			d.newQuorum()
			d.oldQuorum()
			d.end()
		})
	}
}

// A removed is an ensemble with a member that is removed.
type removed struct {
	*membership
	c    *crowd
	gone *cluster.Member // the one that is removed
	cfg  []byte          // its zoo.cfg before that
}

// begin has another member lead, and starts the clients of those that stay.
func (d *removed) begin() {
	d.t.Helper()
	if leader, _ := d.rig.leader(); leader == d.gone {
		d.gone.Kill()
		_, err := d.e.WaitLeader(d.within(patience), func(m *cluster.Member) bool { return m != d.gone })
		d.must(err)
		d.must(d.gone.Start())
		d.whole()
	}
	var err error
	d.cfg, err = os.ReadFile(filepath.Join(d.gone.Dir, "zoo.cfg"))
	d.must(err)
	d.loadAt(d.e.Clients()[:3], nil)
	d.c = newCrowd(d.t, d.e)
	d.c.addrs = d.c.addrs[:3]
	for _, m := range d.e.Members[:3] {
		d.c.writer(m, 1)
		d.c.pinger(m)
	}
	<-time.After(settleForLoad)
}

// undisturbed does something with the removed member, which the others must not notice.
func (d *removed) undisturbed(what string, do func()) {
	d.t.Helper()
	leader, _ := d.rig.leader()
	epoch, began := d.epoch(), time.Now()
	do()
	<-time.After(removedWatch)
	done := time.Now()
	gap, at := d.c.writesGap(began, done)
	machine := d.c.longestGap([]*visitor{&d.c.clock}, began, done, func(*visitor) bool { return true })
	d.step("RESULT %s: no acknowledged write for %v, from %v on; processor %v", what, gap.Round(time.Millisecond), at.Round(time.Millisecond), machine.Round(time.Millisecond))
	if gap > removedGap+machine {
		d.t.Errorf("%s: no write was acknowledged for %v", what, gap)
	}
	if now, _ := d.rig.leader(); now != leader || d.epoch() != epoch {
		d.t.Errorf("%s: %v led in epoch %d, and %v leads in epoch %d", what, leader, epoch, now, d.epoch())
	}
	d.lostNone(what)
	d.progress()
}

// lostNone demands that the sessions live, and that three voters count, although the removed member follows.
func (d *removed) lostNone(what string) {
	d.t.Helper()
	lost, _, err := d.c.lost(d.within(patience))
	d.must(err)
	if lost > 0 {
		d.t.Errorf("%s: %d of %d sessions were lost", what, lost, len(d.c.all()))
	}
	leader, _ := d.rig.leader()
	text, err := cluster.Ask(leader.Client, "mntr", answerPatience)
	d.must(err)
	for key, want := range map[string]string{"quorum_size": "3", "synced_followers": "3", "synced_non_voting_followers": "1"} {
		if !strings.Contains(text, "zk_"+key+"\t"+want+"\n") {
			d.t.Errorf("%s: mntr of the leader %v has not %s=%s", what, leader, key, want)
		}
	}
}

// hasNotHeard removes the member while it is cut off. It must stop answering after syncLimit, since it may be
// behind; when it is back it has the old list, and asks the others for an election.
func (d *removed) hasNotHeard() {
	d.t.Helper()
	s := d.visit(d.gone, false)
	for _, m := range d.e.Members[:3] {
		d.must(errors.Join(d.e.Hosts.Lose(m.ID, 4), d.e.Hosts.Lose(4, m.ID)))
	}
	began := time.Now()
	d.leave(4)
	d.stopsAnswering(s, began)
	for n := range 2 {
		d.undisturbed("one that has not heard is cut off and comes back", func() {
			if n > 0 {
				for _, m := range d.e.Members[:3] {
					d.must(errors.Join(d.e.Hosts.Lose(m.ID, 4), d.e.Hosts.Lose(4, m.ID)))
				}
				d.must(d.gone.WaitNoRole(d.within(patience)))
			}
			d.must(d.e.Hosts.Heal())
			d.await(4)
		})
	}
}

// stopsAnswering demands that a member that is cut off since a time answers nothing syncLimit later.
func (d *removed) stopsAnswering(s *client.Session, since time.Time) {
	d.t.Helper()
	var last time.Duration
	d.must(d.e.Until(d.within(patience), func() bool {
		_, err := s.Do(client.Get("/"))
		if err == nil {
			last = time.Since(since)
		}
		return err != nil
	}))
	d.step("cut off, %v answered for the last time after %v", d.gone, last.Round(time.Millisecond))
	if last > syncLimit+removedLate {
		d.t.Errorf("cut off, %v answered for %v", d.gone, last)
	}
	again := client.New(sessionTimeout, answerPatience)
	if again.Connect(d.gone.Client) == nil {
		_, err := again.Do(client.Get("/"))
		d.t.Errorf("cut off, %v takes connections: %v", d.gone, err)
		again.Drop()
	}
}

// willNotHear starts the member as one that knows no reconfiguration and has the old list, and stops and kills it
// again and again.
func (d *removed) willNotHear() {
	d.t.Helper()
	d.gone.Kill()
	old := strings.Replace(string(d.cfg), "reconfigEnabled=true", "reconfigEnabled=false", 1)
	if old == string(d.cfg) || strings.Count(old, "server.") != 4 {
		d.t.Fatalf("no zoo.cfg with the old list:\n%s", old)
	}
	d.must(errors.Join(os.WriteFile(filepath.Join(d.gone.Dir, "zoo.cfg"), []byte(old), 0o644), os.Remove(filepath.Join(d.gone.DataDir, "version-2", "members"))))
	d.undisturbed("one that will not hear comes back again and again", func() {
		d.must(d.gone.Start())
		_, err := d.gone.WaitServing(d.within(patience))
		d.must(err)
		for range removedRounds {
			d.must(d.gone.Pause())
			<-time.After(removedPause)
			d.must(d.gone.Resume())
			<-time.After(removedPause)
			d.gone.Kill()
			d.must(d.gone.Start())
			d.must(d.gone.WaitListening(d.within(patience)))
		}
		_, err = d.gone.WaitServing(d.within(patience))
		d.must(err)
	})
}

// newQuorum leaves the leader and another voter, which are two of three: they go on.
func (d *removed) newQuorum() {
	d.t.Helper()
	leader, _ := d.rig.leader()
	other := d.e.Member(leader.ID%3 + 1)
	d.step("SIGSTOP of %v, kill -9 of %v: two voters are left", d.gone, other)
	d.must(d.gone.Pause())
	other.Kill()
	d.progress()
	d.must(errors.Join(d.gone.Resume(), other.Start()))
	d.whole()
	d.lostNone("a member was killed, and the removed one stopped")
}

// oldQuorum leaves one voter and the removed member, which are two of three and no quorum.
func (d *removed) oldQuorum() {
	d.t.Helper()
	leader, _ := d.rig.leader()
	other := d.e.Member(leader.ID%3 + 1)
	d.step("kill -9 of %v and %v: one voter is left, and %v", leader, other, d.gone)
	leader.Kill()
	other.Kill()
	acked := d.l.Acked()
	for began := time.Now(); time.Since(began) < removedWatch; <-time.After(removedPause) {
		for _, m := range d.e.Members {
			if m.Running() {
				d.writesNothing(m)
			}
		}
	}
	if now := d.l.Acked(); now > acked+int64(*clients) { // those whose answers were under way
		d.t.Errorf("%d writes were acknowledged by one voter of three", now-acked)
	}
	d.must(errors.Join(leader.Start(), other.Start()))
	d.whole()
	d.progress()
	d.lostNone("a quorum is back")
}

// writesNothing demands that a member acknowledges no write.
func (d *removed) writesNothing(m *cluster.Member) {
	d.t.Helper()
	s := client.New(sessionTimeout, time.Second)
	if s.Connect(m.Client) != nil {
		return
	}
	defer s.Drop()
	if replies, err := s.Do(client.Set("/", nil, -1)); err == nil && replies[0].Code == zk.OK {
		d.t.Errorf("%v acknowledges a write without a quorum", m)
	}
}

// end checks everything, without the member that is none.
func (d *removed) end() {
	d.t.Helper()
	d.c.end()
	for _, complaint := range d.e.Complaints() {
		d.t.Error(complaint)
	}
	d.must(d.gone.Stop())
	all := d.e.Members
	d.t.Cleanup(func() { d.e.Members = all })
	d.e.Members = all[:3]
	d.finish()
}
