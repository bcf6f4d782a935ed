package server

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/watch"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/internal/znode"
	"github.com/pinfold-zk/pinfold/zk"
)

// workSeen counts the work that was done under the tree's lock.
type workSeen struct{ pieces, most, all atomic.Int64 }

// watchWork has a server report to w from now on.
func (w *workSeen) watch(s *rig) {
	s.srv.pieceDone = func(work int) {
		w.pieces.Add(1)
		w.all.Add(int64(work))
		for most := w.most.Load(); int64(work) > most && !w.most.CompareAndSwap(most, int64(work)); most = w.most.Load() {
		}
	}
}

// inPieces demands that the work was much, and bounded under each hold of the lock.
func (w *workSeen) inPieces(t *testing.T) {
	t.Helper()
	if most := w.most.Load(); most > znode.PieceUnits+znode.PieceUnits/4 {
		t.Errorf("%d units of work under one hold of the lock, want %d at most", most, znode.PieceUnits)
	}
	if all := w.all.Load(); all < 2*znode.PieceUnits {
		t.Errorf("only %d units of work were done", all)
	}
}

// createAll creates znodes, a thousand in a multi.
func createAll(c *wireClient, n int, mode zk.CreateMode, path func(i int) string) {
	for i := 0; i < n; {
		var b []byte
		for ; i < n && len(b) < 500<<10; i++ {
			op := wire.MultiOp{Type: wire.OpCreate, CreateRequest: wire.CreateRequest{
				Path: path(i), ACL: zk.OpenACLUnsafe(), Flags: mode,
			}}
			b = op.Append(b)
		}
		c.mustCall(wire.OpMulti, wire.AppendMultiEnd(b))
	}
}

// multiReadOf is a multiRead of n times the data of path.
func multiReadOf(path string, n int) (b []byte) {
	op := wire.MultiOp{Type: wire.OpGetData}
	op.Path = path
	for range n {
		b = op.Append(b)
	}
	return wire.AppendMultiEnd(b)
}

// multiListOf is a multiRead of n times the children of path.
func multiListOf(path string, n int) (b []byte) {
	op := wire.MultiOp{Type: wire.OpGetChildren}
	op.Path = path
	for range n {
		b = op.Append(b)
	}
	return wire.AppendMultiEnd(b)
}

// longACL has n entries of scheme ip, and one for everybody who reads.
func longACL(n int) []zk.ACL {
	acl := make([]zk.ACL, n)
	for i := range acl {
		acl[i] = zk.ACL{Perms: zk.PermAll, ID: zk.ID{Scheme: "ip", ID: fmt.Sprintf("11.%d.%d.%d/%d", i>>16, i>>8&255, i&255, 24+i%9)}}
	}
	return append(acl, zk.ACL{Perms: zk.PermRead, ID: zk.ID{Scheme: "ip", ID: "10.0.0.0/8"}})
}

func prefixBody(prefix string) []byte { return jute.AppendString(nil, prefix) }

