package server

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// roomLimit is the budget of the servers below, and greedyClients how many clients
// want more of it than there is.
const (
	roomLimit     = 12 << 20
	greedyClients = 25
)

func withRoom(o *rigSetup) { o.cfg.Client.BufferBytes = roomLimit }

// heldByAll is how many bytes the server holds for all clients.
func heldByAll(conns []*conn) (n int) {
	for _, c := range conns {
		n += c.held()
	}
	return n
}

// P6: replies to clients that do not read them stay within the budget of the whole
// server, whatever they asked for. Another client is served meanwhile; those that
// waited get their replies, whole and in order, when others have read theirs.
func TestP6RepliesStayWithinTheBudget(t *testing.T) {
	multi := func() (b []byte) {
		for range 3 {
			op := wire.MultiOp{Type: wire.OpGetData}
			op.Path = "/data"
			b = op.Append(b)
		}
		return wire.AppendMultiEnd(b)
	}
	for _, tt := range []struct {
		name  string
		op    wire.OpCode
		body  []byte
		bytes int // of one reply, at least
	}{
		{"getData", wire.OpGetData, readBody("/data", false), len(big)},
		{"getChildren", wire.OpGetChildren2, readBody("/names", true), 2_000_000},
		{"multiRead", wire.OpMultiRead, multi(), 3 * len(big)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newRig(t, withRoom)
				innocent := s.open()
				innocent.mustCall(wire.OpCreate, createBody("/data", big, zk.Persistent))
				innocent.create("/names", "", zk.Persistent)
				for i := range 20 {
					innocent.create(fmt.Sprintf("/names/%d%s", i, strings.Repeat("n", 100<<10)), "", zk.Persistent)
				}
				var clients []*wireClient
				var conns []*conn
				for range greedyClients {
					c := s.open()
					clients, conns = append(clients, c), append(conns, s.connOf(c))
					for range 2 {
						if _, err := c.send(tt.op, tt.body); err != nil {
							t.Fatal(err)
						}
					}
				}
				synctest.Wait()
				if n, used := heldByAll(conns), s.srv.budget.Used(); n > roomLimit+greedyClients*2*largeReply || used > roomLimit {
					t.Errorf("the server holds %d bytes, %d are charged, the limit is %d", n, used, roomLimit)
				}
				if n := heldByAll(conns); n < roomLimit/4 {
					t.Errorf("only %d bytes are held", n)
				}
				if began := time.Now(); !innocent.has("/data") || time.Since(began) > 0 {
					t.Error("another client has to wait")
				}
				var group sync.WaitGroup
				for i, c := range clients {
					group.Go(func() {
						for k := range 2 {
							r, err := c.next()
							if err != nil || r.Err != zk.OK || int(r.Xid) != k+1 || len(r.body) < tt.bytes {
								t.Errorf("client %d, reply %d: %+v of %d bytes, %v", i, k, r.ReplyHeader, len(r.body), err)
							}
						}
					})
				}
				group.Wait()
				synctest.Wait()
				if used := s.srv.budget.Used(); used != 0 {
					t.Errorf("%d bytes stay charged", used)
				}
			})
		})
	}
}

// P6: unfinished frames stay within the budget; those that find no room are closed
// in the end, and nothing stays charged when the connections are gone.
func TestP6UnfinishedFramesStayWithinTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRig(t, withRoom)
		innocent := s.open()
		var clients []*wireClient
		for range greedyClients {
			c := s.open()
			clients = append(clients, c)
			flood(c, encode(nil, 1, wire.OpSetData, setBody("/x", big))[:600<<10])
		}
		synctest.Wait()
		if used := s.srv.budget.Used(); used > roomLimit+greedyClients*readBufferBytes || used < roomLimit/4 {
			t.Errorf("%d bytes are charged, the limit is %d", used, roomLimit)
		}
		if began := time.Now(); innocent.has("/x") || time.Since(began) > 0 {
			t.Error("another client has to wait")
		}
		time.Sleep(20 * rigTick) // the sessions are over
		synctest.Wait()
		if used := s.srv.budget.Used(); used != 0 {
			t.Errorf("%d bytes stay charged", used)
		}
		if n := s.conns(); n != 0 {
			t.Errorf("%d connections are left", n)
		}
		for _, c := range clients {
			c.nc.Close()
		}
	})
}

// P6: unfinished frames that fit into one buffer are in the budget as well, however many
// connections there are.
func TestP6ManyShortUnfinishedFrames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const clients, bytes = 500, 40 << 10
		s := newRig(t, withRoom)
		innocent := s.open()
		for range clients {
			flood(s.open(), encode(nil, 1, wire.OpSetData, setBody("/x", big))[:bytes])
			synctest.Wait() // what is read at the same time may be more
		}
		if used := s.srv.budget.Used(); used > roomLimit+clients*readBufferBytes/4 || used < roomLimit/2 {
			t.Errorf("%d bytes are charged for %d connections, the limit is %d", used, clients, roomLimit)
		}
		if began := time.Now(); innocent.has("/x") || time.Since(began) > 0 {
			t.Error("another client has to wait")
		}
	})
}

