package server

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/internal/znode"
	"github.com/pinfold-zk/pinfold/zk"
)

// The buffer of a large reply is made between two holds of the tree's lock: the first finds out how long it will be.
func TestTheBufferOfLargeDataIsMadeWithoutTheLock(t *testing.T) {
	const size = 1_000_000
	s := newRig(t)
	c := s.open()
	r := wire.CreateRequest{Path: "/data", Data: make([]byte, size), ACL: zk.OpenACLUnsafe()}
	c.mustCall(wire.OpCreate, r.Append(nil, wire.OpCreate))
	var mu sync.Mutex
	var pieces []int
	s.srv.pieceDone = func(work int) {
		mu.Lock()
		defer mu.Unlock()
		pieces = append(pieces, work)
	}
	if r := c.mustCall(wire.OpGetData, readBody("/data", false)); len(r.body) != 4+size+wire.StatLen {
		t.Fatalf("a reply of %d bytes", len(r.body))
	}
	mu.Lock()
	defer mu.Unlock()
	if len(pieces) != 2 || pieces[0] >= znode.BytesUnits(size) || pieces[1] < znode.BytesUnits(size) {
		t.Errorf("work under the holds of the lock: %d; want little, and then a copy of %d units", pieces, znode.BytesUnits(size))
	}
}

// The buffer of a large list of children is made between two holds of the tree's lock, and no part of a list that is too
// long for one hold is copied to find that out.
func TestTheBufferOfAListIsMadeWithoutTheLock(t *testing.T) {
	s := newRig(t)
	c := s.open()
	c.withNames("/large", slices.Repeat([]int{1000}, 200)...)
	c.withNames("/long", slices.Repeat([]int{1000}, 1+longReply/1000)...)
	conn := s.connOf(c)
	var mu sync.Mutex
	var pieces, buffers []int
	s.srv.pieceDone = func(work int) {
		mu.Lock()
		defer mu.Unlock()
		pieces, buffers = append(pieces, work), append(buffers, cap(conn.mu.out.Buf))
	}
	c.mustCall(wire.OpGetChildren2, readBody("/large", false))
	mu.Lock()
	if copied := znode.BytesUnits(200_000); len(pieces) != 2 || pieces[0] >= copied || pieces[1] < copied || buffers[0] > largeReply {
		t.Errorf("work under the holds of the lock: %d, want little, and then a copy of %d units; buffers of %d bytes", pieces, copied, buffers)
	}
	pieces, buffers = nil, nil
	mu.Unlock()
	c.mustCall(wire.OpGetChildren, readBody("/long", false))
	mu.Lock()
	defer mu.Unlock()
	if len(pieces) == 0 || pieces[0] >= znode.BytesUnits(longReply) || slices.Max(buffers) > largeReply {
		t.Errorf("work under the holds of the lock: %d, buffers of %d bytes; want little in the first hold", pieces, buffers)
	}
}

// A large reply waits for its turn to make its buffer without any lock, and small ones do not wait for it.
func TestLargeRepliesMakeTheirBuffersInTurns(t *testing.T) {
	const size = 1_000_000
	synctest.Test(t, func(t *testing.T) {
		s := newRig(t)
		c, other := s.open(), s.open()
		r := wire.CreateRequest{Path: "/data", Data: make([]byte, size), ACL: zk.OpenACLUnsafe()}
		c.mustCall(wire.OpCreate, r.Append(nil, wire.OpCreate))
		for range cap(s.srv.making) {
			s.srv.making <- struct{}{} // others make theirs
		}
		flood(c, encode(nil, 7, wire.OpGetData, readBody("/data", false)))
		synctest.Wait()
		if n := s.connOf(c).held(); n > largeReply {
			t.Errorf("a buffer of %d bytes is made out of turn", n)
		}
		began := time.Now()
		if other.create("/other", "", zk.Persistent); !other.has("/data") || time.Since(began) > 0 {
			t.Error("another client has to wait")
		}
		for range cap(s.srv.making) {
			<-s.srv.making
		}
		if r, err := c.next(); err != nil || r.Xid != 7 || len(r.body) != 4+size+wire.StatLen {
			t.Errorf("reply %d with %d bytes, %v", r.Xid, len(r.body), err)
		}
	})
}

// The applier makes the buffer of a reply that has become large at once: it holds the tree's lock.
func TestTheApplierMakesItsBufferOutOfTurn(t *testing.T) {
	const size = 1_000_000
	synctest.Test(t, func(t *testing.T) {
		g := newGateFS(vfs.NewMem())
		s := newRig(t, func(o *rigSetup) { o.fs = g })
		c, other := s.open(), s.open()
		c.create("/data", "", zk.Persistent)
		for range cap(s.srv.making) {
			s.srv.making <- struct{}{} // others make theirs
		}
		g.set(true, nil)
		grow := wire.SetDataRequest{Path: "/data", Data: make([]byte, size), Version: -1}
		flood(other, encode(nil, 1, wire.OpSetData, grow.Append(nil)))
		synctest.Wait()
		flood(c, encode(encode(nil, 2, wire.OpCreate, createBody("/y", nil, zk.Persistent)), 3, wire.OpGetData, readBody("/data", false)))
		synctest.Wait()
		g.set(false, nil)
		for xid := int32(2); xid <= 3; xid++ {
			if r, err := c.next(); err != nil || r.Xid != xid || xid == 3 && len(r.body) != 4+size+wire.StatLen {
				t.Errorf("reply %d with %d bytes, %v", r.Xid, len(r.body), err)
			}
		}
	})
}

// A list in a multiRead that is copied in pieces shows one state, however often the children change.
func TestAListInAMultiReadShowsOneState(t *testing.T) {
	const many, requests = 3 * znode.PieceUnits, 20
	s := newRig(t)
	addr := s.listen()
	c, other := s.openWith(dial(t, addr)), s.openWith(dial(t, addr))
	c.create("/tree", "", zk.Persistent)
	createAll(c, many, zk.Persistent, func(i int) string { return fmt.Sprintf("/tree/%d", i) })
	c.create("/tree/even", "", zk.Persistent)
	stop := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		now, next := "/tree/even", "/tree/odd"
		for {
			select {
			case <-stop:
				return
			default:
			}
			var b []byte
			gone := wire.MultiOp{Type: wire.OpDelete}
			gone.Path, gone.Version = now, -1
			b = gone.Append(b)
			made := wire.MultiOp{Type: wire.OpCreate, CreateRequest: wire.CreateRequest{Path: next, ACL: zk.OpenACLUnsafe()}}
			b = made.Append(b)
			if r, err := other.do(wire.OpMulti, wire.AppendMultiEnd(b)); err != nil || r.Err != zk.OK {
				t.Errorf("%+v, %v", r.ReplyHeader, err)
				return
			}
			now, next = next, now
		}
	})
	for range requests {
		r, err := c.do(wire.OpMultiRead, multiListOf("/tree", 1))
		if err != nil || r.Err != zk.OK {
			t.Fatalf("%+v, %v", r.ReplyHeader, err)
		}
		d, h := jute.NewDecoder(r.body), wire.MultiHeader{}
		h.Decode(&d)
		names := d.Strings()
		slices.Sort(names)
		if len(names) != many+1 || len(slices.Compact(names)) != many+1 || slices.Contains(names, "even") == slices.Contains(names, "odd") {
			t.Errorf("%d names, even %v, odd %v", len(names), slices.Contains(names, "even"), slices.Contains(names, "odd"))
		}
	}
	close(stop)
	group.Wait()
}
