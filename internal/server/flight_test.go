package server

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// P6: the requests in flight are bounded by bytes. Clients that send more are not read
// from, and keep their sessions however long that takes; another client's requests go
// on. In the end everybody gets all replies, in order, and nothing stays charged.
func TestP6BytesInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit, requests = 16 << 20, 20
		g := newGateFS(vfs.NewMem())
		s := newRig(t, func(o *rigSetup) { o.fs = g; o.cfg.Requests.MaxOutstandingBytes = limit })
		innocent := s.open()
		innocent.create("/x", "", zk.Persistent)
		var clients []*wireClient
		for range greedyClients {
			clients = append(clients, s.open())
		}
		g.set(true, nil)
		for _, c := range clients {
			var b []byte
			for i := range requests {
				b = encode(b, int32(i), wire.OpSetData, setBody("/x", big))
			}
			flood(c, b)
		}
		synctest.Wait()
		if used := int(s.srv.flight.Used()); used > limit || used < limit/2 {
			t.Errorf("%d bytes are in flight, the limit is %d", used, limit)
		}
		before := s.rep.Outstanding()
		if began := time.Now(); !innocent.has("/x") || time.Since(began) > 0 {
			t.Error("another client has to wait")
		}
		innocent.send(wire.OpSetData, setBody("/x", []byte("small")))
		synctest.Wait()
		if s.rep.Outstanding() != before+1 {
			t.Error("another client's write is not taken")
		}
		for range 30 { // sessions have ten ticks
			innocent.write(encode(nil, wire.XidPing, wire.OpPing, nil))
			time.Sleep(rigTick)
		}
		g.set(false, nil)
		wantAnswered(t, clients, requests)
		if n, used := s.sessions(), s.srv.flight.Used(); n != 1+greedyClients || used != 0 {
			t.Errorf("%d sessions are left, %d bytes stay charged", n, used)
		}
	})
}

// What is in flight of connections that have gone is released when it is applied, and
// what waited behind a sync at once.
func TestFlightOfLostConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateFS(vfs.NewMem())
		s := newRig(t, func(o *rigSetup) { o.fs = g })
		other := s.open()
		other.create("/x", "", zk.Persistent)
		c := s.open()
		g.set(true, nil)
		b := encode(nil, 0, wire.OpSetData, setBody("/x", big))
		b = encode(b, 1, wire.OpMulti, []byte("this is no multi"))
		b = encode(b, 2, wire.OpSetData, setBody("/x", []byte("small")))
		flood(c, b)
		synctest.Wait()
		if used := int(s.srv.flight.Used()); used < len(big) {
			t.Errorf("%d bytes are charged", used)
		}
		c.nc.Close()
		g.set(false, nil)
		synctest.Wait()
		if used := s.srv.flight.Used(); used != 0 {
			t.Errorf("%d bytes stay charged", used)
		}
	})
}

// The operations of multis that are in flight are bounded: they are the work that another
// client's write waits for. However many short operations a client packs into its bytes,
// all connections together have no more of them in the pipeline than the budget allows by
// opWeight, and all of them are answered.
func TestOperationsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 16 << 20
		for operations, requests := range map[int]int{2000: 8, 20_000: 2} {
			g := newGateFS(vfs.NewMem())
			s := newRig(t, func(o *rigSetup) { o.fs = g; o.cfg.Requests.MaxOutstandingBytes = limit })
			innocent := s.open()
			innocent.create("/x", "", zk.Persistent)
			body := multiOfChecks(operations)
			clients := []*wireClient{s.open(), s.open(), s.open()}
			g.set(true, nil)
			for _, c := range clients {
				var b []byte
				for i := range requests {
					b = encode(b, int32(i), wire.OpMulti, body)
				}
				flood(c, b)
			}
			synctest.Wait()
			most := max(limit/opWeight, 2*operations) + len(clients)*2*smallRequest/opWeight
			n := s.rep.Outstanding()
			if n*operations > most || n < 1 {
				t.Errorf("%d multis of %d operations are in flight, more than %d operations", n, operations, most)
			}
			innocent.send(wire.OpSetData, setBody("/x", []byte("small")))
			synctest.Wait()
			if s.rep.Outstanding() != n+1 {
				t.Error("another client's write is not taken")
			}
			g.set(false, nil)
			wantAnswered(t, clients, requests)
			if used := s.srv.flight.Used(); used != 0 {
				t.Errorf("%d stay charged", used)
			}
		}
	})
}

