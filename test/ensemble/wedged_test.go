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

	"github.com/pinfold-zk/pinfold/test/ensemble/client"
	"github.com/pinfold-zk/pinfold/test/ensemble/cluster"
	"github.com/pinfold-zk/pinfold/zk"
)

// TestRecoverKnownByLost creates the third of the states that need an operator (docs/ops/membership.md): a change is committed and acknowledged to the client, only servers
// that are lost know that, and those that are left are a majority of the new voters and not of the former ones.
func TestRecoverKnownByLost(t *testing.T) {
	rec := newWedge(t, "pinfold,pinfold,pinfold,pinfold,pinfold", 2)
	gone, lead, back := rec.loseWhoKnow()
	other := rec.others[0]
	rec.wedged(rec.left, other)
	rec.endsWith(lead, back, other)
	rec.endWedge(other, gone...)
}

// newWedge starts an ensemble whose last members join it as followers without a vote, with more lines in zoo.cfg.
func newWedge(t *testing.T, members string, joining int, lines ...string) *recovery {
	members = mixtures(t, members)[0]
	return &recovery{rig: newRig(t, members, rigOptions{
		lines: slices.Concat(reconfigLines(), smallFiles(), lines),
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
// is committed, and the three former voters are lost. back is the disk of the one that led, as it was.
func (r *recovery) loseWhoKnow() (gone []*cluster.Member, lead *cluster.Member, back disk) {
	r.t.Helper()
	lead, _ = r.leader()
	gone = r.e.Members[:3]
	out := slices.DeleteFunc(slices.Clone(gone), func(m *cluster.Member) bool { return m == lead })
	r.left = r.e.Member(4)
	r.others = append([]*cluster.Member{r.e.Member(5)}, gone...)
	r.written = r.write(lead)
	for _, m := range r.e.Members {
		_, err := r.e.WaitCaughtUp(r.within(patience), m)
		r.must(err)
	}
	m := &membership{rig: r.rig}
	s := r.visit(lead, true)
	for _, o := range out {
		r.must(o.Pause())
	}
	answer := send(s, reconfig(m.line(4, participant)+","+m.line(5, participant), fmt.Sprintf("%d,%d", out[0].ID, out[1].ID), nil, -1))
	for _, id := range []int{4, 5} {
		r.untilLogged(r.e.Member(id), "server.4=")
	}
	r.noteChange()
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
	r.must(r.e.Until(r.within(patience), func() bool { // it writes that when it has answered
		content, err := os.ReadFile(membersFile(lead))
		return err == nil && strings.Contains(string(content), `"seen":""`)
	}))
	for _, m := range gone {
		m.Kill()
	}
	back = r.keep(lead)
	for _, m := range gone {
		r.empty(m)
	}
	for _, id := range []int{4, 5} { // what the leader has sent meanwhile is lost with their sockets
		r.e.Member(id).Kill()
		r.must(r.e.Member(id).Start())
	}
	return gone, lead, back
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

// noteChange notes the change that is in the history of the member that is left and not known to be committed.
func (r *recovery) noteChange() {
	r.t.Helper()
	content, err := os.ReadFile(filepath.Join(r.left.Dir, "zoo.cfg.dynamic.next"))
	r.must(err)
	r.change = string(content)
}

// endsWith demands that a lost member that comes back with its disk ends the state of the two that are left and run: then there is a leader,
// and all have the change and what was written. So it is the loss that keeps these two from having one. In the end the member
// is lost again, and the two do not run and have the disks that they had.
func (r *recovery) endsWith(lost *cluster.Member, had disk, other *cluster.Member) {
	r.t.Helper()
	all := []*cluster.Member{r.left, other, lost}
	disks := map[*cluster.Member]disk{}
	for _, m := range all[:2] {
		r.must(m.Pause())
		disks[m] = r.keep(m)
		r.must(m.Resume())
	}
	r.putBack(lost, had)
	began := time.Now()
	r.must(lost.Start())
	for _, m := range all {
		_, err := m.WaitServing(r.within(patience))
		r.must(err)
	}
	leader, _ := r.leader()
	r.t.Logf("%v is back with its disk: %v leads, and %v serve, after %v", lost, leader, all, time.Since(began).Round(time.Millisecond))
	for _, m := range all {
		config, err := r.config(m)
		r.must(err)
		if config != r.change {
			r.t.Errorf("%v is back, and %v has the members\n%s\nand not\n%s", lost, m, config, r.change)
		}
		r.hasWritten(m)
	}
	replies, err := r.visit(leader, false).Do(client.Create("/back", nil, zk.Persistent))
	r.must(err)
	if code := replies[0].Code; code != zk.OK {
		r.t.Errorf("%v is back, and a write is answered %v", lost, code)
	}
	r.empty(lost)
	for m, d := range disks {
		m.Kill()
		r.putBack(m, d)
	}
}

// A disk is a directory with what a member has kept: its data and the files of its configuration.
type disk string

// keep copies what a member keeps, which does not run, or is paused.
func (r *recovery) keep(m *cluster.Member) disk {
	r.t.Helper()
	to := r.t.TempDir()
	r.must(os.CopyFS(filepath.Join(to, "data"), os.DirFS(m.DataDir)))
	r.copyConfiguration(m.Dir, to)
	return disk(to)
}

// putBack gives a member that does not run what it had.
func (r *recovery) putBack(m *cluster.Member, had disk) {
	r.t.Helper()
	for _, name := range configurationOf(m.Dir) {
		r.must(os.Remove(name))
	}
	r.must(os.RemoveAll(m.DataDir))
	r.must(os.CopyFS(m.DataDir, os.DirFS(filepath.Join(string(had), "data"))))
	r.copyConfiguration(string(had), m.Dir)
}

func (r *recovery) copyConfiguration(from, to string) {
	r.t.Helper()
	for _, name := range configurationOf(from) {
		content, err := os.ReadFile(name)
		r.must(err)
		r.must(os.WriteFile(filepath.Join(to, filepath.Base(name)), content, 0o644))
	}
}

// configurationOf are zoo.cfg and the files beside it that a server writes.
func configurationOf(dir string) []string {
	names, _ := filepath.Glob(filepath.Join(dir, "zoo.cfg*"))
	return names
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
