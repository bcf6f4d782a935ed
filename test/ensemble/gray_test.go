package ensemble

import (
	"slices"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/test/ensemble/cluster"
)

// Of TestGrayLeader: when another member must lead and the former leader must have left its role, how much later
// that is accepted on a machine that does other things too, and how long Apache's members are given.
const (
	grayTicks    = 2 * tickTime
	grayWanted   = 500 * time.Millisecond
	grayAccepted = 3 * time.Second
	grayApache   = 2 * time.Minute
)

// A grayFault is what a leader suffers whose process lives.
type grayFault struct {
	name  string
	hosts bool // it needs hosts of their own; otherwise links
	begin func(r *rig, leader *cluster.Member) error
	end   func(r *rig, leader *cluster.Member) error
}

var grayFaults = []grayFault{
	// Its heartbeats come, and nothing that the others say reaches it.
	{"heartbeats", false, func(r *rig, leader *cluster.Member) error {
		for _, m := range r.e.Members {
			if m != leader {
				r.e.Links.Hold(m.ID, leader.ID)
			}
		}
		return nil
	}, healLinks},
	{"deaf", true, func(r *rig, leader *cluster.Member) error { return r.loses(leader, false) }, healHosts},
	{"mute", true, func(r *rig, leader *cluster.Member) error { return r.loses(leader, true) }, healHosts},
	// Its sockets are full, and it says nothing.
	{"stopped", false, func(_ *rig, leader *cluster.Member) error { return leader.Pause() },
		func(_ *rig, leader *cluster.Member) error { return leader.Resume() }},
}

func healLinks(r *rig, _ *cluster.Member) error { r.e.Links.Heal(true); return nil }
func healHosts(r *rig, _ *cluster.Member) error { return r.e.Hosts.Heal() }

// loses has the packets of the others to a member be lost, or those of the member to the others.
func (r *rig) loses(m *cluster.Member, its bool) error {
	for _, o := range r.e.Members {
		if o == m {
			continue
		}
		from, to := o.ID, m.ID
		if its {
			from, to = to, from
		}
		if err := r.e.Hosts.Lose(from, to); err != nil {
			return err
		}
	}
	return nil
}

// TestGrayLeader has a leader live on that can commit nothing: it does not hear the others, they do not hear it, or it is
// stopped. Sessions of 4 s at all members write meanwhile. It prints the longest time without an acknowledged write, and
// when the leader has left its role. Of Pinfold's, others must lead after two ticks, the leader must have left by itself
// then, and no session may be lost.
func TestGrayLeader(t *testing.T) {
	for _, members := range mixtures(t, "pinfold,pinfold,pinfold") {
		for _, f := range grayFaults {
			t.Run(members+"/"+f.name, func(t *testing.T) {
				o := rigOptions{links: !f.hosts}
				if f.hosts {
					o = onHosts(t)
					if !cluster.CanLose() {
						t.Fatal("packets are lost by iptables: install it")
					}
				}
				newRig(t, members, o).gray(f)
			})
		}
	}
}

// gray observes one fault and reports.
func (r *rig) gray(f grayFault) {
	r.t.Helper()
	strict := !slices.ContainsFunc(r.specs, func(s cluster.Spec) bool { return s.Kind.IsApache() })
	limit := patience
	if !strict {
		limit = grayApache
	}
	c := newCrowd(r.t, r.e)
	for _, m := range r.e.Members {
		c.writer(m, 1)
		c.writer(m, 1)
		c.pinger(m)
	}
	<-time.After(settleForLoad)
	old, _ := r.leader()
	epoch := r.epoch()
	began := time.Now()
	r.must(f.begin(r, old))
	_, err := r.e.WaitLeader(r.within(limit), func(m *cluster.Member) bool { return m != old })
	r.must(err)
	led := time.Since(began)
	if f.name != "stopped" {
		r.must(old.WaitNoLongerLeads(r.within(limit)))
	}
	left := time.Since(began)
	<-time.After(settleForLoad)
	r.must(f.end(r, old))
	done := time.Now()
	r.whole()
	lost, _, err := c.lost(r.within(patience))
	r.must(err)
	gap, at := c.writesGap(began, done)
	machine := c.longestGap([]*visitor{&c.clock}, began, done, func(*visitor) bool { return true })
	ms := func(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
	r.t.Logf("RESULT %s leader %s: no acknowledged write for %v, from %v on; another leads after %v, the former leader no longer after %v; %d of %d sessions lost, %d elections; processor %v",
		cluster.FormatSpecs(r.specs), f.name, ms(gap), ms(at), ms(led), ms(left), lost, len(c.all()), r.epoch()-epoch, ms(machine))
	c.end()
	if !strict {
		return
	}
	judged := map[string]time.Duration{"no write was acknowledged for": gap, "another leads after": led, "the former leader leads for": left}
	if f.name == "stopped" { // it takes a second to ask it in vain, and it cannot leave
		judged = map[string]time.Duration{"no write was acknowledged for": gap}
	}
	for what, took := range judged {
		if took > grayTicks+grayWanted {
			r.t.Logf("the goal is missed: %s %v, wanted are %v", what, ms(took), grayTicks)
		}
		if took > grayTicks+grayAccepted {
			r.t.Errorf("%s %v, two ticks are %v", what, ms(took), grayTicks)
		}
	}
	if lost > 0 {
		r.t.Errorf("%d of %d sessions were lost, though their clients pinged", lost, len(c.all()))
	}
	for _, complaint := range r.e.Complaints() {
		r.t.Error(complaint)
	}
}
