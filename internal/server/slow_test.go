package server

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-zk/pinfold/internal/config"
	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// connOf is the server's half of a client's connection, nil if it has none.
func (s *rig) connOf(c *wireClient) *conn {
	s.srv.mu.Lock()
	defer s.srv.mu.Unlock()
	return s.srv.mu.sessions[c.resp.SessionID]
}

// held is how many bytes the server holds for a connection.
func (c *conn) held() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := max(c.mu.out.Unsent(), cap(c.mu.out.Buf)) + c.mu.pending.bytes + c.mu.longBytes
	for _, p := range c.mu.pending.All() {
		n += 64 + cap(p.body)
	}
	return n
}

// flood writes in the background; the connection may be closed meanwhile.
func flood(c *wireClient, b []byte) { go c.nc.Write(b) }

// big is data of nearly the largest length that a request may carry.
var big = bytes.Repeat([]byte("b"), 1000<<10)

// awaitClosed lets virtual time pass until the server has closed c.
func (s *rig) awaitClosed(c *wireClient, within time.Duration) {
	s.t.Helper()
	time.Sleep(within)
	synctest.Wait()
	if s.connOf(c) != nil {
		s.t.Errorf("the connection is still there after %v", within)
	}
}

// P6: who asks for much and never reads is not read from any more, costs others
// nothing, and is closed when its session expires.
func TestP6UnreadReplies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRig(t)
		c, other := s.open(), s.open()
		other.mustCall(wire.OpCreate, createBody("/big", big, zk.Persistent))
		var b []byte
		for i := range 3000 {
			b = encode(b, int32(i), wire.OpGetData, readBody("/big", false))
		}
		flood(c, b)
		synctest.Wait()
		if n := s.connOf(c).held(); n > 4<<20 {
			t.Errorf("the server holds %d bytes", n)
		}
		if began := time.Now(); !other.has("/big") || time.Since(began) > 0 {
			t.Error("another client has to wait")
		}
		other.nc.Close()
		s.awaitClosed(c, 12*rigTick+lastWords)
	})
}

// P6: reads that wait behind a write are taken only as far as their replies may
// be kept, however large the write makes them.
func TestP6LargeReadsBehindWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateFS(vfs.NewMem())
		s := newRig(t, func(o *rigSetup) { o.fs = g })
		c, other := s.open(), s.open()
		other.create("/x", "small", zk.Persistent)
		g.set(true, nil)
		b := encode(nil, 0, wire.OpSetData, setBody("/x", big))
		for i := range 150 {
			b = encode(b, int32(i+1), wire.OpGetData, readBody("/x", false))
		}
		flood(c, b)
		synctest.Wait()
		g.set(false, nil)
		synctest.Wait()
		if n := s.connOf(c).held(); n > hardOutBytes {
			t.Errorf("the server holds %d bytes", n)
		}
		if other.call(wire.OpGetData, readBody("/x", false)).Err != zk.OK {
			t.Error("another client")
		}
		// Once the client reads it gets everything, in order.
		for i := range 151 {
			if r, err := c.next(); err != nil || r.Xid != int32(i) || i > 0 && len(r.body) < len(big) {
				t.Fatalf("reply %d: %+v, %v", i, r.ReplyHeader, err)
			}
		}
	})
}

// P6: the same where somebody else makes the znode large meanwhile.
func TestP6ReadsGrowBehindWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateFS(vfs.NewMem())
		s := newRig(t, func(o *rigSetup) { o.fs = g })
		c, other := s.open(), s.open()
		other.create("/x", "small", zk.Persistent)
		conn := s.connOf(c)
		g.set(true, nil)
		other.send(wire.OpSetData, setBody("/x", big))
		synctest.Wait()
		b := encode(nil, 0, wire.OpCreate, createBody("/y", nil, zk.Persistent))
		for i := range 3000 {
			b = encode(b, int32(i+1), wire.OpGetData, readBody("/x", false))
		}
		flood(c, b)
		synctest.Wait()
		g.set(false, nil)
		synctest.Wait()
		if n := conn.held(); n > hardOutBytes+2*len(big) {
			t.Errorf("the server holds %d bytes", n)
		}
		if r, err := other.next(); err != nil || r.Err != zk.OK {
			t.Errorf("another client: %+v, %v", r.ReplyHeader, err)
		}
	})
}

