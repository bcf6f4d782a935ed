package sim

import (
	"bytes"
	"slices"
	"sort"
	"time"

	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/internal/zab"
	"github.com/pinfold-zk/pinfold/zk"
)

// entry is a transaction in a log.
type entry struct {
	z       zk.Zxid
	hash    uint64
	data    []byte
	changes bool // the configuration
}

func entryOf(e zab.Entry) entry {
	return entry{e.Zxid, hashBytes(e.Data), bytes.Clone(e.Data), txn.IsReconfig(e.Data)}
}

// history is the sequence of committed transactions, as the first member that
// delivers each of them tells. The model carries out the requests that they came
// from, and each transaction must be what the model makes of its request.
type history struct {
	s       *Sim
	entries []entry
	details []detail
	model   *model

	digests  map[zk.Zxid]uint64   // of every tree that was seen, and of the model
	deferred map[zk.Zxid][]func() // judgements of what was shown before it was committed
	sessions map[zk.SessionID]*sessionLife
	alive    int
	sent     map[request]*ask
	outcomes map[request]outcome
}

// request names a client's write.
type request struct {
	session zk.SessionID
	cxid    int32
}

// outcome is what a write came to, and what its client must be told.
type outcome struct {
	z       zk.Zxid
	code    zk.Code // of the request as a whole
	results []result
}

// detail is a committed transaction.
type detail struct {
	at     time.Duration // when it was delivered first
	tx     txn.Txn
	events []fired
}

// change is an event as its watchers are told.
type change struct {
	kind zk.EventType
	path string
}

// fired is a change with the ACL that decides which clients are told of it.
type fired struct {
	change
	acl []zk.ACL
}

// sessionLife is what the history and the clients know of a session.
type sessionLife struct {
	timeout  time.Duration
	created  zk.Zxid
	ended    int // place of its end in the history; alive is -1
	connects int // how often its client has tried to connect
	heard    []time.Duration
}

func newHistory(s *Sim) *history {
	h := &history{
		s: s, model: newModel(s.profile.electorate.roster(s.profile.observers)), digests: map[zk.Zxid]uint64{}, deferred: map[zk.Zxid][]func(){}, sessions: map[zk.SessionID]*sessionLife{},
		sent: map[request]*ask{}, outcomes: map[request]outcome{},
	}
	h.digests[0] = h.model.digest
	return h
}

func (h *history) last() zk.Zxid {
	if len(h.entries) == 0 {
		return 0
	}
	return h.entries[len(h.entries)-1].z
}

// upto returns how many entries are not later than z.
func (h *history) upto(z zk.Zxid) int {
	if z >= h.last() {
		return len(h.entries)
	}
	return sort.Search(len(h.entries), func(i int) bool { return h.entries[i].z > z })
}

// holds reports whether the transaction z is committed, or z is before all.
func (h *history) holds(z zk.Zxid) bool {
	n := h.upto(z)
	return z == 0 || n > 0 && h.entries[n-1].z == z
}

// at returns the znode as it is at z.
func (h *history) at(path string, z zk.Zxid) version { return h.model.at(path, z) }

// extend judges the next transaction, and adds it.
func (h *history) extend(e entry) {
	tx, err := txn.Decode(e.data)
	if err != nil {
		h.s.fail("Integrity", "%v is delivered and cannot be read: %v", e.z, err)
	}
	h.entries = append(h.entries, e)
	h.details = append(h.details, detail{at: h.s.now, tx: tx})
	h.model.begin(given{z: e.z, time: tx.Time, session: tx.Session, quotas: h.s.check.broadcast[e.z].applied})
	h.judge(&tx)
	h.details[len(h.details)-1].events = h.model.events
	if tx.HasDigest && tx.Digest != h.model.digest {
		h.s.fail("SequentialModel", "%v of session %v at %v leads to digest %d, in the model to %d: %+v",
			tx.Header.Type, tx.Session, e.z, tx.Digest, h.model.digest, tx)
	}
	h.sawDigest(e.z, h.model.digest, "the model")
	for _, judge := range h.deferred[e.z] {
		judge()
	}
	delete(h.deferred, e.z)
}

// sawDigest checks that every tree at z has one digest, the model's.
func (h *history) sawDigest(z zk.Zxid, digest uint64, who string) {
	want, known := h.digests[z]
	if known && want != digest {
		h.s.fail("EqualDigest", "at %v the digest of %s is %d, another's was %d", z, who, digest, want)
	}
	h.digests[z] = digest
}

