// Package session tracks the sessions of a server that decides about them: a leader, a
// standalone server, or any server for its local sessions. It knows which sessions
// exist, the owner of each, and when each has been silent for too long (protocol page,
// sections 3.4, 7 and 10).
//
// Time is an argument, in milliseconds of any clock that does not go back. Sessions
// expire in buckets. The bucket of a session is its last sign of life plus its timeout,
// rounded up to a multiple of the tick; an exact multiple is raised by one tick.
//
// Signs of life are too frequent to report each one. The server records, for each
// connection, when it last heard from it. Due asks for that time only when the bucket
// of the session has come, and then moves the session to the bucket where it would be
// if each sign had been reported. Touch reports a sign of life that no connection of
// this server can know.
//
// Invariants, each with a test that carries its number:
//
//  1. Due returns a session if and only if its latest sign of life is so old that its
//     bucket has come, whether the sign was reported by Touch or asked for by Due.
//  2. A closing session is not returned again, not kept alive, and fails every check with
//     ErrSessionExpired.
//  3. At most one owner passes Check: the first that asks.
//  4. Due takes time for the sessions whose bucket has come, not for all. For each
//     session that is about once per timeout.
//  5. Order is deterministic: by bucket, then by id.
//  6. NextID never returns 0, the id that marks containers, or the id of an existing
//     session.
//
// The tracker has no lock: the caller makes sure that only one call runs at a time.
package session

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/pinfold-zk/pinfold/zk"
)

// Owner says through what a session's requests come: a connection of this server or, on
// a leader, the link of a learner. The caller assigns the numbers.
type Owner uint64

// NoOwner is the owner of a session that has not made a request yet.
const NoOwner Owner = 0

// Weight is what a session counts in the budget of all sessions, in bytes: at least what its
// entries in the tree, in a Tracker and in the tables of its server take together, with the
// list of its ephemerals, which are data themselves.
const Weight = 512

// Config configures a Tracker.
type Config struct {
	// TickMillis is the width of a bucket: the server's tickTime, at least 1.
	TickMillis int32
	// FirstID is the first id that NextID returns; see InitialID.
	FirstID zk.SessionID
	// Standalone makes Check return ErrUnknownSession for a session that does not
	// exist, like a standalone Apache. A leader returns ErrSessionExpired.
	Standalone bool
}

// A Tracker holds the sessions.
type Tracker struct {
	cfg      Config
	next     zk.SessionID
	sessions map[zk.SessionID]*session
	locals   *Tracker // set by SetLocals; nil: there are no local sessions
	server   uint8

	// buckets holds every session that is not closing, in the bucket that its field
	// bucket names, by the time at which Due has to look at it. No bucket is empty.
	buckets map[int64]map[zk.SessionID]*session
}

// session is one entry of the table.
//
// Invariant: bucket <= deadline.
type session struct {
	timeout  int32 // milliseconds, as negotiated when it was created
	current  int32 // milliseconds, from the latest Touch
	closing  bool
	owner    Owner
	deadline int64 // bucket according to the reported signs of life
	bucket   int64 // bucket in which Due will look at it
}

// NewTracker returns a tracker without sessions. It panics if TickMillis is not
// positive.
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

// Assigned reports whether NextID has returned id, or skipped it because it exists.
func (t *Tracker) Assigned(id zk.SessionID) bool { return t.cfg.FirstID <= id && id < t.next }

// Add starts to track a session, without an owner, and reports whether it is new. A
// known session keeps its timeout, owner and closing flag; if it is not closing, Add
// acts as Touch.
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

