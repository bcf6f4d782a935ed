package server

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-zk/pinfold/internal/auth"
	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/ratelimit"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

func parseLimits(t testing.TB, text string) *ratelimit.File {
	t.Helper()
	f, err := ratelimit.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// withLimits runs f in virtual time with a server that has the limits.
func withLimits(t *testing.T, limits string, f func(t *testing.T, s *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f(t, newRig(t, func(o *rigSetup) {
			o.limits = limits
			o.cfg.Commands.Allowed = []string{"*"}
		}))
	})
}

// openFrom makes a client at 10.0.9.host with a session of some ticks.
func (s *rig) openFrom(host byte, ticks time.Duration) *wireClient {
	s.t.Helper()
	c := newWireClient(s.t, s.pipeFrom(netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 9, host}), 40000)))
	c.mustConnect(ticks * rigTick)
	return c
}

// nextInTurn returns the next reply, and counts replies to pings that the client has not
// sent.
func (c *wireClient) nextInTurn(pings *int) (reply, error) {
	for {
		r, err := c.nextReply()
		if err != nil || r.Xid != wire.XidPing {
			return r, err
		}
		*pings++
	}
}

// answered reads the replies to requests 0 to n-1, which must come in order, and returns
// how long that took, and the longest time without any reply.
func (c *wireClient) answered(n int) (took, silent time.Duration) {
	c.t.Helper()
	began := time.Now()
	last := began
	for i := 0; i < n; {
		r, err := c.nextReply()
		if err != nil || r.Xid != wire.XidPing && (r.Err != zk.OK || int(r.Xid) != i) {
			c.t.Fatalf("reply %d: %+v, %v", i, r.ReplyHeader, err)
		}
		if r.Xid != wire.XidPing {
			i++
		}
		silent = max(silent, time.Since(last))
		last = time.Now()
	}
	return time.Since(began), silent
}

// mixed are n requests, of which every third writes.
func mixed(n int) (b []byte) {
	for i := range n {
		if i%3 == 0 {
			b = encode(b, int32(i), wire.OpSetData, setBody("/x", []byte("data")))
		} else {
			b = encode(b, int32(i), wire.OpGetData, readBody("/x", false))
		}
	}
	return b
}

func about(got, want time.Duration) bool { return got > want*9/10 && got < want*11/10 }

// A client that sends more than its session's rate is slowed to it. Its requests are
// answered in order, and its session lives. Another client is not disturbed.
func TestSessionKeepsItsRate(t *testing.T) {
	withLimits(t, "session requests=100", func(t *testing.T, s *rig) {
		other := s.open()
		other.create("/x", "", zk.Persistent)
		c := s.openFrom(1, 2)
		flood(c, mixed(1100))
		synctest.Wait()
		if began := time.Now(); !other.has("/x") || time.Since(began) > 0 {
			t.Error("another client has to wait")
		}
		if took, _ := c.answered(1100); !about(took, 10*time.Second) {
			t.Errorf("1100 requests took %v, at 100 a second", took)
		}
		if s.sessions() != 2 {
			t.Error("the session has ended")
		}
		time.Sleep(time.Second) // the bucket is full again
		flood(c, mixed(100))
		if took, _ := c.answered(100); took > 0 {
			t.Errorf("100 requests took %v", took)
		}
	})
}

