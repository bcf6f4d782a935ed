package ensemble

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/test/ensemble/client"
	"github.com/pinfold-zk/pinfold/test/ensemble/cluster"
	"github.com/pinfold-zk/pinfold/zk"
)

var curatorScript = flag.String("curator", "", "scripts/curator, or a `program` like it, for TestEnsembleTracker")

// movable is a rig of members whose server lines have the addresses for clients.
func movable(t *testing.T, members string, roles map[int]string) *membership {
	return &membership{roles: roles, rig: newRig(t, members, rigOptions{
		lines: append(reconfigLines(), smallFiles()...), before: func(e *cluster.Ensemble) {
			if err := errors.Join(unlist(e, len(e.Members)-len(roles)), listClients(e)); err != nil {
				t.Fatal(err)
			}
		},
	})}
}

// TestMoveAll gives each of three members other addresses by `reconfig`, one after the other, the leader last: for its
// peers, for the election and for clients. Sessions of 4 s that follow the members write at all of them: none may be
// lost.
func TestMoveAll(t *testing.T) {
	for _, members := range mixtures(t, "pinfold,pinfold,pinfold") {
		t.Run(members, func(t *testing.T) {
			m := movable(t, members, map[int]string{1: participant, 2: participant, 3: participant})
			c := newCrowd(t, m.e)
			c.follow = true
			for _, one := range m.e.Members {
				c.writer(one, 1)
				c.writer(one, 1)
				c.pinger(one)
			}
			before := m.e.Clients()
			for range max(*rounds, 1) {
				leader, _ := m.rig.leader()
				order := append(slices.DeleteFunc(slices.Clone(m.e.Members), func(o *cluster.Member) bool { return o == leader }), leader)
				began := time.Now()
				for _, one := range order {
					m.moveAddresses(one, m.e.Members[one.ID%len(m.e.Members)])
				}
				<-time.After(settleForLoad)
				gap, _ := c.writesGap(began, time.Now())
				t.Logf("RESULT %s: all addresses changed from %v to %v: no acknowledged write for %v at most", members, before, m.e.Clients(), gap.Round(time.Millisecond))
			}
			for _, one := range m.e.Members { // a client that still uses an address of before has to find the new ones
				m.must(one.Stop())
				m.must(one.Start())
				m.await(one.ID)
			}
			c.addrs = m.e.Clients()
			lost, suspended, err := c.lost(m.within(patience))
			m.must(err)
			t.Logf("RESULT %s: %d of %d sessions lost, %d connections lost", members, lost, len(c.all()), suspended)
			if lost > 0 {
				t.Errorf("%d sessions were lost", lost)
			}
			c.end()
			for _, complaint := range m.e.Complaints() {
				t.Error(complaint)
			}
		})
	}
}

// moveAddresses has another member be asked to give one other addresses, all of them, and waits until all members know.
func (m *membership) moveAddresses(one, other *cluster.Member) {
	m.t.Helper()
	moved := [3]string{one.Quorum, one.Election, one.Client}
	for i := range moved {
		port, err := m.e.FreePort()
		m.must(err)
		host, _, _ := strings.Cut(moved[i], ":")
		moved[i] = fmt.Sprintf("%s:%d", host, port)
	}
	_, election, _ := strings.Cut(moved[1], ":")
	line := fmt.Sprintf("server.%d=%s:%s:%s;%s", one.ID, moved[0], election, m.roles[one.ID], moved[2])
	m.t.Logf("%v moves: %s", one, line)
	m.reconfigure(other, line, "")
	one.Quorum, one.Election, one.Client = moved[0], moved[1], moved[2]
	for id := range m.roles {
		m.await(id)
	}
}

// reconfigure asks a member for a change, which must be made, until it is.
func (m *membership) reconfigure(at *cluster.Member, joining, leaving string) {
	m.t.Helper()
	var last error
	err := m.e.Until(m.within(patience), func() bool {
		s := client.New(sessionTimeout, answerPatience)
		if last = s.Connect(at.Client); last != nil {
			return false
		}
		defer s.Drop()
		replies, err := s.Do(authenticate(), reconfig(joining, leaving, nil, -1))
		if err != nil {
			last = err
			return false
		}
		if last = replies[1].Code; replies[1].Code != zk.OK {
			return false
		}
		text, _, err := replies[1].Data()
		m.must(err)
		m.version = string(text[strings.LastIndexByte(string(text), '\n')+1:])
		return true
	})
	if err != nil {
		m.t.Fatalf("joining %q, leaving %q: %v: %v", joining, leaving, err, last)
	}
}

