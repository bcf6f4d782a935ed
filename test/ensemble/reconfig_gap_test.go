package ensemble

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/test/ensemble/cluster"
	"github.com/pinfold-zk/pinfold/test/ensemble/load"
)

// The gaps that TestReconfigGap wants. Nothing fails because the machine is slow.
const (
	wantedChange = 30 * time.Millisecond // the leader stays
	wantedMove   = 60 * time.Millisecond // the leader leaves, or loses its vote
)

// TestReconfigGap measures the longest gap in acknowledged writes around each kind of change of the
// members. Clients write without a pause at all members, and reconnect at once. The last member is in
// no other member's list at first. Beside each gap it prints the longest one of the same clients in a
// time without a change just before.
func TestReconfigGap(t *testing.T) {
	skipUnlessMeasured(t)
	for _, members := range mixtures(t, "apache-3.9,apache-3.9,apache-3.9,apache-3.9", "pinfold,pinfold,pinfold,pinfold") {
		t.Run(members, func(t *testing.T) {
			r := newRig(t, members, rigOptions{jvm: fastJVM, lines: reconfigLines(), before: func(e *cluster.Ensemble) {
				if err := unlist(e, 1); err != nil {
					t.Fatal(err)
				}
			}})
			w, err := load.StartWriters(load.WritersConfig{
				Addrs: r.e.Clients(), Clients: 16, Batch: 4, Znodes: 160, Bytes: 1024,
			})
			r.must(err)
			g := &gaps{membership: &membership{rig: r, roles: map[int]string{1: participant, 2: participant, 3: participant}}, w: w, all: map[string][]gap{}}
			r.written(w, 20_000)
			for range max(*rounds, 1) {
				g.round()
			}
			r.must(w.Stop())
			g.report(members)
		})
	}
}

// A gap is the longest one around a change, when it began after the change was asked for, and the longest
// one before that.
type gap struct{ longest, began, calm time.Duration }

// gaps are those of a rig, by kind of change.
type gaps struct {
	*membership
	w     *load.Writers
	order []string
	all   map[string][]gap
}

// round makes each kind of change once, and ends with the members that it began with.
func (g *gaps) round() {
	g.t.Helper()
	last := len(g.e.Members)
	g.around("add an observer", func() { g.ask(g.joining(observer, last)) })
	g.around("promote", func() { g.ask(g.joining(participant, last)) })
	follower := g.follower()
	g.around("demote", func() { g.ask(g.joining(observer, follower)) })
	g.around("promote", func() { g.ask(g.joining(participant, follower)) })
	g.around("ports of a follower", func() { g.ask(g.moving(follower)) })
	if !g.e.Member(follower).Kind().IsApache() { // it listens at new ports when it starts again
		g.around("ports of the leader", func() { g.ask(g.moving(g.leader().ID)) })
	}
	g.around("remove a follower", func() { g.ask(g.leaving(follower)) })
	g.around("add a participant", func() { g.ask(g.joining(participant, follower)) })
	leader := g.leader().ID
	g.around("remove the leader", func() { g.ask(g.leaving(leader)) })
	g.around("add a participant", func() { g.ask(g.joining(participant, leader)) })
	leader = g.leader().ID
	g.around("demote the leader", func() { g.ask(g.joining(observer, leader)) })
	g.around("promote", func() { g.ask(g.joining(participant, leader)) })
	if g.leader().ID == last {
		g.around("remove the leader", func() { g.ask(g.leaving(last)) })
	} else {
		g.around("remove a follower", func() { g.ask(g.leaving(last)) })
	}
}

// around measures the gap from a change until all members have it and writes have gone on for a while.
func (g *gaps) around(kind string, change func()) {
	g.t.Helper()
	const while = 10_000
	quiet := time.Now()
	g.written(g.w, while)
	asked := time.Now()
	change()
	for id := range g.roles {
		g.await(id)
	}
	made := time.Now()
	g.written(g.w, while)
	longest, began := g.w.LongestGap(asked, time.Now())
	calm, _ := g.w.LongestGap(quiet, asked)
	g.t.Logf("%s: %v without an acknowledged write, from %v after it was asked for; %v before; all have it after %v", kind,
		longest.Round(time.Millisecond/10), began.Sub(asked).Round(time.Millisecond/10), calm.Round(time.Millisecond/10), made.Sub(asked).Round(time.Millisecond))
	if !slices.Contains(g.order, kind) {
		g.order = append(g.order, kind)
	}
	g.all[kind] = append(g.all[kind], gap{longest, began.Sub(asked), calm})
}

// joining returns the change that makes a member a participant or an observer.
func (g *gaps) joining(role string, id int) (joining, leaving string) {
	g.roles[id] = role
	return g.line(id, role), ""
}

// leaving returns the change that removes a member.
func (g *gaps) leaving(id int) (joining, leaving string) {
	delete(g.roles, id)
	return "", fmt.Sprint(id)
}

// moving returns the change that gives a member other ports for its peers.
func (g *gaps) moving(id int) (joining, leaving string) {
	g.t.Helper()
	e := g.e.Member(id)
	for _, address := range []*string{&e.Quorum, &e.Election} {
		port, err := g.e.FreePort()
		g.must(err)
		*address = fmt.Sprintf("127.0.0.1:%d", port)
	}
	return g.joining(g.roles[id], id)
}

// ask has a change made.
func (g *gaps) ask(joining, leaving string) {
	g.t.Helper()
	before, last := g.version, error(nil)
	err := g.e.Until(g.within(patience), func() bool {
		text, err := g.try(joining, leaving)
		if err != nil {
			last = err
			return false
		}
		g.version = text[strings.LastIndexByte(text, '\n')+1:]
		return g.version != before && g.has(text)
	})
	if err != nil {
		g.t.Fatalf("joining %q, leaving %q: %v: %v", joining, leaving, err, last)
	}
}

// report prints the medians, and how many single changes missed their goal.
func (g *gaps) report(members string) {
	g.t.Helper()
	changes, missed := 0, 0
	for _, kind := range g.order {
		var longest, calm []time.Duration
		wanted := wantedChange
		if strings.HasSuffix(kind, "the leader") && !strings.HasPrefix(kind, "ports") {
			wanted = wantedMove
		}
		late := 0
		for _, one := range g.all[kind] {
			longest, calm = append(longest, one.longest), append(calm, one.calm)
			if one.longest > wanted {
				late++
			}
		}
		changes, missed = changes+len(longest), missed+late
		g.t.Logf("RESULT reconfig %s, %s: median %v of %d, least %v, most %v; before it median %v; goal %v, missed by %d", members, kind, median(longest), len(longest),
			slices.Min(longest).Round(time.Millisecond/10), slices.Max(longest).Round(time.Millisecond/10), median(calm), wanted, late)
	}
	g.t.Logf("RESULT reconfig %s: %d of %d changes missed their goals", members, missed, changes)
}
