package replica

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/pinfold-zk/pinfold/internal/fifo"
	"github.com/pinfold-zk/pinfold/internal/prep"
	"github.com/pinfold-zk/pinfold/internal/session"
	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/internal/zab"
	"github.com/pinfold-zk/pinfold/zk"
)

// learning is what Order keeps on a learner.
type learning struct {
	leaderLink zab.LinkID
	// waiting holds the requests that were forwarded, by session, in order. Their
	// transactions come back in that order.
	waiting   map[zk.SessionID]*fifo.Queue[Request]
	unused    []*fifo.Queue[Request]  // empty, for the next sessions in waiting
	requests  []zab.Packet            // memory of forward
	asked     map[zk.SessionID]resume // sessions about which the leader was asked
	lastPing  time.Duration
	progress  map[zab.LinkID]uint64 // of links on which a snapshot goes
	resetSeqs []uint64              // of truncations and installations that are not durable
}

// stopLearning drops the forwarded requests and the questions to the leader.
func (o *orderer) stopLearning() {
	ids := make([]zk.SessionID, 0, len(o.waiting))
	for id := range o.waiting {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		o.dropRequests(o.waiting[id].All())
	}
	o.waiting, o.unused = nil, nil
	ids = ids[:0]
	for id := range o.asked {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		o.asked[id].origin.Dropped(&Request{})
	}
	o.asked = nil
	o.relaying = relaying{}
}

// forward sends the requests of a batch to the leader. Those that wait for their
// transactions keep no body, except syncs.
func (o *orderer) forward(b *batch) {
	ps := o.requests[:0]
	for i := range b.reqs {
		req := &b.reqs[i]
		if req.Op == wire.OpCreateSession && req.Session == 0 {
			req.Session = o.newID()
		}
		binary.BigEndian.PutUint64(req.packet, uint64(req.Session))
		binary.BigEndian.PutUint32(req.packet[8:], uint32(req.Xid))
		binary.BigEndian.PutUint32(req.packet[12:], uint32(req.Op))
		ps = append(ps, zab.Packet{Type: zab.Request, Zxid: -1, Data: req.packet, Auth: req.IDs})
		if req.Op == wire.OpSync {
			o.syncs.asked = append(o.syncs.asked, req.without(bytes.Clone(req.Body)))
			continue
		}
		o.await(req)
	}
	if o.net.Send(o.leaderLink, ps) {
		b.bodies = nil
	}
	o.pool.put(b)
	clear(ps)
	o.requests = ps[:0]
}

// maxUnused is how many empty queues of requests a learner keeps. A session that waits for its
// requests again and again would else leave one to the garbage collector each time.
const maxUnused = 64

// await notes a request that was forwarded.
func (o *orderer) await(req *Request) {
	q := o.waiting[req.Session]
	if q == nil {
		if o.waiting == nil {
			o.waiting = map[zk.SessionID]*fifo.Queue[Request]{}
		}
		if n := len(o.unused); n > 0 {
			q, o.unused = o.unused[n-1], o.unused[:n-1]
		} else {
			q = new(fifo.Queue[Request])
		}
		o.waiting[req.Session] = q
	}
	q.Push(req.without(nil))
}

// awaited takes the oldest n requests of a session, which are answered or dropped.
func (o *orderer) awaited(id zk.SessionID, n int) {
	q := o.waiting[id]
	if q.Drop(n); q.Len() > 0 {
		return
	}
	delete(o.waiting, id)
	if len(o.unused) < maxUnused {
		o.unused = append(o.unused, q)
	}
}

// without returns the request with another body, and without its packet.
func (q Request) without(body []byte) Request {
	q.Body, q.packet = body, nil
	return q
}

// match returns the request of a transaction, if this server has forwarded it.
func (o *orderer) match(tx *txn.Txn) Request {
	if tx.Session == 0 {
		return Request{}
	}
	o.countOutRelayed(tx)
	q := o.waiting[tx.Session]
	if q == nil {
		return o.expired(tx)
	}
	list := q.All()
	for i := range list {
		if list[i].Xid != tx.Cxid || !cameFrom(tx, list[i].Op) {
			continue
		}
		req := list[i]
		if i > 0 {
			// The leader has lost them: no reply will come.
			o.dropRequests(list[:i])
		}
		o.awaited(tx.Session, i+1)
		switch tx.Header.Type {
		case wire.OpCreateSession:
			if !o.noteUpgrade(tx.Session, tx.Zxid) {
				o.owners[tx.Session] = owner{req.Origin, tx.TimeoutMillis}
			} else if s, waits := o.asked[tx.Session]; waits {
				o.askLeader(s)
			}
		case wire.OpCloseSession:
			delete(o.owners, tx.Session)
		}
		return req
	}
	return o.expired(tx)
}