// However expensive a request is, the work under one hold of the tree's lock is bounded.
func TestReadsAreCutByWork(t *testing.T) {
	const many = 20000
	znodeAt := func(i int) string { return fmt.Sprintf("/tree/%d", i) }
	for _, tt := range []struct {
		name    string
		prepare func(c *wireClient)
		op      wire.OpCode
		body    []byte
		times   int
		right   func(r reply) bool
	}{
		{"multiRead of a long ACL", func(c *wireClient) {
			r := wire.CreateRequest{Path: "/acl", Data: []byte("d"), ACL: longACL(20000)}
			c.mustCall(wire.OpCreate, r.Append(nil, wire.OpCreate))
		}, wire.OpMultiRead, multiReadOf("/acl", 3*znode.PieceUnits), 1, func(r reply) bool {
			return strings.Count(string(r.body), "\x00\x00\x00\x01d") == 3*znode.PieceUnits
		}},
		{"multiRead of much data", func(c *wireClient) {
			r := wire.CreateRequest{Path: "/data", Data: make([]byte, 500_000), ACL: zk.OpenACLUnsafe()}
			c.mustCall(wire.OpCreate, r.Append(nil, wire.OpCreate))
		}, wire.OpMultiRead, multiReadOf("/data", 26), 1, func(r reply) bool { return len(r.body) > 26*500_000 }},
		{"multiRead of long names", func(c *wireClient) { c.create("/tree/"+strings.Repeat("n", 500_000), "", zk.Persistent) },
			wire.OpMultiRead, multiListOf("/tree", 26), 1, func(r reply) bool { return len(r.body) > 26*500_000 }},
		{"multiRead of a long list", func(c *wireClient) { createAll(c, many, zk.Persistent, znodeAt) }, wire.OpMultiRead, multiListOf("/tree", 2), 1,
			func(r reply) bool {
				d, lists := jute.NewDecoder(r.body), 0
				for h := (wire.MultiHeader{}); ; lists++ {
					if h.Decode(&d); h.Done || len(d.Strings()) != many {
						return h.Done && lists == 2 && d.Err() == nil
					}
				}
			}},
		{"getAllChildrenNumber", func(c *wireClient) { createAll(c, many, zk.Persistent, znodeAt) },
			wire.OpGetAllChildrenNumber, jute.AppendString(nil, "/tree"), 1, func(r reply) bool {
				d := jute.NewDecoder(r.body)
				return d.Int() == many
			}},
		{"getEphemerals, none", func(c *wireClient) { createAll(c, many, zk.Ephemeral, znodeAt) },
			wire.OpGetEphemerals, prefixBody("/nothing"), 1, func(r reply) bool {
				d := jute.NewDecoder(r.body)
				return len(d.Strings()) == 0
			}},
		{"getEphemerals, all", func(c *wireClient) { createAll(c, many, zk.Ephemeral, znodeAt) },
			wire.OpGetEphemerals, prefixBody("/tree"), 1, func(r reply) bool {
				d := jute.NewDecoder(r.body)
				list := d.Strings()
				return len(list) == many && list[1] == "/tree/1"
			}},
		{"setWatches", func(c *wireClient) {}, wire.OpSetWatches, func() []byte {
			r := wire.SetWatches{Data: make([]string, 3*znode.PieceUnits), Exist: []string{}, Child: []string{}}
			for i := range r.Data {
				r.Data[i] = "/tree"
			}
			return r.Append(nil, wire.OpSetWatches)
		}(), 1, func(reply) bool { return true }},
		{"many watches", func(c *wireClient) {}, wire.OpExists, readBody("/tree", true), 400, func(reply) bool { return true }},
		{"many getChildren", func(c *wireClient) { createAll(c, 1000, zk.Persistent, znodeAt) },
			wire.OpGetChildren, readBody("/tree", false), 100, func(r reply) bool {
				d := jute.NewDecoder(r.body)
				return len(d.Strings()) == 1000
			}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var seen workSeen
			s := newRig(t)
			seen.watch(s)
			c := s.open()
			c.create("/tree", "", zk.Persistent)
			tt.prepare(c)
			var b []byte
			for i := range tt.times {
				b = encode(b, int32(i), tt.op, tt.body)
			}
			flood(c, b)
			for range tt.times {
				if r, err := c.nextReply(); err != nil || r.Err != zk.OK || !tt.right(r) {
					t.Fatalf("%+v of %d bytes, %v", r.ReplyHeader, len(r.body), err)
				}
			}
			seen.inPieces(t)
		})
	}
}

// An expensive read behind a write of its own session shows that write, and not the next
// one; replies keep their order, and the applier does not do the work.
func TestSlowReadBehindWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen workSeen
		s := newRig(t)
		seen.watch(s)
		c := s.open()
		c.create("/x", "0", zk.Persistent)
		const rounds, reads = 20, znode.PieceUnits
		var b []byte
		for i := range rounds {
			b = encode(b, int32(3*i), wire.OpSetData, setBody("/x", []byte{'a' + byte(i)}))
			b = encode(b, int32(3*i+1), wire.OpMultiRead, multiReadOf("/x", reads))
			b = encode(b, int32(3*i+2), wire.OpGetData, readBody("/x", false))
		}
		flood(c, b)
		for i := range 3 * rounds {
			r, err := c.nextReply()
			if err != nil || r.Err != zk.OK || r.Xid != int32(i) {
				t.Fatalf("reply %d: %+v, %v", i, r.ReplyHeader, err)
			}
			want := "\x00\x00\x00\x01" + string(rune('a'+i/3))
			if n := strings.Count(string(r.body), want); i%3 == 1 && n != reads || i%3 == 2 && n != 1 {
				t.Fatalf("reply %d shows %q %d times", i, want, n)
			}
		}
		seen.inPieces(t)
	})
}

