// Package session keeps the sessions of a server that decides about them, a
// leader, a standalone server, or any server about its local sessions: which there are, who owns each, and when each
// has been silent for too long (protocol page, sections 3.4, 7 and 10).
//
// Time is an argument, in milliseconds of any clock that does not go back.
// Sessions expire in buckets: the last sign of life plus the timeout, rounded
// up to the next multiple of the tick, and up by a whole tick if it is one.
//
// Signs of life are too many to be told one by one. The server notes, for each
// connection, when it last heard of it; Due asks for that only when a session's
// bucket has come, and moves the session to where it would have been had each
// sign been told. Touch tells at once what no connection here can know.
//
// Invariants, each with a test that carries its number:
//
//  1. Due returns a session if and only if its latest sign of life is so old
//     that its bucket has come, whether the sign was told or asked for.
//  2. A session that is closing is not returned again, not kept alive, and
//     fails every check with ErrSessionExpired.
//  3. At most one owner passes Check; the first that asks becomes it.
//  4. Due takes time for the sessions whose bucket has come, which each session
//     meets about once in its timeout, not for all.
//  5. Order is deterministic: by bucket, then by id.
//  6. NextID never returns 0, the mark of containers, or a session that exists.
//
// The tracker has no lock: the caller sees to it that one call runs at a time.
package session

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/pinfold-zk/pinfold/zk"
)

// Owner says through whom a session's requests come: a connection of this
// server or, on a leader, the link of a learner. The caller makes the numbers.
type Owner uint64

// NoOwner is the owner of a session that nobody has spoken for yet.
const NoOwner Owner = 0

// Config configures a Tracker.
type Config struct {
	// TickMillis is the width of a bucket: the server's tickTime, at least 1.
	TickMillis int32
	// FirstID is the first id that NextID gives, as InitialID returns it.
	FirstID zk.SessionID
	// Standalone makes Check answer ErrUnknownSession for a session that does
	// not exist, as a standalone Apache does, where a leader answers
	// ErrSessionExpired.
	Standalone bool
}

// A Tracker holds the sessions.
type Tracker struct {
	cfg      Config
	next     zk.SessionID
	sessions map[zk.SessionID]*session
	locals   *Tracker // see SetLocals; nil: there are no local sessions
	server   uint8

	// buckets holds the sessions to look at when a time comes: every one that
	// is not closing, in the bucket that it names. None is empty.
	buckets map[int64]map[zk.SessionID]*session
}

// session is one entry of the table.
//
// Invariant: bucket <= deadline.
type session struct {
	timeout  int32 // milliseconds, as agreed at its creation
	current  int32 // milliseconds, as the latest Touch said
	closing  bool
	owner    Owner
	deadline int64 // bucket by the signs of life that were told
	bucket   int64 // bucket in which Due will look at it
}

// NewTracker returns a tracker without sessions. It panics if TickMillis is not
// positive: that is a mistake of the caller.
func NewTracker(c Config) *Tracker {
	if c.TickMillis <= 0 {
		panic(fmt.Sprintf("session: tick of %d ms", c.TickMillis))
	}
	return &Tracker{
		cfg:      c,
		next:     c.FirstID,
		sessions: make(map[zk.SessionID]*session),
		buckets:  make(map[int64]map[zk.SessionID]*session),
	}
}

// NextID returns an id for a new session. It does not add the session.
func (t *Tracker) NextID() zk.SessionID {
	for {
		id := t.next
		t.next = following(id)
		if _, taken := t.sessions[id]; !taken && validID(id) {
			return id
		}
	}
}

// Add starts to track a session, without an owner, and reports whether it was
// not there. One that is there keeps its timeout, owner and closing flag; if it
// is not closing this counts as Touch.
func (t *Tracker) Add(id zk.SessionID, timeoutMillis int32, nowMillis int64) bool {
	if _, ok := t.sessions[id]; ok {
		t.Touch(id, timeoutMillis, nowMillis)
		return false
	}
	s := &session{
		timeout:  timeoutMillis,
		current:  timeoutMillis,
		deadline: t.bucketOf(nowMillis, timeoutMillis),
	}
	t.sessions[id] = s
	t.place(id, s)
	return true
}

