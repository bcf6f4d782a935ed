package server

import (
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/internal/replica"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

func readOnlyMode(_ int64, s *rigSetup) { s.cfg.Quorum.ReadOnlyMode = true }

// readOnlyRequest is the handshake of a client that is content with reading.
var readOnlyRequest = wire.ConnectRequest{TimeoutMillis: 10000, HasReadOnly: true, ReadOnly: true}

// alone cuts a follower off and waits until it serves who only reads.
func (e *ensemble) alone() *rig {
	e.t.Helper()
	lonely := e.in(replica.Follower)[0]
	e.part(lonely)
	e.until("a server is read-only", func() bool { return lonely.rep.Mode() == replica.ReadOnly })
	return lonely
}

// A server without a quorum becomes read-only after two seconds, not before, and
// one that was not asked to never does.
func TestReadOnlyModeBegins(t *testing.T) {
	for _, asked := range []bool{true, false} {
		inEnsemble(t, 3, 0, func(e *ensemble) {
			lonely := e.in(replica.Follower)[0]
			e.part(lonely)
			e.until("the quorum is lost", func() bool { return lonely.rep.Mode() == replica.Idle })
			if pass(2*time.Second - 20*time.Millisecond); lonely.rep.Mode() != replica.Idle {
				t.Errorf("asked %v: %v too early", asked, lonely.rep.Mode())
			}
			want, isro := replica.ReadOnly, "ro"
			if !asked {
				want, isro = replica.Idle, "null"
			}
			pass(30 * time.Millisecond)
			if got := lonely.rep.Mode(); got != want || lonely.word("isro") != isro {
				t.Errorf("asked %v: %v, isro %q", asked, got, lonely.word("isro"))
			}
			if got := e.leader().word("isro"); got != "rw" {
				t.Errorf("the leader: isro %q", got)
			}
		}, allWords, func(id int64, s *rigSetup) {
			if asked {
				readOnlyMode(id, s)
			}
		})
	}
}

// Who may have a session of a read-only server: new ones, those that it has given
// itself, and those that it knows of the ensemble.
func TestReadOnlySessions(t *testing.T) {
	inEnsemble(t, 3, 0, func(e *ensemble) {
		global := e.leader().open()
		global.create("/a", "x", zk.Persistent)
		pass(rigTick)
		lonely := e.alone()

		for _, req := range []wire.ConnectRequest{
			{TimeoutMillis: 10000, HasReadOnly: true}, // wants to write
			{TimeoutMillis: 10000},                    // does not know of read-only servers
			{TimeoutMillis: 10000, HasReadOnly: true, ReadOnly: true, LastZxidSeen: 1 << 40},
		} {
			if n := arrive(lonely, req); n.waits() || <-n.done == nil {
				t.Errorf("%+v is not refused at once: %+v", req, n.resp)
			}
		}
		again := readOnlyRequest
		again.SessionID, again.Password = global.resp.SessionID, global.resp.Password
		if n := arrive(lonely, again); n.waits() || <-n.done != nil || n.resp.SessionID != global.resp.SessionID || !n.resp.ReadOnly {
			t.Errorf("a session of the ensemble does not go on: %+v", n.resp)
		}
		again.SessionID = 0x777
		if n := arrive(lonely, again); n.waits() || <-n.done != nil || n.resp.SessionID != 0 || !n.resp.ReadOnly {
			t.Errorf("an unknown session: %+v", n.resp)
		}

		c := newWireClient(t, lonely.pipe())
		if err := c.connect(readOnlyRequest); err != nil || c.resp.SessionID == 0 || !c.resp.ReadOnly {
			t.Fatalf("%v, %+v", err, c.resp)
		}
		if byte(uint64(c.resp.SessionID)>>56) != byte(e.id(lonely)) || lonely.knows(c.resp.SessionID) {
			t.Errorf("session %v of server %d", c.resp.SessionID, e.id(lonely))
		}
		again.SessionID, again.Password = c.resp.SessionID, c.resp.Password
		n := arrive(lonely, again)
		if n.waits() || <-n.done != nil || n.resp.SessionID != c.resp.SessionID || !n.resp.ReadOnly {
			t.Errorf("its own session: %+v", n.resp)
		}
		if err := c.ended(); err == nil {
			t.Error("the session has two connections")
		}
		n.nc.Close()
		pass(12 * time.Second)
		if m := arrive(lonely, again); m.waits() || <-m.done != nil || m.resp.SessionID != 0 {
			t.Errorf("an expired session: %+v", m.resp)
		}
		if got := gauge(lonely.word("mntr"), "local_sessions"); got != "0" {
			t.Errorf("%s local sessions", got)
		}
	}, allWords, readOnlyMode)
}

// Reads are answered, what writes is not, nor a sync; and all end when there is a
// quorum again.
func TestReadOnlyRequests(t *testing.T) {
	inEnsemble(t, 3, 0, func(e *ensemble) {
		w := e.leader().open()
		w.create("/a", "x", zk.Persistent)
		pass(rigTick)
		lonely := e.alone()
		w.mustCall(wire.OpSetData, setBody("/a", []byte("y"))) // the others go on

		c := newWireClient(t, lonely.pipe())
		if err := c.connect(readOnlyRequest); err != nil {
			t.Fatal(err)
		}
		last := lonely.rep.LastApplied()
		multi := wire.MultiHeader{Type: wire.OpDelete}.Append(nil)
		multi = wire.AppendMultiEnd(append(multi, deleteBody("/a")...))
		for _, q := range []struct {
			op   wire.OpCode
			body []byte
			want zk.Code
		}{
			{wire.OpGetData, readBody("/a", true), zk.OK},
			{wire.OpExists, readBody("/b", true), zk.ErrNoNode},
			{wire.OpGetChildren2, readBody("/", false), zk.OK},
			{wire.OpCreate, createBody("/b", nil, zk.Persistent), zk.ErrNotReadOnly},
			{wire.OpCreate, createBody("/b", nil, zk.Ephemeral), zk.ErrNotReadOnly},
			{wire.OpCreate2, nil, zk.ErrNotReadOnly}, // not even read
			{wire.OpSetData, setBody("/a", nil), zk.ErrNotReadOnly},
			{wire.OpSetACL, nil, zk.ErrNotReadOnly},
			{wire.OpDelete, deleteBody("/a"), zk.ErrNotReadOnly},
			{wire.OpMulti, multi, zk.ErrNotReadOnly},
			{wire.OpSync, readBody("/a", false), zk.ErrNotReadOnly},
			{wire.OpReconfig, nil, zk.ErrNotReadOnly},
			{wire.OpCheck, nil, zk.ErrNotReadOnly},
			{wire.OpPing, nil, zk.OK},
			{wire.OpWhoAmI, nil, zk.OK},
		} {
			if r := c.call(q.op, q.body); r.Err != q.want || r.Zxid != last {
				t.Errorf("%v: %v at %v, want %v at %v", q.op, r.Err, r.Zxid, q.want, last)
			}
		}
		if data, _ := c.get("/a"); data != "x" {
			t.Errorf("data %q, want the old", data)
		}
		closing := newWireClient(t, lonely.pipe())
		if err := closing.connect(readOnlyRequest); err != nil {
			t.Fatal(err)
		}
		if r := closing.call(wire.OpCloseSession, nil); r.Err != zk.OK || closing.ended() == nil {
			t.Errorf("closeSession: %v", r.Err)
		}
		again := readOnlyRequest
		again.SessionID, again.Password = closing.resp.SessionID, closing.resp.Password
		if err := closing.reconnect(lonely).connect(again); err != nil || closing.resp.SessionID != 0 {
			t.Errorf("a closed session goes on: %v, %+v", err, closing.resp)
		}

		e.heal(lonely)
		e.until("the quorum is back", func() bool { return lonely.rep.Mode() == replica.Follower })
		if c.ended() == nil || len(c.events) > 0 {
			t.Errorf("%d events, and no end", len(c.events))
		}
		again.SessionID, again.Password = c.resp.SessionID, c.resp.Password
		n := arrive(lonely, again)
		if n.waits() || <-n.done != nil || n.resp.SessionID != 0 || n.resp.ReadOnly {
			t.Errorf("the session goes on behind a quorum: %+v", n.resp)
		}
	}, allWords, readOnlyMode)
}

// reconnect gives a client another connection.
func (c *wireClient) reconnect(s *rig) *wireClient {
	*c = *newWireClient(c.t, s.pipe())
	return c
}

// A server that starts without the others is read-only too, with what it has.
func TestReadOnlyAfterAStart(t *testing.T) {
	inEnsemble(t, 3, 0, func(e *ensemble) {
		w := e.leader().open()
		w.create("/a", "x", zk.Persistent)
		pass(rigTick)
		for _, r := range e.rigs {
			e.stop(r)
		}
		lonely := e.start(2)
		e.until("it is read-only", func() bool { return lonely.rep.Mode() == replica.ReadOnly })
		c := newWireClient(t, lonely.pipe())
		if err := c.connect(readOnlyRequest); err != nil {
			t.Fatal(err)
		}
		if data, _ := c.get("/a"); data != "x" {
			t.Errorf("data %q", data)
		}
		// An election that ends in vain begins the time anew.
		e.start(1)
		e.until("they lead", func() bool { return lonely.rep.Mode().Writable() })
		if c.ended() == nil {
			t.Error("the connection of a reader is left")
		}
		if got := lonely.word("srvr"); got == notServing {
			t.Error(got)
		}
	}, allWords, readOnlyMode)
}
