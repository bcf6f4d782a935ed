// Package prep makes transactions of requests: the work of the leader, or of a
// standalone server, before anything is logged (protocol page, section 7;
// paper, section 4.1).
//
// A request is checked against the projected state: the tree, and over it the
// changes of the transactions that are prepared but not applied. The result is
// idempotent: it carries the values that it leads to, not how to compute them.
// A request that fails a check becomes an error transaction, which takes a zxid
// like any other, so that its reply keeps its place in the order.
//
// Invariants:
//
//  1. Preparing does not fail: every request becomes a transaction.
//  2. What Prepare says will be true of the tree, digest included, once the
//     transaction and all before it are applied.
//  3. Once everything prepared is applied, nothing is outstanding.
//  4. No transaction is longer than Config.MaxTxnBytes.
package prep

import (
	"github.com/pinfold-zk/pinfold/internal/access"
	"github.com/pinfold-zk/pinfold/internal/auth"
	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/session"
	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/internal/znode"
	"github.com/pinfold-zk/pinfold/zk"
)

// Request is one request to change the state.
type Request struct {
	Session zk.SessionID // 0 for the server's own
	Xid     int32
	Op      wire.OpCode
	Body    []byte  // the record; for createSession an int, the timeout
	IDs     []zk.ID // identities of the client; not changed while anything refers to them
	Owner   session.Owner
}

// internal reports whether the server itself asks: no session, no ACL.
func (r *Request) internal() bool { return r.Session == 0 }

// Config is what requests are judged by beside the state.
type Config struct {
	ExtendedTypes   bool // TTL znodes are allowed
	EnforceQuota    bool // hard limits refuse
	ReconfigEnabled bool
	ListClosedPaths bool // closeSession lists the ephemerals: closeSessionTxn.enabled
	DigestEnabled   bool
	// MaxTxnBytes bounds the encoding of a transaction (txn.Txn.Len): header,
	// record and digest. It is what the log, and the link to a learner, accept. An
	// ACL of scheme auth, a session with very many ephemerals, or a multi whose
	// operations fail can make a small request into a large transaction. At least
	// 1 KiB; 0 is no bound.
	MaxTxnBytes int
	// Away releases the tree's lock, calls work unless it is nil, and acquires the lock
	// again. The Preparer calls it after each piece of work (znode.PieceUnits), and for
	// long work that needs no tree. nil: there is no lock.
	Away func(work func())
	// Room returns an empty slice with room for the n operations of a multi, which becomes Txn.Multi. The
	// caller of Prepare may use it again when nothing refers to the transaction any more. nil: it is made.
	Room func(n int) []txn.Op
	// Reconfigure judges a reconfig that is to become the transaction z, and returns the
	// text of the new configuration. nil: this is a standalone server, which has no members
	// to change.
	Reconfigure func(req *wire.ReconfigRequest, z zk.Zxid) (text []byte, code zk.Code)
	// OverQuota is called with the path of a write that is refused because of a hard
	// limit. nil: they are not counted.
	OverQuota func(path string)
}

// Preparer prepares requests one after the other. It is owned by one goroutine,
// and while it prepares that goroutine holds the read lock of the tree, but for calls of
// Config.Away. Transactions may be applied then: the projection stays as it is, since
// what they change is outstanding until Applied is called.
type Preparer struct {
	cfg      Config
	tree     *znode.Tree
	auth     *auth.Authority
	sessions *session.Tracker
	out      outstanding
	digest   uint64 // of the projected tree
	scratch  znode.Scratch
	multi    opList       // empty but while a multi is prepared
	work     int          // done since the lock was taken, in units of package znode
	fixed    fixedACL     // made ahead for the next operation
	openACL  *access.List // shared by all znodes that have it
}

// New returns a preparer for a tree that has applied everything there is.
func New(cfg Config, tree *znode.Tree, authority *auth.Authority, sessions *session.Tracker) *Preparer {
	return &Preparer{
		cfg: cfg, tree: tree, auth: authority, sessions: sessions,
		out: newOutstanding(), digest: tree.Digest(), openACL: access.New(zk.OpenACLUnsafe()),
	}
}

// Applied says that the tree now contains every transaction up to z. It needs no lock.
func (p *Preparer) Applied(z zk.Zxid) {
	p.work = 0
	p.out.applied(z)
}

// did counts work, and releases the tree's lock for a moment after each piece.
func (p *Preparer) did(work int) {
	if p.work += work; p.work >= znode.PieceUnits {
		p.away(nil)
	}
}

// away calls work without the tree's lock.
func (p *Preparer) away(work func()) {
	switch {
	case p.cfg.Away != nil:
		p.cfg.Away(work)
	case work != nil:
		work()
	}
	p.work = 0
}

// Outstanding is the number of paths with changes that are not applied.
func (p *Preparer) Outstanding() int { return len(p.out.changes) }

// Prepare makes of req the transaction z, at the given time of the server's
// clock. What tx holds aliases req.Body. It keeps nothing of req.
func (p *Preparer) Prepare(req *Request, z zk.Zxid, nowMillis int64, tx *txn.Txn) {
	multi := tx.Multi[:0]
	*tx = txn.Txn{}
	tx.Multi, tx.HasDigest = multi, p.cfg.DigestEnabled
	tx.Header = txn.Header{Session: req.Session, Cxid: req.Xid, Zxid: z, Time: nowMillis, Type: req.Op}
	var code zk.Code
	if req.Op == wire.OpMulti {
		code = p.prepareMulti(req, tx)
	} else {
		code = p.prepareOne(req, tx)
	}
	if code != zk.OK {
		tx.Header.Type = wire.OpError
		tx.Op = txn.Op{Type: wire.OpError, Err: code}
		tx.HasDigest = false
		return
	}
	tx.Digest = p.digest
}

