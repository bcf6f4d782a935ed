package server

import (
	"bytes"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/session"
	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// bubble runs a test of a server in memory, in virtual time.
func bubble(t *testing.T, f func(t *testing.T, s *rig), options ...func(*rigSetup)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newRig(t, options...)) })
}

// pass lets virtual time pass, until all that comes of it is done.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestSessionTimeoutIsNegotiated(t *testing.T) {
	bubble(t, func(t *testing.T, s *rig) {
		for ask, want := range map[time.Duration]time.Duration{
			0: 2 * rigTick, -5 * time.Second: 2 * rigTick, 5 * time.Second: 5 * time.Second, time.Hour: 20 * rigTick,
		} {
			c := newWireClient(t, s.pipe())
			c.mustConnect(ask)
			if got := time.Duration(c.resp.TimeoutMillis) * time.Millisecond; got != want {
				t.Errorf("asked for %v: %v, want %v", ask, got, want)
			}
			if !c.resp.HasReadOnly || c.resp.ReadOnly || len(c.resp.Password) != wire.PasswordLen {
				t.Errorf("response %+v", c.resp)
			}
		}
	})
}

// Clients before 3.4 do not know the readOnly byte: 44 bytes in, 36 out.
func TestOldHandshake(t *testing.T) {
	bubble(t, func(t *testing.T, s *rig) {
		c := newWireClient(t, s.pipe())
		req := wire.ConnectRequest{TimeoutMillis: 5000, Password: make([]byte, wire.PasswordLen)}
		if n := len(req.Append(nil)); n != 44 {
			t.Fatalf("a request of %d bytes", n)
		}
		c.write(frame(req.Append(nil)))
		b, err := c.readFrame()
		if err != nil || len(b) != 36 {
			t.Fatalf("an answer of %d bytes, %v", len(b), err)
		}
		c.create("/a", "", zk.Ephemeral)
	})
}

func TestShortHandshake(t *testing.T) {
	bubble(t, func(t *testing.T, s *rig) {
		for n := range 28 {
			c := newWireClient(t, s.pipe())
			c.write(frame(make([]byte, n)))
			if err := c.ended(); err != io.EOF {
				t.Errorf("a handshake of %d bytes: %v", n, err)
			}
		}
	})
}

func TestSessionResumed(t *testing.T) {
	bubble(t, func(t *testing.T, s *rig) {
		old := s.open()
		old.create("/e", "", zk.Ephemeral)
		c := newWireClient(t, s.pipe())
		if err := c.resume(old); err != nil || c.resp.SessionID != old.resp.SessionID || !bytes.Equal(c.resp.Password, old.resp.Password) {
			t.Fatalf("resume: %+v, %v", c.resp, err)
		}
		if err := old.ended(); err != io.EOF {
			t.Errorf("the old connection: %v", err)
		}
		// The end of the old connection does not touch the session.
		pass(rigTick)
		if s.connOf(c) == nil || !c.has("/e") {
			t.Error("the session has lost its connection or its ephemeral")
		}
		c.create("/e2", "", zk.Ephemeral)
	})
}

// What the old connection still has in the pipeline is not executed for it once
// the session has moved, and ends in silence.
func TestSessionMovedWithRequestsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateFS(vfs.NewMem())
		s := newRig(t, func(o *rigSetup) { o.fs = g })
		old := s.open()
		g.set(true, nil)
		// The first batch stands before the disk; the second is prepared behind it.
		old.send(wire.OpCreate, createBody("/first", nil, zk.Persistent))
		synctest.Wait()
		c := newWireClient(t, s.pipe())
		resumed := make(chan error, 1)
		go func() { resumed <- c.resume(old) }()
		synctest.Wait()
		g.set(false, nil)
		if err := <-resumed; err != nil || c.resp.SessionID == 0 {
			t.Fatalf("resume: %+v, %v", c.resp, err)
		}
		c.create("/second", "", zk.Persistent)
		if !c.has("/first") {
			t.Error("what was submitted before is lost")
		}
		if err := old.ended(); err != io.EOF {
			t.Errorf("the old connection: %v", err)
		}
	})
}