// Touch records a sign of life at nowMillis, and sets the timeout from now on; a client
// may reconnect with another timeout. For a session that does not exist or is closing,
// Touch does nothing and returns false.
func (t *Tracker) Touch(id zk.SessionID, timeoutMillis int32, nowMillis int64) bool {
	s := t.sessions[id]
	if s == nil || s.closing {
		return false
	}
	s.current = timeoutMillis
	s.deadline = t.bucketOf(nowMillis, timeoutMillis)
	if s.deadline < s.bucket {
		// A move to a later bucket can wait until the present one comes; a move
		// to an earlier bucket cannot.
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

// displace removes a session from its bucket, if it is in one.
func (t *Tracker) displace(id zk.SessionID, s *session) {
	b := t.buckets[s.bucket]
	delete(b, id)
	if len(b) == 0 {
		delete(t.buckets, s.bucket)
	}
}

// bucketOf returns the bucket for a sign of life at nowMillis.
func (t *Tracker) bucketOf(nowMillis int64, timeoutMillis int32) int64 {
	tick := int64(t.cfg.TickMillis)
	return ((nowMillis+int64(timeoutMillis))/tick + 1) * tick
}

// Due marks the sessions that have expired by nowMillis as closing and returns them.
// The caller submits a closeSession for each, and calls Remove when that is applied.
//
// heard returns the time at which this server last heard from a session on one of its
// own connections, by the clock of nowMillis; false for a session without a connection.
// It must not call the tracker.
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

// hear raises a session's deadline according to the last sign of life of its
// connection.
func (t *Tracker) hear(id zk.SessionID, s *session, heard func(zk.SessionID) (int64, bool)) {
	if last, ok := heard(id); ok {
		s.deadline = max(s.deadline, t.bucketOf(last, s.current))
	}
}

// Check decides whether a request of the session, coming from owner, may continue. It
// returns OK; ErrSessionExpired if the session is closing; ErrSessionMoved if it
// belongs to another owner (the caller then closes the connection without a reply); and
// for a session that does not exist ErrUnknownSession or ErrSessionExpired as
// configured. If the session has no owner, owner becomes its owner.
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

// CheckGlobal is Check for requests that need a session of the complete ensemble, such
// as creating an ephemeral. For a session that does not exist it returns
// ErrSessionExpired on every server, and for a local session of this server
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

// SetOwner sets the owner of a session, as creating and resuming a session do. It
// returns OK, or ErrSessionExpired, without effect, if the session does not exist or is
// closing.
func (t *Tracker) SetOwner(id zk.SessionID, owner Owner) zk.Code {
	s := t.sessions[id]
	if s == nil || s.closing {
		return zk.ErrSessionExpired
	}
	s.owner = owner
	return zk.OK
}

// MarkClosing makes the session fail every check from now on, because its closeSession
// was submitted. It has no effect on a session that does not exist.
func (t *Tracker) MarkClosing(id zk.SessionID) {
	if s := t.sessions[id]; s != nil && !s.closing {
		s.closing = true
		t.displace(id, s)
	}
}

// Remove removes a session.
func (t *Tracker) Remove(id zk.SessionID) {
	t.MarkClosing(id)
	delete(t.sessions, id)
}

// Len returns the number of sessions, including closing ones.
func (t *Tracker) Len() int { return len(t.sessions) }

// Tracked reports whether the session exists; it may be closing.
func (t *Tracker) Tracked(id zk.SessionID) bool { return t.sessions[id] != nil }

// Timeout is a session and the timeout in milliseconds that was negotiated when it was
// created.
type Timeout struct {
	ID     zk.SessionID
	Millis int32
}

// Timeouts returns every session, including closing ones, in the order of ids. The
// caller owns the result.
func (t *Tracker) Timeouts() []Timeout {
	out := make([]Timeout, 0, len(t.sessions))
	for id, s := range t.sessions {
		out = append(out, Timeout{id, s.timeout})
	}
	slices.SortFunc(out, func(a, b Timeout) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// Bucket holds the sessions that expire together.
type Bucket struct {
	AtMillis int64          // by the clock of Due
	IDs      []zk.SessionID // ascending
}

// Buckets returns the sessions that are not closing, grouped by the time at which they
// will expire if nothing more is heard from them, earliest first. heard is as for Due.
// It looks at every session. The caller owns the result.
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

// AppendDump appends the block "Session Sets" of the four-letter word dump, which
// follows the line "SessionTracker dump:". date formats a time of Due's clock as a
// date.
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
