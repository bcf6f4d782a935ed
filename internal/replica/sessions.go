package replica

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pinfold-zk/pinfold/internal/prep"
	"github.com/pinfold-zk/pinfold/internal/session"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/internal/zab"
	"github.com/pinfold-zk/pinfold/zk"
)

// sessions are the sessions that this server knows: on a leader and on a standalone server
// all of them, on a learner those of its own clients. Order owns it.
type sessions struct {
	*Replica
	tracker    *session.Tracker
	owners     map[zk.SessionID]owner
	closing    []closingSession
	undecided  questions     // of a leader, about sessions that are ending
	nextExpiry time.Duration // when sessions that are due end
	postponed  bool          // the last expiry was late, and did not take place
	locals
}

// owner is the connection through which a session's requests come.
type owner struct {
	Origin
	timeoutMillis int32
}

// closingSession is a session whose closeSession transaction is on its way.
type closingSession struct {
	zxid zk.Zxid
	id   zk.SessionID
}

// newTracker begins to track the sessions that the tree has.
func (s *sessions) newTracker() {
	s.tracker = session.NewTracker(session.Config{
		TickMillis: int32(s.o.Tick.Milliseconds()), Standalone: s.o.Ensemble == nil,
		FirstID: session.InitialID(s.o.ServerID, s.clock.UnixMilli()),
	})
	s.tree.Sessions(func(id zk.SessionID, timeout int32) { s.tracker.Add(id, timeout, s.Millis(s.Now())) })
}

// beginSession gives a createSession, which is to be transaction z, its session.
// That of a learner's client has its id from there, one that is upgraded its own.
func (s *sessions) beginSession(req *Request, z zk.Zxid) {
	timeout := int32(binary.BigEndian.Uint32(req.Body))
	if req.Session == 0 {
		req.Session = s.newID()
	} else {
		s.noteUpgrade(req.Session, z)
	}
	s.tracker.Add(req.Session, timeout, s.Millis(s.Now()))
	s.tracker.SetOwner(req.Session, req.Owner)
	if req.Origin != nil {
		s.owners[req.Session] = owner{req.Origin, timeout}
	}
}

// endSession takes note that transaction z ends the session of a request. A session may be
// ended over a connection that it has moved away from.
func (s *sessions) endSession(req *Request, z zk.Zxid) {
	s.closing = append(s.closing, closingSession{z, req.Session})
	switch own, ok := s.owners[req.Session]; {
	case !ok:
	case req.Origin == nil: // of another server
		req.Origin, req.Owner = own.Origin, session.NoOwner
	case own.Origin != nil && req.Origin != own.Origin:
		own.Origin.Leave("its session is ended over a connection that it has left")
	}
}

// forgetClosed drops the sessions whose end has been applied.
func (s *sessions) forgetClosed() {
	applied, n := zk.Zxid(s.applied.Load()), 0
	for ; n < len(s.closing) && s.closing[n].zxid <= applied; n++ {
		s.tracker.Remove(s.closing[n].id)
		delete(s.owners, s.closing[n].id)
		s.decide(s.closing[n].id)
	}
	s.closing = s.closing[n:]
	if len(s.closing) == 0 {
		s.closing = nil
	}
	s.forgetUpgraded()
}

// revive makes by the owner of a session that is alive, and counts as a sign of
// life. It reports false if the session is over.
func (s *sessions) revive(id zk.SessionID, by session.Owner, timeoutMillis int32) bool {
	return s.tracker.SetOwner(id, by) == zk.OK && s.tracker.Touch(id, timeoutMillis, s.Millis(s.Now()))
}

// heard is when the session's client was last heard of, by its connection.
func (s *sessions) heard(id zk.SessionID) (int64, bool) {
	if own, ok := s.owners[id]; ok {
		return s.Millis(own.LastHeard()), true
	}
	return 0, false
}

// expireAtTick ends the sessions that are due, once in a tick. If this server was not able
// to do so in time, for a turn was long or the machine stood still, it waits for one more
// tick: it may not have heard of sessions that are alive, since a leader asks its learners
// for them by its pings.
func (s *sessions) expireAtTick(now time.Duration) {
	late := now - s.nextExpiry
	if late < 0 {
		return
	}
	s.nextExpiry = now + s.untilTick(now)
	if s.postponed = late > s.o.Tick/2 && !s.postponed; !s.postponed {
		s.expire(now)
	}
}

// expire submits the end of every session that was due at now, on a server that decides about
// sessions: a leader, or a standalone server. It does not read the clock: if the machine has stood still since now,
// clients had no time to be heard.
func (s *sessions) expire(now time.Duration) {
	s.expireLocals(now)
	if !s.serving.Load() || !s.decides.Load() {
		return
	}
	due := s.tracker.Due(s.Millis(now), s.heard)
	if len(due) == 0 {
		return
	}
	reqs := make([]Request, len(due))
	for i, id := range due {
		s.log.Info("session expired", "session", id)
		reqs[i] = s.closeRequest(id)
	}
	s.stats.Expired.Add(int64(len(due)))
	s.Submit(reqs)
}

