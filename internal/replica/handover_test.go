package replica

import (
	"errors"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/internal/zab"
)

// handOver asks m to hand over and returns what it says.
func (g *group) handOver(m *machine) error {
	g.t.Helper()
	return g.outcome("a hand-over", m.rep.HandOver)
}

// outcome returns the error that begin tells.
func (g *group) outcome(of string, begin func(done func(error))) (err error) {
	g.t.Helper()
	told := make(chan error, 1)
	begin(func(err error) { told <- err })
	g.until("the outcome of "+of+" is told", func() bool {
		select {
		case err = <-told:
			return true
		default:
			return false
		}
	})
	return err
}

// A leader hands over under load: what it has proposed is answered, another one leads
// at once, and it follows that.
func TestALeaderHandsOver(t *testing.T) {
	inGroup(t, 3, 0, nil, func(g *group) {
		m := g.leader()
		s := g.session(m, 50000)
		op, body := setData("/", []byte("x"))
		const writes = 20
		before, last := len(m.note.acknowledged()), m.rep.LastApplied()
		for range writes {
			m.rep.Submit([]Request{m.request(s, op, body)})
		}
		if err := g.handOver(m); err != nil {
			t.Fatal(err)
		}
		answered := len(m.note.acknowledged()) - before
		m.note.mu.Lock()
		dropped := m.note.dropped
		m.note.mu.Unlock()
		if answered+dropped != writes {
			t.Errorf("of %d writes %d were answered, %d dropped", writes, answered, dropped)
		}
		began := time.Now()
		g.until("another leads", func() bool { ms := g.in(Leader); return len(ms) == 1 && ms[0] != m })
		if took := time.Since(began); took > 100*time.Millisecond {
			t.Errorf("another one leads after %v", took)
		}
		next := g.leader()
		g.await()
		g.until("it follows", func() bool { return m.rep.Mode() == Follower })
		if g.leader() != next {
			t.Error("the leader has changed again")
		}
		// Nothing that was answered is lost, and nothing that was dropped is executed.
		if got := next.rep.LastApplied(); got.Epoch() == last.Epoch() && int(got-last) != answered {
			t.Errorf("%d writes were answered, the new leader is at %v, before it was %v", answered, got, last)
		}
		g.agree()
	})
}

// Who does not lead, or is needed, says so.
func TestWhoCannotHandOver(t *testing.T) {
	inGroup(t, 3, 0, nil, func(g *group) {
		if err := g.handOver(g.in(Follower)[0]); !errors.Is(err, ErrNotLeader) {
			t.Errorf("a follower says %v", err)
		}
		m := g.leader()
		g.stop(g.id(g.in(Follower)[0]))
		pass(time.Second)
		if err := g.handOver(m); !errors.Is(err, ErrNotReplaceable) {
			t.Errorf("a leader with one follower of two says %v", err)
		}
		if m.rep.Mode() != Leader {
			t.Errorf("it is %v", m.rep.Mode())
		}
	})
}

// A follower whose disk is away makes the others no quorum that has everything: the leader
// goes on, and executes what it has held back.
func TestAHandOverThatTakesTooLongIsGivenUp(t *testing.T) {
	inGroup(t, 3, 0, nil, func(g *group) {
		m, behind := g.leader(), g.in(Follower)[0]
		s := g.session(m, 50000)
		pass(time.Second)
		gate := g.gates[g.id(behind)]
		gate <- struct{}{}
		op, body := setData("/", []byte("x"))
		bring(m.rep, []Request{m.request(s, op, body)})
		pass(10 * time.Millisecond)
		before := m.rep.LastApplied()
		told := make(chan error, 1)
		m.rep.HandOver(func(err error) { told <- err })
		pass(10 * time.Millisecond)
		bring(m.rep, []Request{m.request(s, op, body)})
		pass(10 * time.Millisecond)
		if m.rep.LastApplied() != before {
			t.Error("a write is executed while the leadership is handed over")
		}
		g.until("it is given up", func() bool { return len(told) == 1 })
		if err := <-told; !errors.Is(err, ErrNotDrained) {
			t.Errorf("it says %v", err)
		}
		pass(100 * time.Millisecond)
		if m.rep.LastApplied() != before+1 || m.note.dropped > 0 {
			t.Errorf("what was held back is not executed: the tree is at %v, before it was at %v; %d requests are dropped", m.rep.LastApplied(), before, m.note.dropped)
		}
		if m.rep.Mode() != Leader || m.rep.Status().Role != zab.Leading {
			t.Errorf("it is %v", m.rep.Mode())
		}
		<-gate
		g.agree()
	})
}