// Touch notes a sign of life at nowMillis and sets the timeout that counts from
// now on; a client may come back with another than it began with. It reports
// false, and does nothing, for a session that does not exist or is closing.
func (t *Tracker) Touch(id zk.SessionID, timeoutMillis int32, nowMillis int64) bool {
	s := t.sessions[id]
	if s == nil || s.closing {
		return false
	}
	s.current = timeoutMillis
	s.deadline = t.bucketOf(nowMillis, timeoutMillis)
	if s.deadline < s.bucket {
		// A move to a later bucket can wait until this one comes; to an earlier
		// one it cannot.
		t.displace(id, s)
		t.place(id, s)
	}
	return true
}

// place puts a session into the bucket of its deadline.
func (t *Tracker) place(id zk.SessionID, s *session) {
	s.bucket = s.deadline
	b := t.buckets[s.bucket]
	if b == nil {
		b = make(map[zk.SessionID]*session)
		t.buckets[s.bucket] = b
	}
	b[id] = s
}

// displace takes a session out of its bucket, if it is in one.
func (t *Tracker) displace(id zk.SessionID, s *session) {
	b := t.buckets[s.bucket]
	delete(b, id)
	if len(b) == 0 {
		delete(t.buckets, s.bucket)
	}
}

// bucketOf returns the bucket of a session that was heard of at nowMillis.
func (t *Tracker) bucketOf(nowMillis int64, timeoutMillis int32) int64 {
	tick := int64(t.cfg.TickMillis)
	return ((nowMillis+int64(timeoutMillis))/tick + 1) * tick
}

// Due marks the sessions that have expired by nowMillis as closing and returns
// them. The caller submits a closeSession for each, and calls Remove when that
// is applied. heard must not call the tracker.
//
// heard returns the time at which this server last heard of a session over a
// connection of its own, by the clock of nowMillis. For a session without one
// it returns false.
func (t *Tracker) Due(nowMillis int64, heard func(zk.SessionID) (int64, bool)) []zk.SessionID {
	var times []int64
	for at := range t.buckets {
		if at <= nowMillis {
			times = append(times, at)
		}
	}
	slices.Sort(times)
	var expired []zk.SessionID
	for _, at := range times {
		bucket := t.buckets[at]
		delete(t.buckets, at)
		begin := len(expired)
		for id, s := range bucket {
			t.hear(id, s, heard)
			if s.deadline > nowMillis {
				t.place(id, s)
				continue
			}
			s.closing = true
			expired = append(expired, id)
		}
		slices.Sort(expired[begin:])
	}
	return expired
}

// hear raises a session's deadline to what its connection knows.
func (t *Tracker) hear(id zk.SessionID, s *session, heard func(zk.SessionID) (int64, bool)) {
	if last, ok := heard(id); ok {
		s.deadline = max(s.deadline, t.bucketOf(last, s.current))
	}
}

// Check says whether a request of the session, coming from owner, may go on:
// OK, ErrSessionExpired if it is closing, ErrSessionMoved if it belongs to
// another owner (close the connection then, without a reply), and for a session
// that does not exist ErrUnknownSession or ErrSessionExpired as configured. A
// session without an owner gets this one.
func (t *Tracker) Check(id zk.SessionID, owner Owner) zk.Code {
	s := t.sessions[id]
	switch {
	case s == nil && t.cfg.Standalone:
		return zk.ErrUnknownSession
	case s == nil || s.closing:
		return zk.ErrSessionExpired
	case s.owner == NoOwner:
		s.owner = owner
	case s.owner != owner:
		return zk.ErrSessionMoved
	}
	return zk.OK
}

