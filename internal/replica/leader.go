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

// linkMark makes a link's number an owner's, which no connection has.
const linkMark session.Owner = 1 << 63

// ownerOf is how the session tracker knows the learner behind a link.
func ownerOf(l zab.LinkID) session.Owner { return linkMark | session.Owner(l) }

// linkOf is the link of an owner that ownerOf gave.
func linkOf(o session.Owner) zab.LinkID { return zab.LinkID(o &^ linkMark) }

// startServing sets up what the role needs. Everything committed is applied.
func (r *Replica) startServing() {
	r.newTracker()
	r.startLocals(false)
	r.closing = nil
	if r.role != zab.Leading {
		return
	}
	r.prep = prep.New(r.o.Prep, r.tree, r.o.Auth, r.tracker)
	var orphaned []zk.SessionID
	r.tree.EphemeralSessions(func(id zk.SessionID) {
		if !r.tree.HasSession(id) {
			orphaned = append(orphaned, id)
		}
	})
	for _, id := range orphaned {
		// By a transaction, so that all servers do the same (2355).
		r.log.Warn("ephemerals of a session that does not exist are deleted", "session", id)
		r.Submit([]Request{r.closeRequest(id)})
	}
}

// propose makes transactions of the learners' requests and of the batch of this
// server's clients, which may be nil, and proposes them.
func (r *Replica) propose(b *batch) bool {
	if b == nil && !r.roundIsDue() {
		return true
	}
	r.gathering.begin(r.Now())
	if b == nil {
		// What was held back goes along.
		if b = r.inbox.takeRequests(); b != nil {
			r.beginLocals(b)
		} else {
			b = r.pool.get()
		}
	}
	asked := r.takeSyncs(b)
	if len(b.reqs) > 0 {
		z, left := r.core.NextZxid()
		if left < len(b.reqs) {
			r.core.StepDown(r.Now(), "the epoch has no zxids left; another one begins")
			r.dropRequests(b.reqs[:b.own])
			r.pool.put(b)
			return r.drive()
		}
		r.nextZxid = z
		r.prepare(b)
		b.lent = true
		if err := r.core.Propose(r.entriesOf(b)); err != nil {
			r.fail(err)
			return false
		}
		r.made = append(r.made, b)
	} else {
		r.pool.put(b)
	}
	for _, l := range asked {
		if err := r.core.Sync(l); err != nil {
			r.fail(err)
			return false
		}
	}
	if !r.drive() {
		return false
	}
	return r.propose(nil)
}

// takeSyncs puts the learners' requests behind those of the batch, and takes the
// syncs out of both. It returns the links that they came by, 0 for this server's
// clients. What a learner asked behind a sync stays for the next batch: Apache's
// learners match what comes back with what they have asked, in order.
func (r *Replica) takeSyncs(b *batch) []zab.LinkID {
	own := b.reqs[:0]
	var asked []zab.LinkID
	for i := range b.reqs {
		if b.reqs[i].Op == wire.OpSync {
			r.syncs = append(r.syncs, b.reqs[i])
			r.syncs[len(r.syncs)-1].Body = append([]byte(nil), b.reqs[i].Body...)
			asked = append(asked, 0)
			continue
		}
		own = append(own, b.reqs[i])
	}
	clear(b.reqs[len(own):])
	b.reqs, b.own = own, len(own)
	taken, synced := 0, false
	for i := range r.incoming {
		if r.incoming[i].Op == wire.OpSync {
			asked = append(asked, linkOf(r.incoming[i].Owner))
			synced = true
		} else if synced {
			break
		} else {
			b.reqs = append(b.reqs, r.incoming[i])
		}
		taken++
	}
	rest := copy(r.incoming, r.incoming[taken:])
	clear(r.incoming[rest:])
	r.incoming = r.incoming[:rest]
	return asked
}