func TestSessionRefused(t *testing.T) {
	bubble(t, func(t *testing.T, s *rig) {
		owner := s.open()
		refused := func(what string, id zk.SessionID, password []byte) {
			t.Helper()
			c := newWireClient(t, s.pipe())
			if err := c.connect(wire.ConnectRequest{TimeoutMillis: 5000, SessionID: id, Password: password, HasReadOnly: true}); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			if c.resp.SessionID != 0 || c.resp.TimeoutMillis != 0 || !bytes.Equal(c.resp.Password, make([]byte, wire.PasswordLen)) {
				t.Errorf("%s: %+v", what, c.resp)
			}
			if err := c.ended(); err != io.EOF {
				t.Errorf("%s: the connection goes on: %v", what, err)
			}
		}
		refused("wrong password", owner.resp.SessionID, make([]byte, wire.PasswordLen))
		refused("short password", owner.resp.SessionID, owner.resp.Password[:5])
		refused("unknown session", owner.resp.SessionID+1, owner.resp.Password)
		refused("session -1", -1, owner.resp.Password)
		if !owner.has("/") {
			t.Error("the owner was disturbed")
		}
		owner.mustCall(wire.OpCloseSession, nil)
		refused("closed session", owner.resp.SessionID, owner.resp.Password)
	})
}

// Closing a session deletes its ephemerals in one transaction; watchers hear of
// all before anything later, and what is pipelined behind is ignored.
func TestCloseSession(t *testing.T) {
	bubble(t, func(t *testing.T, s *rig) {
		c, watcher := s.open(), s.open()
		for i := range 5 {
			c.create(fmt.Sprintf("/e%d", i), "", zk.Ephemeral)
			watcher.mustCall(wire.OpExists, readBody(fmt.Sprintf("/e%d", i), true))
		}
		c.mustCall(wire.OpExists, readBody("/e0", true))
		b := encode(nil, 70, wire.OpCloseSession, nil)
		b = encode(b, 71, wire.OpCreate, createBody("/behind", nil, zk.Ephemeral))
		c.write(encode(b, 72, wire.OpGetData, readBody("/", false)))
		r, err := c.nextReply()
		if err != nil || r.Xid != 70 || r.Err != zk.OK {
			t.Fatalf("close: %+v, %v", r, err)
		}
		if len(c.events) != 1 || c.events[0].Type != zk.EventNodeDeleted || c.events[0].zxid != r.Zxid {
			t.Errorf("own events %+v before the reply at %v", c.events, r.Zxid)
		}
		if r, err := c.next(); err != io.EOF {
			t.Errorf("behind the close: %+v, %v", r, err)
		}
		if watcher.has("/behind") {
			t.Error("what was behind the close was executed")
		}
		if len(watcher.events) != 5 {
			t.Errorf("events %+v", watcher.events)
		}
		for _, e := range watcher.events {
			if e.Type != zk.EventNodeDeleted || e.zxid != r.Zxid {
				t.Errorf("event %+v, want a deletion at %v", e, r.Zxid)
			}
		}
	})
}

// A session expires in the tick after its timeout has passed without a sign of
// life, whether its connection is there or not.
func TestSessionExpires(t *testing.T) {
	for _, connected := range []bool{true, false} {
		bubble(t, func(t *testing.T, s *rig) {
			c, watcher := newWireClient(t, s.pipe()), s.open()
			c.mustConnect(4 * rigTick)
			c.create("/e", "", zk.Ephemeral)
			if !connected {
				c.nc.Close()
			}
			began := time.Now()
			for watcher.has("/e") {
				pass(rigTick / 10)
				if time.Since(began) > 10*rigTick {
					t.Fatal("the session does not expire")
				}
			}
			if took := time.Since(began); took < 4*rigTick || took > 5*rigTick+rigTick/5 {
				t.Errorf("connected %v: expired after %v, the timeout is %v", connected, took, 4*rigTick)
			}
			if connected {
				if err := c.ended(); err != io.EOF {
					t.Errorf("its connection: %v", err)
				}
			}
			back := newWireClient(t, s.pipe())
			if err := back.resume(c); err != nil || back.resp.SessionID != 0 {
				t.Errorf("resumed: %+v, %v", back.resp, err)
			}
			pass(time.Second)
			n := s.sessions()
			if n != 1 {
				t.Errorf("%d sessions in the tree, want the watcher's", n)
			}
		})
	}
}