// judge has the model do what a transaction came from, and compares.
func (h *history) judge(tx *txn.Txn) {
	switch tx.Header.Type {
	case wire.OpCreateSession:
		h.sessionBegins(tx)
		return
	case wire.OpCloseSession:
		h.sessionEnds(tx)
		return
	case wire.OpDeleteContainer:
		h.judgeSweep(tx)
		return
	}
	if tx.Session == 0 {
		if !tx.Failed() {
			h.s.fail("SequentialModel", "%v at %v is no client's: %+v", tx.Header.Type, tx.Zxid, tx)
		}
		return // a sweep that came too late
	}
	r := request{tx.Session, tx.Cxid}
	q := h.sent[r]
	if q != nil && q.onReader {
		h.s.fail("ReadOnly", "%v at %v is request %d of session %v, which was sent to a member that only reads", tx.Header.Type, tx.Zxid, tx.Cxid, tx.Session)
	}
	if q == nil {
		h.s.fail("SequentialModel", "%v at %v is request %d of session %v, which no client has sent", tx.Header.Type, tx.Zxid, tx.Cxid, tx.Session)
	}
	if before, ok := h.outcomes[r]; ok {
		h.s.fail("AtMostOnce", "request %d of session %v is both %v and %v", r.cxid, r.session, before.z, tx.Zxid)
	}
	h.outcomes[r] = h.judgeWrite(tx, q)
}

// codesOf returns the code of each operation of a request, as its transaction
// tells. whole is the code of a request that was refused as a whole.
func codesOf(tx *txn.Txn, q *ask) (codes []zk.Code, whole zk.Code) {
	codes = make([]zk.Code, len(q.ops))
	if tx.Header.Type == wire.OpError {
		for i := range codes {
			codes[i] = tx.Err
		}
		return codes, tx.Err
	}
	for i := range tx.Multi {
		if op := &tx.Multi[i]; op.Type == wire.OpError && i < len(codes) {
			codes[i] = op.Err
		}
	}
	return codes, zk.OK
}

// judgeWrite compares a transaction with what the model makes of its request.
func (h *history) judgeWrite(tx *txn.Txn, q *ask) outcome {
	codes, whole := codesOf(tx, q)
	h.model.now.check = h.sessionCheck(tx, q, codes)
	if q.op == wire.OpCloseSession { // it would be a CloseSession if it had not failed
		if h.model.now.check != whole {
			h.s.fail("SequentialModel", "closing session %v is refused at %v: %v", tx.Session, tx.Zxid, whole)
		}
		return outcome{z: tx.Zxid, code: whole}
	}
	results := h.model.write(q, codes)
	want := zk.OK
	if q.op != wire.OpMulti || h.model.now.check == zk.ErrSessionMoved && results[0].op == wire.OpError {
		want = worst(results)
	}
	if want != whole {
		h.differs(tx, q, "is answered %v, must be %v", whole, want)
	}
	for i := range results {
		h.s.cover.code(results[i].code)
		if want == zk.OK && results[i].code != codes[i] {
			h.differs(tx, q, "operation %d is answered %v, must be %v", i, codes[i], results[i].code)
		}
	}
	if want == zk.OK && worst(results) == zk.OK {
		h.judgeACLs(tx, q)
		if q.op == wire.OpReconfig {
			h.judgeReconfig(tx, q)
		}
	}
	return outcome{z: tx.Zxid, code: want, results: results}
}

// worst returns the code of the operation that failed, or OK.
func worst(results []result) zk.Code {
	for _, r := range results {
		if r.code != zk.OK {
			return r.code
		}
	}
	return zk.OK
}

func (h *history) differs(tx *txn.Txn, q *ask, format string, args ...any) {
	args = append([]any{q.op, q.path, tx.Zxid, q.ops, q.ids}, args...)
	h.s.fail("SequentialModel", "%v %s at %v (%+v by %v) "+format, args...)
}

// judgeACLs compares the ACLs that a transaction stores, which no digest covers.
func (h *history) judgeACLs(tx *txn.Txn, q *ask) {
	stored := tx.Multi
	if q.op != wire.OpMulti {
		stored = []txn.Op{tx.Op}
	}
	for i := range q.ops {
		op := &q.ops[i]
		if !isCreate(op.Type) && op.Type != wire.OpSetACL {
			continue
		}
		if want, _ := storedACL(op.ACL, q.ids); !slices.Equal(stored[i].ACL, want) {
			h.differs(tx, q, "stores the ACL %v, must be %v", stored[i].ACL, want)
		}
	}
}