// P6: while the budget is used up, the replies of one turn are few: unread output stays within
// what is free for each connection.
func TestP6ManyUnreadReplies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const clients = 300
		s := newRig(t, withRoom)
		innocent := s.open()
		innocent.mustCall(wire.OpCreate, createBody("/data", big[:2000], zk.Persistent))
		var conns []*conn
		for range clients {
			c := s.open()
			var b []byte
			for xid := range int32(1000) {
				b = encode(b, xid+1, wire.OpGetData, readBody("/data", false))
			}
			flood(c, b)
			conns = append(conns, s.connOf(c))
		}
		synctest.Wait()
		if n := heldByAll(conns); n > roomLimit+clients*2*largeReply {
			t.Errorf("%d bytes are held, the limit is %d", n, roomLimit)
		}
		if began := time.Now(); !innocent.has("/data") || time.Since(began) > 0 {
			t.Error("another client has to wait")
		}
	})
}

// P6: the identities of connections are in the budget. A connection that needs little of it
// may have some whatever others have.
func TestP6IdentitiesStayWithinTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const clients = 300
		s := newRig(t, withRoom)
		refused := 0
		for i := range clients {
			c := s.open()
			for k := range 2 {
				p := wire.AuthPacket{Scheme: "digest", Auth: fmt.Appendf(nil, "%d-%d%s:password", i, k, strings.Repeat("u", 50<<10))}
				if r, err := c.do(wire.OpAuth, p.Append(nil)); err != nil || r.Err != zk.OK {
					refused++
					break
				}
			}
		}
		if used := s.srv.budget.Used(); used > roomLimit+clients*largeReply || refused == 0 {
			t.Errorf("%d bytes are charged, the limit is %d; %d were refused", used, roomLimit, refused)
		}
		innocent := wire.AuthPacket{Scheme: "digest", Auth: []byte("innocent:password")}
		s.open().mustCall(wire.OpAuth, innocent.Append(nil))
		s.srv.eachConn(func(c *conn) { c.kill("the end") }, nil)
		synctest.Wait()
		if used := s.srv.budget.Used(); used != 0 {
			t.Errorf("%d bytes stay charged", used)
		}
	})
}

// P6: events that clients do not read stay within the budget, however many clients there
// are. The connections with most of them are closed; a client that reads keeps its own.
func TestP6UnreadEventsStayWithinTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRig(t, withRoom)
		innocent := s.open()
		path := "/" + strings.Repeat("long", 25<<10)
		innocent.create(path, "", zk.Persistent)
		var conns []*conn
		for range greedyClients {
			c := s.open()
			c.mustCall(wire.OpAddWatch, addWatchBody(path, zk.AddWatchPersistent))
			conns = append(conns, s.connOf(c))
		}
		most := 0
		for range 60 {
			innocent.mustCall(wire.OpSetData, setBody(path, nil))
			synctest.Wait()
			most = max(most, heldByAll(conns))
		}
		// Besides the budget: 64 KiB for each connection, before a write and in it.
		if limit := roomLimit + greedyClients*2*largeReply; most > limit || most < roomLimit/4 {
			t.Errorf("the server held %d bytes, the limit is %d", most, limit)
		}
		if n := s.srv.stats.SlowClients.Load(); n < greedyClients*3/4 {
			t.Errorf("%d of %d connections were closed", n, greedyClients)
		}
		if began := time.Now(); !innocent.has(path) || time.Since(began) > 0 {
			t.Error("another client has to wait")
		}
		for _, c := range conns {
			c.kill("the end")
		}
		synctest.Wait()
		if used := s.srv.budget.Used(); used != 0 {
			t.Errorf("%d bytes stay charged", used)
		}
	})
}

// A long event is copied for none of the connections that get it: a hundred copies would be made under the tree's lock.
func TestConnectionsShareALongEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const clients = 100
		s := newRig(t)
		writer := s.open()
		path := "/" + strings.Repeat("long", 100<<10)
		writer.create(path, "", zk.Persistent)
		var watchers []*wireClient
		for range clients {
			c := s.open()
			c.mustCall(wire.OpAddWatch, addWatchBody(path, zk.AddWatchPersistent))
			watchers = append(watchers, c)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		writer.mustCall(wire.OpSetData, setBody(path, nil))
		writer.mustCall(wire.OpSetData, setBody(path, nil))
		synctest.Wait()
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > clients*uint64(len(path)) {
			t.Errorf("two events of %d bytes for %d connections allocate %d bytes", len(path), clients, n)
		}
		for _, c := range watchers {
			want := strings.Repeat(fmt.Sprintf("%v %s ", zk.EventNodeDataChanged, path), 2)
			if got := strings.Join(c.takeEvents(), " ") + " "; got != want {
				t.Fatalf("events of %d bytes", len(got))
			}
		}
	})
}

// A reply that cannot fit ends its connection, which is said; others go on.
func TestP6ReplyBeyondTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRig(t, withRoom)
		c, innocent := s.open(), s.open()
		c.mustCall(wire.OpCreate, createBody("/big", big, zk.Persistent))
		var body []byte
		for range 10 {
			op := wire.MultiOp{Type: wire.OpGetData}
			op.Path = "/big"
			body = op.Append(body)
		}
		c.send(wire.OpMultiRead, wire.AppendMultiEnd(body))
		if err := c.ended(); err == nil || s.srv.stats.SlowClients.Load() != 1 {
			t.Errorf("the connection goes on: %v", err)
		}
		if !innocent.has("/big") {
			t.Error("another client")
		}
	})
}
