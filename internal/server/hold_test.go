package server

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-zk/pinfold/internal/replica"
	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/test/faultfs"
	"github.com/pinfold-zk/pinfold/zk"
)

// newcomer is a client whose handshake is answered, or not, while time passes.
type newcomer struct {
	*wireClient
	done chan error
	took time.Duration
}

// arrive sends a handshake to a server.
func arrive(s *rig, req wire.ConnectRequest) *newcomer {
	n := &newcomer{wireClient: newWireClient(s.t, s.pipe()), done: make(chan error, 1)}
	began := time.Now()
	go func() {
		err := n.connect(req)
		n.took = time.Since(began)
		n.done <- err
	}()
	synctest.Wait()
	return n
}

// waits reports whether nothing has come yet.
func (n *newcomer) waits() bool { return len(n.done) == 0 }

var newSession = wire.ConnectRequest{TimeoutMillis: 10000, HasReadOnly: true}

// While the ensemble elects its next leader a handshake is held, and answered
// then, on every server that is left.
func TestHandshakeIsHeldDuringAnElection(t *testing.T) {
	inEnsemble(t, 5, 1, func(e *ensemble) {
		old := e.leader()
		e.stop(old)
		pass(time.Millisecond)
		var came []*newcomer
		for id := range int64(6) {
			if r := e.rigs[id+1]; r != nil {
				if r.rep.Mode() != replica.Idle {
					t.Fatalf("server %d serves without a leader", id+1)
				}
				came = append(came, arrive(r, newSession))
			}
		}
		for i, n := range came {
			if !n.waits() {
				t.Errorf("client %d: %v, %+v", i, <-n.done, n.resp)
			}
		}
		e.await()
		pass(time.Millisecond)
		for i, n := range came {
			if err := <-n.done; err != nil || n.resp.SessionID == 0 || n.took == 0 || n.took > holdAtMost {
				t.Fatalf("client %d: %v, %+v, after %v", i, err, n.resp, n.took)
			}
			n.create(fmt.Sprintf("/%d", i), "", zk.Ephemeral)
		}
	})
}

// A server that has just lost its quorum, or has just started, holds handshakes
// until holdAtMost after that; then it refuses at once.
func TestHandshakeIsNotHeldForEver(t *testing.T) {
	inEnsemble(t, 3, 0, func(e *ensemble) {
		lonely := e.in(replica.Follower)[0]
		e.part(lonely)
		e.until("the quorum is lost", func() bool { return lonely.rep.Mode() == replica.Idle })
		lost := lonely.rep.Since()
		for lonely.rep.Now() < lost+2*holdAtMost {
			left := max(0, lost+holdAtMost-lonely.rep.Now())
			n := arrive(lonely, newSession)
			if n.waits() != (left > 0) {
				t.Fatalf("%v before the end a client waits: %v", left, n.waits())
			}
			pass(left)
			if err := <-n.done; err == nil || n.took != left {
				t.Errorf("%v before the end: %v after %v", left, err, n.took)
			}
			pass(70 * time.Millisecond)
		}
		if n := len(lonely.srv.mu.held); n != 0 {
			t.Errorf("%d are held", n)
		}

		e.stop(lonely)
		lonely = e.start(e.id(lonely))
		e.part(lonely)
		n := arrive(lonely, newSession)
		pass(holdAtMost)
		if err := <-n.done; err == nil || n.took == 0 {
			t.Errorf("after a start: %v after %v", err, n.took)
		}
	})
}

// A leader that has handed over because its disk stalls refuses handshakes at once: it
// takes no part in the election, so another server answers sooner.
func TestHandshakeIsNotHeldForADisk(t *testing.T) {
	gates := map[int64]chan struct{}{} // what is in one stalls the syncs of that disk
	inEnsemble(t, 3, 0, func(e *ensemble) {
		old := e.leader()
		gates[e.id(old)] <- struct{}{}
		e.in(replica.Follower)[0].open().create("/a", "", zk.Persistent)
		e.until("another leads", func() bool {
			rs := e.in(replica.Leader)
			return len(rs) == 1 && rs[0] != old
		})
		if left := old.rep.Since() + holdAtMost - old.rep.Now(); left <= 0 {
			t.Fatalf("it left its role %v ago: handshakes are not held any more", holdAtMost-left)
		}
		n := arrive(old, newSession)
		if n.waits() {
			t.Error("the handshake is held")
		}
		pass(holdAtMost)
		if err := <-n.done; err == nil {
			t.Errorf("session %v begins without a quorum", n.resp.SessionID)
		}
		<-gates[e.id(old)]
		e.await()
		if err := <-arrive(old, newSession).done; err != nil {
			t.Error(err)
		}
	}, func(id int64, s *rigSetup) {
		gate := make(chan struct{}, 1)
		gates[id] = gate
		s.fs = faultfs.New(s.fs.(*vfs.Mem), 0, faultfs.None, func(op faultfs.Op) {
			if op.Kind == "sync" {
				gate <- struct{}{}
				<-gate
			}
		})
	})
}

