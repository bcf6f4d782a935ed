package ensemble

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/test/ensemble/client"
	"github.com/pinfold-zk/pinfold/test/ensemble/cluster"
	"github.com/pinfold-zk/pinfold/zk"
)

// TestReconfigErrorsElsewhere sends reconfigurations to servers of other settings, and in other states, than those of
// TestReconfigErrors. Apache is the oracle here too.
func TestReconfigErrorsElsewhere(t *testing.T) {
	for _, members := range mixtures(t, "pinfold,pinfold,pinfold", "apache,apache,apache", "apache-3.9,apache-3.9,apache-3.9") {
		kind, _, _ := strings.Cut(members, ",")
		for _, c := range []struct {
			name, members string
			lines         []string
			before        func(*cluster.Ensemble) error
			try           func(r *rig, leader *cluster.Member)
		}{
			{"disabled", members, superuser(), nil, (*rig).disabledChanges},
			{"alone", kind, reconfigLines(), nil, (*rig).changesAlone},
			{"alone-disabled", kind, superuser(), nil, (*rig).disabledChanges},
			{"groups", members, append(reconfigLines(), "group.1=1:2:3"), nil, (*rig).changesOfGroups},
			{"standaloneEnabled=false", members, reconfigLines(), standaloneDisabled, (*rig).changesToOne},
			{"skipACL", members, append(reconfigLines(), "skipACL=yes"), nil, (*rig).changesWithoutACL},
			{"in-progress", members, reconfigLines(), nil, (*rig).changesInProgress},
		} {
			t.Run(members+"/"+c.name, func(t *testing.T) {
				r := newRig(t, c.members, rigOptions{lines: c.lines, before: func(e *cluster.Ensemble) {
					if c.before == nil {
						return
					}
					if err := c.before(e); err != nil {
						t.Fatal(err)
					}
				}})
				at := r.e.Member(1)
				if len(r.e.Members) > 1 {
					var err error
					at, err = r.e.WaitLeader(r.within(patience), func(*cluster.Member) bool { return true })
					r.must(err)
				}
				c.try(r, at)
			})
		}
	}
}

// Parts of changes: a server that does not run, three of which make any quorum impossible, and a version that no
// configuration has.
const (
	observerNine = "server.9=127.0.0.1:27401:27402:observer;127.0.0.1:27403"
	threeAbsent  = "server.8=127.0.0.1:27411:27412;27413,server.9=127.0.0.1:27401:27402;27403,server.7=127.0.0.1:27421:27422;27423"
	noVersion    = 77
)

// allThree returns a whole configuration: the three members, with one role, and other lines.
func (r *rig) allThree(role string, more ...string) *string {
	m := &membership{rig: r}
	lines := []string{m.line(1, role), m.line(2, role), m.line(3, role)}
	text := strings.Join(append(lines, more...), "\n")
	return &text
}

// tryAll sends changes.
func (r *rig) tryAll(at *cluster.Member, all []change) {
	r.t.Helper()
	for _, c := range all {
		if !c.accepted || !at.Kind().IsApache() {
			r.tryChange(at, &c)
		}
	}
}

// allAnswered are changes of every kind, which are all answered by one code.
func allAnswered(code zk.Code) []change {
	none := ""
	return []change{
		{name: "good", joining: observerNine, from: -1, super: true, want: code},
		{name: "nothing changes", leaving: "77", from: -1, super: true, want: code},
		{name: "no right", joining: observerNine, from: -1, want: code},
		{name: "another version", joining: observerNine, from: noVersion, super: true, want: code},
		{name: "no =", joining: "asdf", from: -1, super: true, want: code},
		{name: "leaving is no number", leaving: "x", from: -1, super: true, want: code},
		{name: "nobody is left", leaving: "1,2,3", from: -1, super: true, want: code},
		{name: "no quorum", joining: threeAbsent, from: -1, super: true, want: code},
		{name: "new members: none", members: &none, from: -1, super: true, want: code},
		{name: "no right, another version, and malformed", joining: "x", from: noVersion, want: code},
	}
}

func (r *rig) disabledChanges(at *cluster.Member) { r.tryAll(at, allAnswered(zk.ErrReconfigDisabled)) }

func (r *rig) changesAlone(at *cluster.Member) { r.tryAll(at, allAnswered(zk.ErrUnimplemented)) }

