package ensemble

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pinfold-zk/pinfold/test/ensemble/client"
	"github.com/pinfold-zk/pinfold/test/ensemble/cluster"
	"github.com/pinfold-zk/pinfold/zk"
)

// TestReconfig has members join, leave, change their roles and move while clients write: the
// leader among them, and with kill -9 of members between the changes. The last two members
// are in nobody's list at first. In an ensemble of Apache's and Pinfold's members both have led when a member joined and when one
// left.
func TestReconfig(t *testing.T) {
	for _, members := range mixtures(t,
		"pinfold,pinfold,pinfold,pinfold,pinfold",
		"apache,apache,pinfold,pinfold,apache", "pinfold,pinfold,apache,apache,pinfold",
	) {
		t.Run(members, func(t *testing.T) {
			r := newRig(t, members, rigOptions{lines: append(reconfigLines(), smallFiles()...), before: func(e *cluster.Ensemble) {
				if err := unlist(e, 2); err != nil {
					t.Fatal(err)
				}
			}})
			r.load()
			m := &membership{rig: r, roles: map[int]string{1: participant, 2: participant, 3: participant}}
			m.grow()
			for _, apache := range m.programs() {
				m.leadBy(apache)
				m.shrink()
				m.leadBy(apache)
				m.turn()
			}
			m.move()
			m.restart()
			m.ledByAll()
			r.finish()
		})
	}
}

// TestReconfigSecured changes the members of an ensemble with TLS between servers that log in at each other. After two
// have joined, Pinfold's let in no server whose certificate does not name the host of its server line: one that was
// removed is let in again when it is listed again.
func TestReconfigSecured(t *testing.T) {
	for _, members := range mixtures(t, "pinfold,pinfold,pinfold,pinfold,pinfold", "apache-3.9,pinfold,pinfold,apache-3.9,pinfold") {
		t.Run(members, func(t *testing.T) {
			p := newProofs(t, 5)
			o := rigOptions{
				spread: true, lines: slices.Concat(reconfigLines(), smallFiles(), loginLines), jvm: smallJVM + loginFile(t, loginPassword),
				before: func(e *cluster.Ensemble) {
					for _, m := range e.Members {
						if err := p.configure(m, true, false, false); err != nil {
							t.Fatal(err)
						}
					}
					if err := unlist(e, 2); err != nil {
						t.Fatal(err)
					}
				},
			}
			r := newRig(t, members, o)
			r.load()
			m := &membership{rig: r, roles: map[int]string{1: participant, 2: participant, 3: participant}}
			m.grow()
			m.bind(o.jvm)
			m.shrink()
			m.turn()
			m.move()
			m.restart()
			r.finish()
		})
	}
}

// bind restarts the members of Pinfold's with ssl.quorum.verifyPeers.
func (m *membership) bind(flags string) {
	m.t.Helper()
	for _, e := range m.e.Members {
		if e.Kind() != cluster.Pinfold {
			continue
		}
		m.step("%v restarts with verifyPeers", e)
		m.must(e.Stop())
		e.SetFlags(flags + " -Dzookeeper.ssl.quorum.verifyPeers=true")
		m.must(e.Start())
		m.await(e.ID)
	}
}

// unlist removes the last n members of an ensemble from the lists of the others, and makes
// each an observer in its own list: it is to join.
func unlist(e *cluster.Ensemble, n int) error {
	listed := len(e.Members) - n
	return editConfigs(e, func(m *cluster.Member, line string) (string, bool) {
		var id int
		if _, err := fmt.Sscanf(line, "server.%d=", &id); err != nil || id <= listed {
			return line, true
		}
		return line + ":observer", id == m.ID
	})
}

// standaloneDisabled lets members be an ensemble of one.
func standaloneDisabled(e *cluster.Ensemble) error {
	return editConfigs(e, func(_ *cluster.Member, line string) (string, bool) {
		if strings.HasPrefix(line, "dataDir=") {
			line += "\nstandaloneEnabled=false"
		}
		return line, true
	})
}

