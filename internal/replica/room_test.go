package replica

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/internal/vfs"
)

// roomFS is a disk of 10 GiB that has as much room as a test says.
type roomFS struct {
	vfs.FS
	free *atomic.Int64
}

func (f roomFS) Room(string) (free, all int64, err error) { return f.free.Load(), 10 << 30, nil }

// A leader whose disk is nearly full hands over to a member that has room. If no disk has
// room the leadership does not go round in circles.
func TestALeaderWithoutRoomHandsOver(t *testing.T) {
	const reserve = 128 << 20
	free := map[int64]*atomic.Int64{}
	for id := int64(1); id <= 3; id++ {
		free[id] = new(atomic.Int64)
		free[id].Store(5 << 30)
	}
	inGroup(t, 3, 0, func(id int64, o *Options) { o.DiskReserve = reserve }, func(g *group) {
		g.wrap = func(id int64, disk vfs.FS) vfs.FS { return roomFS{disk, free[id]} }
		g.restart()
		m := g.leader()
		free[g.id(m)].Store(reserve - 1)
		g.until("another leads", func() bool { ms := g.in(Leader); return len(ms) == 1 && ms[0] != m })
		g.await()
		if !m.rep.DiskShort() || g.leader().rep.DiskShort() {
			t.Errorf("short of room: the former leader %v, the present one %v", m.rep.DiskShort(), g.leader().rep.DiskShort())
		}
		for _, f := range free {
			f.Store(0)
		}
		pass(10 * time.Second)
		g.await()
		epoch := g.leader().rep.Status().Epoch
		pass(30 * time.Second)
		g.await()
		if now := g.leader().rep.Status().Epoch; now != epoch {
			t.Errorf("without room on any disk, epoch %d became %d in half a minute", epoch, now)
		}
		for _, f := range free {
			f.Store(5 << 30)
		}
		pass(3 * time.Second)
		for _, m := range g.up {
			if m.rep.DiskShort() {
				t.Error("a member does not see that there is room")
			}
		}
		g.agree()
	})
}
