package replica

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/internal/zab"
)

// sessions returns n requests for a session each.
func (m *machine) sessions(n int) []Request {
	var reqs []Request
	for range n {
		op, body := createSession(5000)
		reqs = append(reqs, m.request(0, op, body))
	}
	return reqs
}

// P2: no request is answered before the disk has synced its transaction, and a caller
// that brings more requests meanwhile does not wait for the disk.
func TestP2BroughtBeforeSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk, gate := stall()
		m, _ := mustBoot(t, disk, nil)
		defer m.halt()
		before := m.rep.LastApplied()
		gate <- struct{}{}
		go m.rep.Bring(m.sessions(1))
		synctest.Wait()
		m.rep.Bring(m.sessions(2))
		synctest.Wait()
		if n := len(m.note.acknowledged()); n > 0 || m.rep.LastApplied() != before || m.rep.Outstanding() != 3 {
			t.Errorf("%d told, applied %v, %d outstanding", n, m.rep.LastApplied(), m.rep.Outstanding())
		}
		<-gate
		synctest.Wait()
		if n := len(m.note.acknowledged()); n != 3 || m.rep.LastApplied() != before+3 || m.rep.Outstanding() != 0 {
			t.Errorf("after the syncs: %d told, applied %v, %d outstanding", n, m.rep.LastApplied(), m.rep.Outstanding())
		}
	})
}

// The disk of a leader stalls: it goes on, as the disks of a quorum work. What it has
// applied meanwhile is in its log afterwards.
func TestLeadersDiskStalls(t *testing.T) {
	inGroup(t, 3, 0, nil, func(g *group) {
		g.writeThroughStall(g.leader(), Leader, 10)
	})
}

// The disk of a follower stalls for a minute: its clients are served all the same.
func TestFollowersDiskStalls(t *testing.T) {
	inGroup(t, 3, 0, nil, func(g *group) {
		g.writeThroughStall(g.in(Follower)[0], Follower, 30)
	})
}

// A leader whose disk stays away hands over, and follows when the disk is back.
func TestALeaderWhoseDiskStaysAwayHandsOver(t *testing.T) {
	inGroup(t, 3, 0, nil, func(g *group) {
		m := g.leader()
		gate := g.gates[g.id(m)]
		gate <- struct{}{}
		m.rep.Submit(m.sessions(1)) // something that its disk does not finish
		g.until("another leads", func() bool {
			ms := g.in(Leader)
			return len(ms) == 1 && ms[0] != m
		})
		if mode := m.rep.Mode(); mode != Idle {
			t.Errorf("it is %v while its disk is away", mode)
		}
		<-gate
		g.until("it follows", func() bool { return m.rep.Mode() == Follower })
		g.agree()
	})
}

// writeThroughStall stalls the disk of m, has clients of all members write, each pass
// of them two seconds after the one before, and lets the disk go on.
func (g *group) writeThroughStall(m *machine, mode Mode, passes int) {
	s := g.session(m, 50000)
	gate := g.gates[g.id(m)]
	gate <- struct{}{}
	logged := m.rep.LastLogged()
	for range passes {
		for _, each := range append(g.in(Follower), g.leader()) {
			before := g.leader().rep.LastApplied()
			op, body := setData("/", []byte("x"))
			each.rep.Bring([]Request{each.request(s, op, body)})
			g.until("a write is applied", func() bool { return each.rep.LastApplied() == before+1 })
		}
		pass(2 * time.Second)
	}
	if m.rep.Mode() != mode || m.rep.LastLogged() != logged {
		g.t.Errorf("the member is %v, its log at %v, before at %v", m.rep.Mode(), m.rep.LastLogged(), logged)
	}
	<-gate
	g.until("the log follows", func() bool { return m.rep.LastLogged() == m.rep.LastApplied() })
	g.agree()
}

// Of peers that are refused again and again one a second is worth a line, which
// says how many were not.
func TestRefusalsAreFewLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		m, _ := mustBoot(t, vfs.NewMem(), nil)
		defer m.halt()
		m.rep.log = slog.New(slog.NewTextHandler(&out, nil))
		refuse := func(n int) {
			for range n {
				m.rep.order.logEvent(&zab.Event{Kind: zab.EventRefused, Peer: 7, Reason: "of another ensemble"})
			}
		}
		refuse(5)
		pass(refusalPeriod)
		refuse(2)
		text := out.String()
		if n := strings.Count(text, "refused"); n != 2 || !strings.Contains(text, "omitted=4") {
			t.Errorf("%d lines:\n%s", n, text)
		}
	})
}

// TestReleaseSpare: what was released is garbage, and what comes then works.
func TestReleaseSpare(t *testing.T) {
	r := &Replica{pool: new(batchPool)}
	for range pooledBytes/maxPooledBytes + 1 {
		r.pool.put(&batch{bodies: make([]byte, 0, maxPooledBytes)})
	}
	r.pool.put(&batch{bodies: make([]byte, 0, maxPooledBytes+1)})
	if n := len(r.pool.free); n != pooledBytes/maxPooledBytes {
		t.Fatalf("%d batches are kept", n)
	}
	if r.pool.get(); r.pool.bytes != pooledBytes-maxPooledBytes {
		t.Errorf("%d bytes are kept", r.pool.bytes)
	}
	r.ReleaseSpare()
	if len(r.pool.free) != 0 || r.pool.bytes != 0 || r.pool.get() == nil {
		t.Errorf("%d batches are kept after ReleaseSpare", len(r.pool.free))
	}
}

// A snapshot becomes visible when the log has everything that it may hold: what was
// applied while the member's own disk stalled must be durable first.
func TestASnapshotIsNotAheadOfItsLog(t *testing.T) {
	inGroup(t, 3, 0, nil, func(g *group) {
		m := g.leader()
		s := g.session(m, 50000)
		pass(time.Second)
		gate := g.gates[g.id(m)]
		gate <- struct{}{} // the next sync of the log waits
		before := m.rep.LastApplied()
		op, body := setData("/", []byte("x"))
		m.rep.Bring([]Request{m.request(s, op, body)})
		g.until("the write is applied", func() bool { return m.rep.LastApplied() == before+1 })
		files, err := m.dir.Snapshots()
		if err != nil {
			t.Fatal(err)
		}
		m.rep.snapshot(m.rep.snap.applied(1000, 0))
		pass(time.Second)
		if now, err := m.dir.Snapshots(); err != nil || len(now) != len(files) || m.rep.LastLogged() > before {
			t.Errorf("%d snapshots became %d while the log ends at %v, %v", len(files), len(now), m.rep.LastLogged(), err)
		}
		<-gate
		g.until("the snapshot is there", func() bool {
			now, err := m.dir.Snapshots()
			return err == nil && len(now) > len(files)
		})
		g.agree()
	})
}
