package zab

import (
	"fmt"
	"testing"

	"github.com/pinfold-zk/pinfold/zk"
)

// committing is a leader of three servers with a disk and followers that cost
// nothing.
type committing struct {
	*Core
	links [2]LinkID
	acks  [2][]Packet
	es    []Entry
	began uint64
}

func newCommitting(b *testing.B, batch int) *committing {
	cfg := testConfig(3)
	cfg.Window = 500
	o := newSolo(b, cfg, State{})
	o.elect(1)
	x := &committing{Core: o.core, es: make([]Entry, batch)}
	for i := range x.links {
		x.links[i] = o.join(int64(2+i), 0, 0, 0)
		o.persist()
		x.acks[i] = make([]Packet, batch)
	}
	for i := range x.links {
		o.ack(x.links[i], zk.MakeZxid(1, 0))
	}
	return x
}

// ready does what an owner does, at no cost.
func (x *committing) ready() {
	for {
		rd := x.Ready()
		if n := len(rd.Writes); n > 0 {
			x.began = rd.Writes[n-1].Seq
		}
		if quiet(&x.Core.ready) {
			return
		}
	}
}

// round proposes a batch, makes it durable here, and has it acknowledged.
func (x *committing) round() error {
	z, _ := x.NextZxid()
	for i := range x.es {
		x.es[i].Zxid = z + zk.Zxid(i)
		for k := range x.acks {
			x.acks[k][i] = Packet{Type: Ack, Zxid: x.es[i].Zxid}
		}
	}
	if err := x.Propose(x.es); err != nil {
		return err
	}
	x.ready()
	x.Persisted(0, x.began)
	x.ready()
	for k := range x.links {
		x.Step(0, x.links[k], x.acks[k])
		x.ready()
	}
	x.Applied(x.committed)
	return nil
}

// What a transaction costs a leader of three servers: proposed, acknowledged by
// both followers, committed. Reported is the time of one transaction.
func BenchmarkLeader(b *testing.B) {
	for _, batch := range []int{1, 8, 100, 1000} {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
			x := newCommitting(b, batch)
			b.ReportAllocs()
			for n := 0; n < b.N; n += batch {
				if err := x.round(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// What it costs a follower: logged, acknowledged, committed.
func BenchmarkFollower(b *testing.B) {
	for _, batch := range []int{1, 8, 100} {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
			x, l := newFollowing(b)
			b.ReportAllocs()
			for n := 0; n < b.N; n += batch {
				x.follow(l, batch)
			}
		})
	}
}

func newFollowing(b *testing.B) (*committing, LinkID) {
	cfg := testConfig(3)
	cfg.Window = 500
	o := newSolo(b, cfg, State{})
	o.elect(2)
	l := o.core.learner.link
	o.up(l)
	o.step(l, leaderInfoOf(1))
	o.persist()
	o.step(l, diffOf(0), newLeaderOf(1))
	o.persist()
	o.step(l, upToDatePacket())
	return &committing{Core: o.core}, l
}

// follow takes a batch of proposals, makes it durable and commits it.
func (x *committing) follow(l LinkID, batch int) {
	z := max(x.last, zk.MakeZxid(1, 0))
	ps := x.acks[0][:0]
	for i := range batch {
		ps = append(ps, Packet{Type: Proposal, Zxid: z + zk.Zxid(i+1)})
	}
	x.Step(0, l, ps)
	x.ready()
	x.Persisted(0, x.began)
	x.ready()
	for i := range ps {
		ps[i].Type = Commit
	}
	x.Step(0, l, ps)
	x.ready()
	x.Applied(x.committed)
	x.acks[0] = ps
}

// A transaction on its way allocates nothing, once the memory is there.
func TestATransactionAllocatesNothing(t *testing.T) {
	var b testing.B
	x := newCommitting(&b, 8)
	for range 2000 {
		if err := x.round(); err != nil {
			t.Fatal(err)
		}
	}
	if n := testing.AllocsPerRun(1000, func() {
		if err := x.round(); err != nil {
			t.Error(err)
		}
	}); n > 0.5 {
		t.Errorf("a leader: %v allocations for 8 transactions", n)
	}
	f, l := newFollowing(&b)
	for range 2000 {
		f.follow(l, 8)
	}
	if n := testing.AllocsPerRun(1000, func() { f.follow(l, 8) }); n > 0.5 {
		t.Errorf("a follower: %v allocations for 8 transactions", n)
	}
}
