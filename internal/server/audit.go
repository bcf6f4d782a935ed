package server

import (
	"strings"
	"time"

	"github.com/pinfold-zk/pinfold/internal/audit"
	"github.com/pinfold-zk/pinfold/internal/auth"
	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/replica"
	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/internal/znode"
	"github.com/pinfold-zk/pinfold/zk"
)

// auditPatience is how long a connection waits for room in the queue of the audit log before
// it is closed. Its client reconnects and waits again; that of a client that is gone does not
// keep its session.
const auditPatience = 10 * time.Second

// audited is the Origin of a change when there is an audit log: it writes the line before the
// reply is sent, even if the connection is gone. It holds what the transaction does not tell.
type audited struct {
	*conn
	users   string
	session zk.SessionID
	ops     []auditedOp // those of a multi, otherwise one; of a long multi those that Applying has not written
	written bool        // by Applying
}

// auditedOp is an operation as the client has asked for it.
type auditedOp struct {
	audit.Operation        // "": no line
	path, mode, acl string // acl of setACL
}

// isAudited reports whether there are lines about requests of this operation.
func isAudited(op wire.OpCode) bool {
	switch op {
	case wire.OpCreate, wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL, wire.OpDelete, wire.OpDeleteContainer,
		wire.OpSetData, wire.OpSetACL, wire.OpMulti, wire.OpReconfig:
		return true
	}
	return false
}

// origin returns the Origin of a request. REQUIRES: c.mu.
func (c *conn) origin(q *request) replica.Origin {
	if c.s.audit == nil || !isAudited(q.Op) {
		return c
	}
	return c.audit(q)
}

// audit returns what the lines about a request need. REQUIRES: c.mu.
func (c *conn) audit(q *request) *audited {
	return &audited{conn: c, users: c.userNames(q.ids), session: c.mu.session, ops: auditedOps(q)}
}

// userNames returns the names of identities, separated by commas. Those without a name,
// as the superuser's, are left out.
func (c *conn) userNames(ids []zk.ID) string {
	names := make([]string, 0, len(ids))
	for _, id := range ids {
		if name := c.s.auth.UserName(id); name != "" {
			names = append(names, name)
		}
	}
	return strings.Join(names, ",")
}

// auditedOps decodes the operations of a request, as far as it can be decoded.
func auditedOps(q *request) []auditedOp {
	d := jute.NewDecoder(q.body)
	switch q.Op {
	case wire.OpMulti:
		ops := wire.DecodeMulti(&d, q.Op, nil)
		list := make([]auditedOp, len(ops))
		for i := range ops {
			list[i] = newAuditedOp(ops[i].Type, ops[i].Path, ops[i].Flags)
		}
		return list
	case wire.OpSetACL:
		var r wire.SetACLRequest
		r.Decode(&d)
		return []auditedOp{{Operation: audit.SetACL, path: r.Path, acl: audit.ACLText(r.ACL)}}
	case wire.OpReconfig:
		return []auditedOp{{Operation: audit.Reconfig, path: znode.ConfigPath}}
	case wire.OpDelete, wire.OpDeleteContainer, wire.OpSetData:
		return []auditedOp{newAuditedOp(q.Op, d.String(), 0)}
	}
	var r wire.CreateRequest
	r.Decode(&d, q.Op)
	return []auditedOp{newAuditedOp(q.Op, r.Path, r.Flags)}
}

func newAuditedOp(op wire.OpCode, path string, mode zk.CreateMode) auditedOp {
	switch op {
	case wire.OpCreate, wire.OpCreate2, wire.OpCreateContainer, wire.OpCreateTTL:
		return auditedOp{Operation: audit.Create, path: path, mode: audit.ModeName(mode)}
	case wire.OpDelete, wire.OpDeleteContainer:
		return auditedOp{Operation: audit.Delete, path: path}
	case wire.OpSetData:
		return auditedOp{Operation: audit.SetData, path: path}
	}
	return auditedOp{}
}

// entry returns a line about one operation, or about the complete request.
func (a *audited) entry(op *auditedOp, result audit.Result) audit.Entry {
	return audit.Entry{
		Session: a.session, Users: a.users, IP: auth.IPIdentity(a.remote.Addr()).ID,
		Operation: op.Operation, Path: op.path, Type: op.mode, ACL: op.acl, Result: result,
	}
}

// Applying writes the lines of a piece of a long multi, without the tree's lock (replica.Origin). About one
// that failed Applied writes a line.
func (a *audited) Applying(req *replica.Request, tx *txn.Txn, r *znode.Result) {
	if failed := len(r.Multi) > 0 && r.Multi[0].Type == wire.OpError; !failed {
		a.writeMulti(r)
		a.ops = a.ops[min(len(r.Multi), len(a.ops)):]
		a.written = true
	}
	a.conn.Applying(req, tx, r)
}

