package server

import (
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/internal/replica"
	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/internal/znode"
	"github.com/pinfold-zk/pinfold/zk"
)

// moves calls f for every two kinds of members between which a session can move.
// Each time the session of old is that of moved as well.
func (e *ensemble) moves(f func(name string, from, to *rig, old, moved *wireClient)) {
	followers := e.in(replica.Follower)
	members := map[string]*rig{
		"leader": e.leader(), "follower": followers[0], "another follower": followers[1], "observer": e.in(replica.Observer)[0],
	}
	for from, a := range members {
		for to, b := range members {
			if a == b {
				continue
			}
			name := from + " to " + to
			old := a.open()
			old.create("/e", "", zk.Ephemeral)
			pass(time.Millisecond)
			moved := newWireClient(e.t, b.pipe())
			if err := moved.resume(old); err != nil || moved.resp.SessionID != old.resp.SessionID || string(moved.resp.Password) != string(old.resp.Password) {
				e.t.Fatalf("%s: %v, %+v", name, err, moved.resp)
			}
			f(name, a, b, old, moved)
			// All comes to an end, whatever f did.
			moved.nc.Close()
			old.nc.Close()
			pass(13 * rigTick)
			if r := b.open(); r.has("/e") {
				e.t.Errorf("%s: the ephemeral outlives its session", name)
			} else {
				r.mustCall(wire.OpCloseSession, nil)
			}
		}
	}
}

// A session belongs to the connection that asked for it last. Over the old one
// nothing can be written; a follower cannot know yet, and still answers reads.
func TestSessionMoves(t *testing.T) {
	inEnsemble(t, 3, 1, func(e *ensemble) {
		e.moves(func(name string, from, _ *rig, old, moved *wireClient) {
			path := "/e"
			moved.mustCall(wire.OpSetData, setBody(path, []byte("new")))
			if from == e.leader() {
				if old.ended() == nil {
					t.Errorf("%s: the old connection is left", name)
				}
				return
			}
			pass(time.Millisecond)
			if data, r := old.get(path); r.Err != zk.OK || data != "new" {
				t.Errorf("%s: %q, %v", name, data, r.Err)
			}
			old.mustCall(wire.OpSync, readBody("/", false))
			if reply, err := old.do(wire.OpSetData, setBody(path, []byte("old"))); err == nil {
				t.Errorf("%s: a write over the old connection: %+v", name, reply)
			}
			moved.mustCall(wire.OpSetData, setBody(path, []byte("newer")))
			if data, _ := moved.get(path); data != "newer" {
				t.Errorf("%s: %q", name, data)
			}
		})
	})
}

// A multi over the old connection is not carried out either, nor answered.
func TestMultiOfMovedSession(t *testing.T) {
	inEnsemble(t, 3, 1, func(e *ensemble) {
		e.moves(func(name string, _, _ *rig, old, moved *wireClient) {
			if reply, err := old.do(wire.OpMulti, multiCreate("/multi", zk.Persistent)); err == nil {
				t.Errorf("%s: %+v", name, reply)
			}
			if moved.has("/multi") {
				t.Errorf("%s: it was carried out", name)
			}
		})
	})
}

// An Apache leader refuses the operations of such a multi, one by one.
func TestMovedAway(t *testing.T) {
	failed := func(codes ...zk.Code) (tx txn.Txn) {
		tx.Header = txn.Header{Session: 1, Cxid: 1, Zxid: 1, Type: wire.OpMulti}
		for _, c := range codes {
			tx.Multi = append(tx.Multi, txn.Op{Type: wire.OpError, Err: c})
		}
		return tx
	}
	alone := txn.Txn{Header: txn.Header{Type: wire.OpError, Zxid: 1}, Op: txn.Op{Type: wire.OpError, Err: zk.ErrSessionMoved}}
	for _, c := range []struct {
		tx   txn.Txn
		want bool
	}{
		{alone, true},
		{failed(zk.ErrSessionMoved), true},
		{failed(zk.ErrSessionMoved, zk.ErrRuntimeInconsistency), true},
		{failed(zk.OK, zk.ErrSessionMoved), true},
		{failed(zk.ErrNoNode, zk.ErrRuntimeInconsistency), false},
		{failed(), false},
	} {
		var r znode.Result
		znode.New(znode.Options{}).Apply(&c.tx, &r)
		if got := movedAway(&c.tx, &r); got != c.want {
			t.Errorf("%+v: %v", c.tx, got)
		}
	}
}

