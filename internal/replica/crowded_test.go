package replica

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-zk/pinfold/internal/pipeline"
	"github.com/pinfold-zk/pinfold/internal/zab"
)

// pipeOnly is a replica of which only the pipe is used.
func pipeOnly() *Replica {
	r := &Replica{failed: make(chan struct{}), clock: wallClock{}}
	r.pipe.init(new(batchPool), nil)
	return r
}

// P6: packets count with their own memory, even those without data.
func TestP6PacketsWithoutDataCount(t *testing.T) {
	r := pipeOnly()
	commits := make([]zab.Packet, maxPacketBytes/50)
	r.putPackets(1, commits, nil)
	if !r.crowded() {
		t.Errorf("%d packets that wait count as %d bytes", len(commits), r.pipe.packetBytes)
	}
}

// P6: a learner reads no more from its leader while it has very many transactions to
// apply. A leader goes on reading.
func TestP6BacklogIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := pipeOnly()
		order, done := &Turn{}, &Turn{}
		order.Stage, done.Stage = pipeline.Order, pipeline.Apply
		order.steps, done.due = []step{{end: maxBacklog + 1}}, []step{{end: 2}}
		r.pipe.put(order)
		read := false
		go func() {
			r.putPackets(1, make([]zab.Packet, 1), nil)
			read = true
		}()
		synctest.Wait()
		if read {
			t.Error("packets are taken")
		}
		r.decides.Store(true)
		if r.crowded() {
			t.Error("a leader reads no acknowledgements")
		}
		r.decides.Store(false)
		r.pipe.Lock()
		r.pipe.put(done)
		r.pipe.Unlock()
		synctest.Wait()
		if !read {
			t.Error("no packet is taken when there is room")
		}
	})
}

// A follower whose disk stalls reads on, however many transactions wait for the disk: it
// applies them, and its leader keeps it.
func TestAStalledDiskStopsNoLink(t *testing.T) {
	inGroup(t, 3, 0, nil, func(g *group) {
		m := g.in(Follower)[0]
		s := g.session(m, 50000)
		gate := g.gates[g.id(m)]
		gate <- struct{}{}
		leader := g.leader()
		for range maxBacklog/1000 + 2 {
			before := leader.rep.LastApplied()
			op, body := setData("/", []byte("x"))
			leader.rep.Submit(slices.Repeat([]Request{leader.request(s, op, body)}, 1000))
			g.until("the writes are applied", func() bool { return m.rep.LastApplied() == before+1000 })
		}
		if m.rep.LastApplied()-m.rep.LastLogged() <= maxBacklog {
			t.Errorf("the log is at %v, the tree at %v", m.rep.LastLogged(), m.rep.LastApplied())
		}
		pass(10 * time.Second)
		if m.rep.Mode() != Follower || leader.rep.Mode() != Leader {
			t.Errorf("the member is %v, the leader %v", m.rep.Mode(), leader.rep.Mode())
		}
		<-gate
		g.until("the log follows", func() bool { return m.rep.LastLogged() == m.rep.LastApplied() })
		g.agree()
	})
}
