package hostile

import (
	"context"
	"io"
	"math"
	"net"
	"sync"
	"time"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/zab"
	"github.com/pinfold-zk/pinfold/internal/zab/election"
	"github.com/pinfold-zk/pinfold/test/ensemble/client"
	"github.com/pinfold-zk/pinfold/test/ensemble/cluster"
	"github.com/pinfold-zk/pinfold/zk"
)

// lastEpoch is the last but one that zxids have room for.
const lastEpoch = 0x7FFFFFFE

// forTime repeats f, with a pause, for a while.
func (x *scene) forTime(d, pause time.Duration, f func(i int)) {
	end := time.Now().Add(max(3*time.Second, time.Duration(float64(d)*x.scale)))
	for i := 0; x.lasts() && time.Now().Before(end); i++ {
		f(i)
		x.wait(pause)
	}
}

// lateEpochs claims, with the ids of live servers, to have accepted the last epoch.
func lateEpochs(x *scene) {
	x.forTime(20*time.Second, 10*time.Millisecond, func(i int) {
		m := x.e.Members[i%len(x.e.Members)]
		c := x.dial(m.Quorum)
		packet(c, info(zab.FollowerInfo, int64(1+i/3%3), lastEpoch))
		if i > 100 {
			x.closeOldest()
		}
	})
}

// closeOldest closes a connection that was opened long ago.
func (x *scene) closeOldest() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.conns) > 0 {
		_ = x.conns[0].Close() // the server may have closed it
		x.conns = x.conns[1:]
	}
}

// restartAll kills all members and demands that they serve again, in an epoch that is
// not far from those before.
func restartAll(x *scene) {
	for _, m := range x.e.Members {
		m.Kill()
	}
	ctx, cancel := context.WithTimeout(x.t.Context(), patience/3)
	defer cancel()
	if err := x.e.Start(ctx); err != nil {
		x.fault("after a restart of all: %v", err)
		return
	}
	l, err := x.e.WaitLeader(ctx, func(*cluster.Member) bool { return true })
	if err != nil {
		x.fault("after a restart of all: %v", err)
		return
	}
	s, err := l.Status()
	if err != nil || s.Zxid.Epoch() > 1000 {
		x.fault("after a restart of all the zxid is %v, %v", s.Zxid, err)
	}
	x.note("after a restart epoch %d", s.Zxid.Epoch())
}

// liveIDs connects to the leader with the ids of its followers, says who it is, and goes
// through discovery every other time.
func liveIDs(x *scene) {
	x.forTime(20*time.Second, 50*time.Millisecond, func(i int) {
		id := int64(x.follower.ID)
		if i%3 == 2 {
			id = int64(6 - x.follower.ID - x.leader.ID) // the other follower
		}
		c := x.dial(x.leader.Quorum)
		if !packet(c, info(zab.FollowerInfo, id, 0)) {
			return
		}
		if i%2 == 0 && answer(c).Type == zab.LeaderInfo {
			packet(c, zab.Packet{Type: zab.AckEpoch, Data: jute.AppendInt(nil, 0)})
		}
		if i > 100 {
			x.closeOldest()
		}
	})
}

// lateRounds sends votes of a round that is far away while the ensemble elects.
func lateRounds(x *scene) {
	x.leader.Kill()
	var conns []net.Conn
	x.forTime(5*time.Second, 20*time.Millisecond, func(i int) {
		if i%20 == 0 {
			for _, m := range x.e.Members {
				conns = append(conns, x.electionConn(m.Election, 3), x.electionConn(m.Election, 77))
			}
		}
		for j, c := range conns {
			notify(c, election.Notification{
				State: election.Looking, Leader: int64(1 + j%3), Zxid: zk.MakeZxid(1, 1<<20), ElectionEpoch: []int64{1 << 62, math.MaxInt64, 1<<62 - 1}[j%3], PeerEpoch: 1,
			})
		}
	})
}

// electAgain demands that the ensemble elects when nobody attacks: as it is, and once
// more.
func electAgain(x *scene) {
	for i := range 2 {
		ctx, cancel := context.WithTimeout(x.t.Context(), patience/3)
		began := time.Now()
		if err := x.e.Start(ctx); err != nil {
			x.fault("election %d after the attack: %v", i, err)
		} else {
			x.note("election %d after the attack: %v", i, round(time.Since(began)))
			if l, err := x.e.Leader(); err == nil {
				l.Kill()
			}
		}
		cancel()
	}
	ctx, cancel := context.WithTimeout(x.t.Context(), patience/3)
	defer cancel()
	if err := x.e.Start(ctx); err != nil {
		x.fault("%v", err)
	}
}

func largeTree(x *scene) {
	s := x.mustSession(x.leader)
	x.do(s, client.Create("/large", nil, zk.Persistent))
	for i := range max(20, x.n(100)) {
		x.do(s, client.Create("/large/"+long(10, i), make([]byte, megabyte), zk.Persistent))
	}
	for range 6 { // more transactions than a leader keeps for its learners
		x.do(s, repeat(100, client.Set("/large", nil, -1))...)
	}
}

// unreadObservers are observers that are sent the tree and read nothing, while clients
// write.
func unreadObservers(x *scene) {
	var mu sync.Mutex
	joined := 0
	x.each(max(10, x.n(60)), func(i int) {
		if x.learner(x.leader.Quorum, zab.ObserverInfo, int64(100+i)) != nil {
			mu.Lock()
			joined++
			mu.Unlock()
		}
	})
	x.note("%d observers", joined)
	sets(2, megabyte)(x)
	x.hold(4 * time.Second)
}