// Requests that are handled after their connection has broken, because they were read
// before, stay charged no longer than others: a write after a sync too.
func TestFlightOfBrokenConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateFS(vfs.NewMem())
		s := newRig(t, func(o *rigSetup) { o.fs = g })
		other := s.open()
		other.create("/x", "", zk.Persistent)
		c := s.open()
		g.set(true, nil)
		b := encode(nil, 0, wire.OpSetData, setBody("/x", []byte("first")))
		b = encode(b, 1, wire.OpMultiRead, wire.AppendMultiEnd(nil)) // waits until the write is answered
		b = encode(b, 2, wire.OpSync, jute.AppendString(nil, "/x"))
		b = encode(b, 3, wire.OpSetData, setBody("/x", []byte("last")))
		flood(c, b)
		synctest.Wait()
		s.connOf(c).kill("the client has reconnected")
		synctest.Wait()
		g.set(false, nil)
		synctest.Wait()
		if used := s.srv.flight.Used(); used != 0 {
			t.Errorf("%d bytes stay charged", used)
		}
		if n := s.rep.Outstanding(); n != 0 {
			t.Errorf("%d requests are outstanding", n)
		}
		if data, _ := other.get("/x"); data != "last" {
			t.Errorf("the data is %q: a write that was read is not done", data)
		}
	})
}

// wantAnswered reads the replies of clients to the requests 0 to requests-1 each, which
// must come in this order and be good, and waits until all is idle.
func wantAnswered(t *testing.T, clients []*wireClient, requests int) {
	t.Helper()
	var group sync.WaitGroup
	for _, c := range clients {
		group.Go(func() {
			for i := range requests {
				if r, err := c.next(); err != nil || r.Err != zk.OK || int(r.Xid) != i {
					t.Errorf("reply %d: %+v, %v", i, r.ReplyHeader, err)
					return
				}
			}
		})
	}
	group.Wait()
	synctest.Wait()
}

// Another client's write has no more than 1 MiB of large requests before it, however many
// clients send them; and each of these is admitted at some time.
func TestBytesAheadOfAWrite(t *testing.T) {
	for _, c := range []struct{ size, most int }{{1_000_000, 1}, {300_000, 3}, {100_000, 10}} {
		synctest.Test(t, func(t *testing.T) {
			const requests = 3
			g := newGateFS(vfs.NewMem())
			s := newRig(t, func(o *rigSetup) { o.fs = g })
			innocent := s.open()
			innocent.create("/x", "", zk.Persistent)
			clients := make([]*wireClient, 12)
			for i := range clients {
				clients[i] = s.open()
			}
			g.set(true, nil)
			for _, client := range clients {
				flood(client, sets(requests, c.size))
			}
			synctest.Wait()
			used, n := s.srv.flight.Used(), s.rep.Outstanding()
			if used > 4<<20 || n != c.most {
				t.Errorf("%d requests of %d bytes are in the pipeline, want %d; %d bytes are charged", n, c.size, c.most, used)
			}
			innocent.send(wire.OpSetData, setBody("/x", []byte("small")))
			synctest.Wait()
			if s.rep.Outstanding() != n+1 {
				t.Error("another client's write is not taken")
			}
			g.set(false, nil)
			wantAnswered(t, clients, requests)
			wantNoFlight(t, s)
		})
	}
}

// What has entered and what waits to enter is released when the connections break: while
// the disk stands still, and with requests that wait in the queue.
func TestHeavyRequestsOfLostConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateFS(vfs.NewMem())
		s := newRig(t, func(o *rigSetup) { o.fs = g })
		innocent := s.open()
		innocent.create("/x", "", zk.Persistent)
		lost, rest := make([]*wireClient, 4), []*wireClient{s.open()}
		for i := range lost {
			lost[i] = s.open()
		}
		g.set(true, nil)
		for _, c := range append(lost, rest...) {
			flood(c, sets(3, 1_000_000))
			synctest.Wait()
		}
		for _, c := range lost {
			c.nc.Close()
		}
		synctest.Wait()
		g.set(false, nil)
		wantAnswered(t, rest, 3)
		wantNoFlight(t, s)
	})
}

// Heavy requests enter in the order in which they have asked, and one that does not fit is
// not passed by smaller ones. Light ones do not wait.
func TestHeavyRequestsEnterInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := heavy{limit: 1 << 20}
		var mu sync.Mutex
		var entered []int
		gone := make(chan struct{})
		for i, n := range []int{600 << 10, 600 << 10, 100 << 10, 3 << 20, 200 << 10} {
			go func() {
				if h.enter(n, nil) {
					mu.Lock()
					defer mu.Unlock()
					entered = append(entered, i)
				}
			}()
			synctest.Wait()
		}
		go func() {
			if h.enter(1<<20, gone) {
				t.Error("it has entered though it had gone")
			}
		}()
		synctest.Wait()
		if h.tryEnter(heavyRequest+1) || !h.tryEnter(heavyRequest) {
			t.Error("a heavy request has passed others, or a light one has waited")
		}
		check := func(want ...int) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if slices.Sort(entered); !slices.Equal(entered, want) { // several may enter at once
				t.Errorf("%v have entered, want %v", entered, want)
			}
		}
		check(0)
		h.leave(600 << 10)
		check(0, 1, 2)
		h.leave(600 << 10)
		check(0, 1, 2)
		h.leave(100 << 10)
		check(0, 1, 2, 3) // it is larger than the limit, and alone
		close(gone)
		h.leave(3 << 20)
		check(0, 1, 2, 3, 4)
		if h.leave(200 << 10); h.used != 0 || len(h.queue) > 0 {
			t.Errorf("%d bytes stay, %d wait", h.used, len(h.queue))
		}
	})
}