// changesOfGroups tries incremental changes of members in groups, and then a whole configuration with groups, and one
// without. After that incremental changes are possible.
func (r *rig) changesOfGroups(at *cluster.Member) {
	r.tryAll(at, []change{
		{name: "joining", joining: observerNine, from: -1, super: true, want: zk.ErrBadArguments},
		{name: "leaving", leaving: "1", from: -1, super: true, want: zk.ErrBadArguments},
		{name: "nothing changes", leaving: "77", from: -1, super: true, want: zk.ErrBadArguments},
		{name: "leaving is no number", leaving: "x", from: -1, super: true, want: zk.ErrBadArguments},
		{name: "no quorum", joining: threeAbsent, from: -1, super: true, want: zk.ErrBadArguments},
		{name: "no right", joining: observerNine, from: -1, want: zk.ErrBadArguments},
		{name: "another version", joining: observerNine, from: noVersion, super: true, want: zk.ErrBadVersion},
		{name: "no right for a whole one", members: r.allThree(participant, "group.1=1:2:3"), from: -1, want: zk.ErrNoAuth},
		{name: "a voter without a group", members: r.allThree(participant, "group.1=1:2"), from: -1, super: true, want: zk.ErrBadArguments},
		{name: "weights without groups", members: r.allThree(participant, "weight.1=1", "weight.2=1", "weight.3=2"), from: -1, super: true, want: zk.ErrBadArguments},
		{name: "a weight that is no number", members: r.allThree(participant, "group.1=1:2:3", "weight.1=x"), from: -1, super: true, want: zk.ErrMarshalling},
		{name: "a negative weight", members: r.allThree(participant, "group.1=1:2:3", "weight.1=-1"), from: -1, super: true, accepted: true, want: zk.ErrMarshalling},
		{name: "all weights are 0", members: r.allThree(participant, "group.1=1:2:3", "weight.1=0", "weight.2=0", "weight.3=0"), from: -1, super: true, want: zk.ErrNewConfigNoQuorum},
		{name: "all weights are 0, and no right", members: r.allThree(participant, "group.1=1:2:3", "weight.1=0", "weight.2=0", "weight.3=0"), from: -1, want: zk.ErrNewConfigNoQuorum},
		{name: "a server in two groups", members: r.allThree(participant, "group.1=1:2:3", "group.2=3"), from: -1, super: true, want: zk.ErrBadArguments},
		{name: "a group with an unknown server", members: r.allThree(participant, "group.1=1:2:3:9"), from: -1, super: true, want: zk.ErrMarshalling},
		{name: "a whole one", members: r.allThree(participant, "group.1=1:2:3", "weight.1=1", "weight.2=1", "weight.3=2"), from: -1, super: true, want: zk.OK},
		{name: "leaving, after it", leaving: "1", from: -1, super: true, want: zk.ErrBadArguments},
		{name: "a whole one without groups", members: r.allThree(participant), from: -1, super: true, want: zk.OK},
		{name: "joining, after it", joining: observerNine, from: -1, super: true, want: zk.OK},
	})
}

// changesToOne tries what leaves no voter, and then what leaves one.
func (r *rig) changesToOne(at *cluster.Member) {
	none, others := "", ""
	for _, m := range r.e.Members {
		if m != at {
			others += fmt.Sprintf(",%d", m.ID)
		}
	}
	r.tryAll(at, []change{
		{name: "nobody is left", leaving: "1,2,3", from: -1, super: true, want: zk.ErrBadArguments},
		{name: "nobody is left but an observer", joining: observerNine, leaving: "1,2,3", from: -1, super: true, want: zk.ErrBadArguments},
		{name: "nobody is left, and no right", leaving: "1,2,3", from: -1, want: zk.ErrBadArguments},
		{name: "new members: none", members: &none, from: -1, super: true, want: zk.ErrMarshalling},
		{name: "new members: observers alone", members: r.allThree(observer), from: -1, super: true, want: zk.ErrMarshalling},
		{name: "new members: none, of another version", members: &none, from: noVersion, super: true, want: zk.ErrBadVersion},
		{name: "one voter is left", leaving: others, from: -1, super: true, want: zk.OK},
	})
}

