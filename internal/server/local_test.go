package server

import (
	"fmt"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/internal/replica"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// begin makes the first transaction of the epoch.
func (e *ensemble) begin() {
	c := e.leader().open()
	c.create("/begin", "", zk.Persistent)
	c.mustCall(wire.OpCloseSession, nil)
	pass(rigTick)
}

func localSessions(_ int64, s *rigSetup) {
	s.cfg.Quorum.LocalSessions = true
}

func upgradingSessions(id int64, s *rigSetup) {
	localSessions(id, s)
	s.cfg.Quorum.LocalUpgrading = true
}

// members are a leader, a follower and an observer.
func (e *ensemble) each(f func(m replica.Mode, r, other *rig)) {
	for _, m := range []replica.Mode{replica.Leader, replica.Follower, replica.Observer} {
		r := e.in(m)[0]
		for _, other := range e.in(replica.Follower) {
			if other != r {
				f(m, r, other)
				break
			}
		}
	}
}

// multiCreate is the body of a multi that creates one znode.
func multiCreate(path string, mode zk.CreateMode) []byte {
	b := wire.MultiHeader{Type: wire.OpCreate}.Append(nil)
	return wire.AppendMultiEnd(append(b, createBody(path, nil, mode)...))
}

// known counts the members whose trees know a session.
func (e *ensemble) known(id zk.SessionID) (n int) {
	pass(rigTick) // the slowest has it by then
	for _, r := range e.rigs {
		if r.knows(id) {
			n++
		}
	}
	return n
}

// A local session costs no transaction, neither its beginning nor its end, and
// lives on its server alone.
func TestLocalSession(t *testing.T) {
	inEnsemble(t, 3, 1, func(e *ensemble) {
		e.each(func(m replica.Mode, r, other *rig) {
			pass(time.Millisecond)
			before := r.rep.LastApplied()
			c := r.open()
			if got := r.rep.LastApplied(); got != before || e.known(c.resp.SessionID) > 0 {
				t.Errorf("%v: a new session led from %v to %v", m, before, got)
			}
			path := "/" + m.String()
			c.create(path, "x", zk.Persistent)
			c.mustCall(wire.OpSetData, setBody(path, []byte("y")))
			c.mustCall(wire.OpSync, readBody("/", false))
			if gauge(r.word("mntr"), "local_sessions") != "1" || gauge(r.word("mntr"), "global_sessions") != "0" {
				t.Errorf("%v: %s", m, r.word("mntr"))
			}

			elsewhere := newWireClient(t, other.pipe())
			if err := elsewhere.resume(c); err != nil || elsewhere.resp.SessionID != 0 {
				t.Errorf("%v: on another server: %v, %+v", m, err, elsewhere.resp)
			}
			again := newWireClient(t, r.pipe())
			if err := again.resume(c); err != nil || again.resp.SessionID != c.resp.SessionID {
				t.Fatalf("%v: %v, %+v", m, err, again.resp)
			}
			if c.ended() == nil {
				t.Errorf("%v: the session has two connections", m)
			}
			before = r.rep.LastApplied()
			if reply := again.mustCall(wire.OpCloseSession, nil); reply.Zxid != before || r.rep.LastApplied() != before {
				t.Errorf("%v: closeSession at %v, was %v", m, reply.Zxid, before)
			}
			if again.ended() == nil {
				t.Errorf("%v: the connection is left", m)
			}
			if late := newWireClient(t, r.pipe()); late.resume(c) != nil || late.resp.SessionID != 0 {
				t.Errorf("%v: a closed session goes on: %+v", m, late.resp)
			}
		})
	}, allWords, localSessions)
}

// Silence ends a local session, pings do not let it end.
func TestLocalSessionExpires(t *testing.T) {
	inEnsemble(t, 3, 1, func(e *ensemble) {
		e.each(func(m replica.Mode, r, _ *rig) {
			silent, lively := newWireClient(t, r.pipe()), newWireClient(t, r.pipe())
			silent.mustConnect(2 * rigTick)
			lively.mustConnect(2 * rigTick)
			for range 8 {
				pass(rigTick / 2)
				lively.mustCall(wire.OpPing, nil)
			}
			if silent.ended() == nil {
				t.Errorf("%v: a silent client is still connected", m)
			}
			if late := newWireClient(t, r.pipe()); late.resume(silent) != nil || late.resp.SessionID != 0 {
				t.Errorf("%v: an expired session goes on: %+v", m, late.resp)
			}
			lively.mustCall(wire.OpGetData, readBody("/", false))
			lively.mustCall(wire.OpCloseSession, nil)
			pass(0)
			if n := r.rep.Stats().LocalSessions.Load(); n != 0 {
				t.Errorf("%v: %d local sessions are left", m, n)
			}
		})
	}, localSessions)
}

// An ephemeral makes the session global, by a transaction of its own with the same
// id, in front of the one that creates the ephemeral.
func TestLocalSessionIsUpgraded(t *testing.T) {
	for _, q := range []struct {
		name string
		op   wire.OpCode
		body []byte
	}{
		{"create", wire.OpCreate, createBody("/e", nil, zk.Ephemeral)},
		{"create2", wire.OpCreate2, createBody("/e", nil, zk.Ephemeral)},
		{"multi", wire.OpMulti, multiCreate("/e", zk.Ephemeral)},
	} {
		inEnsemble(t, 3, 1, func(e *ensemble) {
			e.begin()
			e.each(func(m replica.Mode, r, other *rig) {
				c := r.open()
				c.mustCall(wire.OpMulti, multiCreate("/plain-"+m.String(), zk.Persistent))
				if e.known(c.resp.SessionID) > 0 {
					t.Fatalf("%s on %v: upgraded without need", q.name, m)
				}
				before := r.rep.LastApplied()
				if reply := c.mustCall(q.op, q.body); reply.Zxid != before+2 {
					t.Errorf("%s on %v: at %v, want %v", q.name, m, reply.Zxid, before+2)
				}
				if n := e.known(c.resp.SessionID); n != len(e.rigs) {
					t.Errorf("%s on %v: %d servers know the session", q.name, m, n)
				}
				if n := r.rep.Stats().LocalSessions.Load(); n != 0 {
					t.Errorf("%s on %v: still local", q.name, m)
				}
				for range 30 { // it is kept alive as every other
					pass(rigTick / 2)
					c.mustCall(wire.OpPing, nil)
				}
				moved := newWireClient(t, other.pipe())
				if err := moved.resume(c); err != nil || moved.resp.SessionID != c.resp.SessionID {
					t.Fatalf("%s on %v: %v, %+v", q.name, m, err, moved.resp)
				}
				if !moved.has("/e") {
					t.Errorf("%s on %v: no ephemeral", q.name, m)
				}
				moved.mustCall(wire.OpCloseSession, nil)
				pass(rigTick)
				if reader := r.open(); reader.has("/e") {
					t.Errorf("%s on %v: the ephemeral is left", q.name, m)
				}
			})
		}, upgradingSessions)
	}
}

// What comes behind an ephemeral in the same breath is in order, the end of the
// session too: by then it is global.
func TestUpgradeInAPipeline(t *testing.T) {
	inEnsemble(t, 3, 1, func(e *ensemble) {
		e.begin()
		e.each(func(m replica.Mode, r, _ *rig) {
			c := r.open()
			pass(time.Millisecond)
			before := r.rep.LastApplied()
			b := encode(nil, 1, wire.OpSync, readBody("/", false)) // writes behind it are held
			b = encode(b, 2, wire.OpCreate, createBody("/p-"+m.String(), nil, zk.Persistent))
			b = encode(b, 3, wire.OpCreate, createBody("/e", nil, zk.Ephemeral))
			b = encode(b, 4, wire.OpExists, readBody("/e", false))
			b = encode(b, 5, wire.OpCloseSession, nil)
			if err := c.write(b); err != nil {
				t.Fatal(err)
			}
			var last zk.Zxid
			for xid := range int32(5) {
				reply, err := c.nextReply()
				if err != nil || reply.Xid != xid+1 || reply.Err != zk.OK {
					t.Fatalf("%v: %+v, %v", m, reply, err)
				}
				last = reply.Zxid
			}
			// create, createSession, create, closeSession
			if last != before+4 {
				t.Errorf("%v: from %v to %v", m, before, last)
			}
			if reader := r.open(); reader.has("/e") {
				t.Errorf("%v: the ephemeral is left", m)
			}
		})
	}, upgradingSessions)
}

// Where sessions are not upgraded, one that is local has no ephemerals. The
// refusal takes a zxid, as every other.
func TestEphemeralOnLocalSession(t *testing.T) {
	inEnsemble(t, 3, 1, func(e *ensemble) {
		e.begin()
		e.each(func(m replica.Mode, r, _ *rig) {
			c := r.open()
			pass(time.Millisecond)
			before := r.rep.LastApplied()
			for i, op := range []wire.OpCode{wire.OpCreate, wire.OpCreate2} {
				reply := c.call(op, createBody("/e", nil, zk.EphemeralSequential))
				if want := before + zk.Zxid(i) + 1; reply.Err != zk.ErrEphemeralOnLocalSession || reply.Zxid != want {
					t.Errorf("%v on %v: %v at %v, want %v", op, m, reply.Err, reply.Zxid, want)
				}
			}
			reply := c.mustCall(wire.OpMulti, multiCreate("/e", zk.Ephemeral))
			code := zk.ErrSessionExpired // as the leader has it
			if m == replica.Leader {
				code = zk.ErrEphemeralOnLocalSession
			}
			if want := wire.AppendMultiEnd(wire.AppendMultiError(nil, code)); string(reply.body) != string(want) {
				t.Errorf("multi on %v: %x, want %x", m, reply.body, want)
			}
			c.create("/"+m.String(), "", zk.Persistent)
			if e.known(c.resp.SessionID) > 0 {
				t.Errorf("%v: the session is global", m)
			}
		})
	}, localSessions)
}

// An election does not end local sessions: who comes back to its server goes on.
func TestLocalSessionOutlivesAnElection(t *testing.T) {
	inEnsemble(t, 3, 0, func(e *ensemble) {
		clients := map[*rig]*wireClient{}
		for _, r := range e.in(replica.Follower) {
			clients[r] = r.open()
		}
		old := e.leader()
		e.stop(old)
		pass(time.Millisecond)
		e.await()
		for r, c := range clients {
			if c.ended() == nil {
				t.Fatal("a connection outlives the role")
			}
			again := newWireClient(t, r.pipe())
			if err := again.resume(c); err != nil || again.resp.SessionID != c.resp.SessionID {
				t.Fatalf("%v: %v, %+v", r.rep.Mode(), err, again.resp)
			}
			again.create(fmt.Sprintf("/%d", e.id(r)), "", zk.Persistent)
			again.create(fmt.Sprintf("/e%d", e.id(r)), "", zk.Ephemeral) // and is upgraded
			if n := e.known(c.resp.SessionID); n != 2 {
				t.Errorf("%v: %d servers know the session", r.rep.Mode(), n)
			}
		}
	}, upgradingSessions)
}