// Events that come while an expensive read pauses reach the client before the reply, which
// stays whole (P4).
func TestP4EventsWhileAReadPauses(t *testing.T) {
	s := newRig(t)
	addr := s.listen()
	c, other := s.openWith(dial(t, addr)), s.openWith(dial(t, addr))
	c.create("/p", "0", zk.Persistent)
	c.mustCall(wire.OpAddWatch, addWatchBody("/p", zk.AddWatchPersistent))
	const requests, reads, writes = 20, 4 * znode.PieceUnits, 300
	var group sync.WaitGroup
	group.Go(func() {
		for i := range requests {
			if c.write(encode(nil, int32(i), wire.OpMultiRead, multiReadOf("/p", reads))) != nil {
				return
			}
		}
	})
	group.Go(func() {
		for i := range writes {
			if r, err := other.do(wire.OpSetData, setBody("/p", []byte(fmt.Sprint(i)))); err != nil || r.Err != zk.OK {
				t.Errorf("write %d: %+v, %v", i, r.ReplyHeader, err)
			}
		}
	})
	shown := zk.Zxid(0)
	for replies, events := 0, 0; replies < requests || events < writes; {
		r, err := c.next()
		if err != nil {
			t.Fatal(err)
		}
		if r.Xid == wire.XidNotification {
			if events++; r.Zxid <= shown {
				t.Fatalf("an event of %v behind a reply of %v", r.Zxid, shown)
			}
			continue
		}
		if shown = r.Zxid; r.Err != zk.OK || int(r.Xid) != replies {
			t.Fatalf("reply %d: %+v", replies, r.ReplyHeader)
		}
		d, n := jute.NewDecoder(r.body), 0
		for h := (wire.MultiHeader{}); ; n++ {
			if h.Decode(&d); h.Done || d.Err() != nil {
				break
			}
			d.Buffer()
			wire.DecodeStat(&d)
		}
		if n != reads || d.Err() != nil {
			t.Fatalf("%d results, %v", n, d.Err())
		}
		replies++
	}
	group.Wait()
}

// A connection that ends while its read pauses leaves nothing behind.
func TestKilledWhileAReadPauses(t *testing.T) {
	s := newRig(t)
	c := s.open()
	c.create("/x", "0", zk.Persistent)
	conn := s.connOf(c)
	var once sync.Once
	paused := make(chan struct{})
	s.srv.pieceDone = func(work int) {
		if work >= znode.PieceUnits {
			once.Do(func() { close(paused) })
		}
	}
	b := encode(nil, 1, wire.OpMultiRead, multiReadOf("/x", 8*znode.PieceUnits))
	flood(c, append(encode(nil, 0, wire.OpSetData, setBody("/x", nil)), b...))
	<-paused
	conn.kill("the test says so")
	for c.ended() == nil {
	}
	s.stop()
	conn.mu.Lock()
	defer conn.mu.Unlock()
	if conn.mu.apart || conn.mu.aside != nil || len(conn.mu.out.Buf) > 0 {
		t.Errorf("apart %v, aside %d, output %d", conn.mu.apart, len(conn.mu.aside), len(conn.mu.out.Buf))
	}
}

// The many watches of a connection that ends are removed in pieces, and the next connection
// with its number gets no events of them.
func TestWatchesEndInPieces(t *testing.T) {
	const many = 3*dropPiece + 1
	synctest.Test(t, func(t *testing.T) {
		s := newRig(t)
		c := s.open()
		for i := range many {
			if r, err := c.do(wire.OpExists, readBody(fmt.Sprintf("/%d", i), true)); err != nil || r.Err != zk.ErrNoNode {
				t.Fatalf("%+v, %v", r.ReplyHeader, err)
			}
		}
		conn := s.connOf(c)
		var seen workSeen
		seen.watch(s)
		conn.kill("the test says so")
		synctest.Wait()
		seen.inPieces(t)
		if all := seen.all.Load(); all != 8*many {
			t.Errorf("%d units of work, want %d", all, 8*many)
		}
		s.srv.replica.Watches(func(w *watch.Tables) {
			if w.Len() > 0 {
				t.Errorf("%d watches are left", w.Len())
			}
		})
		next := s.open()
		if id := s.connOf(next).id; id != conn.id {
			t.Fatalf("the next connection has number %d, want %d", id, conn.id)
		}
		next.create("/0", "", zk.Persistent)
		next.create(fmt.Sprintf("/%d", many-1), "", zk.Persistent)
	})
}

// A connection that never had a session ends without a hold of the tree's lock: ten thousand may end at once, and each holder
// would wait for a processor.
func TestAConnectionWithoutASessionEndsWithoutTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRig(t)
		var seen workSeen
		seen.watch(s)
		nc := s.pipe()
		synctest.Wait()
		if n := s.conns(); n != 1 {
			t.Fatalf("%d connections", n)
		}
		if err := nc.Close(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if n, pieces := s.conns(), seen.pieces.Load(); n != 0 || pieces != 0 {
			t.Errorf("%d connections are left, the lock was held %d times", n, pieces)
		}
	})
}