// A tick bounds the time as well.
func TestHandshakeIsHeldForATick(t *testing.T) {
	const tick = 100 * time.Millisecond
	inEnsemble(t, 3, 0, func(e *ensemble) {
		e.stop(e.in(replica.Follower)[0])
		lonely := e.leader()
		e.stop(e.in(replica.Follower)[0])
		e.until("the quorum is lost", func() bool { return lonely.rep.Mode() == replica.Idle })
		n := arrive(lonely, newSession)
		if pass(tick); n.waits() {
			t.Errorf("a client waits for more than a tick")
		}
	}, func(_ int64, s *rigSetup) { s.cfg.Session.Tick = tick })
}

// What is held counts: limits, the end of the server, and a client that leaves.
func TestHeldHandshakesCount(t *testing.T) {
	const limit = 3
	inEnsemble(t, 3, 0, func(e *ensemble) {
		lonely := e.in(replica.Follower)[0]
		e.part(lonely)
		e.until("the quorum is lost", func() bool { return lonely.rep.Mode() == replica.Idle })
		var came []*newcomer
		for range limit + 1 {
			lonely.host = 0 // all from one address
			came = append(came, arrive(lonely, newSession))
		}
		for i, n := range came {
			if n.waits() != (i < limit) {
				t.Errorf("client %d waits: %v", i, n.waits())
			}
		}
		came[0].nc.Close()
		lonely.stop()
		for i, n := range came {
			if err := <-n.done; err == nil {
				t.Errorf("client %d has session %v", i, n.resp.SessionID)
			}
		}
		if n := len(lonely.srv.mu.held); n != 0 {
			t.Errorf("%d are held", n)
		}
	}, func(_ int64, s *rigSetup) { s.cfg.Client.MaxPerIP = limit })
}

// P7: a client that has seen a later state is not answered before the server has
// it too. One that comes from a server a moment ahead has not long to wait.
// The leader is no exception: a follower may show what a quorum has on its disks before
// the leader has applied it.
func TestP7ClientIsAhead(t *testing.T) {
	inEnsemble(t, 3, 0, func(e *ensemble) {
		for i, r := range []*rig{e.in(replica.Follower)[0], e.leader()} {
			next := r.rep.LastApplied() + 3
			if next.Counter() == 3 && next.Epoch() == 0 {
				next = zk.MakeZxid(1, 3)
			}
			ahead := newSession
			ahead.LastZxidSeen = next
			n := arrive(r, ahead)
			w := e.in(replica.Follower)[1].open()               // 1
			w.create(fmt.Sprintf("/a%d", i), "", zk.Persistent) // 2
			pass(10 * time.Millisecond)
			if !n.waits() {
				t.Fatalf("the %v is at %v: %v, %+v", r.rep.Mode(), r.rep.LastApplied(), <-n.done, n.resp)
			}
			last := fmt.Sprintf("/b%d", i)
			w.create(last, "", zk.Persistent) // 3
			pass(time.Millisecond)
			if err := <-n.done; err != nil || n.resp.SessionID == 0 {
				t.Fatalf("%v, %+v", err, n.resp)
			}
			if !n.has(last) {
				t.Errorf("%s is not there", last)
			}

			ahead.LastZxidSeen = next + 1000
			n = arrive(r, ahead)
			pass(holdAtMost - time.Millisecond)
			if !n.waits() {
				t.Errorf("refused after %v", n.took)
			}
			pass(time.Millisecond)
			if err := <-n.done; err == nil || n.took != holdAtMost {
				t.Errorf("%v, %+v after %v", err, n.resp, n.took)
			}
		}
		for id, r := range e.rigs {
			if len(r.srv.mu.held) != 0 || r.srv.ahead.Load() != 0 {
				t.Errorf("server %d: %d are held, %d ahead", id, len(r.srv.mu.held), r.srv.ahead.Load())
			}
		}
	})
}

// A server that comes to lead, and takes no clients then, refuses those that it
// has held; the others answer theirs.
func TestHeldByALeaderThatTakesNoClients(t *testing.T) {
	inEnsemble(t, 3, 0, func(e *ensemble) {
		e.stop(e.leader())
		pass(time.Millisecond)
		came := map[*rig]*newcomer{}
		for _, r := range e.rigs {
			came[r] = arrive(r, newSession)
		}
		e.await()
		pass(time.Millisecond)
		for r, n := range came {
			leads := r == e.leader()
			if err := <-n.done; (err != nil) != leads || n.took > holdAtMost {
				t.Errorf("%v: %v, %+v, after %v", r.rep.Mode(), err, n.resp, n.took)
			}
		}
	}, func(_ int64, s *rigSetup) { s.cfg.Quorum.LeaderServes = false })
}
