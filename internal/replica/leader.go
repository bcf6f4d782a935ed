package replica

import (
	"encoding/binary"
	"fmt"

	"github.com/pinfold-zk/pinfold/internal/prep"
	"github.com/pinfold-zk/pinfold/internal/session"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/internal/zab"
	"github.com/pinfold-zk/pinfold/zk"
)

// linkMark is the bit that distinguishes the owner of a link from that of a connection.
const linkMark session.Owner = 1 << 63

// ownerOf is the owner under which the session tracker knows the learner of a link.
func ownerOf(l zab.LinkID) session.Owner { return linkMark | session.Owner(l) }

// linkOf is the inverse of ownerOf.
func linkOf(o session.Owner) zab.LinkID { return zab.LinkID(o &^ linkMark) }

// learnerOf is the link of the learner that has sent a request of that owner; 0 if none has.
func learnerOf(o session.Owner) zab.LinkID {
	if o&linkMark == 0 {
		return 0
	}
	return linkOf(o)
}

// startServing sets up the state of the role. REQUIRES: all committed transactions are
// applied.
func (o *orderer) startServing() {
	o.newTracker()
	if o.role == zab.Observing {
		o.endUpgrading(o.LastApplied()) // it is not sent what its leader has proposed and not committed
	}
	o.startLocals(false)
	o.closing = nil
	if o.role != zab.Leading {
		return
	}
	o.prep = prep.New(o.o.Prep, o.tree, o.o.Auth, o.tracker)
	var orphaned []zk.SessionID
	o.tree.EphemeralSessions(func(id zk.SessionID) {
		if !o.tree.HasSession(id) {
			orphaned = append(orphaned, id)
		}
	})
	for _, id := range orphaned {
		// By a transaction, so that all servers do the same (2355).
		o.log.Warn("ephemerals of a session that does not exist are deleted", "session", id)
		o.Submit([]Request{o.closeRequest(id)})
	}
}

// fromLearner handles a packet of a learner that is not part of Zab.
func (o *orderer) fromLearner(d *zab.Delivery) {
	p := &d.Packet
	var err error
	switch p.Type {
	case zab.Request:
		err = o.takeRequest(d.Link, p)
	case zab.Revalidate:
		err = o.validate(d.Link, p.Data)
	case zab.Ping:
		err = o.touch(p.Data)
	}
	if err != nil {
		o.net.CloseLink(d.Link, fmt.Errorf("replica: learner's %v: %w", p.Type, err))
	}
}

// requestHead is session id, cxid and operation, in front of a request's body.
const requestHead = 8 + 4 + 4

// takeRequest queues a write or a sync of a learner's client.
func (o *orderer) takeRequest(l zab.LinkID, p *zab.Packet) error {
	if len(p.Data) < requestHead {
		return fmt.Errorf("%d bytes have no header", len(p.Data))
	}
	req := Request{Request: prep.Request{
		Session: zk.SessionID(binary.BigEndian.Uint64(p.Data)),
		Xid:     int32(binary.BigEndian.Uint32(p.Data[8:])),
		Op:      wire.OpCode(binary.BigEndian.Uint32(p.Data[12:])),
		Body:    p.Data[requestHead:],
		IDs:     p.Auth,
		Owner:   ownerOf(l),
	}}
	switch {
	case req.Op == wire.OpSync:
	case !req.Op.IsWrite():
		return fmt.Errorf("operation %v is not for the leader", req.Op)
	case req.Op == wire.OpCreateSession && len(req.Body) < 4:
		return fmt.Errorf("createSession without a timeout")
	case req.Op == wire.OpCreateSession && o.o.MaxSessions > 0 && o.tracker.Len() >= o.o.MaxSessions:
		o.stats.Throttled.Add(1)
		return nil // a learner of ours does not ask for so many; another one gets no answer
	}
	if o.DiskShort() && req.Op != wire.OpCreateSession && req.Op != wire.OpCloseSession && req.Op != wire.OpSync {
		req.Refused = zk.ErrNotReadOnly
	}
	if !o.forwarded.admit(l, int64(len(req.Body)), o.o.ForwardedBytes) {
		req.Body, req.Refused = nil, zk.ErrThrottledOp
	}
	o.incoming = append(o.incoming, req)
	o.received++
	return nil
}
