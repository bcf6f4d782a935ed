package server

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// roomFS is a disk of 10 GiB that has as much room as a test says.
type roomFS struct {
	vfs.FS
	free atomic.Int64
}

func (f *roomFS) Room(string) (free, all int64, err error) { return f.free.Load(), 10 << 30, nil }

// set changes the room, and waits until the server has looked.
func (f *roomFS) set(free int64) {
	f.free.Store(free)
	time.Sleep(2 * rigTick)
	synctest.Wait()
}

// A server whose disk is nearly full refuses writes. Reads, syncs and pings go on, and
// sessions begin, last and end. With room it takes writes again.
func TestADiskThatIsNearlyFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &roomFS{FS: vfs.NewMem()}
		disk.free.Store(5 << 30)
		s := newRig(t, func(o *rigSetup) { o.fs = disk })
		c := s.open()
		ask := func(op wire.OpCode, body []byte, want zk.Code) {
			t.Helper()
			c.send(op, body)
			if r, err := c.next(); err != nil || r.Err != want {
				t.Fatalf("%v is answered %v, %v, want %v", op, r.Err, err, want)
			}
		}
		ask(wire.OpCreate, createBody("/a", nil, zk.Persistent), zk.OK)
		disk.set(100 << 20)
		if !s.rep.DiskShort() {
			t.Fatal("the disk is nearly full, and the server does not know")
		}
		ask(wire.OpCreate, createBody("/b", nil, zk.Persistent), zk.ErrNotReadOnly)
		ask(wire.OpDelete, deleteBody("/a"), zk.ErrNotReadOnly)
		ask(wire.OpGetData, readBody("/a", false), zk.OK)
		ask(wire.OpGetData, readBody("/b", false), zk.ErrNoNode)
		last := s.rep.LastApplied()
		other := s.open() // a session begins
		other.send(wire.OpCloseSession, nil)
		if r, err := other.next(); err != nil || r.Err != zk.OK {
			t.Fatalf("the end of a session: %v, %v", r.Err, err)
		}
		if got := s.rep.LastApplied(); got != last+2 {
			t.Errorf("a session that began and ended made %d transactions", got-last)
		}
		disk.set(150 << 20) // more than the reserve, but not a quarter more
		ask(wire.OpCreate, createBody("/b", nil, zk.Persistent), zk.ErrNotReadOnly)
		disk.set(200 << 20)
		ask(wire.OpCreate, createBody("/b", nil, zk.Persistent), zk.OK)
	})
}

// A write that is refused for want of room is answered behind those that are under way.
func TestP1RefusedWithoutRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGateFS(vfs.NewMem())
		disk := &roomFS{FS: g}
		disk.free.Store(5 << 30)
		s := newRig(t, func(o *rigSetup) { o.fs = disk })
		c := s.open()
		g.set(true, nil)
		c.send(wire.OpCreate, createBody("/a", nil, zk.Persistent))
		disk.set(0)
		c.send(wire.OpCreate, createBody("/b", nil, zk.Persistent))
		synctest.Wait()
		g.set(false, nil)
		for _, want := range []zk.Code{zk.OK, zk.ErrNotReadOnly} {
			if r, err := c.next(); err != nil || r.Err != want {
				t.Fatalf("reply %+v, %v, want %v", r.ReplyHeader, err, want)
			}
		}
	})
}