// CheckGlobal is Check for requests that need a session which the whole
// ensemble knows, such as creating an ephemeral: one that does not exist is
// ErrSessionExpired on every server, one that is local here is
// ErrEphemeralOnLocalSession.
func (t *Tracker) CheckGlobal(id zk.SessionID, owner Owner) zk.Code {
	if t.isLocal(id) {
		return zk.ErrEphemeralOnLocalSession
	}
	if c := t.Check(id, owner); c != zk.ErrUnknownSession {
		return c
	}
	return zk.ErrSessionExpired
}

// SetOwner makes owner the one through whom the session's requests come, as
// creating and resuming it do. It returns ErrSessionExpired, and does nothing,
// if the session does not exist or is closing, else OK.
func (t *Tracker) SetOwner(id zk.SessionID, owner Owner) zk.Code {
	s := t.sessions[id]
	if s == nil || s.closing {
		return zk.ErrSessionExpired
	}
	s.owner = owner
	return zk.OK
}

// MarkClosing makes the session fail every check from now on: its closeSession
// is on the way. A session that does not exist stays so.
func (t *Tracker) MarkClosing(id zk.SessionID) {
	if s := t.sessions[id]; s != nil && !s.closing {
		s.closing = true
		t.displace(id, s)
	}
}

// Remove forgets a session.
func (t *Tracker) Remove(id zk.SessionID) {
	t.MarkClosing(id)
	delete(t.sessions, id)
}

// Len returns the number of sessions, closing ones included.
func (t *Tracker) Len() int { return len(t.sessions) }

// Tracked reports whether the session exists; it may be closing.
func (t *Tracker) Tracked(id zk.SessionID) bool { return t.sessions[id] != nil }

// Timeout is a session and the timeout in milliseconds that was agreed when it
// was created.
type Timeout struct {
	ID     zk.SessionID
	Millis int32
}

// Timeouts returns every session, closing ones included, in the order of ids.
// The caller owns the result.
func (t *Tracker) Timeouts() []Timeout {
	out := make([]Timeout, 0, len(t.sessions))
	for id, s := range t.sessions {
		out = append(out, Timeout{id, s.timeout})
	}
	slices.SortFunc(out, func(a, b Timeout) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// Bucket is the sessions that expire together.
type Bucket struct {
	AtMillis int64          // by the clock of Due
	IDs      []zk.SessionID // ascending
}

// Buckets returns the sessions that are not closing by the time at which each
// will expire if nothing more is heard of it, earliest first. heard is as for
// Due. It looks at every session. The caller owns the result.
func (t *Tracker) Buckets(heard func(zk.SessionID) (int64, bool)) []Bucket {
	byTime := make(map[int64][]zk.SessionID)
	for id, s := range t.sessions {
		if s.closing {
			continue
		}
		t.hear(id, s, heard)
		byTime[s.deadline] = append(byTime[s.deadline], id)
	}
	out := make([]Bucket, 0, len(byTime))
	for _, at := range slices.Sorted(maps.Keys(byTime)) {
		slices.Sort(byTime[at])
		out = append(out, Bucket{at, byTime[at]})
	}
	return out
}

// AppendDump appends the block "Session Sets" of the four-letter word dump, as
// it stands behind the line "SessionTracker dump:". date writes a time of
// Due's clock as the date that it is.
func AppendDump(dst []byte, buckets []Bucket, date func(atMillis int64) string) []byte {
	sessions := 0
	for _, b := range buckets {
		sessions += len(b.IDs)
	}
	dst = fmt.Appendf(dst, "Session Sets (%d)/(%d):\n", len(buckets), sessions)
	for _, b := range buckets {
		dst = fmt.Appendf(dst, "%d expire at %s:\n", len(b.IDs), date(b.AtMillis))
		for _, id := range b.IDs {
			dst = append(dst, "\t0x"...)
			dst = strconv.AppendUint(dst, uint64(id), 16)
			dst = append(dst, '\n')
		}
	}
	return dst
}