// P6: one multiRead cannot ask for more than the server may hold.
func TestP6LargeMultiRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRig(t)
		c := s.open()
		c.mustCall(wire.OpCreate, createBody("/big", big, zk.Persistent))
		conn := s.connOf(c)
		var body []byte
		op := wire.MultiOp{Type: wire.OpGetData}
		op.Path = "/big"
		for range 1000 {
			body = op.Append(body)
		}
		c.send(wire.OpMultiRead, wire.AppendMultiEnd(body))
		synctest.Wait()
		if n := conn.held(); n > 2*hardOutBytes {
			t.Errorf("the server holds %d bytes", n)
		}
		if r, err := c.next(); err != nil || r.Err != zk.ErrMarshalling {
			t.Errorf("reply %+v, %v", r.ReplyHeader, err)
		}
		if _, err := c.next(); err != io.EOF {
			t.Errorf("the connection goes on: %v", err)
		}
	})
}

// P6: who watches a busy znode and never reads is closed; others are not slowed.
func TestP6UnreadEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRig(t)
		watcher, writer := s.open(), s.open()
		path := "/" + strings.Repeat("long", 15<<10)
		writer.create(path, "", zk.Persistent)
		watcher.mustCall(wire.OpAddWatch, addWatchBody(path, zk.AddWatchPersistent))
		conn := s.connOf(watcher)
		most := 0
		for i := 0; s.connOf(watcher) != nil && i < 1000; i++ {
			writer.mustCall(wire.OpSetData, setBody(path, nil))
			watcher.write(encode(nil, wire.XidPing, wire.OpPing, nil))
			most = max(most, conn.held())
			synctest.Wait()
		}
		if s.connOf(watcher) != nil || s.srv.stats.SlowClients.Load() != 1 {
			t.Error("the slow client was not closed")
		}
		// Appending may double the capacity.
		if most < hardOutBytes/2 || most > 4*hardOutBytes {
			t.Errorf("the server held %d bytes", most)
		}
	})
}

// P6: globalOutstandingLimit holds, and whoever waited goes on.
func TestP6Outstanding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit, clients, requests = 50, 4, 1000
		g := newGateFS(vfs.NewMem())
		s := newRig(t, func(o *rigSetup) { o.fs = g; o.cfg.Requests.MaxOutstanding = limit })
		var cs []*wireClient
		for range clients {
			cs = append(cs, s.open())
		}
		g.set(true, nil)
		for i, c := range cs {
			var b []byte
			for k := range requests {
				b = encode(b, int32(k), wire.OpCreate, createBody(fmt.Sprintf("/n%d-%d", i, k), nil, zk.Persistent))
			}
			flood(c, b)
		}
		synctest.Wait()
		if n := s.rep.Outstanding(); n < limit || n > limit*(clients+1) {
			t.Errorf("%d requests in the pipeline, the limit is %d for each of %d clients", n, limit, clients)
		}
		g.set(false, nil)
		for i, c := range cs {
			for k := range requests {
				if r, err := c.next(); err != nil || r.Err != zk.OK || r.Xid != int32(k) {
					t.Fatalf("client %d, reply %d: %+v, %v", i, k, r.ReplyHeader, err)
				}
			}
		}
	})
}

// Each of the two limits of requests in the pipeline counts without the other.
func TestMaxInPipeline(t *testing.T) {
	for _, c := range []struct{ outstanding, throttle, want int }{
		{1000, 0, 1000}, {1000, 10, 10}, {10, 1000, 10}, {0, 10, 10}, {0, 0, 0},
	} {
		cfg := config.Default()
		cfg.Requests.MaxOutstanding, cfg.Requests.MaxInPipeline = c.outstanding, c.throttle
		if got := (&Server{cfg: cfg}).maxInPipeline(); got != c.want {
			t.Errorf("globalOutstandingLimit=%d and request_throttle_max_requests=%d: %d, want %d", c.outstanding, c.throttle, got, c.want)
		}
	}
}