// The connections of an identity share its rate, in equal parts.
func TestIdentityKeepsItsRate(t *testing.T) {
	const clients, rate = 20, 200
	withLimits(t, fmt.Sprintf("identity ip:10.0.9.1 requests=%d", rate), func(t *testing.T, s *rig) {
		other := s.open()
		other.create("/x", "", zk.Persistent)
		var mu sync.Mutex
		var got [clients]int
		for i := range clients {
			c := s.openFrom(1, 10)
			flood(c, mixed(2000))
			go func() {
				for pings := 0; ; {
					if r, err := c.nextInTurn(&pings); err != nil || int(r.Xid) != got[i] {
						return
					}
					mu.Lock()
					got[i]++
					mu.Unlock()
				}
			}()
		}
		pass(20 * time.Second)
		other = s.open()
		if began := time.Now(); !other.has("/x") || time.Since(began) > 0 {
			t.Error("another client has to wait")
		}
		mu.Lock()
		defer mu.Unlock()
		total := 0
		for _, n := range got {
			total += n
		}
		if want := 21 * rate; total < want*9/10 || total > want*11/10 {
			t.Errorf("%d requests were answered in 20 s, want about %d", total, want)
		}
		if least := slices.Min(got[:]); least < 20*rate/clients*8/10 {
			t.Errorf("shares are not equal: %v", got)
		}
	})
}

// A client whose large requests take longer than its session's timeout gets replies to
// pings, so that it stays, and its session lives.
func TestLimitedClientHearsFromTheServer(t *testing.T) {
	withLimits(t, "session bytes=100000", func(t *testing.T, s *rig) {
		s.open().create("/x", "", zk.Persistent)
		c := s.openFrom(1, 3)
		var b []byte
		for i := range 3 {
			b = encode(b, int32(i), wire.OpSetData, setBody("/x", big))
		}
		flood(c, b)
		took, silent := c.answered(3)
		if want := time.Duration(2*len(big)/100_000-1) * time.Second; !about(took, want) {
			t.Errorf("it took %v, want about %v", took, want)
		}
		// kazoo gives the connection up when a ping is not answered for a third of the
		// timeout, less up to 400 ms by chance.
		if silent > rigTick-400*time.Millisecond {
			t.Errorf("the client heard nothing for %v, its timeout is %v", silent, 3*rigTick)
		}
		if !s.knows(c.resp.SessionID) {
			t.Error("the session has ended")
		}
	})
}

// A handshake is answered in time even if the identity owes many tokens: at once if it
// resumes a session, otherwise after half a second. What follows waits.
func TestHandshakeOfALimitedIdentity(t *testing.T) {
	withLimits(t, "identity bytes=100000", func(t *testing.T, s *rig) {
		s.open().create("/x", "", zk.Persistent)
		c := s.openFrom(1, 10)
		c.mustCall(wire.OpSetData, setBody("/x", big)) // 9 s
		began := time.Now()
		d := s.openFrom(1, 10)
		if took := time.Since(began); took != holdAtMost {
			t.Errorf("a new session took %v", took)
		}
		again := newWireClient(t, s.pipeFrom(netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 9, 1}), 40001)))
		if err := again.resume(c); err != nil || time.Since(began) > holdAtMost {
			t.Errorf("to resume a session took %v: %v", time.Since(began), err)
		}
		for _, c := range []*wireClient{d, again} {
			flood(c, encode(nil, 0, wire.OpExists, readBody("/x", false)))
			c.answered(1)
			if took := time.Since(began); !about(took, 9240*time.Millisecond) {
				t.Errorf("a request was answered after %v", took)
			}
		}
	})
}

// A connection that waits for tokens ends at once when the client is gone or the server
// stops, and the session of the client then expires.
func TestWaitingConnectionEnds(t *testing.T) {
	withLimits(t, "session requests=1", func(t *testing.T, s *rig) {
		c, d := s.openFrom(1, 3), s.openFrom(2, 3)
		for _, c := range []*wireClient{c, d} {
			flood(c, mixed(100))
		}
		synctest.Wait()
		if n := s.srv.limits.waitingConns(); n != 2 {
			t.Errorf("%d connections wait", n)
		}
		c.nc.Close()
		pass(10 * rigTick)
		if n, sessions := s.conns(), s.sessions(); n != 1 || sessions != 1 {
			t.Errorf("%d connections, %d sessions", n, sessions)
		}
		s.stop()
		if n := s.srv.limits.identities(); n > 1 {
			t.Errorf("%d identities are left", n)
		}
	})
}