// entriesOf is a prepared batch as the core wants it, valid until the next call.
func (r *Replica) entriesOf(b *batch) []zab.Entry {
	r.entries = r.entries[:0]
	for i := range b.txns {
		r.stats.ProposalSizes.Add(int64(len(b.encoded(i))))
		r.entries = append(r.entries, zab.Entry{Zxid: b.txns[i].Zxid, Data: b.encoded(i)})
	}
	return r.entries
}

// fromLearner takes a packet of a learner that is not Zab's.
func (r *Replica) fromLearner(d *zab.Delivery) {
	p := &d.Packet
	var err error
	switch p.Type {
	case zab.Request:
		err = r.takeRequest(d.Link, p)
	case zab.Revalidate:
		err = r.validate(d.Link, p.Data)
	case zab.Ping:
		err = r.touch(p.Data)
	}
	if err != nil {
		r.net.CloseLink(d.Link, fmt.Errorf("replica: learner's %v: %w", p.Type, err))
	}
}

// requestHead is session id, cxid and operation, in front of a request's body.
const requestHead = 8 + 4 + 4

// takeRequest takes a write, or a sync, of a learner's client.
func (r *Replica) takeRequest(l zab.LinkID, p *zab.Packet) error {
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
	r.incoming = append(r.incoming, req)
	return nil
}

// validate answers whether a session is alive, and makes the learner its owner.
func (r *Replica) validate(l zab.LinkID, data []byte) error {
	if len(data) < 12 {
		return fmt.Errorf("%d bytes are no session and timeout", len(data))
	}
	id, timeout := zk.SessionID(binary.BigEndian.Uint64(data)), int32(binary.BigEndian.Uint32(data[8:]))
	ok := r.revive(id, ownerOf(l), timeout)
	if !ok && r.ending(id) {
		r.undecided = append(r.undecided, question{link: l, resume: resume{id: id}})
		return nil
	}
	if o, here := r.owners[id]; ok && here {
		o.Leave("the session has moved to another server")
		delete(r.owners, id)
	}
	r.answerValidate(l, id, ok)
	return nil
}

func (r *Replica) answerValidate(l zab.LinkID, id zk.SessionID, alive bool) {
	data := append(binary.BigEndian.AppendUint64(nil, uint64(id)), 0)
	if alive {
		data[8] = 1
	}
	r.net.Send(l, []zab.Packet{{Type: zab.Revalidate, Zxid: -1, Data: data}})
}

// question is about a session whose end is on its way, and not yet committed. A
// leader that a partition has cut off must not tell a client that its session is
// over: under another leader it may live, and with it its ephemerals.
type question struct {
	link zab.LinkID // of the learner that asks; 0: a client of this server, by resume
	resume
}

// ending reports whether the end of a session is on its way. On a standalone
// server it is as good as done.
func (r *Replica) ending(id zk.SessionID) bool {
	return r.o.Ensemble != nil && r.tracker.Tracked(id)
}

// decide answers the questions about a session that has ended.
func (r *Replica) decide(id zk.SessionID) {
	left := r.undecided[:0]
	for _, q := range r.undecided {
		switch {
		case q.id != id:
			left = append(left, q)
		case q.link != 0:
			r.answerValidate(q.link, id, false)
		default:
			q.origin.Resumed(false, id, 0)
		}
	}
	clear(r.undecided[len(left):])
	r.undecided = left
}

// dropQuestions has those ask again who have no answer: the role is left.
func (r *Replica) dropQuestions() {
	for _, q := range r.undecided {
		if q.link == 0 {
			q.origin.Dropped(&Request{})
		}
	}
	r.undecided = nil
}

// touch notes the signs of life that a learner has seen.
func (r *Replica) touch(data []byte) error {
	now := r.Millis(r.Now())
	for ; len(data) >= 12; data = data[12:] {
		r.tracker.Touch(zk.SessionID(binary.BigEndian.Uint64(data)), int32(binary.BigEndian.Uint32(data[8:])), now)
	}
	if len(data) > 0 {
		return fmt.Errorf("%d bytes too many", len(data))
	}
	return nil
}