// cameFrom reports whether a transaction can be the outcome of a request of that
// operation. The cxid alone does not tell: requests that a server makes itself, to end an
// expired session or to upgrade a local one, may have the cxid of a client's request. The kind is
// compared too, because the leader may be a program that is no member: the audit of a multi expects
// the outcome of a multi.
func cameFrom(tx *txn.Txn, op wire.OpCode) bool {
	switch kind := tx.Header.Type; kind {
	case wire.OpCreateSession, wire.OpCloseSession:
		return op == kind
	case wire.OpError:
		return op != wire.OpCreateSession
	default:
		return op != wire.OpCreateSession && (op == wire.OpMulti) == (kind == wire.OpMulti)
	}
}

// expired returns, for the end of a session that the leader has decided, a request whose
// Origin is the session's connection to this server, so that it is told.
func (o *orderer) expired(tx *txn.Txn) Request {
	own, ok := o.owners[tx.Session]
	if tx.Header.Type != wire.OpCloseSession || !ok {
		return Request{}
	}
	delete(o.owners, tx.Session)
	return Request{
		Request: prep.Request{Session: tx.Session, Op: wire.OpCloseSession, Owner: session.NoOwner},
		Origin:  own.Origin,
	}
}

// fromLeader handles a packet of the leader that is not part of Zab.
func (o *orderer) fromLeader(d *zab.Delivery) {
	switch d.Packet.Type {
	case zab.Sync:
		if len(o.syncs.asked) == 0 {
			o.net.CloseLink(d.Link, fmt.Errorf("replica: a SYNC without a request for it"))
			return
		}
		if o.syncRelayed() {
			return
		}
		o.syncs.answered(1, d.At)
	case zab.Revalidate:
		if err := o.validated(d.Packet.Data); err != nil {
			o.net.CloseLink(d.Link, err)
		}
	}
}

// revalidate asks the leader whether a session is alive. It waits until the leader has proposed
// the session's creation, if this server has asked for that: before, the leader may not know it.
func (o *orderer) revalidate(s resume) {
	if o.asked == nil {
		o.asked = map[zk.SessionID]resume{}
	}
	if before, ok := o.asked[s.id]; ok {
		before.origin.Dropped(&Request{}) // the later connection wins
	}
	o.asked[s.id] = s
	if z, upgrading := o.upgrading[s.id]; !upgrading || z != 0 {
		o.askLeader(s)
	}
}

// askLeader sends the leader the question whether a session is alive.
func (o *orderer) askLeader(s resume) {
	data := binary.BigEndian.AppendUint64(nil, uint64(s.id))
	data = binary.BigEndian.AppendUint32(data, uint32(s.timeoutMillis))
	if o.o.Ensemble.ObserverMasters {
		o.asks = append(o.asks, ask{id: s.id})
	}
	o.net.Send(o.leaderLink, []zab.Packet{{Type: zab.Revalidate, Zxid: -1, Data: data}})
}

// validated handles the leader's answer to revalidate.
func (o *orderer) validated(data []byte) error {
	if len(data) < 9 {
		return fmt.Errorf("replica: REVALIDATE of %d bytes", len(data))
	}
	id, ok := zk.SessionID(binary.BigEndian.Uint64(data)), data[8] != 0
	o.stats.Revalidations.Add(1)
	if l := o.whoAsked(id); l != 0 {
		o.net.Send(l, []zab.Packet{{Type: zab.Revalidate, Zxid: -1, Data: bytes.Clone(data)}})
		return nil
	}
	s, waits := o.asked[id]
	if !waits {
		return nil // the connection has been closed since
	}
	delete(o.asked, id)
	if ok {
		o.owners[id] = owner{s.origin, s.timeoutMillis}
		o.reviveLocal(s)
	}
	s.origin.Resumed(ok, id, s.timeoutMillis)
	return nil
}

// answerPing answers a ping with the sessions whose clients were heard since the last
// ping.
func (o *orderer) answerPing(d *zab.Delivery) {
	now := o.Now()
	ids := make([]zk.SessionID, 0, len(o.owners))
	for id, own := range o.owners {
		if own.LastHeard() >= o.lastPing && !o.onlyLocal(id) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	data := []byte{} // not null: an Apache leader closes the link for that
	for _, id := range ids {
		data = binary.BigEndian.AppendUint64(data, uint64(id))
		data = binary.BigEndian.AppendUint32(data, uint32(o.owners[id].timeoutMillis))
	}
	data = o.relayTouched(data)
	o.lastPing = now
	o.net.Send(d.Link, []zab.Packet{{Type: zab.Ping, Zxid: d.Packet.Zxid, Data: data}})
}