// The end of a session ends all its connections, over whichever it is asked for.
func TestCloseOfMovedSession(t *testing.T) {
	for _, byOld := range []bool{false, true} {
		inEnsemble(t, 3, 1, func(e *ensemble) {
			e.moves(func(name string, from, to *rig, old, moved *wireClient) {
				by, other := moved, old
				if byOld {
					by, other = old, moved
				}
				if byOld && from == e.leader() {
					return // that one is closed
				}
				by.mustCall(wire.OpCloseSession, nil)
				pass(time.Millisecond)
				ended := make(chan bool, 1)
				go func() { ended <- other.ended() != nil }()
				pass(time.Millisecond)
				if by.ended() == nil || len(ended) == 0 {
					t.Errorf("%s, closed by the old %v: a connection is left", name, byOld)
				}
				for _, r := range []*rig{from, to} {
					if again := newWireClient(t, r.pipe()); again.resume(old) != nil || again.resp.SessionID != 0 {
						t.Errorf("%s: the session goes on: %+v", name, again.resp)
					}
				}
			})
		})
	}
}

// When a session expires its connection ends, on whichever member it is, and its
// ephemerals are gone; who watched them is told. Pings keep a session alive.
func TestExpiryOnEveryMember(t *testing.T) {
	inEnsemble(t, 3, 1, func(e *ensemble) {
		e.each(func(m replica.Mode, r, other *rig) {
			silent, lively, watcher := newWireClient(t, r.pipe()), newWireClient(t, r.pipe()), other.open()
			silent.mustConnect(2 * rigTick)
			lively.mustConnect(2 * rigTick)
			silent.create("/silent", "", zk.Ephemeral)
			lively.create("/lively", "", zk.Ephemeral)
			pass(time.Millisecond)
			if watcher.call(wire.OpExists, readBody("/silent", true)).Err != zk.OK {
				t.Fatalf("%v: nothing to watch", m)
			}
			for range 8 {
				pass(rigTick / 2)
				lively.mustCall(wire.OpPing, nil)
				watcher.mustCall(wire.OpPing, nil)
			}
			if silent.ended() == nil {
				t.Errorf("%v: a silent client is still connected", m)
			}
			if len(watcher.events) != 1 || watcher.events[0].Type != zk.EventNodeDeleted {
				t.Errorf("%v: events %+v", m, watcher.events)
			}
			if watcher.has("/silent") || !watcher.has("/lively") {
				t.Errorf("%v: the wrong ephemeral is gone", m)
			}
			for _, s := range []*rig{r, other} {
				if late := newWireClient(t, s.pipe()); late.resume(silent) != nil || late.resp.SessionID != 0 {
					t.Errorf("%v: an expired session goes on: %+v", m, late.resp)
				}
			}
			lively.mustCall(wire.OpCloseSession, nil)
		})
	})
}

// What a client asks of a member for a session that there is not: refused, and
// the session's own connection is spared.
func TestRefusedSessions(t *testing.T) {
	inEnsemble(t, 3, 1, func(e *ensemble) {
		e.each(func(m replica.Mode, r, other *rig) {
			c := r.open()
			bad := newSession
			bad.SessionID, bad.Password = c.resp.SessionID, make([]byte, wire.PasswordLen)
			unknown := newSession
			unknown.SessionID = 0x777
			for _, req := range []wire.ConnectRequest{bad, unknown} {
				for _, s := range []*rig{r, other} {
					if n := arrive(s, req); n.waits() || <-n.done != nil || n.resp.SessionID != 0 || n.resp.TimeoutMillis != 0 {
						t.Errorf("%v: %+v: %+v", m, req, n.resp)
					}
				}
			}
			c.create("/c", "", zk.Ephemeral)
			c.mustCall(wire.OpCloseSession, nil)
		})
	})
}

// The leader's death does not end sessions: the next one gives them all their time.
func TestSessionOutlivesTheLeader(t *testing.T) {
	inEnsemble(t, 5, 0, func(e *ensemble) {
		old := e.leader()
		a, b := old.open(), e.in(replica.Follower)[0].open()
		a.create("/a", "", zk.Ephemeral)
		b.create("/b", "", zk.Ephemeral)
		pass(9 * rigTick) // of ten
		b.mustCall(wire.OpPing, nil)
		a.mustCall(wire.OpPing, nil)
		pass(rigTick)
		e.stop(old)
		pass(time.Millisecond)
		e.await()
		pass(9 * rigTick)
		for i, c := range []*wireClient{a, b} {
			again := newWireClient(t, e.in(replica.Follower)[i].pipe())
			if err := again.resume(c); err != nil || again.resp.SessionID != c.resp.SessionID {
				t.Fatalf("%v, %+v", err, again.resp)
			}
			if !again.has("/a") || !again.has("/b") {
				t.Error("an ephemeral is gone")
			}
		}
	})
}