// Refuse makes of req the error transaction z, for a reason that is not in the
// state.
func Refuse(req *Request, z zk.Zxid, nowMillis int64, code zk.Code, tx *txn.Txn) {
	*tx = txn.Txn{
		Header: txn.Header{Session: req.Session, Cxid: req.Xid, Zxid: z, Time: nowMillis, Type: wire.OpError},
		Op:     txn.Op{Type: wire.OpError, Err: code},
		Multi:  tx.Multi[:0],
	}
}

// prepareOne decodes and prepares a request of a single operation.
func (p *Preparer) prepareOne(req *Request, tx *txn.Txn) zk.Code {
	d := jute.NewDecoder(req.Body)
	switch req.Op {
	case wire.OpCreateSession:
		tx.Op = txn.Op{Type: req.Op, TimeoutMillis: d.Int()}
		return codeOf(&d)
	case wire.OpCloseSession:
		return p.closeSession(req, tx)
	case wire.OpReconfig:
		return p.reconfig(req, tx)
	case wire.OpDeleteContainer:
		return p.deleteContainer(req, tx)
	case wire.OpCreate, wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL, wire.OpDelete, wire.OpSetData, wire.OpSetACL:
	default:
		return zk.ErrUnimplemented
	}
	var m wire.MultiOp
	if len(req.Body) < longBody {
		m.Type = req.Op
		decodeOne(&d, &m)
	} else {
		m = p.decodeLong(req, &d)
	}
	if d.Err() != nil {
		return zk.ErrMarshalling
	}
	return p.prepareOp(req, &tx.Header, &m, &tx.Op)
}

// decodeLong decodes a long request of a single operation without the tree's lock: an ACL of a megabyte takes
// milliseconds.
func (p *Preparer) decodeLong(req *Request, d *jute.Decoder) wire.MultiOp {
	long, m := *d, wire.MultiOp{Type: req.Op}
	p.away(func() { decodeOne(&long, &m) })
	*d = long
	return m
}

// decodeOne decodes the record of a single operation of type m.Type.
func decodeOne(d *jute.Decoder, m *wire.MultiOp) {
	switch m.Type {
	case wire.OpCreate, wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL:
		m.CreateRequest.Decode(d, m.Type)
	case wire.OpDelete:
		m.Path, m.Version = d.Path(), d.Int()
	case wire.OpSetData:
		m.Path, m.Data, m.Version = d.String(), d.Buffer(), d.Int()
	case wire.OpSetACL:
		m.Path, m.ACL, m.Version = d.String(), wire.DecodeACL(d), d.Int()
	}
}

// opWork is the work of an operation: it looks up three or four paths.
const opWork = 4

// prepareOp prepares a decoded operation, alone or in a multi.
func (p *Preparer) prepareOp(req *Request, h *txn.Header, m *wire.MultiOp, op *txn.Op) zk.Code {
	*op = txn.Op{Type: m.Type, Path: m.Path}
	p.did(opWork + len(m.Path)/64 + len(req.IDs)/16 + znode.BytesUnits(len(m.Data)))
	p.fixAhead(m.ACL, req.IDs)
	switch m.Type {
	case wire.OpCreate, wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL:
		return p.create(req, h, m, op)
	case wire.OpDelete:
		return p.delete(req, h, m, op)
	case wire.OpSetData:
		return p.setData(req, h, m, op)
	case wire.OpSetACL:
		return p.setACL(req, h, m, op)
	case wire.OpCheck:
		return p.check(req, m, op)
	}
	return zk.ErrUnimplemented
}

// codeOf is what a client is told of a body that is no record.
func codeOf(d *jute.Decoder) zk.Code {
	if d.Err() != nil {
		return zk.ErrMarshalling
	}
	return zk.OK
}

// tooLarge reports whether a transaction with op as its only change would be
// longer than MaxTxnBytes.
func (p *Preparer) tooLarge(op *txn.Op) bool { return p.exceeds(p.overhead() + op.RecordLen()) }

// overhead is the length of a transaction without its record.
func (p *Preparer) overhead() int {
	if p.cfg.DigestEnabled {
		return txn.HeaderLen + txn.DigestLen
	}
	return txn.HeaderLen
}

func (p *Preparer) exceeds(bytes int) bool { return p.cfg.MaxTxnBytes > 0 && bytes > p.cfg.MaxTxnBytes }

// checkSession says whether the session may write.
func (p *Preparer) checkSession(req *Request) zk.Code {
	if req.internal() {
		return zk.OK
	}
	return p.sessions.CheckAny(req.Session, req.Owner)
}

// checkOwnership says whether the session may own ephemerals.
func (p *Preparer) checkOwnership(req *Request) zk.Code {
	if req.internal() {
		return zk.OK
	}
	return p.sessions.CheckGlobal(req.Session, req.Owner)
}

// allowed says whether req may do perm to a znode with acl.
func (p *Preparer) allowed(req *Request, acl *access.List, perm zk.Perms) bool {
	if acl.Len() >= longACL && p.auth.NeedsIndex(acl) {
		p.away(func() { p.auth.Index(acl) })
	}
	return p.auth.Allowed(acl, perm, req.IDs)
}

// closeCheck lets the expiry, which has marked the session already, and the
// session's own request pass. That may come over a connection that the session
// has left: a client that ends its session means it, over whichever connection.
func (p *Preparer) closeCheck(req *Request) zk.Code {
	if req.Owner == session.NoOwner {
		return zk.OK
	}
	if code := p.checkSession(req); code != zk.ErrSessionMoved {
		return code
	}
	return zk.OK
}