// New limits apply at once, also to connections that wait.
func TestLimitsChangeWhileRunning(t *testing.T) {
	withLimits(t, "session requests=1", func(t *testing.T, s *rig) {
		s.open().create("/x", "", zk.Persistent)
		c := s.openFrom(1, 10)
		flood(c, mixed(200))
		synctest.Wait()
		s.srv.SetLimits(parseLimits(t, "session requests=1000"))
		if took, _ := c.answered(200); took > 0 {
			t.Errorf("it took %v", took)
		}
		s.srv.SetLimits(parseLimits(t, "session requests=10"))
		flood(c, mixed(110))
		if took, _ := c.answered(110); !about(took, 10*time.Second) {
			t.Errorf("110 requests took %v, at 10 a second", took)
		}
	})
}

// The watches of a session are limited. One that it has may be registered again, and one
// that has fired leaves room.
func TestWatchesOfASession(t *testing.T) {
	withLimits(t, "session watches=3", func(t *testing.T, s *rig) {
		admin, c := s.open(), s.open()
		for _, p := range []string{"/a", "/b", "/c", "/d"} {
			admin.create(p, "", zk.Persistent)
		}
		c.mustCall(wire.OpGetData, readBody("/a", true))
		c.mustCall(wire.OpGetChildren2, readBody("/a", true))
		if r := c.call(wire.OpExists, readBody("/none", true)); r.Err != zk.ErrNoNode {
			t.Errorf("exists: %v", r.Err)
		}
		for op, body := range map[wire.OpCode][]byte{
			wire.OpGetData: readBody("/b", true), wire.OpGetChildren: readBody("/b", true), wire.OpExists: readBody("/none2", true),
			wire.OpAddWatch: addWatchBody("/b", zk.AddWatchPersistentRecursive),
		} {
			if r := c.call(op, body); r.Err != zk.ErrSystem || len(r.body) > 0 {
				t.Errorf("%v: %v with %d bytes", op, r.Err, len(r.body))
			}
		}
		c.mustCall(wire.OpGetData, readBody("/b", false))
		c.mustCall(wire.OpGetData, readBody("/a", true)) // again
		admin.set("/a", nil)
		c.mustCall(wire.OpGetData, readBody("/d", true))
		if r := c.read(wire.OpGetData, "/c", true); r.Err != zk.ErrSystem {
			t.Errorf("after an event: %v", r.Err)
		}
		if got := c.takeEvents(); !slices.Equal(got, []string{"NodeDataChanged /a"}) {
			t.Errorf("events %q", got)
		}
		c.mustCall(wire.OpRemoveWatches, addWatchBody("/d", zk.AddWatchMode(zk.WatcherAny)))
		c.mustCall(wire.OpGetData, readBody("/c", true))
		if n := s.srv.stats.LimitRefused.Load(); n != 5 {
			t.Errorf("%d refusals are counted", n)
		}
	})
}

// The watches of an identity are limited, whichever of its connections has them. Those of
// connections that have ended, or that have fired, leave room.
func TestWatchesOfAnIdentity(t *testing.T) {
	withLimits(t, "identity watches=4", func(t *testing.T, s *rig) {
		admin, other := s.open(), s.open()
		for _, p := range []string{"/a", "/b"} {
			admin.create(p, "", zk.Persistent)
		}
		c, d, e := s.openFrom(1, 10), s.openFrom(1, 10), s.openFrom(1, 10)
		watch := func(c *wireClient, path string) zk.Code { return c.read(wire.OpExists, path, true).Err }
		for _, c := range []*wireClient{c, d} {
			if watch(c, "/a") != zk.OK || watch(c, "/b") != zk.OK {
				t.Error("a watch is refused")
			}
		}
		if watch(e, "/a") != zk.ErrSystem || watch(other, "/a") != zk.OK {
			t.Error("a fifth watch")
		}
		pass(recountRest)
		admin.set("/a", nil) // leaves room for two
		if x, y, z := watch(e, "/a"), watch(e, "/b"), watch(e, "/c"); x != zk.OK || y != zk.OK || z != zk.ErrSystem {
			t.Errorf("after two watches have fired: %v, %v, %v", x, y, z)
		}
		d.nc.Close()
		pass(recountRest)
		if watch(e, "/c") != zk.ErrNoNode || watch(e, "/d") != zk.ErrSystem {
			t.Error("after a connection has ended")
		}
	})
}

