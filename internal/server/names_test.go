package server

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/jute"
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
