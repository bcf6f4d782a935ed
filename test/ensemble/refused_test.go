package ensemble

import (
	"net"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/test/ensemble/cluster"
)

// When all members must serve that had to elect another one than the one with the longest history, and how much later is accepted.
const (
	refusedWanted   = 2*tickTime + 500*time.Millisecond
	refusedAccepted = 3 * time.Second
)

// TestPortIsRefused has a leader log what no other member gets, ends all members, and starts them behind a firewall that
// refuses connections to that member's quorum port. The others elect it for its history and cannot follow it. They must
// elect another one, which it follows, within two ticks and an election; no session may be lost. Of members that are
// Apache's it only prints what they do. Root only.
func TestPortIsRefused(t *testing.T) {
	for _, members := range mixtures(t, "pinfold,pinfold,pinfold") {
		t.Run(members, func(t *testing.T) {
			n := &names{rig: newRig(t, members, onHosts(t))}
			if !cluster.CanLose() {
				t.Fatal("packets are lost by iptables: install it")
			}
			n.strict = !slices.ContainsFunc(n.specs, func(s cluster.Spec) bool { return s.Kind != cluster.Pinfold })
			n.settle()
			for range 3 {
				n.under("the member with the longest history is refused", n.longestIsRefused)
			}
			for _, complaint := range n.e.Complaints() {
				t.Error(complaint)
			}
		})
	}
}

// untilLogged is how long a leader is given to write to its disk what the others do not get. It is less than the two ticks
// after which a leader leaves that hears of no quorum.
const untilLogged = tickTime / 4

// longestIsRefused is one round of TestPortIsRefused.
func (n *names) longestIsRefused() {
	n.t.Helper()
	longest, _ := n.leader()
	n.must(n.loses(longest, true))
	<-time.After(untilLogged)
	for _, m := range n.e.Members {
		m.Kill()
	}
	n.must(n.e.Hosts.Heal())
	_, text, err := net.SplitHostPort(longest.Quorum)
	n.must(err)
	port, err := strconv.Atoi(text)
	n.must(err)
	n.must(n.e.Hosts.Refuse(longest.ID, port))
	n.startAll(longest)
	took := n.serves("the quorum port of the member with the longest history is refused", n.e.Members...)
	if n.strict {
		if leader, _ := n.leader(); leader == longest {
			n.t.Errorf("%v leads, which the others cannot reach", leader)
		}
		if took > refusedWanted {
			n.t.Logf("the goal is missed: all serve after %v, wanted are %v", took, refusedWanted)
		}
		if took > refusedWanted+refusedAccepted {
			n.t.Errorf("all serve after %v, wanted are %v", took, refusedWanted)
		}
	}
	n.must(n.e.Hosts.Heal())
}
