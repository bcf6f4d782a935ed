package ensemble

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/test/ensemble/client"
	"github.com/pinfold-zk/pinfold/test/ensemble/cluster"
)

// TestNames has members that know each other by names, each on a host of its own with its own
// resolver, as in Kubernetes: names that nobody knows, that lead elsewhere later, or to several
// addresses, and that some know and others do not. Sessions of 4 s at all members write and ping meanwhile: none may be
// lost. Of members that are Apache's it only prints what they do. Root only.
func TestNames(t *testing.T) {
	for _, members := range mixtures(t, "pinfold,pinfold,pinfold") {
		t.Run(members, func(t *testing.T) {
			n := &names{}
			n.rig = newRig(t, members, onHosts(t))
			n.strict = !slices.ContainsFunc(n.specs, func(s cluster.Spec) bool { return s.Kind != cluster.Pinfold })
			n.settle()
			n.configuration()
			n.under("all addresses change", n.rolling)
			n.under("the leader does not know a follower's name", n.leaderDoesNotKnow)
			n.under("names have several addresses", n.severalAddresses)
			n.under("nobody knows a name", n.nobodyKnows)
			n.under("the others do not know the elected member's name", n.othersDoNotKnow)
			n.portIsRefused()
			n.configuration()
			for _, complaint := range n.e.Complaints() {
				t.Error(complaint)
			}
		})
	}
}

// A names is a rig whose members have names.
type names struct {
	*rig
	strict bool   // all members must come to serve
	config string // what /zookeeper/config and all zoo.cfg had first
}

// onHosts gives each member a host of its own, and starts all before anybody knows a name. The test is
// skipped where there are no network namespaces, and fails where a command for them is missing.
func onHosts(t *testing.T) rigOptions {
	t.Helper()
	if err := cluster.CheckHosts(); errors.Is(err, cluster.ErrNoNamespaces) {
		t.Skipf("SKIPPED: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	return rigOptions{hosts: true, before: func(e *cluster.Ensemble) {
		if err := startUnknown(e); err != nil {
			t.Fatal(err)
		}
	}}
}

// startUnknown starts the members before anybody knows a name.
func startUnknown(e *cluster.Ensemble) error {
	for _, m := range e.Members {
		if err := m.Start(); err != nil {
			return err
		}
	}
	for _, m := range e.Members {
		if err := e.Hosts.Publish(m.ID, ids(e), e.Hosts.Address(m.ID)); err != nil {
			return err
		}
	}
	return nil
}

func ids(e *cluster.Ensemble) (all []int) {
	for _, m := range e.Members {
		all = append(all, m.ID)
	}
	return all
}

// others are all members but one.
func (n *names) others(id int) []int {
	return slices.DeleteFunc(ids(n.e), func(o int) bool { return o == id })
}

// publish has resolvers answer with the addresses, and waits until they do.
func (n *names) publish(id int, at []int, addresses ...string) {
	n.t.Helper()
	n.must(n.e.Hosts.Publish(id, at, addresses...))
	for _, on := range at {
		n.must(n.e.Hosts.WaitPublished(n.within(patience), id, on))
	}
}

// settle has all resolvers know all names, and all members serve what the others do.
func (n *names) settle() {
	n.t.Helper()
	for _, id := range ids(n.e) {
		n.publish(id, ids(n.e), n.e.Hosts.Address(id))
	}
	n.whole()
}

// under goes through a case under load, ends with all names known and all members serving, and demands that no session
// was lost.
func (n *names) under(what string, through func()) {
	n.t.Helper()
	c := newCrowd(n.t, n.e)
	for _, m := range n.e.Members {
		c.writer(m, 1)
		c.pinger(m)
	}
	began := time.Now()
	through()
	n.settle()
	lost, _, err := c.lost(n.within(patience))
	n.must(err)
	gap, _ := c.writesGap(began, time.Now())
	n.t.Logf("RESULT %s, %s: %d of %d sessions lost, no acknowledged write for %v at most", cluster.FormatSpecs(n.specs), what, lost, len(c.all()), gap.Round(time.Millisecond))
	if lost > 0 && n.strict {
		n.t.Errorf("%s: %d sessions were lost", what, lost)
	}
	c.end()
}

