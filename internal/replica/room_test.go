package replica

import (
	"bytes"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/test/faultfs"
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

// A slow fsync is logged with the distribution of the fsyncs since the one before.
func TestASlowFsyncIsToldWithItsDistribution(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var slow atomic.Bool
		disk := faultfs.New(vfs.NewMem(), 0, faultfs.None, func(op faultfs.Op) {
			switch {
			case op.Kind != "sync" || !strings.Contains(op.Name, "log."):
			case slow.Load():
				time.Sleep(400 * time.Millisecond)
			default:
				time.Sleep(10 * time.Millisecond)
			}
		})
		var out bytes.Buffer
		m, _ := mustBoot(t, disk, func(o *Options) {
			o.FsyncWarnAfter = 300 * time.Millisecond
			o.Logger = slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelWarn}))
		})
		write := func() {
			op, body := createSession(30000)
			m.rep.Submit([]Request{m.request(0, op, body)})
			time.Sleep(time.Second)
			synctest.Wait()
		}
		for _, quick := range []int{9, 4} {
			slow.Store(false)
			for range quick {
				write()
			}
			slow.Store(true)
			write()
		}
		if err := m.halt(); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != 2 || !strings.Contains(lines[0], " fsyncs=10 ") || !strings.Contains(lines[1], " fsyncs=5 ") ||
			!strings.Contains(lines[1], "slow_in_all=2") || !strings.Contains(lines[1], " took=400ms ") {
			t.Fatalf("logged is\n%s", &out)
		}
		var p50, p99 time.Duration
		for _, word := range strings.Fields(lines[1]) {
			for key, to := range map[string]*time.Duration{"p50=": &p50, "p99=": &p99} {
				if text, ok := strings.CutPrefix(word, key); ok {
					*to, _ = time.ParseDuration(text)
				}
			}
		}
		if p50 < 9*time.Millisecond || p50 > 11*time.Millisecond || p99 < 370*time.Millisecond || p99 > 400*time.Millisecond {
			t.Errorf("p50 %v, p99 %v in %s", p50, p99, lines[1])
		}
	})
}