// After requests of much weight the next one rests three times as long as they took, if others have written meanwhile. Lighter ones do
// not rest.
func TestHeavyRequestsRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, applied, gone := time.Now(), zk.Zxid(0), make(chan struct{})
		h := heavy{limit: 1 << 20, now: func() time.Duration { return time.Since(began) }, applied: func() zk.Zxid { return applied }}
		pass := func(n int, rests, takes time.Duration, txns zk.Zxid) {
			t.Helper()
			at := time.Now()
			if !h.tryEnter(n) && !h.enter(n, gone) {
				t.Error("it was told that its connection has ended")
			}
			if d := time.Since(at); d != rests {
				t.Errorf("it has rested for %v, want %v", d, rests)
			}
			time.Sleep(takes)
			applied += txns
			h.leave(n)
		}
		const ms = time.Millisecond
		pass(2<<20, 0, 10*ms, 1) // one transaction: its own
		pass(2<<20, 0, 10*ms, 2) // and another's
		pass(restWeight, 30*ms, 5*ms, 2)
		pass(restWeight-1, 0, ms, 2) // what is left of the last one's rest is not shortened
		pass(2<<20, 14*ms, time.Second, 2)
		time.Sleep(50 * ms)
		pass(2<<20, mostRest-50*ms, time.Second, 2)

		time.AfterFunc(mostRest/4, func() { close(gone) })
		if h.tryEnter(2<<20) || h.enter(2<<20, gone) || h.used != 0 {
			t.Errorf("after the end of its connection %d bytes stay", h.used)
		}
		gone = nil
		pass(2<<20, mostRest*3/4, 0, 1)
	})
}

// A client's long multis, and its sets of much data, rest while another client writes, and only then.
func TestHeavyRequestsRestBesideWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateFS(vfs.NewMem())
		s := newRig(t, func(o *rigSetup) { o.fs = g })
		innocent, greedy := s.open(), s.open()
		innocent.create("/x", "", zk.Persistent)
		for i, body := range [][]byte{multiOfChecks(2000), setBody("/x", make([]byte, 1_000_000))} {
			op := []wire.OpCode{wire.OpMulti, wire.OpSetData}[i]
			heavy := encode(nil, 1, op, body)
			for _, writes := range []bool{false, true} {
				g.set(true, nil)
				if writes {
					innocent.send(wire.OpSetData, setBody("/x", []byte("small")))
					synctest.Wait()
				}
				flood(greedy, slices.Concat(heavy, heavy))
				time.Sleep(10 * time.Millisecond)
				g.set(false, nil)
				began := time.Now()
				for range 2 {
					greedy.next()
				}
				want := time.Duration(0)
				if writes {
					want = 30 * time.Millisecond
					innocent.next()
				}
				if d := time.Since(began); d != want {
					t.Errorf("with another client's writes %v: the second %v has waited for %v, want %v", writes, op, d, want)
				}
				time.Sleep(time.Second)
			}
		}
		wantNoFlight(t, s)
	})
}

// multiOfChecks is the body of a multi of n operations that change nothing.
func multiOfChecks(n int) (b []byte) {
	for range n {
		m := wire.MultiOp{Type: wire.OpCheck, CreateRequest: wire.CreateRequest{Path: "/"}, Version: -1}
		b = m.Append(b)
	}
	return wire.AppendMultiEnd(b)
}

// sets is the frames of so many sets of so many bytes.
func sets(requests, size int) (b []byte) {
	for i := range requests {
		b = encode(b, int32(i), wire.OpSetData, setBody("/x", make([]byte, size)))
	}
	return b
}

// wantNoFlight checks that nothing stays charged, and that nothing heavy has remained.
func wantNoFlight(t *testing.T, s *rig) {
	t.Helper()
	synctest.Wait()
	h := &s.srv.heavy
	h.mu.Lock()
	defer h.mu.Unlock()
	if used := s.srv.flight.Used(); used != 0 || h.used != 0 || len(h.queue) != 0 {
		t.Errorf("%d bytes stay charged; of heavy requests %d, and %d wait", used, h.used, len(h.queue))
	}
}