// closeRequest is the server's own request to end a session.
func (s *sessions) closeRequest(id zk.SessionID) Request {
	return Request{
		Request:  prep.Request{Session: id, Op: wire.OpCloseSession, Owner: session.NoOwner},
		Origin:   s.owners[id].Origin,
		Received: s.Now(),
	}
}

// untilTick is the time from now to the next multiple of the tick, by the sessions' clock.
func (s *sessions) untilTick(now time.Duration) time.Duration {
	return s.o.Tick - (time.Duration(s.zero)*time.Millisecond+now)%s.o.Tick
}

// validate answers whether a session is alive, and makes the learner its owner.
func (s *sessions) validate(l zab.LinkID, data []byte) error {
	if len(data) < 12 {
		return fmt.Errorf("%d bytes are no session and timeout", len(data))
	}
	id, timeout := zk.SessionID(binary.BigEndian.Uint64(data)), int32(binary.BigEndian.Uint32(data[8:]))
	ok := s.revive(id, ownerOf(l), timeout)
	if !ok && s.ending(id) {
		s.undecided.ask(question{link: l, resume: resume{id: id}})
		return nil
	}
	if own, here := s.owners[id]; ok && here {
		own.Leave("the session has moved to another server")
		delete(s.owners, id)
	}
	s.answerValidate(l, id, ok)
	return nil
}

func (s *sessions) answerValidate(l zab.LinkID, id zk.SessionID, alive bool) {
	data := append(binary.BigEndian.AppendUint64(nil, uint64(id)), 0)
	if alive {
		data[8] = 1
	}
	s.net.Send(l, []zab.Packet{{Type: zab.Revalidate, Zxid: -1, Data: data}})
}

// question is about a session whose end is proposed and not yet committed. A leader that
// a partition has cut off must not tell a client that its session is over: with another
// leader the session and its ephemerals may still exist.
type question struct {
	link zab.LinkID // of the learner that asks; 0: a client of this server, by resume
	resume
}

// questions are those that are not answered yet: of each session one of each link, and one of
// this server's clients, however often they ask. A learner waits for one answer about a session.
// Those of links have shares of maxQuestionBytes: a stranger that behaves as an observer may ask
// about all sessions that end at the same time, over many links.
type questions struct {
	about  map[zk.SessionID][]question
	shares shares // of links
}

// questionBytes is the memory of a question of a link, with its part of the map. Links may
// have maxQuestionBytes of them; a question beyond that gets no answer: the learner's
// client asks again with its next connection.
const (
	questionBytes    = 128
	maxQuestionBytes = 16 << 20
)

// ask adds a question. It replaces an earlier one about the session of the same learner, or of
// an earlier connection to this server, which is dropped.
func (qs *questions) ask(q question) {
	all := qs.about[q.id]
	i := slices.IndexFunc(all, func(before question) bool { return before.link == q.link })
	switch {
	case i >= 0 && q.link == 0:
		all[i].origin.Dropped(&Request{})
		all[i] = q
	case i >= 0:
		all[i] = q
	case q.link == 0 || qs.shares.charge(q.link, questionBytes, maxQuestionBytes):
		if qs.about == nil {
			qs.about = map[zk.SessionID][]question{}
		}
		qs.about[q.id] = append(all, q)
	}
}

// take removes the questions about a session, and returns them.
func (qs *questions) take(id zk.SessionID) []question {
	all := qs.about[id]
	for _, q := range all {
		qs.shares.credit(q.link, questionBytes) // of link 0 nothing is counted
	}
	delete(qs.about, id)
	return all
}

// forget drops the questions of a link that is lost.
func (qs *questions) forget(l zab.LinkID) {
	if qs.shares.byLink[l] == 0 {
		return
	}
	for id, all := range qs.about {
		if qs.about[id] = slices.DeleteFunc(all, func(q question) bool { return q.link == l }); len(qs.about[id]) == 0 {
			delete(qs.about, id)
		}
	}
	qs.shares.credit(l, maxQuestionBytes)
}

// ending reports whether the end of a session is submitted and not committed yet. On a
// standalone server it is false: there every submitted end takes effect.
func (s *sessions) ending(id zk.SessionID) bool {
	return s.o.Ensemble != nil && s.tracker.Tracked(id)
}

// decide answers the questions about a session that has ended.
func (s *sessions) decide(id zk.SessionID) {
	for _, q := range s.undecided.take(id) {
		if q.link != 0 {
			s.answerValidate(q.link, id, false)
		} else {
			q.origin.Resumed(false, id, 0)
		}
	}
}

// dropQuestions drops the questions without an answer, because the role ends: the
// clients and learners ask the next leader.
func (s *sessions) dropQuestions() {
	for _, id := range slices.Sorted(maps.Keys(s.undecided.about)) {
		for _, q := range s.undecided.take(id) {
			if q.link == 0 {
				q.origin.Dropped(&Request{})
			}
		}
	}
}

// touch records the sessions whose clients a learner has heard.
func (s *sessions) touch(data []byte) error {
	now := s.Millis(s.Now())
	for ; len(data) >= 12; data = data[12:] {
		s.tracker.Touch(zk.SessionID(binary.BigEndian.Uint64(data)), int32(binary.BigEndian.Uint32(data[8:])), now)
	}
	if len(data) > 0 {
		return fmt.Errorf("%d bytes too many", len(data))
	}
	return nil
}