// TestEnsembleTracker has a client of Curator that knows one member follow the members as they come, move and go, that one
// too. It must know each change, keep its session and go on writing.
func TestEnsembleTracker(t *testing.T) {
	if *curatorScript == "" {
		t.Skip("needs -curator, which is scripts/curator")
	}
	for _, members := range mixtures(t, "pinfold,pinfold,pinfold,pinfold") {
		t.Run(members, func(t *testing.T) {
			m := movable(t, members, map[int]string{1: participant, 2: participant, 3: participant})
			p := startTracker(m.rig, m.e.Member(1).Client)
			p.follows(1, 2, 3)
			session := p.writes("first")
			m.reconfigure(m.e.Member(2), m.line(4, participant), "")
			p.follows(1, 2, 3, 4)
			m.reconfigure(m.e.Member(2), "", "1")
			p.follows(2, 3, 4)
			m.e.Member(1).Kill()
			delete(m.roles, 1)
			m.roles[4] = participant
			for _, id := range []int{2, 3, 4} {
				m.moveAddresses(m.e.Member(id), m.e.Member(id%3+2))
				p.follows(2, 3, 4)
			}
			for _, id := range []int{2, 3, 4} { // the addresses of before are of no use any more
				m.must(m.e.Member(id).Stop())
				m.must(m.e.Member(id).Start())
				m.await(id)
			}
			if last := p.writes("last"); last != session {
				t.Errorf("the session was %s, and is %s", session, last)
			}
		})
	}
}

// A tracker is a client of Curator behind a pipe.
type tracker struct {
	*rig
	in    io.Writer
	lines chan string
}

func startTracker(r *rig, servers string) *tracker {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience) // the test's own ends before its clean-up
	cmd := exec.CommandContext(ctx, *curatorScript, "tracker", "Tracker", servers)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	r.must(err)
	out, err := cmd.StdoutPipe()
	r.must(err)
	r.must(cmd.Start())
	p := &tracker{rig: r, in: in, lines: make(chan string, 100)}
	go func() {
		defer close(p.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			p.lines <- s.Text()
		}
	}()
	r.t.Cleanup(func() {
		defer cancel()
		_ = in.Close()
		for range p.lines {
		}
		if err := cmd.Wait(); err != nil {
			r.t.Error("the client of Curator: ", err)
		}
	})
	return p
}

// until reads lines until one is found.
func (p *tracker) until(what string, found func(line string) bool) string {
	p.t.Helper()
	late := time.After(patience)
	for {
		select {
		case line, ok := <-p.lines:
			if !ok {
				p.t.Fatalf("waiting for %s: the client of Curator has ended", what)
			}
			p.t.Logf("Curator: %s", line)
			if line == "lost" {
				p.t.Errorf("waiting for %s: the session was lost", what)
			}
			if found(line) {
				return line
			}
		case <-late:
			p.t.Fatalf("%s did not come", what)
		}
	}
}

// follows waits until the tracker has set these members.
func (p *tracker) follows(ids ...int) {
	p.t.Helper()
	var want []string
	for _, id := range ids {
		want = append(want, p.e.Member(id).Client)
	}
	slices.Sort(want)
	p.until(fmt.Sprint("members ", want), func(line string) bool {
		servers, ok := strings.CutPrefix(line, "servers ")
		got := strings.Split(servers, ",")
		slices.Sort(got)
		return ok && slices.Equal(got, want)
	})
}

// writes has the client write, and returns its session.
func (p *tracker) writes(what string) (session string) {
	p.t.Helper()
	_, err := fmt.Fprintln(p.in, what)
	p.must(err)
	line := p.until("a write", func(line string) bool { return strings.HasPrefix(line, "wrote "+what+" ") })
	return line[strings.LastIndexByte(line, ' ')+1:]
}
