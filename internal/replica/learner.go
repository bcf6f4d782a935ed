package replica

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/pinfold-zk/pinfold/internal/prep"
	"github.com/pinfold-zk/pinfold/internal/session"
	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/internal/zab"
	"github.com/pinfold-zk/pinfold/zk"
)

// learning is what the loop of a learner keeps.
type learning struct {
	leaderLink zab.LinkID
	// waiting holds the requests that were forwarded, by session, in order. Their
	// transactions come back in that order.
	waiting   map[zk.SessionID][]Request
	asked     map[zk.SessionID]resume // sessions about which the leader was asked
	lastPing  time.Duration
	progress  map[zab.LinkID]uint64 // of links on which a snapshot goes
	resetSeqs []uint64              // of truncations and installations that are not durable
}

// stopLearning drops what was forwarded.
func (r *Replica) stopLearning() {
	ids := make([]zk.SessionID, 0, len(r.waiting))
	for id := range r.waiting {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		r.dropRequests(r.waiting[id])
	}
	r.waiting = nil
	ids = ids[:0]
	for id := range r.asked {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		r.asked[id].origin.Dropped(&Request{})
	}
	r.asked = nil
}

// forward sends the requests of a batch to the leader.
func (r *Replica) forward(b *batch) {
	size := 0
	for i := range b.reqs {
		size += requestHead + len(b.reqs[i].Body)
	}
	// The packets' data, and by that the bodies of those that wait, lie in one
	// piece of memory; the batch goes back to the pool.
	mem := make([]byte, 0, size)
	ps := make([]zab.Packet, 0, len(b.reqs))
	for i := range b.reqs {
		req := &b.reqs[i]
		if req.Op == wire.OpCreateSession && req.Session == 0 {
			req.Session = r.newID()
		}
		at := len(mem)
		mem = binary.BigEndian.AppendUint64(mem, uint64(req.Session))
		mem = binary.BigEndian.AppendUint32(mem, uint32(req.Xid))
		mem = binary.BigEndian.AppendUint32(mem, uint32(req.Op))
		mem = append(mem, req.Body...)
		data := mem[at:len(mem):len(mem)]
		ps = append(ps, zab.Packet{Type: zab.Request, Zxid: -1, Data: data, Auth: req.IDs})
		req.Body = data[requestHead:]
		if req.Op == wire.OpSync {
			r.syncs = append(r.syncs, *req)
			continue
		}
		if r.waiting == nil {
			r.waiting = map[zk.SessionID][]Request{}
		}
		r.waiting[req.Session] = append(r.waiting[req.Session], *req)
	}
	r.net.Send(r.leaderLink, ps)
	r.pool.put(b)
}

// match returns the request that a transaction comes from, if it was forwarded
// from here.
func (r *Replica) match(tx *txn.Txn) Request {
	if tx.Session == 0 {
		return Request{}
	}
	list := r.waiting[tx.Session]
	for i := range list {
		if list[i].Xid != tx.Cxid || !cameFrom(tx, list[i].Op) {
			continue
		}
		req := list[i]
		if i > 0 {
			// The leader has lost them; nobody else will answer.
			r.dropRequests(list[:i])
		}
		if rest := list[i+1:]; len(rest) > 0 {
			r.waiting[tx.Session] = rest
		} else {
			delete(r.waiting, tx.Session)
		}
		switch tx.Header.Type {
		case wire.OpCreateSession:
			r.noteUpgrade(tx.Session, tx.Zxid)
			r.owners[tx.Session] = owner{req.Origin, tx.TimeoutMillis}
		case wire.OpCloseSession:
			delete(r.owners, tx.Session)
		}
		return req
	}
	return r.expired(tx)
}

// cameFrom reports whether a transaction can be the outcome of a request. What a
// server asks for itself has a cxid that a request may have as well: the end of a
// session that expires, the upgrade of a local one.
func cameFrom(tx *txn.Txn, op wire.OpCode) bool {
	switch tx.Header.Type {
	case wire.OpCreateSession, wire.OpCloseSession:
		return op == tx.Header.Type
	}
	return op != wire.OpCreateSession
}

// expired returns, for the end of a session that the leader has decided, the
// request that has its connection here told.
func (r *Replica) expired(tx *txn.Txn) Request {
	o, ok := r.owners[tx.Session]
	if tx.Header.Type != wire.OpCloseSession || !ok {
		return Request{}
	}
	delete(r.owners, tx.Session)
	return Request{
		Request: prep.Request{Session: tx.Session, Op: wire.OpCloseSession, Owner: session.NoOwner},
		Origin:  o.Origin,
	}
}

// fromLeader takes a packet of the leader that is not Zab's.
func (r *Replica) fromLeader(d *zab.Delivery) {
	switch d.Packet.Type {
	case zab.Sync:
		if len(r.syncs) == 0 {
			r.net.CloseLink(d.Link, fmt.Errorf("replica: a SYNC that nobody asked for"))
			return
		}
		r.waits = append(r.waits, syncWait{d.At, r.syncs[0]})
		r.syncs = r.syncs[1:]
	case zab.Revalidate:
		if err := r.validated(d.Packet.Data); err != nil {
			r.net.CloseLink(d.Link, err)
		}
	}
}

// revalidate asks the leader whether a session is alive.
func (r *Replica) revalidate(s resume) {
	if r.asked == nil {
		r.asked = map[zk.SessionID]resume{}
	}
	if before, ok := r.asked[s.id]; ok {
		before.origin.Dropped(&Request{}) // the later connection wins
	}
	r.asked[s.id] = s
	data := binary.BigEndian.AppendUint64(nil, uint64(s.id))
	data = binary.BigEndian.AppendUint32(data, uint32(s.timeoutMillis))
	r.net.Send(r.leaderLink, []zab.Packet{{Type: zab.Revalidate, Zxid: -1, Data: data}})
}

// validated takes the leader's answer.
func (r *Replica) validated(data []byte) error {
	if len(data) < 9 {
		return fmt.Errorf("replica: REVALIDATE of %d bytes", len(data))
	}
	id, ok := zk.SessionID(binary.BigEndian.Uint64(data)), data[8] != 0
	r.stats.Revalidations.Add(1)
	s, waits := r.asked[id]
	if !waits {
		return nil // a connection that has gone since
	}
	delete(r.asked, id)
	if ok {
		r.owners[id] = owner{s.origin, s.timeoutMillis}
	}
	s.origin.Resumed(ok, id, s.timeoutMillis)
	return nil
}

// answerPing tells the leader which sessions gave a sign of life since the last
// ping.
func (r *Replica) answerPing(d *zab.Delivery) {
	now := r.Now()
	ids := make([]zk.SessionID, 0, len(r.owners))
	for id, o := range r.owners {
		if o.LastHeard() >= r.lastPing && (r.local == nil || !r.local.Tracked(id)) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	data := []byte{} // not null: an Apache leader closes the link for that
	for _, id := range ids {
		data = binary.BigEndian.AppendUint64(data, uint64(id))
		data = binary.BigEndian.AppendUint32(data, uint32(r.owners[id].timeoutMillis))
	}
	r.lastPing = now
	r.net.Send(d.Link, []zab.Packet{{Type: zab.Ping, Zxid: d.Packet.Zxid, Data: data}})
}