// A client that restores more watches than it may have is disconnected: it would not see
// an error.
func TestTooManyWatchesAreNotRestored(t *testing.T) {
	withLimits(t, "session watches=3", func(t *testing.T, s *rig) {
		ask := func(n int) (*wireClient, []byte) {
			r := wire.SetWatches{Data: make([]string, n), Exist: []string{}, Child: []string{}}
			for i := range r.Data {
				r.Data[i] = fmt.Sprint("/", i)
			}
			return s.openFrom(1, 10), r.Append(nil, wire.OpSetWatches)
		}
		c, body := ask(3)
		c.mustCall(wire.OpSetWatches, body)
		c, body = ask(4)
		if r, err := c.do(wire.OpSetWatches, body); err == nil {
			t.Errorf("answered: %+v", r)
		}
		pass(time.Second)
		if n := s.conns(); n != 1 {
			t.Errorf("%d connections are left", n)
		}
	})
}

// The ephemerals of a session are limited exactly, also if their creation is pipelined,
// and the refusals come in order.
func TestEphemeralsOfASession(t *testing.T) {
	withLimits(t, "session ephemerals=3", func(t *testing.T, s *rig) {
		c := s.open()
		var b []byte
		for i := range int32(8) {
			mode := zk.Ephemeral
			if i == 2 {
				mode = zk.Persistent
			}
			b = encode(b, i, wire.OpCreate, createBody(fmt.Sprintf("/%d", i), nil, mode))
		}
		flood(c, b)
		want := []zk.Code{zk.OK, zk.OK, zk.OK, zk.OK, zk.ErrSystem, zk.ErrSystem, zk.ErrSystem, zk.ErrSystem}
		for i, code := range want {
			if r, err := c.next(); err != nil || int(r.Xid) != i || r.Err != code {
				t.Errorf("reply %d: %+v, %v, want %v", i, r.ReplyHeader, err, code)
			}
		}
		c.mustCall(wire.OpDelete, deleteBody("/0"))
		if r := c.call(wire.OpMulti, multiOfModes("/m", zk.Ephemeral, zk.EphemeralSequential)); r.Err != zk.ErrSystem {
			t.Errorf("multi: %v", r.Err)
		}
		c.mustCall(wire.OpMulti, multiOfModes("/m", zk.Ephemeral, zk.Persistent))
		if r := c.call(wire.OpCreate, createBody("/n", nil, zk.EphemeralSequential)); r.Err != zk.ErrSystem {
			t.Errorf("create: %v", r.Err)
		}
		c.create("/n", "", zk.Persistent)
	})
}

// multiOfModes is a multi that creates a znode of each mode below prefix.
func multiOfModes(prefix string, modes ...zk.CreateMode) (b []byte) {
	for i, mode := range modes {
		op := wire.MultiOp{Type: wire.OpCreate}
		op.Path, op.Flags, op.ACL = fmt.Sprint(prefix, i), mode, []zk.ACL{{Perms: zk.PermAll, ID: zk.ID{Scheme: "world", ID: "anyone"}}}
		b = op.Append(b)
	}
	return wire.AppendMultiEnd(b)
}

