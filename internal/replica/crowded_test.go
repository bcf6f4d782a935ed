package replica

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-zk/pinfold/internal/pipeline"
	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/internal/zab"
	"github.com/pinfold-zk/pinfold/zk"
)

// pipeOnly is a replica of which only the pipe is used.
func pipeOnly() *Replica {
	r := &Replica{failed: make(chan struct{}), clock: wallClock{}}
	r.pipe.init(newBatchPool(false), nil)
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

// P6: what one turn of Order has to do is bounded, too, however small the packets are. A link whose packets
// wait goes on when the turn begins.
func TestP6PacketsAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := pipeOnly()
		r.putPackets(1, make([]zab.Packet, maxPackets-1), nil)
		r.putPackets(1, make([]zab.Packet, 1), nil)
		go r.putPackets(1, make([]zab.Packet, 7), nil)
		synctest.Wait()
		if n := len(r.pipe.packets); n != maxPackets {
			t.Fatalf("%d packets wait", n)
		}
		turn := &Turn{}
		turn.Stage = pipeline.Order
		r.pipe.Lock()
		r.pipe.take(turn)
		r.pipe.Unlock()
		synctest.Wait()
		if len(turn.mail.packets) != maxPackets || len(r.pipe.packets) != 7 {
			t.Errorf("a turn of %d packets, %d wait", len(turn.mail.packets), len(r.pipe.packets))
		}
	})
}

// P6: a packet with a transaction counts with what Order makes of it, which is much more than a small
// transaction's bytes: one turn of Order decodes all that wait.
func TestP6TransactionsCountDecoded(t *testing.T) {
	tx := txn.Txn{Header: txn.Header{Zxid: 1, Type: wire.OpError}}
	tx.Op.Type, tx.Op.Err = wire.OpError, zk.ErrNoNode
	data := tx.Append(nil)
	for _, kind := range []zab.PacketType{zab.Proposal, zab.Inform} {
		r := pipeOnly()
		ps := slices.Repeat([]zab.Packet{{Type: kind, Zxid: 1, Data: data}}, maxPacketBytes/450)
		r.putPackets(1, ps, nil)
		if !r.crowded() {
			t.Errorf("%d transactions of %d bytes that wait count as %d bytes", len(ps), len(data), r.pipe.packetBytes)
		}
		o := &orderer{Replica: r}
		o.expect(r.pipe.packets)
		list := o.accepted[:0]
		for range ps {
			list = append(list, txn.Txn{})
		}
		if cap(list) != cap(o.accepted) {
			t.Errorf("the list of %d transactions grows while they are accepted", len(ps))
		}
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

// P6: a server that does not serve reads no links while too much waits for its disk. One
// that serves reads on: the Zab core bounds what waits.
func TestP6LinksWaitForTheDisk(t *testing.T) {
	alone, err := zab.NewMembership(0, []zab.Member{{ID: 1, Weight: 1}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := pipeOnly()
	core := zab.New(zab.Config{
		ID: 1, Members: alone, Tick: time.Second, InitLimit: 10, SyncLimit: 5, StallBytes: 1 << 20, Weigh: weigh,
	}, zab.State{}, 0)
	o := &orderer{Replica: r}
	o.core = core
	write := func() (last uint64) {
		for rd := core.Ready(); len(rd.Writes) > 0; rd = core.Ready() {
			last = rd.Writes[len(rd.Writes)-1].Seq
		}
		return last
	}
	for now := time.Duration(0); !core.Status().Serving; now += time.Second {
		if now > time.Minute {
			t.Fatal("an ensemble of one has no leader")
		}
		core.Tick(now)
		core.Persisted(now, write())
	}
	for range 3000 {
		z, _ := core.NextZxid()
		tx := txn.Txn{Header: txn.Header{Zxid: z, Type: wire.OpSetData}}
		tx.Op.Type, tx.Path = wire.OpSetData, "/"
		if err := core.Propose([]zab.Entry{{Zxid: z, Data: tx.Append(nil)}}); err != nil {
			t.Fatal(err)
		}
	}
	last := write()
	if o.noteUnsynced(); !r.crowded() || r.stats.Unsynced.Load() < 1<<20 {
		t.Errorf("links are read while %d bytes wait for the disk", r.stats.Unsynced.Load())
	}
	r.serving.Store(true)
	if o.noteUnsynced(); r.crowded() {
		t.Error("a server that serves reads no links")
	}
	r.serving.Store(false)
	core.Persisted(time.Minute, last)
	if o.noteUnsynced(); r.crowded() || r.stats.Unsynced.Load() != 0 {
		t.Errorf("%d bytes wait when all is durable", r.stats.Unsynced.Load())
	}
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

// What has gathered while the disk was away is logged in several writes, in order.
func TestAWriteOfTheLogIsBounded(t *testing.T) {
	p := &pipeOnly().pipe
	order, logs := &Turn{}, &Turn{}
	order.Stage, logs.Worker = pipeline.Order, pipeline.Writer
	var want []*batch
	for _, txns := range []int{maxGroup / 2, maxGroup / 2, 1, maxGroup + 1, 0, 1} {
		b := &batch{txns: make([]txn.Txn, txns)}
		want = append(want, b)
		order.jobs = append(order.jobs, job{b: b})
	}
	p.put(order)
	var got []*batch
	for _, jobs := range []int{2, 1, 1, 2} {
		if _, ok := p.machine.Next(&logs.Turn, 0); !ok || logs.Stage != pipeline.Log {
			t.Fatalf("no write after %d jobs", len(got))
		}
		p.take(logs)
		if len(logs.group) != jobs {
			t.Errorf("a write of %d jobs after %d, want %d", len(logs.group), len(got), jobs)
		}
		for i := range logs.group {
			got = append(got, logs.group[i].b)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%d jobs are logged, want %d in order", len(got), len(want))
	}
}