// Applied writes the lines and replies (replica.Origin).
func (a *audited) Applied(req *replica.Request, tx *txn.Txn, r *znode.Result, tree replica.View) {
	switch {
	case a.written, movedAway(tx, r):
	case tx.Header.Type == wire.OpError:
		a.writeFailure(req.Op, audit.Failure)
	case tx.Header.Type == wire.OpMulti && tx.Failed():
		a.writeFailure(req.Op, audit.Failure)
	case tx.Header.Type == wire.OpMulti:
		a.writeMulti(r)
	default:
		a.writeChange(&a.ops[0], &r.Outcome, tx.Zxid)
	}
	a.conn.Applied(req, tx, r, tree)
}

// Dropped writes that the result is not known (replica.Origin). Apache has no such line.
func (a *audited) Dropped(req *replica.Request) {
	if a.s.cfg.Audit.Details {
		a.writeFailure(req.Op, audit.Unknown)
	}
	a.conn.Dropped(req)
}

// writeFailure writes one line for a request that has changed nothing, or perhaps nothing.
func (a *audited) writeFailure(op wire.OpCode, result audit.Result) {
	whole := &auditedOp{Operation: audit.Multi}
	if op != wire.OpMulti {
		whole = &a.ops[0]
	}
	e := a.entry(whole, result)
	if op == wire.OpReconfig {
		e.Path = ""
	}
	a.s.audit.Write(&e)
}

func (a *audited) writeMulti(r *znode.Result) {
	for i := range min(len(r.Multi), len(a.ops)) {
		if a.ops[i].Operation != "" {
			a.writeChange(&a.ops[i], &r.Multi[i], 0)
		}
	}
}

// writeChange writes the line of a change that was made by transaction z; 0: the Stat tells.
func (a *audited) writeChange(op *auditedOp, o *znode.Outcome, z zk.Zxid) {
	e := a.entry(op, audit.Success)
	if o.Err != zk.OK {
		e.Result = audit.Failure
	}
	if op.Operation == audit.Create && o.Path != "" {
		e.Path = o.Path // with its number, if it is sequential
	}
	s := &o.Stat
	e.Details = &audit.Details{Zxid: z, OldVersion: s.Version - 1, NewVersion: s.Version, Size: int(s.DataLength)}
	if z == 0 {
		e.Details.Zxid = s.Mzxid
	}
	switch op.Operation {
	case audit.SetACL:
		e.Details.OldVersion, e.Details.NewVersion = s.Aversion-1, s.Aversion
	case audit.Delete:
		e.Details.OldVersion, e.Details.NewVersion = s.Version, -1
	}
	a.s.audit.Write(&e)
}

// Ended writes a line for each ephemeral that the end of a session has deleted, whichever
// server the session was connected to (replica.Clients).
func (s *Server) Ended(tx *txn.Txn, changes []znode.Change) {
	if s.audit == nil {
		return
	}
	for i := range changes {
		if changes[i].Type == zk.EventNodeDeleted {
			s.audit.WriteIfRoom(&audit.Entry{
				Session: tx.Session, Users: s.audit.User(), Operation: audit.DeleteEphemeral, Path: changes[i].Path, Result: audit.Success,
				Details: &audit.Details{Zxid: tx.Zxid, OldVersion: -1, NewVersion: -1, Size: -1},
			})
		}
	}
}

// WantsEnded implements replica.Clients: every deletion is an entry of the audit log.
func (s *Server) WantsEnded() bool { return s.audit != nil }

// awaitAudit waits until the queue of the audit log has room. It ends the connection and
// returns false if that takes too long. REQUIRES: the goroutine of serve, without c.mu.
func (c *conn) awaitAudit() bool {
	if c.s.audit == nil {
		return true
	}
	c.pauseReading()
	defer c.resumeReading()
	var late <-chan time.Time
	for {
		room := c.s.audit.Full()
		if room == nil {
			return true
		}
		if late == nil {
			c.s.stats.AuditWaits.Add(1)
			timer := time.NewTimer(auditPatience)
			defer timer.Stop()
			late = timer.C
		}
		select {
		case <-room:
		case <-c.flight.account.Closed():
			return false
		case <-late:
			c.s.refused.Warn("connection closed: its changes cannot be written to the audit log", "client", c.remote)
			return false
		}
	}
}

// submitTurn submits the requests of a turn, once the audit log has room for the lines of its
// changes. Otherwise the connection ends, and they are dropped. The caller has the replica work.
func (c *conn) submitTurn(r *run) {
	if !r.audited || c.awaitAudit() {
		c.s.replica.Bring(r.submit)
	} else {
		for i := range r.submit {
			c.Dropped(&r.submit[i])
		}
		c.leaving = true
	}
	clear(r.submit)
	r.submit = r.submit[:0]
}
