package server

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/replica"
	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// names decodes the reply to a getChildren.
func names(t *testing.T, r reply) (list []string) {
	t.Helper()
	d := jute.NewDecoder(r.body)
	for range d.Int() {
		list = append(list, d.String())
	}
	if d.Err() != nil {
		t.Fatal(d.Err())
	}
	slices.Sort(list)
	return list
}

// withNames makes children of path whose names have the given lengths.
func (c *wireClient) withNames(path string, lengths ...int) (list []string) {
	c.create(path, "", zk.Persistent)
	for i, n := range lengths {
		name := fmt.Sprintf("%06d", i)
		name += strings.Repeat("n", n-len(name))
		c.create(path+"/"+name, "", zk.Persistent)
		list = append(list, name)
	}
	return list
}

// A list that is too long for one lock is whole, however the names lie in its pieces,
// comes in its order among other replies, and leaves its watch.
func TestLongList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRig(t)
		c := s.open()
		lengths := []int{longPiece - 4, 900 << 10, 6, longPiece - 8, longPiece - 13, 7, 100 << 10, 3 * longPiece}
		for range 500 {
			lengths = append(lengths, 1000)
		}
		for range longCount { // more children than are counted at once
			lengths = append(lengths, 7)
		}
		want := c.withNames("/long", lengths...)
		for i, op := range []wire.OpCode{wire.OpGetChildren, wire.OpGetChildren2} {
			b := encode(nil, 1, wire.OpExists, readBody("/long", false))
			b = encode(b, 2, op, readBody("/long", true))
			b = encode(b, 3, op, readBody("/long", false))
			flood(c, encode(b, 4, wire.OpSetData, setBody("/long", nil)))
			for xid := int32(1); xid <= 4; xid++ {
				r, err := c.nextReply()
				if err != nil || r.Xid != xid || r.Err != zk.OK {
					t.Fatalf("%v: reply %d: %+v, %v", op, xid, r.ReplyHeader, err)
				}
				if xid != 2 && xid != 3 {
					continue
				}
				if got := names(t, r); !slices.Equal(got, want) {
					t.Errorf("%v: %d names, want %d", op, len(got), len(want))
				}
				if stat := len(r.body) - 4 - listBytes(want); (stat > 0) != (op == wire.OpGetChildren2) {
					t.Errorf("%v: %d bytes behind the names", op, stat)
				}
			}
			name := fmt.Sprintf("z%d", i)
			s.open().create("/long/"+name, "", zk.Persistent)
			want = append(want, name)
			slices.Sort(want)
			if r, err := c.next(); err != nil || r.Xid != wire.XidNotification {
				t.Errorf("%v: no event: %+v, %v", op, r.ReplyHeader, err)
			}
		}
		synctest.Wait()
		if used := s.srv.budget.Used(); used != 0 {
			t.Errorf("%d bytes stay charged", used)
		}
	})
}

func listBytes(list []string) (n int) {
	for _, name := range list {
		n += 4 + len(name)
	}
	return n
}

// The work at a list ends when a child has come or gone, also if as many are there as before.
func TestLongListIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRig(t)
		c, other := s.open(), s.open()
		c.withNames("/long", longPiece, longPiece)
		for what, change := range map[string]func(){
			"":           func() {},
			"a data set": func() { other.mustCall(wire.OpSetData, setBody("/long", nil)) },
			"a creation": func() { other.create("/long/z", "", zk.Persistent) },
			"a creation and a deletion": func() {
				other.create("/long/a", "", zk.Persistent)
				other.mustCall(wire.OpDelete, deleteBody("/long/a"))
			},
		} {
			l := listing{c: s.connOf(c), path: wire.PathWatch{Path: "/long"}}
			if !l.walk(l.count) {
				t.Fatal("the names are not counted")
			}
			change()
			goesOn := l.walk(func(replica.View) (done bool) { return true })
			if want := what == "" || what == "a data set"; goesOn != want {
				t.Errorf("after %q the work goes on: %v, want %v", what, goesOn, want)
			}
		}
	})
}