// editConfigs replaces each line of the members' zoo.cfg by what edit returns for it, or
// removes it if edit does not keep it.
func editConfigs(e *cluster.Ensemble, edit func(m *cluster.Member, line string) (to string, keep bool)) error {
	for _, m := range e.Members {
		name := filepath.Join(m.Dir, "zoo.cfg")
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		var kept strings.Builder
		for line := range strings.Lines(string(text)) {
			if to, keep := edit(m, strings.TrimSpace(line)); keep {
				kept.WriteString(to + "\n")
			}
		}
		if err := os.WriteFile(name, []byte(kept.String()), 0o644); err != nil {
			return err
		}
	}
	return nil
}

const (
	participant = "participant"
	observer    = "observer"
)

// A membership is the members of a rig as the test has made them.
type membership struct {
	*rig
	roles   map[int]string // of each member
	version string         // the last line of /zookeeper/config

	asked *cluster.Member // the leader that was asked last for a change
	led   map[ledChange]int
}

// line is what joining has of a member.
func (m *membership) line(id int, role string) string {
	e := m.e.Member(id)
	_, election, _ := strings.Cut(e.Election, ":")
	return fmt.Sprintf("server.%d=%s:%s:%s;%s", id, e.Quorum, election, role, e.Client)
}

// join makes members participants or observers, or moves them.
func (m *membership) join(role string, ids ...int) {
	m.t.Helper()
	var lines []string
	for _, id := range ids {
		lines = append(lines, m.line(id, role))
		m.roles[id] = role
	}
	m.change(strings.Join(lines, ","), "")
}

// leave removes a member.
func (m *membership) leave(id int) {
	m.t.Helper()
	delete(m.roles, id)
	m.change("", fmt.Sprint(id))
}

// change asks for a change until it is made, and waits until all members have it.
func (m *membership) change(joining, leaving string) {
	m.t.Helper()
	m.step("joining %q, leaving %q", joining, leaving)
	m.asked = nil
	before, last := m.version, error(nil)
	err := m.e.Until(m.within(patience), func() bool {
		text, err := m.try(joining, leaving)
		if err != nil {
			last = err
			return false
		}
		m.version = text[strings.LastIndexByte(text, '\n')+1:]
		return m.version != before && m.has(text)
	})
	if err != nil {
		m.t.Fatalf("%v: %v", err, last)
	}
	m.noteLeader(leaving != "")
	for id := range m.roles {
		m.await(id)
	}
	m.progress()
}

// try asks the leader for a change, unless it was made by an earlier try whose answer was
// lost, and returns the configuration.
func (m *membership) try(joining, leaving string) (string, error) {
	leader, err := m.e.Leader()
	if err != nil {
		return "", err
	}
	s := client.New(sessionTimeout, answerPatience)
	if err := s.Connect(leader.Client); err != nil {
		return "", err
	}
	defer s.Drop()
	replies, err := s.Do(authenticate(), client.Get(configPath))
	if err != nil {
		return "", err
	}
	if text, _, err := replies[1].Data(); err != nil || m.has(string(text)) && !strings.HasSuffix(string(text), "\n"+m.version) {
		return string(text), err
	}
	m.asked = leader
	if replies, err = s.Do(reconfig(joining, leaving, nil, -1)); err != nil {
		return "", err
	}
	switch code := replies[0].Code; code {
	case zk.OK:
		text, _, err := replies[0].Data()
		return string(text), err
	case zk.ErrNewConfigNoQuorum, zk.ErrReconfigInProgress: // a joining member may be late
		return "", code
	default:
		return "", errors.New("refused: " + code.Error())
	}
}

// has reports whether a configuration has the members of the test, with their lines.
func (m *membership) has(text string) bool {
	if strings.Count(text, "server.") != len(m.roles) {
		return false
	}
	for id, role := range m.roles {
		prefix, _, _ := strings.Cut(m.line(id, role), ";")
		if !strings.Contains(text, prefix) {
			return false
		}
	}
	return true
}