// changesWithoutACL tries changes without the right, which nobody needs; all other checks remain.
func (r *rig) changesWithoutACL(at *cluster.Member) {
	r.tryAll(at, []change{
		{name: "no right, and another version", joining: observerNine, from: noVersion, want: zk.ErrBadVersion},
		{name: "no right, and malformed", joining: "x", from: -1, want: zk.ErrBadArguments},
		{name: "no right, and no quorum", joining: threeAbsent, from: -1, want: zk.ErrNewConfigNoQuorum},
		{name: "no right", joining: observerNine, from: -1, want: zk.OK},
		{name: "no right for a whole one", members: r.allThree(participant), from: -1, want: zk.OK},
	})
}

// changesInProgress stops both followers, has the leader propose a change, and sends it others, on the same connection
// and on others. When the followers go on, the first one is made, and no other.
func (r *rig) changesInProgress(leader *cluster.Member) {
	r.t.Helper()
	var allowed, not []client.Request // with the right, and without
	for _, c := range allAnswered(zk.ErrReconfigInProgress) {
		if request := reconfig(c.joining, c.leaving, c.members, c.from); c.super {
			allowed = append(allowed, request)
		} else {
			not = append(not, request)
		}
	}
	sessions := []*client.Session{r.visit(leader, true), r.visit(leader, true), r.visit(leader, false)}
	before := r.outstanding(leader)
	r.followers(leader, (*cluster.Member).Pause)
	first := send(sessions[0], reconfig(observerNine, "", nil, -1), reconfig("", "1", nil, -1))
	r.must(r.e.Until(r.within(patience), func() bool {
		_, err := os.Stat(filepath.Join(leader.Dir, "zoo.cfg.dynamic.next"))
		return err == nil && r.outstanding(leader) == before+2
	}))
	others := []<-chan replies{send(sessions[1], allowed...), send(sessions[2], not...)}
	r.must(r.e.Until(r.within(patience), func() bool { return r.outstanding(leader) == before+2+len(allowed)+len(not) }))
	<-time.After(untilPrepared)
	r.followers(leader, (*cluster.Member).Resume)
	got := <-first
	r.must(got.err)
	if a, b := got.all[0].Code, got.all[1].Code; a != zk.OK || b != zk.ErrReconfigInProgress {
		r.t.Errorf("the first change is answered %v, and the one after it %v", a, b)
	}
	for _, other := range others {
		got := <-other
		r.must(got.err)
		for i, reply := range got.all {
			if reply.Code != zk.ErrReconfigInProgress {
				r.t.Errorf("change %d of %d, while one is in progress: %v", i, len(got.all), reply.Code)
			}
		}
	}
	text, err := r.config(leader)
	r.must(err)
	if strings.Count(text, "server.") != 4 || !strings.Contains(text, observerNine) {
		r.t.Errorf("the configuration is\n%s", text)
	}
	r.tryAll(leader, []change{{name: "after it", leaving: "9", from: -1, super: true, want: zk.OK}})
}

// followers does something to all members but one.
func (r *rig) followers(leader *cluster.Member, do func(*cluster.Member) error) {
	r.t.Helper()
	for _, m := range r.e.Members {
		if m != leader {
			r.must(do(m))
		}
	}
}

// replies are what requests are answered.
type replies struct {
	all []client.Reply
	err error
}

// send sends requests, and does not wait for the replies.
func send(s *client.Session, requests ...client.Request) <-chan replies {
	came := make(chan replies, 1)
	go func() {
		all, err := s.Do(requests...)
		came <- replies{all, err}
	}()
	return came
}

// untilPrepared is more than a server needs to look at a request that it has read.
const untilPrepared = 200 * time.Millisecond

// config reads the configuration at a member.
func (r *rig) config(m *cluster.Member) (string, error) {
	r.t.Helper()
	replies, err := r.visit(m, false).Do(client.Get(configPath))
	if err != nil {
		return "", err
	}
	text, _, err := replies[0].Data()
	return string(text), err
}

// outstanding returns how many requests a member has read and not answered.
func (r *rig) outstanding(m *cluster.Member) int {
	r.t.Helper()
	text, err := cluster.Ask(m.Client, "mntr", answerPatience)
	r.must(err)
	found := regexp.MustCompile(`zk_outstanding_requests\t(\d+)`).FindStringSubmatch(text)
	if found == nil {
		r.t.Fatalf("%v does not tell its outstanding requests:\n%s", m, text)
	}
	n, err := strconv.Atoi(found[1])
	r.must(err)
	return n
}