// A list that changes while it is built is one that was: it has all children of one time.
// Children are created and deleted in pairs here, in one transaction.
func TestLongListIsConsistent(t *testing.T) {
	s := newRig(t)
	addr := s.listen()
	c, other := s.openWith(dial(t, addr)), s.openWith(dial(t, addr))
	lengths := make([]int, 700)
	for i := range lengths {
		lengths[i] = 1000
	}
	fixed := len(c.withNames("/long", lengths...))
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			var made, gone []byte
			for _, half := range []string{"a", "b"} {
				op := wire.MultiOp{Type: wire.OpCreate}
				op.CreateRequest = wire.CreateRequest{Path: "/long/" + half, ACL: zk.OpenACLUnsafe()}
				made = op.Append(made)
				op = wire.MultiOp{Type: wire.OpDelete}
				op.Path, op.Version = "/long/"+half, -1
				gone = op.Append(gone)
			}
			for _, body := range [][]byte{made, gone} {
				if r, err := other.do(wire.OpMulti, wire.AppendMultiEnd(body)); err != nil || r.Err != zk.OK {
					t.Errorf("multi: %+v, %v", r.ReplyHeader, err)
					return
				}
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	}()
	for range 50 {
		r := c.mustCall(wire.OpGetChildren, readBody("/long", false))
		got := names(t, r)
		if a, b := slices.Contains(got, "a"), slices.Contains(got, "b"); a != b || len(got) != fixed && len(got) != fixed+2 {
			t.Fatalf("%d names, a %v, b %v", len(got), a, b)
		}
	}
	close(stop)
	<-stopped
}

// A long list that is asked for behind the session's own writes is not built by the
// applier, and has what these have made.
func TestLongListBehindWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateFS(vfs.NewMem())
		s := newRig(t, func(o *rigSetup) { o.fs = g })
		c, other := s.open(), s.open()
		want := c.withNames("/long", 300<<10, 300<<10)
		g.set(true, nil)
		b := encode(nil, 1, wire.OpCreate, createBody("/long/z", nil, zk.Persistent))
		b = encode(b, 2, wire.OpGetChildren, readBody("/long", false))
		b = encode(b, 3, wire.OpCreate, createBody("/long/zz", nil, zk.Persistent))
		flood(c, b)
		synctest.Wait()
		if n := s.connOf(c).mu.pending.Len(); n != 1 {
			t.Errorf("%d requests wait for the applier", n)
		}
		if began := time.Now(); !other.has("/long") || time.Since(began) > 0 {
			t.Error("another client has to wait")
		}
		g.set(false, nil)
		for xid := int32(1); xid <= 3; xid++ {
			r, err := c.next()
			if err != nil || r.Xid != xid || r.Err != zk.OK {
				t.Fatalf("reply %d: %+v, %v", xid, r.ReplyHeader, err)
			}
			if xid == 2 && !slices.Equal(names(t, r), append(want, "z")) {
				t.Errorf("%d names", len(names(t, r)))
			}
		}
	})
}

// A list that has become long while a read waited for the session's writes ends the
// connection if it is very long: the applier does not build it.
func TestListGrowsBehindWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateFS(vfs.NewMem())
		s := newRig(t, func(o *rigSetup) { o.fs, o.cfg.Requests.MaxOutstandingBytes = g, 0 })
		c, other := s.open(), s.open()
		other.create("/x", "", zk.Persistent)
		conn := s.connOf(c)
		g.set(true, nil)
		var b []byte
		for i := range 20 {
			name := fmt.Sprintf("/x/%d%s", i, strings.Repeat("n", 900<<10))
			b = encode(b, int32(i), wire.OpCreate, createBody(name, nil, zk.Persistent))
		}
		flood(other, b)
		synctest.Wait()
		flood(c, encode(encode(nil, 0, wire.OpCreate, createBody("/y", nil, zk.Persistent)), 1, wire.OpGetChildren, readBody("/x", false)))
		synctest.Wait()
		g.set(false, nil)
		synctest.Wait()
		if n := conn.held(); n > hardOutBytes || s.srv.stats.SlowClients.Load() != 1 {
			t.Errorf("the server holds %d bytes", n)
		}
	})
}

// A long reply that waits to be built is given up when its connection ends.
func TestLongListOfALostConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newRig(t)
		c, other := s.open(), s.open()
		c.withNames("/long", 300<<10, 300<<10)
		for range cap(s.srv.listings) {
			s.srv.listings <- struct{}{} // others build theirs
		}
		var b []byte
		for i := range 100 {
			b = encode(b, int32(i), wire.OpGetChildren, readBody("/long", false))
		}
		flood(c, b)
		synctest.Wait()
		if began := time.Now(); !other.has("/long") || time.Since(began) > 0 {
			t.Error("another client has to wait")
		}
		s.connOf(c).kill("test")
		synctest.Wait()
		if n, used := s.conns(), s.srv.budget.Used(); n != 1 || used != 0 {
			t.Errorf("%d connections are left, %d bytes stay charged", n, used)
		}
	})
}