// The ephemerals of an identity are limited, whichever of its sessions owns them, also
// those of a session that was resumed.
func TestEphemeralsOfAnIdentity(t *testing.T) {
	withLimits(t, "identity ephemerals=3", func(t *testing.T, s *rig) {
		c, d, other := s.openFrom(1, 10), s.openFrom(1, 10), s.open()
		c.create("/a", "", zk.Ephemeral)
		c.create("/b", "", zk.Ephemeral)
		again := newWireClient(t, s.pipeFrom(netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 9, 1}), 40001)))
		if err := again.resume(c); err != nil {
			t.Fatal(err)
		}
		pass(recountRest)
		d.create("/c", "", zk.Ephemeral)
		refused := func(c *wireClient) bool {
			return c.call(wire.OpCreate, createBody("/d", nil, zk.Ephemeral)).Err == zk.ErrSystem
		}
		if !refused(d) || !refused(again) {
			t.Error("a fourth ephemeral")
		}
		pass(recountRest)
		other.mustCall(wire.OpDelete, deleteBody("/a"))
		d.create("/d", "", zk.Ephemeral)
		other.create("/e", "", zk.Ephemeral)
	})
}

// limitsOfDigest are limits of a digest identity, and the packet that proves it.
func limitsOfDigest(t *testing.T, limits string) (text string, proof []byte) {
	t.Helper()
	authority, err := auth.New(auth.Config{})
	if err != nil {
		t.Fatal(err)
	}
	ids, _ := authority.Authenticate("digest", []byte("greedy:secret"), nil)
	packet := wire.AuthPacket{Scheme: "digest", Auth: []byte("greedy:secret")}
	return fmt.Sprintf("identity digest:%s %s", ids[0].ID, limits), packet.Append(nil)
}

// Connections of an identity are limited: by address when they are accepted, otherwise
// when the identity is proven. A digest that the file does not name changes nothing.
func TestConnectionsOfAnIdentity(t *testing.T) {
	text, proof := limitsOfDigest(t, "connections=1")
	withLimits(t, "identity connections=2\n"+text, func(t *testing.T, s *rig) {
		c, d := s.openFrom(1, 10), s.openFrom(1, 10)
		refused := func() bool {
			c := newWireClient(t, s.pipeFrom(netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 9, 1}), 40000)))
			return c.connect(wire.ConnectRequest{TimeoutMillis: 5000}) != nil
		}
		unnamed := wire.AuthPacket{Scheme: "digest", Auth: []byte("some:one")}
		d.mustCall(wire.OpAuth, unnamed.Append(nil))
		if !refused() {
			t.Error("a third connection of the address")
		}
		c.mustCall(wire.OpAuth, proof) // it counts for the digest now
		e := s.openFrom(1, 10)
		if !refused() {
			t.Error("a third connection of the address, beside one of a digest")
		}
		if _, err := e.do(wire.OpAuth, proof); err == nil {
			if err := e.ended(); err == nil {
				t.Error("a second connection of the digest")
			}
		}
		pass(time.Second)
		if n := s.conns(); n != 2 {
			t.Errorf("%d connections", n)
		}
		if n := s.srv.stats.LimitConns.Load(); n != 3 {
			t.Errorf("%d refusals are counted", n)
		}
		c.nc.Close()
		synctest.Wait()
		s.openFrom(1, 10).mustCall(wire.OpAuth, proof)
	})
}

// An identity is forgotten when it has no connection and its buckets are full, and not
// before: a client that connects again gains no tokens.
func TestIdentitiesAreForgotten(t *testing.T) {
	withLimits(t, "identity requests=10", func(t *testing.T, s *rig) {
		for range 3 {
			c := s.openFrom(1, 10)
			flood(c, mixed(12))
			c.next()
			c.nc.Close()
			synctest.Wait()
		}
		if n := s.srv.limits.identities(); n != 1 {
			t.Errorf("%d identities", n)
		}
		began := time.Now()
		c := s.openFrom(1, 10)
		if c.has("/"); time.Since(began) < time.Second/10 {
			t.Errorf("a client that connects again waited %v", time.Since(began))
		}
		c.nc.Close()
		pass(10 * time.Second)
		for i := range byte(100) { // more than the table has before it is swept
			s.openFrom(10+i, 10).nc.Close()
			pass(200 * time.Millisecond)
		}
		if n := s.srv.limits.identities(); n > 70 {
			t.Errorf("%d identities", n)
		}
	})
}

