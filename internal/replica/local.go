package replica

import (
	"cmp"
	"encoding/binary"
	"maps"
	"time"

	"github.com/pinfold-zk/pinfold/internal/session"
	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/internal/zab"
	"github.com/pinfold-zk/pinfold/zk"
)

// locals is what Order keeps of the sessions that exist on this server alone:
// those of a server with LocalSessions, and those of one that is ReadOnly. No
// transaction tells of them, and no other server knows them.
//
// They outlive the server's role, unlike Apache's, which end with every election:
// a client that comes back to its server finds its session.
type locals struct {
	local *session.Tracker // nil: there are none
	// upgrading holds the sessions that are to become global, with the transaction that does it,
	// 0 while that is not proposed. They are global as far as the leader knows, or may know. The
	// map is kept until the next role serves: what is applied meanwhile may be cut off.
	upgrading map[zk.SessionID]zk.Zxid
	// ended holds the sessions that were made global and have ended, or may have, until local
	// drops them.
	ended map[zk.SessionID]zk.Zxid
}

// readOnlyAfter is the default of Options.ReadOnlyAfter, as in Apache.
const readOnlyAfter = 2 * time.Second

// newID gives a session its id.
func (s *sessions) newID() zk.SessionID {
	for {
		if id := s.tracker.NextID(); s.local == nil || !s.local.Tracked(id) {
			return id
		}
	}
}

// beginLocals takes the requests for new sessions out of a batch, if those are to
// be local, and answers them.
func (o *orderer) beginLocals(b *batch) {
	if o.local == nil {
		return
	}
	rest := b.reqs[:0]
	for i := range b.reqs {
		req := &b.reqs[i]
		switch {
		case req.Op != wire.OpCreateSession:
			rest = append(rest, *req)
			continue
		case req.Session != 0:
			if o.askUpgrade(req) {
				rest = append(rest, *req)
			} else {
				o.countOut(1)
			}
			continue
		}
		id, timeout := o.newID(), int32(binary.BigEndian.Uint32(req.Body))
		o.local.Add(id, timeout, o.Millis(o.Now()))
		o.local.SetOwner(id, req.Owner)
		o.owners[id] = owner{req.Origin, timeout}
		req.Origin.ResumedLocal(id, timeout)
		o.countOut(1)
	}
	clear(b.reqs[len(rest):])
	b.reqs, b.own = rest, len(rest)
	o.stats.LocalSessions.Store(int64(o.local.Len()))
}

// resumeLocal gives a local session another connection; false means that it is not local, or is
// becoming global: then the leader decides whether it is alive, for it may have ended it already.
func (o *orderer) resumeLocal(s resume) bool {
	if o.local == nil || !o.local.Tracked(s.id) {
		return false
	}
	o.local.Touch(s.id, s.timeoutMillis, o.Millis(o.Now()))
	if !o.onlyLocal(s.id) && o.serving.Load() {
		return false
	}
	o.local.SetOwner(s.id, s.owner)
	o.owners[s.id] = owner{s.origin, s.timeoutMillis}
	s.origin.ResumedLocal(s.id, s.timeoutMillis)
	return true
}

// reviveLocal makes a session that is becoming global, and that the leader says is alive, a local
// one again if it has expired here while its client was with another server: it stays local if
// its creation is lost.
func (o *orderer) reviveLocal(s resume) {
	if _, upgrading := o.upgrading[s.id]; upgrading && o.local != nil {
		o.local.Add(s.id, s.timeoutMillis, o.Millis(o.Now()))
		o.local.SetOwner(s.id, s.owner)
		o.stats.LocalSessions.Store(int64(o.local.Len()))
	}
}

// onlyLocal reports whether a session is local, and is not becoming global.
func (l *locals) onlyLocal(id zk.SessionID) bool {
	_, upgrading := l.upgrading[id]
	return !upgrading && l.local != nil && l.local.Tracked(id)
}

// EndLocal ends a local session: its client has closed it.
func (r *Replica) EndLocal(id zk.SessionID) {
	r.putCall(func(*session.Tracker, func(zk.SessionID) (int64, bool)) { r.order.endLocal(id) })
}

func (s *sessions) endLocal(id zk.SessionID) {
	if s.local == nil || !s.local.Tracked(id) {
		return
	}
	s.local.Remove(id)
	delete(s.owners, id)
	s.o.Clients.LocalEnded(id)
	s.stats.LocalSessions.Store(int64(s.local.Len()))
}

// expireLocals ends the local sessions that were due at now.
func (s *sessions) expireLocals(now time.Duration) {
	if s.local == nil || s.Mode() == Idle {
		return
	}
	for _, id := range s.local.Due(s.Millis(now), s.heard) {
		if s.tracker.Tracked(id) && s.serving.Load() && s.decides.Load() {
			s.local.Remove(id) // it is global as well by now: the leader's tracker decides
			continue
		}
		s.log.Info("local session expired", "session", id)
		s.stats.Expired.Add(1)
		if by := s.owners[id].Origin; by != nil {
			by.Leave("the session has expired")
		}
		s.endLocal(id)
	}
}

// askUpgrade reports whether a local session is to be made global now. A connection that
// its client has left may have asked for that already: a second createSession would make
// the session again if it has ended in between. If such a connection asks now, it is
// refused: the present connection would not know that the session is global.
func (s *sessions) askUpgrade(req *Request) bool {
	id := req.Session
	if _, asked := s.upgrading[id]; asked || !s.local.Tracked(id) || s.owners[id].Origin != req.Origin {
		return false
	}
	if s.upgrading == nil {
		s.upgrading = map[zk.SessionID]zk.Zxid{}
	}
	s.upgrading[id] = 0
	return true
}