// strangersCrowd has observers that nobody knows take all places at the leader's quorum
// port, and take them again, while a follower restarts.
func strangersCrowd(x *scene) {
	ctx, cancel := context.WithTimeout(x.ctx, patience/2)
	var crowd sync.WaitGroup
	defer crowd.Wait()
	defer x.closeConns() // ends what they wait for
	defer cancel()
	for i := range max(100, x.n(300)) {
		crowd.Go(func() {
			for ctx.Err() == nil {
				c, err := net.DialTimeout("tcp", x.leader.Quorum, time.Second)
				if err != nil {
					continue
				}
				x.keep(c)
				if ctx.Err() == nil && packet(c, info(zab.ObserverInfo, int64(1000+i), 0)) {
					_ = c.SetReadDeadline(time.Time{}) // fails only if closed, as the copy will
					_, _ = io.Copy(io.Discard, c)      // until the leader closes it
				}
				_ = c.Close() // the leader may have closed it
			}
		})
	}
	x.wait(time.Second)
	x.follower.Kill()
	began := time.Now()
	if err := x.follower.Start(); err != nil {
		x.fault("%v", err)
		return
	}
	if _, err := x.follower.WaitServing(ctx); err != nil {
		x.fault("the restarted follower: %v", err)
	}
	took := time.Since(began)
	x.note("a restarted follower serves after %v", round(took))
	if took > 5*time.Second {
		x.fault("a restarted follower is kept out for %v", round(took))
	}
}

// longNotifications sends notifications of half a megabyte while clients keep the servers
// busy.
func longNotifications(x *scene) {
	var busy sync.WaitGroup
	busy.Go(func() { sendLargeMultis(x, 3) })
	var senders sync.WaitGroup
	for i := range 20 {
		m := x.e.Members[i%len(x.e.Members)]
		senders.Go(func() {
			c := x.electionConn(m.Election, int64(77+i))
			n := election.Notification{State: election.Looking, Leader: 1, ElectionEpoch: 1, Config: make([]byte, 500_000)}
			x.forTime(8*time.Second, 0, func(int) {
				if !notify(c, n) {
					c = x.electionConn(m.Election, int64(77+i))
					x.wait(10 * time.Millisecond)
				}
			})
		})
	}
	senders.Wait()
	busy.Wait()
}

// partialPackets sends most of a packet to quorum ports on many connections.
func partialPackets(x *scene) {
	whole := jute.AppendInt(nil, int32(zab.FollowerInfo))
	whole = jute.AppendLong(whole, 0)
	whole = append(jute.AppendInt(whole, megabyte), make([]byte, 900_000)...)
	x.each(x.n(500), func(i int) {
		c := x.dial(x.e.Members[i%len(x.e.Members)].Quorum)
		if c != nil && c.SetDeadline(time.Now().Add(time.Second)) == nil {
			_, _ = c.Write(whole) // the server may not take it
		}
	})
	x.hold(6 * time.Second)
}

// everyPacket sends every packet with extreme values, first and after discovery as an
// observer. What an observer may ask for in the name of others is not part of it: the
// quorum port has no proof of identity, as with Apache.
func everyPacket(x *scene) {
	rng := x.source()
	zxids := []zk.Zxid{0, -1, 1, math.MaxInt64, math.MinInt64, zk.MakeZxid(1, 1), zk.MakeZxid(lastEpoch, 5)}
	data := [][]byte{nil, {}, {1}, jute.AppendInt(nil, -1), make([]byte, 20), make([]byte, 100_000), jute.AppendLong(nil, math.MinInt64)}
	x.forTime(10*time.Second, time.Millisecond, func(i int) {
		m := x.e.Members[rng.IntN(len(x.e.Members))]
		var c net.Conn
		if i%2 == 0 {
			c = x.dial(m.Quorum)
		} else {
			c = x.learner(x.leader.Quorum, zab.ObserverInfo, int64(200+i%50))
		}
		for range 5 {
			kind := zab.PacketType(rng.IntN(21))
			if kind == zab.Revalidate || kind == zab.Request {
				continue
			}
			packet(c, zab.Packet{Type: kind, Zxid: zxids[rng.IntN(len(zxids))], Data: data[rng.IntN(len(data))]})
		}
		if i > 50 {
			x.closeOldest()
		}
	})
}

// everyVote sends notifications with extreme values as every server that there is, and as
// some that there are not.
func everyVote(x *scene) {
	rng := x.source()
	var conns []net.Conn
	numbers := []int64{0, 1, 2, 3, -1, 1 << 31, 1 << 62, math.MaxInt64, math.MinInt64, 77}
	x.forTime(10*time.Second, time.Millisecond, func(i int) {
		if i%50 == 0 {
			for _, m := range x.e.Members {
				conns = append(conns, x.electionConn(m.Election, []int64{1, 2, 3, 77, math.MaxInt64, -1}[rng.IntN(6)]))
			}
		}
		pick := func() int64 { return numbers[rng.IntN(len(numbers))] }
		notify(conns[rng.IntN(len(conns))], election.Notification{
			State: election.State(rng.IntN(5)), Leader: pick(), Zxid: zk.Zxid(pick()), ElectionEpoch: pick(), PeerEpoch: pick(),
		})
	})
}

// electionHellos opens connections to the election ports that say nothing, a part, or
// that they are some unknown server.
func electionHellos(x *scene) {
	x.each(x.n(2000), func(i int) {
		addr := x.e.Members[i%len(x.e.Members)].Election
		switch i % 3 {
		case 0:
			x.dial(addr)
		case 1:
			if c := x.dial(addr); c != nil {
				_, _ = c.Write([]byte{0xFF, 0xFF, 0xFF, 0xFF, 0xFF}) // the server may have closed it
			}
		case 2:
			x.electionConn(addr, int64(1000+i))
		}
	})
	x.hold(4 * time.Second)
}
