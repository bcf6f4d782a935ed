package ensemble

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pinfold-zk/pinfold/test/ensemble/cluster"
)

// TestGrowFromOne grows an ensemble of one to three members, and shrinks it to one, twice, while clients write;
// the leader is killed at each size, and comes back. In between the one that is left runs as a standalone
// server. The other members are in nobody's list at first.
func TestGrowFromOne(t *testing.T) {
	for _, members := range mixtures(t, "pinfold,pinfold,pinfold", "apache-3.9,apache-3.9,apache-3.9", "apache-3.9,pinfold,pinfold") {
		t.Run(members, func(t *testing.T) {
			r := newRig(t, members, rigOptions{lines: append(reconfigLines(), smallFiles()...), before: func(e *cluster.Ensemble) {
				if err := errors.Join(listOne(e), standaloneDisabled(e)); err != nil {
					t.Fatal(err)
				}
			}})
			r.load()
			m := &membership{rig: r, roles: map[int]string{1: participant}}
			m.restartLeader()
			m.join(participant, 2)
			m.restartLeader()
			m.join(participant, 3)
			m.restartLeader()
			last := m.shrinkToOne()
			m.restartLeader()
			m.standalone(last)
			for id := range r.e.Members {
				if m.roles[id+1] == "" {
					r.must(m.rejoin(id+1, participant))
					m.join(participant, id+1)
				}
			}
			m.restartLeader()
			r.finish()
		})
	}
}

// listOne leaves the first member, and its own line, in each member's list.
func listOne(e *cluster.Ensemble) error {
	return editConfigs(e, func(m *cluster.Member, line string) (string, bool) {
		id, isServer := strings.CutPrefix(line, "server.")
		return line, !isServer || id[0] == '1' || id[0] == byte('0'+m.ID)
	})
}

// restartLeader kills the leader, and starts it again.
func (m *membership) restartLeader() {
	m.t.Helper()
	leader := m.leader()
	m.step("kill -9 of the leader %v of %d members", leader, len(m.roles))
	leader.Kill()
	if len(m.roles) > 2 {
		m.progress()
	}
	m.must(leader.Start())
	for id := range m.roles {
		_, err := m.e.Member(id).WaitServing(m.within(patience))
		m.must(err)
	}
	m.progress()
}

// shrinkToOne removes a follower, and then the leader, and kills both.
func (m *membership) shrinkToOne() (last *cluster.Member) {
	m.t.Helper()
	for len(m.roles) > 1 {
		gone := m.leader().ID
		if len(m.roles) == 3 {
			gone = m.follower()
		}
		m.leave(gone)
		m.e.Member(gone).Kill()
		m.progress()
	}
	return m.leader()
}

// standalone has the only member run as a standalone server, and as a member again.
func (m *membership) standalone(last *cluster.Member) {
	m.t.Helper()
	m.step("%v is a standalone server", last)
	name := filepath.Join(last.Dir, "zoo.cfg")
	for _, enabled := range []string{"true", "false"} {
		m.must(last.Stop())
		text, err := os.ReadFile(name)
		m.must(err)
		other := map[string]string{"true": "false", "false": "true"}[enabled]
		m.must(os.WriteFile(name, []byte(strings.ReplaceAll(string(text), "standaloneEnabled="+other, "standaloneEnabled="+enabled)), 0o644))
		m.must(last.Start())
		want := map[string]string{"true": "standalone", "false": "leader"}[enabled]
		m.must(m.e.Until(m.within(patience), func() bool {
			s, err := cluster.Query(last.Client, answerPatience)
			return err == nil && s.Mode == want
		}))
		m.progress()
	}
}
