package replica

import (
	"encoding/binary"
	"time"

	"github.com/pinfold-zk/pinfold/internal/session"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/internal/zab"
	"github.com/pinfold-zk/pinfold/zk"
)

// locals is what the loop keeps of the sessions that live on this server alone:
// those of a server with LocalSessions, and those of one that is ReadOnly. No
// transaction tells of them, and no other server knows them.
//
// They outlive the server's role, unlike Apache's, which end with every election:
// a client that comes back to its server finds its session.
type locals struct {
	local *session.Tracker // nil: there are none
	// upgrading holds the sessions that are to become global by a transaction.
	upgrading []closingSession
}

// readOnlyAfter is how long a server looks for a leader before it becomes
// ReadOnly; at least a tick, as in Apache.
const readOnlyAfter = 2 * time.Second

// newID gives a session its id.
func (r *Replica) newID() zk.SessionID {
	for {
		if id := r.tracker.NextID(); r.local == nil || !r.local.Tracked(id) {
			return id
		}
	}
}

// beginLocals takes the requests for new sessions out of a batch, if those are to
// be local, and answers them.
func (r *Replica) beginLocals(b *batch) {
	if r.local == nil {
		return
	}
	rest := b.reqs[:0]
	for i := range b.reqs {
		req := &b.reqs[i]
		if req.Op != wire.OpCreateSession || req.Session != 0 {
			rest = append(rest, *req)
			continue
		}
		id, timeout := r.newID(), int32(binary.BigEndian.Uint32(req.Body))
		r.local.Add(id, timeout, r.Millis(r.Now()))
		r.local.SetOwner(id, req.Owner)
		r.owners[id] = owner{req.Origin, timeout}
		req.Origin.ResumedLocal(id, timeout)
		r.inProcess.Add(-1)
	}
	clear(b.reqs[len(rest):])
	b.reqs, b.own = rest, len(rest)
	r.stats.LocalSessions.Store(int64(r.local.Len()))
}

// resumeLocal gives a local session another connection; false means that it is
// not local.
func (r *Replica) resumeLocal(s resume) bool {
	if r.local == nil || !r.local.Tracked(s.id) {
		return false
	}
	r.local.SetOwner(s.id, s.owner)
	r.local.Touch(s.id, s.timeoutMillis, r.Millis(r.Now()))
	r.owners[s.id] = owner{s.origin, s.timeoutMillis}
	s.origin.ResumedLocal(s.id, s.timeoutMillis)
	return true
}

// EndLocal ends a local session: its client has closed it.
func (r *Replica) EndLocal(id zk.SessionID) {
	r.inbox.putCall(func(*session.Tracker, func(zk.SessionID) (int64, bool)) { r.endLocal(id) })
}

func (r *Replica) endLocal(id zk.SessionID) {
	if r.local == nil || !r.local.Tracked(id) {
		return
	}
	r.local.Remove(id)
	delete(r.owners, id)
	r.stats.LocalSessions.Store(int64(r.local.Len()))
}

// expireLocals ends the local sessions that are due.
func (r *Replica) expireLocals() {
	if r.local == nil || r.Mode() == Idle {
		return
	}
	for _, id := range r.local.Due(r.Millis(r.Now()), r.heard) {
		if r.tracker.Tracked(id) && r.role == zab.Leading {
			continue // it is global as well by now
		}
		r.log.Info("local session expired", "session", id)
		r.stats.Expired.Add(1)
		if o := r.owners[id].Origin; o != nil {
			o.Leave("the session has expired")
		}
		r.endLocal(id)
	}
}

// noteUpgrade notes that a session will be global once z is applied.
func (r *Replica) noteUpgrade(id zk.SessionID, z zk.Zxid) {
	if r.local != nil && r.local.Tracked(id) {
		r.upgrading = append(r.upgrading, closingSession{z, id})
	}
}

// forgetUpgraded drops the local sessions that have become global.
func (r *Replica) forgetUpgraded() {
	applied, n := zk.Zxid(r.applied.Load()), 0
	for ; n < len(r.upgrading) && r.upgrading[n].zxid <= applied; n++ {
		r.local.Remove(r.upgrading[n].id)
		r.stats.LocalSessions.Store(int64(r.local.Len()))
	}
	if r.upgrading = r.upgrading[n:]; len(r.upgrading) == 0 {
		r.upgrading = nil
	}
}

// startLocals prepares for the local sessions of a mode that begins: those that
// have become global meanwhile are dropped, the others are given their whole time.
func (r *Replica) startLocals(readOnly bool) {
	r.upgrading = nil
	switch {
	case !readOnly && !r.o.LocalSessions:
		r.local = nil
		r.stats.LocalSessions.Store(0)
		return
	case r.local == nil:
		r.local = session.NewTracker(session.Config{TickMillis: int32(r.o.Tick.Milliseconds())})
	}
	now := r.Millis(r.Now())
	for _, s := range r.local.Timeouts() {
		if r.tree.HasSession(s.ID) {
			r.local.Remove(s.ID)
		} else {
			r.local.Touch(s.ID, s.Millis, now)
		}
	}
	r.stats.LocalSessions.Store(int64(r.local.Len()))
	r.tracker.SetLocals(r.local, r.o.ServerID)
}

// planReadOnly notes when a server that begins an election is to be ReadOnly.
func (r *Replica) planReadOnly(role zab.Role) {
	r.readOnlyAt = 0
	if role == zab.Looking && r.o.ReadOnly {
		r.readOnlyAt = r.Now() + max(readOnlyAfter, r.o.Tick)
	}
}

// beginReadOnly begins to serve who only reads, if it is time. What was logged is
// applied, as on every server that has left its role.
func (r *Replica) beginReadOnly() {
	if r.readOnlyAt == 0 || r.Now() < r.readOnlyAt {
		return
	}
	if r.unapplied.Load() > 0 || len(r.proposed) > 0 {
		r.readOnlyAt = r.Now() + r.o.Tick/4 // soon
		return
	}
	r.readOnlyAt = 0
	if r.fuzzy.Load() {
		// The tree is a leader's whose transactions have not all come: it shows a
		// state that never was.
		r.log.Warn("no read-only mode: the leader's snapshot has not come whole")
		return
	}
	r.newTracker()
	r.startLocals(true)
	r.log.Info("no quorum: clients that only read are served", "zxid", r.LastApplied())
	r.setMode(ReadOnly)
}

// leaveUnknown turns away, without a quorum, a session of another server that this
// one has not heard of: it may well be alive. One that the tree has goes on here,
// to read, as on Apache's read-only server.
func (r *Replica) leaveUnknown(s resume) bool {
	if r.tracker.Tracked(s.id) || byte(uint64(s.id)>>56) == r.o.ServerID {
		return false
	}
	s.origin.Leave("this server does not know the session, and has no quorum to ask")
	return true
}