func TestPingsKeepASession(t *testing.T) {
	bubble(t, func(t *testing.T, s *rig) {
		c := newWireClient(t, s.pipe())
		c.mustConnect(4 * rigTick)
		c.create("/e", "", zk.Ephemeral)
		for range 20 {
			pass(3 * rigTick)
			if r := c.call(wire.OpPing, nil); r.Xid != wire.XidPing || r.Err != zk.OK {
				t.Fatalf("ping: %+v", r)
			}
		}
		if !c.has("/e") {
			t.Error("the ephemeral is gone")
		}
	})
}

// Only a complete frame is a sign of life. A client that sends one byte a second
// of a frame that it never completes loses its session.
func TestUnfinishedFrameDoesNotKeepASession(t *testing.T) {
	bubble(t, func(t *testing.T, s *rig) {
		c := newWireClient(t, s.pipe())
		c.mustConnect(4 * rigTick)
		frames := encode(nil, 1, wire.OpExists, readBody("/long enough for all bytes of this test", false))
		for i := range 20 {
			if c.write(frames[i:i+1]) != nil {
				return
			}
			pass(time.Second)
		}
		t.Error("the session of 4 s lives on after 20 s without a frame")
	})
}

// Sessions and ephemerals outlive the server; each session has its timeout to
// come back.
func TestSessionsOutliveTheServer(t *testing.T) {
	bubble(t, func(t *testing.T, s *rig) {
		back, gone := s.open(), s.open()
		back.create("/back", "", zk.Ephemeral)
		gone.create("/gone", "", zk.Ephemeral)
		pass(time.Second)
		s = s.restart()
		c := newWireClient(t, s.pipe())
		if err := c.resume(back); err != nil || c.resp.SessionID != back.resp.SessionID {
			t.Fatalf("resume: %+v, %v", c.resp, err)
		}
		if !c.has("/back") || !c.has("/gone") {
			t.Error("an ephemeral is lost")
		}
		for range 24 {
			pass(rigTick / 2)
			c.call(wire.OpPing, nil)
		}
		if !c.has("/back") || c.has("/gone") {
			t.Error("the session that came back must live, the other not")
		}
		next := s.open()
		if next.resp.SessionID == back.resp.SessionID || next.resp.SessionID == gone.resp.SessionID {
			t.Errorf("session %v was given away again", next.resp.SessionID)
		}
	})
}

// A connection that does not ask for a session is closed.
func TestSessionlessConnections(t *testing.T) {
	bubble(t, func(t *testing.T, s *rig) {
		silent, slow := newWireClient(t, s.pipe()), newWireClient(t, s.pipe())
		for i := range 3 {
			slow.write([]byte{0, 0, 0, 45}[i : i+1])
			pass(time.Second)
		}
		if s.conns() != 2 {
			t.Fatalf("%d connections", s.conns())
		}
		pass(s.cfg.Client.SessionlessTimeout)
		if n := s.conns(); n != 0 {
			t.Errorf("%d connections after the time for a handshake", n)
		}
		for _, c := range []*wireClient{silent, slow} {
			if err := c.ended(); err != io.EOF {
				t.Error(err)
			}
		}
	}, func(o *rigSetup) { o.cfg.Client.SessionlessTimeout = 5 * time.Second })
}