// P6: while others have as many requests in flight as globalOutstandingLimit allows, a client
// with few is read from: its writes are taken, each when it arrives.
func TestP6FewOutstandingNeverWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit, clients, requests = 200, 10, 1000
		g := newGateFS(vfs.NewMem())
		s := newRig(t, func(o *rigSetup) { o.fs = g; o.cfg.Requests.MaxOutstanding = limit })
		innocent := s.open()
		var cs []*wireClient
		for range clients {
			cs = append(cs, s.open())
		}
		g.set(true, nil)
		defer g.set(false, nil) // also if the test ends early: a server does not stop before its disk has written
		for _, c := range cs {
			var b []byte
			for k := range requests {
				b = encode(b, int32(k), wire.OpDelete, deleteBody("/none"))
			}
			flood(c, b)
		}
		synctest.Wait()
		before := s.rep.Outstanding()
		if before < limit || before > limit+clients*(1+limit/8) {
			t.Errorf("%d requests in flight, the limit is %d", before, limit)
		}
		for n := range 5 {
			innocent.send(wire.OpDelete, deleteBody("/none"))
			synctest.Wait()
			if got := s.rep.Outstanding(); got != before+n+1 {
				t.Fatalf("%d requests in flight after write %d of another client, want %d", got, n, before+n+1)
			}
		}
		g.set(false, nil)
		for i, c := range cs {
			for k := range requests {
				if r, err := c.next(); err != nil || r.Err != zk.ErrNoNode || r.Xid != int32(k) {
					t.Fatalf("client %d, reply %d: %+v, %v", i, k, r.ReplyHeader, err)
				}
			}
		}
		synctest.Wait()
		if used := s.srv.flight.Used(); used != 0 {
			t.Errorf("%d stay charged", used)
		}
	})
}

// P6: a queue that is never empty must not grow.
func TestP6PendingForgets(t *testing.T) {
	var f pendingFIFO
	for i := range 100_000 {
		f.push(pendingRequest{request: request{RequestHeader: wire.RequestHeader{Xid: int32(i)}}, write: true})
		if i >= 100 {
			if got := f.front().Xid; got != int32(i-100) {
				t.Fatalf("front %d, want %d", got, i-100)
			}
			f.pop()
		}
	}
	if f.Places() > 1000 {
		t.Errorf("room for %d requests, never more than 101 were in it", f.Places())
	}
	for !f.empty() {
		f.pop()
	}
}

// An idle connection holds no buffer.
func TestIdleConnectionHoldsNothing(t *testing.T) {
	s := newRig(t)
	addr := s.listen()
	for i, nc := range []net.Conn{dial(t, addr), s.pipe()} {
		c, path := s.openWith(nc), fmt.Sprintf("/n%d", i)
		c.mustCall(wire.OpCreate, createBody(path, big[:200<<10], zk.Persistent))
		for range 10 {
			c.get(path)
		}
		c.mustCall(wire.OpSetData, setBody(path, nil))
		conn := s.connOf(c)
		for deadline := time.Now().Add(10 * time.Second); ; {
			// The reply may be here before its writer is through.
			conn.mu.Lock()
			n, flushing := cap(conn.mu.out.Buf)+conn.mu.out.Unsent()+conn.mu.pending.Places(), conn.mu.out.Writing()
			conn.mu.Unlock()
			if n <= 256 && !flushing {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%T: %d bytes", nc, n)
			}
			runtime.Gosched()
		}
	}
}

// Who does not take the last replies is closed all the same.
func TestLastWordsAreTimed(t *testing.T) {
	for name, last := range map[string][]byte{
		"close session":     encode(nil, 1, wire.OpCloseSession, nil),
		"unknown operation": encode(nil, 1, 99, nil),
		"bad frame":         {0xff, 0xff, 0xff, 0xff},
		"bad auth":          encode(nil, 1, wire.OpAuth, (&wire.AuthPacket{Scheme: "none"}).Append(nil)),
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newRig(t, func(o *rigSetup) { o.cfg.Session.MaxTimeout = time.Hour })
			c := newWireClient(t, s.pipe())
			c.mustConnect(time.Hour)
			conn := s.connOf(c)
			c.create("/x", string(big[:rigBuffer-2000]), zk.Persistent)
			flood(c, append(encode(nil, 2, wire.OpGetData, readBody("/x", false)), last...))
			synctest.Wait()
			// Its buffer is nearly full: the event of a large path fills it.
			other := s.open()
			conn.mu.Lock()
			conn.deliverLocked(appendEvent(nil, 1, zk.EventNodeCreated, string(big[:rigBuffer])), nil)
			conn.mu.Unlock()
			other.create("/y", "", zk.Persistent)
			time.Sleep(lastWords + time.Second)
			synctest.Wait()
			conn.mu.Lock()
			defer conn.mu.Unlock()
			if !conn.mu.closed {
				t.Errorf("%s: the connection is still open", name)
			}
		})
	}
}

