package ensemble

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/test/ensemble/cluster"
	"github.com/pinfold-zk/pinfold/zk"
)

// TestRecoverKnownByLost creates the third of the states that need an operator (docs/ops/membership.md): a change is committed and acknowledged to the client, only servers
// that are lost know that, and those that are left are a majority of the new voters and not of the former ones.
func TestRecoverKnownByLost(t *testing.T) {
	rec := newWedge(t, "pinfold,pinfold,pinfold,pinfold,pinfold", 2)
	gone := rec.loseWhoKnow()
	other := rec.others[0]
	rec.wedged(rec.left, other)
	rec.endWedge(other, gone...)
}

// newWedge starts an ensemble whose last members join it as followers without a vote.
func newWedge(t *testing.T, members string, joining int) *recovery {
	members = mixtures(t, members)[0]
	return &recovery{rig: newRig(t, members, rigOptions{
		lines: slices.Concat(reconfigLines(), smallFiles()),
		before: func(e *cluster.Ensemble) {
			asFollowers := func(_ *cluster.Member, line string) (string, bool) {
				return strings.TrimSuffix(line, ":observer"), true
			}
			if err := errors.Join(unlist(e, joining), editConfigs(e, asFollowers), listClients(e), standaloneDisabled(e)); err != nil {
				t.Fatal(err)
			}
		},
	})}
}

// loseWhoKnow replaces two of three voters by two that follow. These acknowledge the change and do not hear that it
// is committed, and the three former voters are lost.
func (r *recovery) loseWhoKnow() (gone []*cluster.Member) {
	r.t.Helper()
	leader, _ := r.leader()
	gone = r.e.Members[:3]
	out := slices.DeleteFunc(slices.Clone(gone), func(m *cluster.Member) bool { return m == leader })
	r.left = r.e.Member(4)
	r.others = append([]*cluster.Member{r.e.Member(5)}, gone...)
	r.written = r.write(leader)
	for _, m := range r.e.Members {
		_, err := r.e.WaitCaughtUp(r.within(patience), m)
		r.must(err)
	}
	m := &membership{rig: r.rig}
	s := r.visit(leader, true)
	for _, o := range out {
		r.must(o.Pause())
	}
	answer := send(s, reconfig(m.line(4, participant)+","+m.line(5, participant), fmt.Sprintf("%d,%d", out[0].ID, out[1].ID), nil, -1))
	for _, id := range []int{4, 5} {
		r.untilLogged(r.e.Member(id), "server.4=")
	}
	<-time.After(untilPrepared) // the acknowledgements follow the log; without them there is no answer
	for _, id := range []int{4, 5} {
		r.must(r.e.Member(id).Pause())
	}
	for _, o := range out {
		r.must(o.Resume())
	}
	got := <-answer
	r.must(got.err)
	if got.all[0].Code != zk.OK {
		r.t.Fatalf("the change: %v", got.all[0].Code)
	}
	for _, m := range gone {
		r.empty(m)
	}
	for _, id := range []int{4, 5} { // what the leader has sent meanwhile is lost with their sockets
		r.e.Member(id).Kill()
		r.must(r.e.Member(id).Start())
	}
	return gone
}

// untilLogged waits until the log of a member has a text.
func (r *recovery) untilLogged(m *cluster.Member, text string) {
	r.t.Helper()
	r.must(r.e.Until(r.within(patience), func() bool {
		names, _ := filepath.Glob(filepath.Join(m.DataDir, "version-2", "log.*"))
		return slices.ContainsFunc(names, func(name string) bool {
			b, err := os.ReadFile(name)
			return err == nil && strings.Contains(string(b), text)
		})
	}))
}

// leaderless is how long members are watched that can have no leader. Where they can, one serves within a second or two.
const leaderless = 12 * time.Second

// wedged demands that two members that run have no leader.
func (r *recovery) wedged(members ...*cluster.Member) {
	r.t.Helper()
	for _, m := range members {
		r.must(m.WaitNoRole(r.within(patience)))
		r.must(m.WaitListening(r.within(patience)))
	}
	for began := time.Now(); time.Since(began) < leaderless; <-time.After(100 * time.Millisecond) {
		for _, m := range members {
			if st, err := m.Status(); err == nil {
				r.t.Fatalf("%v serves as %s: the state that is tested did not come to be\n%s", m, st.Mode, m.Tail())
			}
		}
	}
	for _, m := range members {
		if !m.Running() {
			r.t.Errorf("%v has ended", m)
		}
	}
}

// endWedge does what the page says, and demands that the member that is left goes on with the other one.
func (r *recovery) endWedge(other *cluster.Member, gone ...*cluster.Member) {
	r.t.Helper()
	r.left.Kill()
	other.Kill()
	r.recover("", lost(gone...))
	r.must(other.Start()) // with what it has
	r.goOn()
}