// apachePatience is how long Apache's members are given in each case.
const apachePatience = 45 * time.Second

// When a member that comes back with another address must serve, and how much later is accepted on a machine that
// does other things too.
const (
	wantedReturn   = time.Second
	acceptedReturn = 3 * time.Second
)

// serves demands that all members come to serve, or prints whether they do, and returns how long it took; 0 if it did
// not come to be.
func (n *names) serves(what string, members ...*cluster.Member) (took time.Duration) {
	n.t.Helper()
	limit := patience
	if !n.strict {
		limit = apachePatience
	}
	ctx, cancel := context.WithTimeout(n.t.Context(), limit)
	defer cancel()
	began := time.Now()
	for _, m := range members {
		if _, err := n.e.WaitCaughtUp(ctx, m); err != nil {
			if n.strict {
				n.t.Fatalf("%s: %v", what, err)
			}
			n.t.Logf("RESULT %s, %s: member %d does not serve within %v", cluster.FormatSpecs(n.specs), what, m.ID, limit)
			return 0
		}
	}
	took = time.Since(began).Round(time.Millisecond)
	n.t.Logf("RESULT %s, %s: all serve after %v", cluster.FormatSpecs(n.specs), what, took)
	return took
}

// restart stops all members and starts them again. The last member wins the election: it has
// met the first one before the others come.
func (n *names) restart(between func()) {
	n.t.Helper()
	for _, m := range n.e.Members {
		m.Kill()
	}
	between()
	n.startAll(n.e.Members[len(n.e.Members)-1])
}

// startAll starts all members. One that would win the election does, as it has met another one before the rest comes.
func (n *names) startAll(wins *cluster.Member) {
	n.t.Helper()
	rest := slices.DeleteFunc(slices.Clone(n.e.Members), func(m *cluster.Member) bool { return m == wins })
	for _, m := range []*cluster.Member{wins, rest[0]} {
		n.must(m.Start())
		n.must(m.WaitListening(n.within(patience)))
	}
	<-time.After(untilMet)
	for _, m := range rest[1:] {
		n.must(m.Start())
	}
}

// untilMet is how long two members that run need to connect for an election. They may need
// longer: then the case is not tried.
const untilMet = time.Second

// rolling restarts every member, the leader last, with another address, which the resolvers learn
// only when it runs. It must serve within a second.
func (n *names) rolling() {
	n.t.Helper()
	leader, _ := n.leader()
	order := append(slices.DeleteFunc(slices.Clone(n.e.Members), func(m *cluster.Member) bool { return m == leader }), leader)
	for _, m := range order {
		n.must(m.Stop())
		n.must(n.e.Hosts.Move(m.ID))
		n.must(m.Start())
		n.must(n.e.Hosts.Publish(m.ID, ids(n.e), n.e.Hosts.Address(m.ID)))
		what := fmt.Sprintf("member %d has another address", m.ID)
		took := n.serves(what, m)
		if !n.strict {
			continue
		}
		if took > wantedReturn {
			n.t.Logf("the goal is missed: %s: it serves after %v, wanted is %v", what, took, wantedReturn)
		}
		if took > wantedReturn+acceptedReturn {
			n.t.Errorf("%s: it serves after %v, wanted is %v", what, took, wantedReturn)
		}
	}
}

// leaderDoesNotKnow has a follower come back with another address, of which the leader's resolver
// knows nothing; the other follower's does.
func (n *names) leaderDoesNotKnow() {
	n.t.Helper()
	leader, follower := n.leader()
	follower.Kill()
	n.must(n.e.Hosts.Move(follower.ID))
	n.publish(follower.ID, n.others(leader.ID), n.e.Hosts.Address(follower.ID))
	n.publish(follower.ID, []int{leader.ID})
	n.must(follower.Start())
	n.serves("a follower's name is unknown at the leader", follower)
}