func isCreate(op wire.OpCode) bool {
	return op == wire.OpCreate || op == wire.OpCreate2 || op == wire.OpCreateTTL || op == wire.OpCreateContainer
}

// sessionCheck returns what the leader's check of the session must have found. The
// state decides, but for a session that moves to another connection, or that the
// leader is about to end.
func (h *history) sessionCheck(tx *txn.Txn, q *ask, codes []zk.Code) zk.Code {
	life := h.sessions[tx.Session]
	if life == nil || life.ended >= 0 {
		return h.localCheck(tx, q, codes)
	}
	for _, code := range codes {
		switch code {
		case zk.ErrSessionMoved:
			if life.connects < 2 {
				h.differs(tx, q, "is refused: moved, and its client had one connection")
			}
			h.s.cover.MovedWrites++
			return code
		case zk.ErrSessionExpired:
			h.endsEarly(tx)
			return code
		}
	}
	return zk.OK
}

// sessionBegins notes a session.
func (h *history) sessionBegins(tx *txn.Txn) {
	if h.sessions[tx.Session] != nil {
		h.s.fail("SequentialModel", "session %v is created at %v, and was before", tx.Session, tx.Zxid)
	}
	h.sessions[tx.Session] = &sessionLife{
		timeout: time.Duration(tx.TimeoutMillis) * time.Millisecond, created: tx.Zxid, ended: -1, connects: 1,
	}
	if h.s.profile.localSessions {
		h.sessions[tx.Session].connects = 2 // how often the client of a local session has connected is not counted
		h.upgraded(tx)
	}
	h.alive++
}

// sessionEnds ends a session, and its ephemerals with it.
func (h *history) sessionEnds(tx *txn.Txn) {
	life := h.sessions[tx.Session]
	if life == nil {
		h.s.fail("SequentialModel", "session %v ends at %v, and was never created", tx.Session, tx.Zxid)
	}
	if life.ended < 0 {
		h.alive--
		h.s.cover.SessionsEnded++
		if tx.Cxid == 0 {
			h.endsEarly(tx)
		}
		life.ended = len(h.entries) - 1
	}
	if q := h.sent[request{tx.Session, tx.Cxid}]; tx.Cxid != 0 && (q == nil || q.op != wire.OpCloseSession) {
		h.s.fail("SequentialModel", "session %v is closed at %v by request %d, which does not ask for that", tx.Session, tx.Zxid, tx.Cxid)
	}
	h.model.endSession()
}

func (h *history) liveSessions() int { return h.alive }

// endedBefore reports whether the session was over at some time.
func (h *history) endedBefore(id zk.SessionID, at time.Duration) bool {
	life := h.sessions[id]
	return life != nil && life.ended >= 0 && h.details[life.ended].at < at
}

// judgeSweep checks that what the sweep deletes may be deleted: a znode without
// children that is a container or has a time to live, or was when the sweep began.
func (h *history) judgeSweep(tx *txn.Txn) {
	h.s.cover.Swept++
	m, path := h.model, tx.Path
	v := m.get(path)
	once := slices.ContainsFunc(m.znodes[path], func(v version) bool {
		return v.exists && (v.container() || v.ttl())
	})
	if !v.exists || len(v.children) > 0 || v.ephemeral() || !once {
		h.s.fail("SequentialModel", "the sweep deletes %s at %v, which is %+v", path, tx.Zxid, v)
	}
	if v.container() && v.creates == 0 && len(m.znodes[path]) == 1 && tx.Time-v.mtime <= neverUsed.Milliseconds() && h.s.cover.Faults[clockJump] == 0 {
		h.s.fail("SequentialModel", "the sweep deletes %s at %v, a container that was never used", path, tx.Zxid)
	}
	if age := tx.Time - v.mtime; v.ttl() && age <= v.owner&ttlLimit && h.s.cover.Faults[clockJump] == 0 && len(m.znodes[path]) == 1 {
		h.s.fail("SequentialModel", "the sweep deletes %s at %v, %d ms after its creation", path, tx.Zxid, age)
	}
	m.remove(path)
}
