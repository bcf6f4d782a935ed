package replica

import (
	"encoding/binary"
	"fmt"
	"slices"

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

// startServing sets up the state of the role. REQUIRES: all committed transactions are
// applied.
func (o *orderer) startServing() {
	o.newTracker()
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
	}
	if !o.forwarded.admit(l, int64(len(req.Body)), o.o.ForwardedBytes) {
		req.Body, req.Refused = nil, zk.ErrThrottledOp
	}
	o.incoming = append(o.incoming, req)
	return nil
}

// validate answers whether a session is alive, and makes the learner its owner.
func (o *orderer) validate(l zab.LinkID, data []byte) error {
	if len(data) < 12 {
		return fmt.Errorf("%d bytes are no session and timeout", len(data))
	}
	id, timeout := zk.SessionID(binary.BigEndian.Uint64(data)), int32(binary.BigEndian.Uint32(data[8:]))
	ok := o.revive(id, ownerOf(l), timeout)
	if !ok && o.ending(id) {
		o.undecided = append(o.undecided, question{link: l, resume: resume{id: id}})
		return nil
	}
	if own, here := o.owners[id]; ok && here {
		own.Leave("the session has moved to another server")
		delete(o.owners, id)
	}
	o.answerValidate(l, id, ok)
	return nil
}

func (o *orderer) answerValidate(l zab.LinkID, id zk.SessionID, alive bool) {
	data := append(binary.BigEndian.AppendUint64(nil, uint64(id)), 0)
	if alive {
		data[8] = 1
	}
	o.net.Send(l, []zab.Packet{{Type: zab.Revalidate, Zxid: -1, Data: data}})
}

// question is about a session whose end is proposed and not yet committed. A leader that
// a partition has cut off must not tell a client that its session is over: with another
// leader the session and its ephemerals may still exist.
type question struct {
	link zab.LinkID // of the learner that asks; 0: a client of this server, by resume
	resume
}

// ending reports whether the end of a session is submitted and not committed yet. On a
// standalone server it is false: there every submitted end takes effect.
func (o *orderer) ending(id zk.SessionID) bool {
	return o.o.Ensemble != nil && o.tracker.Tracked(id)
}

// questions are those that are not answered yet.
type questions []question

// remove removes the questions about a session, or with id 0 all of them.
func (qs *questions) remove(id zk.SessionID) (removed []question) {
	*qs = slices.DeleteFunc(*qs, func(q question) bool {
		about := id == 0 || q.id == id
		if about {
			removed = append(removed, q)
		}
		return about
	})
	return removed
}

// decide answers the questions about a session that has ended.
func (o *orderer) decide(id zk.SessionID) {
	for _, q := range o.undecided.remove(id) {
		if q.link != 0 {
			o.answerValidate(q.link, id, false)
		} else {
			q.origin.Resumed(false, id, 0)
		}
	}
}

// dropQuestions drops the questions without an answer, because the role ends: the
// clients and learners ask the next leader.
func (o *orderer) dropQuestions() {
	for _, q := range o.undecided.remove(0) {
		if q.link == 0 {
			q.origin.Dropped(&Request{})
		}
	}
}

// touch records the sessions whose clients a learner has heard.
func (o *orderer) touch(data []byte) error {
	now := o.Millis(o.Now())
	for ; len(data) >= 12; data = data[12:] {
		o.tracker.Touch(zk.SessionID(binary.BigEndian.Uint64(data)), int32(binary.BigEndian.Uint32(data[8:])), now)
	}
	if len(data) > 0 {
		return fmt.Errorf("%d bytes too many", len(data))
	}
	return nil
}