// severalAddresses restarts all members, each with a name of two addresses; nobody is at the first.
func (n *names) severalAddresses() {
	n.t.Helper()
	n.restart(func() {
		for _, id := range ids(n.e) {
			n.publish(id, ids(n.e), n.e.Hosts.Nowhere(id), n.e.Hosts.Address(id))
		}
	})
	n.serves("each name has two addresses, one of nobody", n.e.Members...)
}

// nobodyKnows has no resolver know any name when the leader is lost, and comes back.
func (n *names) nobodyKnows() {
	n.t.Helper()
	n.linked()
	for _, id := range ids(n.e) {
		n.publish(id, n.others(id))
	}
	leader, _ := n.leader()
	leader.Kill()
	n.serves("no name is known when the leader is lost", slices.DeleteFunc(slices.Clone(n.e.Members), func(m *cluster.Member) bool { return m == leader })...)
	n.must(leader.Start())
	n.serves("no name is known when it comes back", leader)
}

// linked waits until the present process of each member has been connected to each other one for elections: it has seen its
// address then, and finds it without a name. Members of Apache's do not say so, and are not waited for.
func (n *names) linked() {
	n.t.Helper()
	if !n.strict {
		return
	}
	for _, m := range n.e.Members {
		for _, id := range n.others(m.ID) {
			n.must(n.e.Until(n.within(patience), func() bool {
				said, err := m.Output()
				n.must(err)
				began := max(0, strings.LastIndex(said, "(ZooKeeper ")) // in the first line of a process
				return strings.Contains(said[began:], fmt.Sprintf("event=election_link_connected peer=%d ", id))
			}))
		}
	}
}

// othersDoNotKnow starts an ensemble whose last member wins the election by its id, with a
// name that the others do not know.
func (n *names) othersDoNotKnow() {
	n.t.Helper()
	last := len(n.e.Members)
	n.restart(func() { n.publish(last, n.others(last)) })
	n.serves("the elected member's name is unknown at the others", n.e.Members...)
}

// portIsRefused starts an ensemble whose last member wins the election by its id, and listens
// for learners at another port than the others have been told.
func (n *names) portIsRefused() {
	n.t.Helper()
	last := n.e.Members[len(n.e.Members)-1]
	name := filepath.Join(last.Dir, "zoo.cfg")
	text, err := os.ReadFile(name)
	n.must(err)
	elsewhere, err := n.e.FreePort()
	n.must(err)
	moved := strings.Replace(string(text), last.Quorum, fmt.Sprintf("%s:%d", cluster.Name(last.ID), elsewhere), 1)
	n.restart(func() { n.must(os.WriteFile(name, []byte(moved), 0o644)) })
	n.serves("the elected member's port for learners is refused", n.e.Members...)
	last.Kill()
	n.must(os.WriteFile(name, text, 0o644))
	n.settle()
}

// configuration demands that nothing of all this is taken for a change of the configuration.
func (n *names) configuration() {
	n.t.Helper()
	var all strings.Builder
	for _, m := range n.e.Members {
		text, err := os.ReadFile(filepath.Join(m.Dir, "zoo.cfg"))
		n.must(err)
		replies, err := n.visit(m, false).Do(client.Get(configPath))
		n.must(err)
		config, stat, err := replies[0].Data()
		n.must(err)
		dynamic, err := filepath.Glob(filepath.Join(m.Dir, "zoo.cfg.*"))
		n.must(err)
		fmt.Fprintf(&all, "%s\n%s\nversion %d\n%v\n", text, config, stat.Version, dynamic)
	}
	if n.config == "" {
		n.config = all.String()
	}
	if n.config != all.String() {
		n.t.Errorf("the configuration was\n%s\nand is\n%s", n.config, all.String())
	}
}