// await waits until a member serves with the configuration that was made last.
func (m *membership) await(id int) {
	m.t.Helper()
	e := m.e.Member(id)
	var last string
	err := m.e.Until(m.within(patience), func() bool {
		s := client.New(sessionTimeout, answerPatience)
		if last = "it cannot be asked"; s.Connect(e.Client) != nil {
			return false
		}
		defer s.Drop()
		replies, err := s.Do(client.Sync("/"), client.Get(configPath))
		if err != nil {
			return false
		}
		text, _, err := replies[1].Data()
		last = string(text)
		return err == nil && strings.HasSuffix(last, "\n"+m.version)
	})
	if err != nil {
		m.t.Fatalf("member %v does not get %s: %v; it has\n%s\n%s", e, m.version, err, last, e.Tail())
	}
}

// leader waits for the leader, which must be a participant.
func (m *membership) leader() *cluster.Member {
	m.t.Helper()
	leader, err := m.e.WaitLeader(m.within(patience), func(l *cluster.Member) bool { return m.roles[l.ID] == participant })
	m.must(err)
	return leader
}

// follower returns a participant that does not lead.
func (m *membership) follower() int {
	m.t.Helper()
	leader := m.leader()
	for id := range m.e.Members {
		if m.roles[id+1] == participant && id+1 != leader.ID {
			return id + 1
		}
	}
	m.t.Fatal("no follower")
	return 0
}

// grow has the two members join that are in nobody's list.
func (m *membership) grow() {
	m.t.Helper()
	last := len(m.e.Members)
	m.join(observer, last)
	m.join(participant, last-1)
}

// shrink removes a follower, which goes on and is killed, and then the leader. Both come
// back.
func (m *membership) shrink() {
	m.t.Helper()
	gone := m.follower()
	m.leave(gone)
	m.e.Member(gone).Kill()
	m.progress()
	leader := m.leader()
	m.leave(leader.ID)
	m.leader()
	m.progress()
	if m.e.Member(gone).Kind() == cluster.Pinfold { // Apache's does not start: it is in no list
		m.must(m.e.Member(gone).Start())
	} else {
		m.must(m.rejoin(gone, observer))
	}
	m.join(participant, leader.ID)
	m.join(participant, gone)
}

// rejoin gives a server that is no member the present members and itself, and starts it.
func (m *membership) rejoin(id int, role string) error {
	e := m.e.Member(id)
	name := filepath.Join(e.Dir, "zoo.cfg")
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	var kept []string
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "dynamicConfigFile") && !strings.HasPrefix(line, "server.") {
			kept = append(kept, line)
		}
	}
	for other, role := range m.roles {
		kept = append(kept, "\n"+m.line(other, role))
	}
	kept = append(kept, "\n"+m.line(id, role), "\n")
	if err := os.WriteFile(name, []byte(strings.Join(kept, "")), 0o644); err != nil {
		return err
	}
	return e.Start()
}

// turn has an observer become a participant, and a participant an observer, in both orders.
func (m *membership) turn() {
	m.t.Helper()
	last, other := len(m.e.Members), m.follower()
	m.join(participant, last)
	m.join(observer, other)
	m.join(participant, other)
	m.join(observer, last)
}

// move gives a follower, the leader and the observer other ports for their peers.
func (m *membership) move() {
	m.t.Helper()
	for _, id := range []int{m.follower(), m.leader().ID, len(m.e.Members)} {
		e := m.e.Member(id)
		m.movePorts(e)
		if e.Kind().IsApache() { // it listens there when it starts again
			m.must(e.Stop())
			m.must(e.Start())
			m.await(id)
		}
	}
}

// movePorts gives a member other ports for its peers.
func (m *membership) movePorts(e *cluster.Member) {
	m.t.Helper()
	for _, address := range []*string{&e.Quorum, &e.Election} {
		port, err := m.e.FreePort()
		m.must(err)
		host, _, _ := strings.Cut(*address, ":")
		*address = fmt.Sprintf("%s:%d", host, port)
	}
	m.join(m.roles[e.ID], e.ID)
}

// restart kills each member, then all of them: each has the last configuration.
func (m *membership) restart() {
	m.t.Helper()
	for _, e := range slices.Clone(m.e.Members) {
		m.step("kill -9 of %v", e)
		e.Kill()
		m.progress()
		m.must(e.Start())
		m.await(e.ID)
	}
	m.blackout()
	for id := range m.roles {
		m.await(id)
	}
}
