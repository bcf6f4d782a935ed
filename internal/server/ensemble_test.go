package server

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-zk/pinfold/internal/config"
	"github.com/pinfold-zk/pinfold/internal/replica"
	"github.com/pinfold-zk/pinfold/test/memnet"
)

// ensemble is the servers of an ensemble, in memory and virtual time. Those that
// are up are in rigs, by id; the first are voters, the others observers.
type ensemble struct {
	t       *testing.T
	net     memnet.Network
	rigs    map[int64]*rig
	down    map[int64]*rig // that were stopped: their disks
	members *config.Members
	options []func(id int64, s *rigSetup)
}

// inEnsemble runs a test of an ensemble that has just begun to serve.
func inEnsemble(t *testing.T, voters, observers int, f func(e *ensemble), options ...func(id int64, s *rigSetup)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var lines strings.Builder
		for id := 1; id <= voters+observers; id++ {
			role := "participant"
			if id > voters {
				role = "observer"
			}
			fmt.Fprintf(&lines, "server.%d=10.0.0.%d:2888:3888:%s\n", id, id, role)
		}
		members, err := config.ParseMembers([]byte(lines.String()))
		if err != nil {
			t.Fatal(err)
		}
		e := &ensemble{t: t, rigs: map[int64]*rig{}, down: map[int64]*rig{}, members: members, options: options}
		for id := range int64(voters + observers) {
			e.start(id + 1)
		}
		t.Cleanup(func() { // before the rigs'
			for id := range e.rigs {
				e.net.Detach(id)
			}
			e.net.Close()
		})
		e.await()
		f(e)
	})
}

// start starts a server, over what it had on its disk.
func (e *ensemble) start(id int64) *rig {
	e.t.Helper()
	r := newRig(e.t, func(s *rigSetup) {
		if before := e.down[id]; before != nil {
			s.fs = before.fs
		}
		q := &s.cfg.Quorum
		q.MyID, q.HasMyID, q.Members, q.LeaderServes = id, true, *e.members, true
		q.InitLimit, q.SyncLimit, q.StandaloneEnabled = 10, 5, false
		q.Observer = q.Own().Observer
		for _, o := range e.options {
			o(id, s)
		}
	})
	e.rigs[id] = r
	r.rep.Join(e.net.Attach(id, r.rep))
	e.net.Meet(id)
	return r
}

// stop ends a server.
func (e *ensemble) stop(r *rig) {
	id := e.id(r)
	e.net.Detach(id)
	r.stop()
	delete(e.rigs, id)
	e.down[id] = r
}

func (e *ensemble) id(r *rig) int64 { return r.cfg.Quorum.MyID }

// part cuts a server off from all others; heal undoes that.
func (e *ensemble) part(r *rig) {
	for id := range e.rigs {
		if id != e.id(r) {
			e.net.Cut(e.id(r), id)
		}
	}
}

func (e *ensemble) heal(r *rig) {
	for id := range e.rigs {
		if id != e.id(r) {
			e.net.Heal(e.id(r), id)
		}
	}
}

// await lets time pass until all servers that are up serve.
func (e *ensemble) await() {
	e.t.Helper()
	e.until("all serve", func() bool {
		for _, r := range e.rigs {
			if !r.rep.Mode().Writable() {
				return false
			}
		}
		return true
	})
}

// until lets time pass until ok, for a minute at most.
func (e *ensemble) until(what string, ok func() bool) {
	e.t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); pass(10 * time.Millisecond) {
		if time.Now().After(end) {
			e.t.Fatal("it did not come to pass that ", what)
		}
	}
}

// in returns the servers that are in a mode, by id.
func (e *ensemble) in(m replica.Mode) (rs []*rig) {
	for id := range int64(100) {
		if r := e.rigs[id]; r != nil && r.rep.Mode() == m {
			rs = append(rs, r)
		}
	}
	return rs
}

// leader is the one that leads.
func (e *ensemble) leader() *rig {
	e.t.Helper()
	rs := e.in(replica.Leader)
	if len(rs) != 1 {
		e.t.Fatalf("%d servers lead", len(rs))
	}
	return rs[0]
}

// word asks a server.
func (s *rig) word(word string) string {
	s.t.Helper()
	c := s.pipe()
	defer c.Close()
	return ask(s.t, c, word)
}

// refused reports whether the server closes a connection that asks for a session
// without an answer, and how long that takes.
func refused(c net.Conn, f func(*wireClient) error, t testing.TB) (bool, time.Duration) {
	began := time.Now()
	k := newWireClient(t, c)
	return f(k) != nil, time.Since(began)
}
