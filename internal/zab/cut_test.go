package zab

import (
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/zk"
)

// A server whose log was cut off by the leader of a later epoch, and that stops before
// it has written that epoch, comes back with the current epoch of a leader that was
// never established, and without all that this one began with (docs/zab.md, fact 2).
// It may lead: what was committed is there.
func TestACrashBetweenACutAndItsEpoch(t *testing.T) {
	led := map[int64]int{}
	for seed := uint64(1); seed <= 60; seed++ {
		x := newChaos(seed)
		x.cluster = newCluster(3, 0, Config{
			Tick: 100 * ms, InitLimit: 20, SyncLimit: 10, Window: 4, SizeFactor: 0.33,
			FinalizeWait: 10 * ms, MinNotify: 10 * ms, MaxNotify: 100 * ms,
		})
		x.slowDisk, x.healing, x.faults, x.proposals, x.syncs = make([]int, 4), true, 0, 0, 0
		x.showTrace()
		// 1 led epoch 2, which no other server has: it began with <1,3>. <1,2> is committed.
		for i, d := range []struct{ accepted, current, n uint32 }{{2, 2, 3}, {1, 1, 2}, {2, 1, 2}} {
			s := x.servers[i+1]
			s.disk.accepted, s.disk.current = d.accepted, d.current
			for n := range d.n {
				z := zk.MakeZxid(1, n+1)
				s.disk.history = append(s.disk.history, Entry{z, binary.BigEndian.AppendUint64(nil, uint64(z))})
				x.check.proposed[z] = s.disk.history[n].Data
			}
		}
		x.check.committed = slices.Clone(x.servers[2].disk.history)
		x.check.initial[2] = zk.MakeZxid(1, 3)
		a, b, c := x.servers[1], x.servers[2], x.servers[3]
		b.start()
		c.start()
		x.until(t, seed, "3 gathers epoch 3", time.Second, func() bool {
			return c.core.role == Leading && c.core.leader.stage >= gatherAcks || b.core.role == Leading && b.core.leader.stage >= gatherAcks
		}, false)
		if seed%2 == 0 {
			x.slowDisk[b.id], x.slowDisk[c.id] = stalled, stalled // epoch 3 is no server's current one
		}
		a.start()
		x.slowDisk[a.id] = 5
		x.until(t, seed, "1 has cut its log, and not written the epoch", 5*time.Second, func() bool {
			return a.disk.last() == zk.MakeZxid(1, 2)
		}, false)
		a.crash(0, 0)
		if a.disk.current != 2 {
			continue // both were written at once
		}
		c.crash(0, 0)
		a.start()
		clear(x.slowDisk)
		if seed%2 == 0 {
			b.crash(0, 0)
			b.start()
		}
		x.until(t, seed, "1 and 2 serve", time.Minute, func() bool { return a.serving && b.serving }, false)
		led[x.leader().id]++
		c.start()
		x.until(t, seed, "all serve", time.Minute, x.whole, false)
	}
	t.Logf("1 led %d times, 2 led %d times", led[1], led[2])
	if led[1] == 0 || led[2] == 0 {
		t.Error("not both of them have led")
	}
}