// Output that is ready is sent before the connection of a bad client ends.
func TestLastWordsAreSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateFS(vfs.NewMem())
		s := newRig(t, func(o *rigSetup) { o.fs = g })
		c := s.open()
		c.create("/x", string(big[:4*rigBuffer]), zk.Persistent)
		g.set(true, nil)
		b := encode(nil, 1, wire.OpCreate, createBody("/y", nil, zk.Persistent))
		c.write(encode(b, 2, wire.OpGetData, readBody("/x", false)))
		synctest.Wait()
		g.set(false, nil)
		synctest.Wait()
		c.write([]byte{0xff, 0xff, 0xff, 0xff})
		synctest.Wait()
		for i := range 2 {
			if r, err := c.next(); err != nil || r.Xid != int32(i+1) {
				t.Fatalf("reply %d: %+v, %v", i+1, r.ReplyHeader, err)
			}
		}
		if _, err := c.next(); err != io.EOF {
			t.Errorf("the bad frame: %v", err)
		}
	})
}

// Connections beyond maxClientCnxns and maxCnxns are closed; others may take the
// place of those that go.
func TestConnectionLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRig(t, func(o *rigSetup) { o.cfg.Client.MaxPerIP, o.cfg.Client.MaxTotal = 2, 3 })
		from := func(host byte) *wireClient {
			return newWireClient(t, s.pipeFrom(netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 9, 9, host}), 1)))
		}
		lets := func(c *wireClient) bool {
			return c.connect(wire.ConnectRequest{TimeoutMillis: 5000}) == nil
		}
		a, b := from(1), from(1)
		if !lets(a) || !lets(b) || lets(from(1)) {
			t.Error("maxClientCnxns is 2")
		}
		if !lets(from(2)) || lets(from(3)) {
			t.Error("maxCnxns is 3")
		}
		a.nc.Close()
		synctest.Wait()
		if !lets(from(1)) {
			t.Error("a place was free")
		}
	})
}

// P6: the replies to reads that wait behind writes stay within the budget of the complete
// server, however many connections have such reads.
func TestP6ManyReadsBehindWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const clients, reads, size = 30, 50, 40_000
		g := newGateFS(vfs.NewMem())
		s := newRig(t, func(o *rigSetup) { o.fs = g }, withRoom)
		innocent := s.open()
		innocent.mustCall(wire.OpCreate, createBody("/data", big[:size], zk.Persistent))
		var all []*wireClient
		var conns []*conn
		for range clients {
			c := s.open()
			all, conns = append(all, c), append(conns, s.connOf(c))
		}
		g.set(true, nil)
		for _, c := range all {
			b := encode(nil, 0, wire.OpSetData, setBody("/data", big[:size]))
			for xid := range int32(reads) {
				b = encode(b, xid+1, wire.OpGetData, readBody("/data", false))
			}
			flood(c, b)
		}
		synctest.Wait()
		g.set(false, nil)
		synctest.Wait()
		if n := heldByAll(conns); n > roomLimit+clients*2*largeReply {
			t.Errorf("%d bytes are held, the limit is %d", n, roomLimit)
		}
		if !innocent.has("/data") {
			t.Error("another client is not served")
		}
		var reading sync.WaitGroup
		for _, c := range all { // once they read, they get everything, in order
			reading.Go(func() {
				for xid := range int32(reads + 1) {
					if r, err := c.next(); err != nil || r.Xid != xid || r.Err != zk.OK {
						t.Errorf("reply %d: %+v, %v", xid, r.ReplyHeader, err)
						return
					}
				}
			})
		}
		reading.Wait()
		synctest.Wait()
		for i, c := range conns {
			if c.account.Held() != 0 || c.mu.queued != 0 {
				t.Errorf("connection %d holds %d bytes of the budget, %d for requests, and is idle", i, c.account.Held(), c.mu.queued)
			}
		}
	})
}
