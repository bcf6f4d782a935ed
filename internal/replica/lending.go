package replica

import (
	"github.com/pinfold-zk/pinfold/internal/fifo"
	"github.com/pinfold-zk/pinfold/internal/zab"
	"github.com/pinfold-zk/pinfold/zk"
)

// lending is what Order holds of memory that is used again: the batches whose encodings
// the Zab core keeps, and the buffers of links in which transactions and requests lie. A
// batch is put back when Log and Apply are done with it and the core has dropped its
// transactions, a buffer when all batches that were made of it are done, and the core has
// dropped theirs.
//
// It is for a server that serves. Of what came or was made at other times, and of what is
// there when the role ends, nothing is put back: the garbage collector frees it.
type lending struct {
	came     []Lease // in this turn
	leases   fifo.Queue[lent]
	tagged   int // leases whose zxid is known
	batches  fifo.Queue[*batch]
	finished int     // batches that Log and Apply are done with, the oldest
	upto     zk.Zxid // the last transaction of these

	received uint64 // learners' requests
}

// lent is a buffer of a link.
type lent struct {
	mem      Lease
	received uint64  // learners' requests in it and before it
	zxid     zk.Zxid // of the last transaction that was made of it, or before
}

// lend notes a buffer from which the core was given packets in this turn.
func (o *orderer) lend(e *event, ps []zab.Packet) {
	if e.mem == nil || !o.serving.Load() {
		return
	}
	for i := range ps {
		if len(ps[i].Data) > 0 {
			o.came = append(o.came, e.mem)
			return
		}
	}
	e.mem.Release()
}

// keep notes a batch that the core has made a write of.
func (o *orderer) keep(b *batch) {
	if o.serving.Load() {
		o.batches.Push(b)
	}
}

// sendPackets sends packets to another server. If the link keeps what they hold, no batch whose
// transactions may be among them is used again.
func (o *orderer) sendPackets(l zab.LinkID, ps []zab.Packet) {
	if !o.net.Send(l, ps) {
		return
	}
	if o.role != zab.Leading && l != o.leaderLink { // what an observer is sent lies in buffers of the link to the leader
		o.came = o.came[:0]
		o.leases.Cut(0)
		o.tagged = 0
	}
	for _, b := range o.made {
		b.lent = true
	}
	held := o.batches.All()
	for i := len(held) - 1; i >= 0 && !held[i].lent; i-- {
		held[i].lent = true
	}
}

// forgetUntaken leaves the buffers of the requests that wait to the garbage collector: some
// of these requests are dropped.
func (o *orderer) forgetUntaken() { o.leases.Cut(o.tagged) }

// reclaim puts back, at the end of a turn, what is not in use any more.
func (o *orderer) reclaim() {
	if o.core == nil || !o.serving.Load() {
		return
	}
	for i, mem := range o.came {
		o.leases.Push(lent{mem: mem, received: o.received})
		o.came[i] = nil
	}
	o.came = o.came[:0]
	last, taken := o.core.Last(), o.received-uint64(len(o.incoming))
	for ; o.tagged < o.leases.Len() && o.leases.At(o.tagged).received <= taken; o.tagged++ {
		o.leases.At(o.tagged).zxid = last
	}
	for ; o.finished < o.batches.Len() && (*o.batches.At(o.finished)).owed.Load() == 1; o.finished++ {
		b := *o.batches.At(o.finished)
		o.upto = b.last()
		o.pool.putOps(b)
		b.trim()
		o.pool.putBodies(b)
	}
	if o.finished == o.batches.Len() {
		o.upto = last
	}
	// The core keeps what lies in batches of a leader, and in the link's buffers of a learner.
	batchesTo, leasesTo := last, o.core.Kept()
	if o.role == zab.Leading {
		batchesTo, leasesTo = leasesTo, last
	}
	n := 0
	for n < o.finished && (*o.batches.At(n)).last() <= batchesTo {
		o.pool.done(*o.batches.At(n))
		n++
	}
	o.batches.Drop(n)
	o.finished -= n
	n = 0
	for n < o.tagged && o.leases.At(n).zxid <= min(leasesTo, o.upto) {
		o.leases.At(n).mem.Release()
		n++
	}
	o.leases.Drop(n)
	o.tagged -= n
}
