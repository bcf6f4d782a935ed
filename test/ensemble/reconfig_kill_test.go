package ensemble

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/test/ensemble/client"
	"github.com/pinfold-zk/pinfold/test/ensemble/cluster"
)

// interruptions is how many changes TestReconfigKilled interrupts in a round.
const interruptions = 16

// TestReconfigKilled kills members with -9 while a change of the members is on its way: the leader, another
// member, both, or all. When they are back the change is asked for once more, and must be made,
// whether it was made before or not; writes go on, and none is lost. Of the kills some must come while the change is pending,
// and some when it is over: the members that are killed have that on their disks. The last member is in
// no other member's list at first.
func TestReconfigKilled(t *testing.T) {
	for _, members := range mixtures(t, "pinfold,pinfold,pinfold,pinfold") {
		t.Run(members, func(t *testing.T) {
			r := newRig(t, members, rigOptions{lines: append(reconfigLines(), smallFiles()...), before: func(e *cluster.Ensemble) {
				if err := unlist(e, 1); err != nil {
					t.Fatal(err)
				}
			}})
			r.load()
			m := &membership{rig: r, roles: map[int]string{1: participant, 2: participant, 3: participant}}
			met := map[stage]int{}
			for n := range *rounds * interruptions {
				met[m.interrupt(stage(n%4))]++
			}
			t.Logf("RESULT of %d changes, %d were not begun when members were killed, %d were pending and %d were over", *rounds*interruptions, met[unseen], met[pending], met[committed])
			if met[pending] == 0 || met[committed] == 0 {
				t.Error("the kills came all before, or all after a change was committed")
			}
			for id := range m.e.Members {
				if m.roles[id+1] == "" {
					m.join(observer, id+1)
				}
			}
			r.finish()
		})
	}
}

// longestLead bounds how long after it is asked for a change is interrupted, if not at a stage. A change takes some
// milliseconds; changePatience is for one that a busy machine delays.
const (
	longestLead    = 20 * time.Millisecond
	changePatience = 2 * time.Second
)

// A stage is how far a change had come at the members that were killed.
type stage int

const (
	unseen    stage = iota // none of them had logged it
	pending                // one had, and did not know it to be committed
	committed              // one knew that
)

// interrupt asks for a change, kills members soon after, at a stage if that is pending or committed, starts them, and has the
// change made. It returns the stage.
func (m *membership) interrupt(aim stage) stage {
	m.t.Helper()
	joining, leaving := m.draw()
	victims := m.victims()
	m.step("kill -9 of %v within: joining %q, leaving %q", victims, joining, leaving)
	s := m.posted(joining, leaving)
	defer s.Drop()
	if aim == pending || aim == committed {
		m.awaitStage(aim, victims)
	} else {
		<-time.After(time.Duration(m.rng.Int64N(int64(longestLead))))
	}
	for _, v := range victims {
		v.Kill()
	}
	met := m.stageOf(victims)
	for _, v := range victims {
		m.must(v.Start())
	}
	m.change(joining, leaving)
	return met
}

// awaitStage waits until a change has come so far at one of the members, for changePatience at most: it may be refused.
func (m *membership) awaitStage(aim stage, members []*cluster.Member) {
	m.t.Helper()
	for began := time.Now(); m.stageOf(members) < aim && time.Since(began) < changePatience; {
		<-time.After(time.Millisecond / 4)
	}
}

// stageOf returns how far the change after m.version has come at these members, by their disks.
func (m *membership) stageOf(members []*cluster.Member) (met stage) {
	m.t.Helper()
	for _, one := range members {
		met = max(met, m.stage(one))
	}
	return met
}

func (m *membership) stage(of *cluster.Member) stage {
	m.t.Helper()
	text, err := os.ReadFile(filepath.Join(of.DataDir, "version-2", "members"))
	if errors.Is(err, os.ErrNotExist) {
		return unseen
	}
	m.must(err)
	var known struct{ Committed, Seen string }
	m.must(json.Unmarshal(text, &known))
	switch before := version(m.version); {
	case version(known.Committed) > before:
		return committed
	case version(known.Seen) > before:
		return pending
	}
	return unseen
}

// version returns the version at the end of a configuration, 0 if there is none.
func version(text string) (v uint64) {
	_, last, _ := strings.Cut(text, "version=")
	v, _ = strconv.ParseUint(strings.TrimSpace(last), 16, 64)
	return v
}

// posted asks the leader for a change, and does not wait for the answer.
func (m *membership) posted(joining, leaving string) *client.Session {
	m.t.Helper()
	var s *client.Session
	m.must(m.e.Until(m.within(patience), func() bool {
		leader, err := m.e.Leader()
		if err != nil {
			return false
		}
		s = client.New(sessionTimeout, answerPatience)
		if s.Connect(leader.Client) != nil {
			return false
		}
		if _, err = s.Do(authenticate()); err == nil {
			err = s.Post(reconfig(joining, leaving, nil, -1))
		}
		if err != nil {
			s.Drop()
		}
		return err == nil
	}))
	return s
}

// draw draws a change, and notes it as made: a server that is no member joins, or a member gets
// or loses its vote, is removed, or gives its vote to another one. Two participants stay: of those
// that are to vote a majority must vote already.
func (m *membership) draw() (joining, leaving string) {
	ids := func(role string) (all []int) {
		for id := range m.e.Members {
			if m.roles[id+1] == role {
				all = append(all, id+1)
			}
		}
		return all
	}
	voters, observers, outside := ids(participant), ids(observer), ids("")
	switch n := m.rng.IntN(4); {
	case len(outside) > 0:
		joining = m.becomes(outside[0], []string{participant, observer}[m.rng.IntN(2)])
	case len(voters) > 2 && n == 0:
		joining = m.becomes(voters[m.rng.IntN(len(voters))], observer)
	case len(voters) > 2:
		gone := voters[m.rng.IntN(len(voters))]
		delete(m.roles, gone)
		leaving = fmt.Sprint(gone)
		if len(observers) > 0 && n < 3 {
			joining = m.becomes(observers[0], participant)
		}
	default:
		joining = m.becomes(observers[0], participant)
	}
	return joining, leaving
}

// becomes notes the role of a member, and returns its line.
func (m *membership) becomes(id int, role string) string {
	m.roles[id] = role
	return m.line(id, role)
}

// victims draws the members that are killed.
func (m *membership) victims() []*cluster.Member {
	leader, err := m.e.Leader()
	other := m.e.Members[m.rng.IntN(len(m.e.Members))]
	n := m.rng.IntN(8)
	switch {
	case n == 0:
		return slices.Clone(m.e.Members)
	case n < 4 || err != nil || other == leader:
		return []*cluster.Member{other}
	case n < 7:
		return []*cluster.Member{leader}
	}
	return []*cluster.Member{leader, other}
}