// Containers that have lost their children, and znodes that have outlived their
// time, are swept; others are not.
func TestSweep(t *testing.T) {
	bubble(t, func(t *testing.T, s *rig) {
		c := s.open()
		c.call(wire.OpCreateContainer, createBody("/used", nil, zk.Container))
		c.call(wire.OpCreateContainer, createBody("/unused", nil, zk.Container))
		c.create("/used/a", "", zk.Persistent)
		ttl := wire.CreateRequest{Path: "/ttl", ACL: zk.OpenACLUnsafe(), Flags: zk.PersistentWithTTL, TTL: 90_000}
		c.mustCall(wire.OpCreateTTL, ttl.Append(nil, wire.OpCreateTTL))
		keepAlive := func(d time.Duration) {
			for range int(d / rigTick) {
				pass(rigTick)
				c.call(wire.OpPing, nil)
			}
		}
		keepAlive(61 * time.Second)
		if !c.has("/used") || !c.has("/unused") || !c.has("/ttl") {
			t.Error("swept too early")
		}
		c.mustCall(wire.OpDelete, deleteBody("/used/a"))
		c.mustCall(wire.OpExists, readBody("/used", true))
		keepAlive(60 * time.Second)
		if c.has("/used") || !c.has("/unused") || c.has("/ttl") {
			t.Errorf("after two minutes: used %v unused %v ttl %v", c.has("/used"), c.has("/unused"), c.has("/ttl"))
		}
		if len(c.events) != 1 || c.events[0].Type != zk.EventNodeDeleted {
			t.Errorf("events %+v", c.events)
		}
	})
}

// Identities belong to a connection, not to the session.
func TestWhoAmIAfterResume(t *testing.T) {
	bubble(t, func(t *testing.T, s *rig) {
		old := s.open()
		auth := wire.AuthPacket{Scheme: "digest", Auth: []byte("u:p")}
		old.mustCall(wire.OpAuth, auth.Append(nil))
		c := newWireClient(t, s.pipe())
		if err := c.resume(old); err != nil {
			t.Fatal(err)
		}
		r := c.mustCall(wire.OpWhoAmI, nil)
		d := jute.NewDecoder(r.body)
		if n := d.Count(8); n != 1 {
			t.Errorf("%d identities: those of another connection have come along", n)
		}
	})
}

// A client that has lost its connection, and with it the answer to a create, syncs
// over the next connection: then it sees what became of the create, although that
// was not on the disk yet when the client came back.
func TestSyncAfterAnotherConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateFS(vfs.NewMem())
		s := newRig(t, func(o *rigSetup) { o.fs = g })
		old := s.open()
		g.set(true, nil)
		if _, err := old.send(wire.OpCreate, createBody("/a", nil, zk.Persistent)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		old.nc.Close()
		c := newWireClient(t, s.pipe())
		if err := c.resume(old); err != nil {
			t.Fatal(err)
		}
		b := encode(nil, 1, wire.OpSync, readBody("/a", false))
		if err := c.write(encode(b, 2, wire.OpExists, readBody("/a", false))); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		g.set(false, nil)
		for xid := range int32(2) {
			if r, err := c.next(); err != nil || r.Xid != xid+1 || r.Err != zk.OK {
				t.Fatalf("reply %+v, %v", r.ReplyHeader, err)
			}
		}
	})
}

// With a secret nobody can compute a session's password from its id.
func TestSessionSecret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRig(t, func(o *rigSetup) {
			o.passwords = session.NewPasswords(session.SecretPassword, []byte("sixteen bytes or more"))
		})
		c := s.open()
		computed := session.Password(c.resp.SessionID)
		thief := newWireClient(t, s.pipe())
		err := thief.connect(wire.ConnectRequest{TimeoutMillis: 5000, SessionID: c.resp.SessionID, Password: computed[:]})
		if err != nil || thief.resp.SessionID != 0 {
			t.Errorf("a session is taken over with Apache's password: %+v, %v", thief.resp, err)
		}
		if c.has("/x") {
			t.Error("/x")
		}
		again := newWireClient(t, s.pipe())
		if err := again.resume(c); err != nil || again.resp.SessionID != c.resp.SessionID {
			t.Errorf("its own client does not get it: %+v, %v", again.resp, err)
		}
	})
}