// noteUpgrade notes that a session will be global once z is applied. It reports whether
// the session was local: then it keeps its connection.
func (l *locals) noteUpgrade(id zk.SessionID, z zk.Zxid) bool {
	_, asked := l.upgrading[id]
	if asked {
		l.upgrading[id] = z
	}
	return asked
}

// noteEnds notes the ends of sessions that are local as well: they are of sessions that
// were to become global when the server lost its role.
func (l *locals) noteEnds(txns []txn.Txn) {
	if l.local == nil || l.local.Len() == 0 {
		return
	}
	for i := range txns {
		if tx := &txns[i]; tx.Header.Type == wire.OpCloseSession && l.local.Tracked(tx.Session) {
			if l.ended == nil {
				l.ended = map[zk.SessionID]zk.Zxid{}
			}
			l.ended[tx.Session] = tx.Zxid
		}
	}
}

// replaceEnds corrects ended, because the tree is replaced by the one at z. A leader's
// snapshot does not say whether a session that it lacks has ended or has never been made
// global.
func (l *locals) replaceEnds(kind zab.WriteKind, z zk.Zxid) {
	maps.DeleteFunc(l.ended, func(_ zk.SessionID, at zk.Zxid) bool { return at > z })
	if kind == zab.WriteInstall {
		l.endUpgrading(z)
	}
}

// endUpgrading makes the sessions that were to become global no local ones, because this
// server, with the tree at z, cannot tell whether they are: their ephemerals may be deleted.
// How long ago they were to become global would tell nothing: the clock of a machine that was
// suspended has stood still.
func (l *locals) endUpgrading(z zk.Zxid) {
	if l.ended == nil && len(l.upgrading) > 0 {
		l.ended = map[zk.SessionID]zk.Zxid{}
	}
	for id := range l.upgrading {
		l.ended[id] = z
	}
}

// forgetUpgraded drops the local sessions that have become global.
func (s *sessions) forgetUpgraded() {
	if len(s.upgrading) == 0 || !s.serving.Load() {
		return
	}
	applied := zk.Zxid(s.applied.Load())
	for id, z := range s.upgrading {
		if z != 0 && z <= applied {
			s.local.Remove(id)
			delete(s.upgrading, id)
			delete(s.ended, id)
		}
	}
	s.stats.LocalSessions.Store(int64(s.local.Len()))
}

// startLocals prepares for the local sessions of a mode that begins: those that
// have become global meanwhile are dropped, whether they have ended or not, the others are
// given their whole time. What a server that only reads has applied may be cut off, so that
// it drops none.
func (s *sessions) startLocals(readOnly bool) {
	ended := s.ended
	if !readOnly {
		s.upgrading, s.ended = nil, nil
	}
	switch {
	case !readOnly && !s.o.LocalSessions:
		s.local = nil
		s.stats.LocalSessions.Store(0)
		return
	case s.local == nil:
		s.local = session.NewTracker(session.Config{TickMillis: int32(s.o.Tick.Milliseconds())})
	}
	now := s.Millis(s.Now())
	for _, l := range s.local.Timeouts() {
		if _, over := ended[l.ID]; !readOnly && (over || s.tree.HasSession(l.ID)) {
			s.local.Remove(l.ID)
		} else {
			s.local.Touch(l.ID, l.Millis, now)
		}
	}
	s.stats.LocalSessions.Store(int64(s.local.Len()))
	s.tracker.SetLocals(s.local, s.o.ServerID)
}

// planReadOnly notes when a server that begins an election is to be ReadOnly.
func (o *orderer) planReadOnly(role zab.Role) {
	o.readOnlyAt = 0
	if role == zab.Looking && o.o.ReadOnly {
		o.readOnlyAt = o.Now() + max(cmp.Or(o.o.ReadOnlyAfter, readOnlyAfter), o.o.Tick)
	}
}

// beginReadOnly begins to serve clients that only read, if it is time. All logged
// transactions are applied, as on every server that has left its role.
func (o *orderer) beginReadOnly() {
	if o.readOnlyAt == 0 || o.turn.began < o.readOnlyAt {
		return
	}
	if o.diverged.Load() {
		o.readOnlyAt = 0 // the tree is wrong
		return
	}
	if len(o.proposed) > 0 || !o.allApplied(false) {
		o.readOnlyAt = o.Now() + o.o.Tick/4 // soon
		return
	}
	o.readOnlyAt = 0
	if o.fuzzy.Load() {
		// The tree is a leader's whose transactions have not all come: it shows a
		// state that never was.
		o.log.Warn("no read-only mode: the leader's snapshot has not come whole")
		return
	}
	o.newTracker()
	o.startLocals(true)
	o.log.Info("no quorum: clients that only read are served", "zxid", o.LastApplied())
	o.setMode(ReadOnly)
}

// leaveUnknown turns away, without a quorum, a session that the tree does not have: it may
// well be alive, for an end that this server has applied may be cut off. Only those that
// this server has given its clients since it only reads are over. A session that the tree
// has goes on here, to read, as on Apache's read-only server.
func (s *sessions) leaveUnknown(q resume) bool {
	if s.tracker.Tracked(q.id) || s.tracker.Assigned(q.id) {
		return false
	}
	q.origin.Leave("this server does not know the session, and has no quorum to ask")
	return true
}