// cons and mntr show what the limits did, after the keys of Apache; without limits they
// show nothing of them.
func TestLimitsAreShown(t *testing.T) {
	show := func(t *testing.T, s *rig) (cons, mntr string) {
		c := s.openFrom(1, 10)
		flood(c, mixed(15))
		for range 15 {
			c.next()
		}
		return ask(t, s.pipe(), "cons"), ask(t, s.pipe(), "mntr")
	}
	withLimits(t, "identity requests=10", func(t *testing.T, s *rig) {
		cons, mntr := show(t, s)
		if !regexp.MustCompile(`maxlat=\d+,limit=ip:10\.0\.9\.1,lwait=\d{3},lrefused=0\)`).MatchString(cons) {
			t.Errorf("cons: %s", cons)
		}
		if !regexp.MustCompile(`zk_cnt_limit_wait_time\t[1-9]`).MatchString(mntr) || !strings.Contains(mntr, "zk_limit_identities\t2\n") {
			t.Errorf("mntr: %s", mntr)
		}
	})
	withLimits(t, "", func(t *testing.T, s *rig) {
		if cons, mntr := show(t, s); strings.Contains(cons+mntr, "limit=") || strings.Contains(mntr, "zk_limit") {
			t.Errorf("%s%s", cons, mntr)
		}
	})
}

// The names of identities cannot break a line of cons.
func TestNamesInCons(t *testing.T) {
	withLimits(t, "session requests=10", func(t *testing.T, s *rig) {
		s.srv.cfg.Auth.SASL.Provider = true
		c := s.connOf(s.open())
		it := &identity{id: zk.ID{Scheme: "ip", ID: "a,b=c)\n"}}
		c.limited.as.Store(it)
		if got := string(c.appendLimits(nil)); got != ",limit=ip:a%2Cb=c%29%0A,lwait=0,lrefused=0" {
			t.Error(got)
		}
		c.limited.as.Store(s.srv.limits.mu.table[auth.IPIdentity(c.remote.Addr())])
	})
}

// SetLimits runs beside everything else that a connection does.
func TestSetLimitsConcurrently(t *testing.T) {
	text, proof := limitsOfDigest(t, "requests=50 watches=5")
	s := newRig(t, func(o *rigSetup) { o.limits = "session requests=100000" })
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		files := []*ratelimit.File{parseLimits(t, text), parseLimits(t, "identity requests=100000 watches=3 ephemerals=2"), parseLimits(t, "")}
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				s.srv.SetLimits(files[i%len(files)])
			}
		}
	})
	var clients sync.WaitGroup
	for i := range 4 {
		clients.Go(func() {
			for range 10 {
				c := s.openFrom(byte(i), 10)
				c.do(wire.OpAuth, proof)
				for k := range 20 {
					path := fmt.Sprintf("/%d-%d", i, k)
					c.do(wire.OpCreate, createBody(path, nil, zk.Ephemeral))
					c.do(wire.OpExists, readBody(path, true))
					c.do(wire.OpDelete, deleteBody(path))
				}
				c.nc.Close()
			}
		})
	}
	clients.Wait()
	close(stop)
	wg.Wait()
	s.srv.SetLimits(parseLimits(t, "session watches=1"))
	c := s.openFrom(200, 10)
	d := jute.NewDecoder(c.call(wire.OpGetChildren, readBody("/", true)).body)
	if d.Int() != 1 {
		t.Error("there are ephemerals left") // /zookeeper
	}
}
