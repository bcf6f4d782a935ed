package server

import (
	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/prep"
	"github.com/pinfold-zk/pinfold/internal/replica"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// ResumedLocal reports that the session, which is local to this server, is resumed
// (replica.Origin).
func (c *conn) ResumedLocal(id zk.SessionID, timeoutMillis int32) {
	c.sessionOpened(id)
	c.establish(id, timeoutMillis, true)
}

// Leave ends the connection at once (replica.Origin).
func (c *conn) Leave(reason string) { c.kill(reason) }

// upgradeFor decides whether a local session must become a session of the ensemble for
// this request, and marks it. REQUIRES: c.mu; the session is local.
//
// The next closeSession goes through the log if the session was upgraded. The upgrade
// itself is submitted before the next request that is submitted.
func (c *conn) upgradeFor(q *request) {
	if c.s.cfg.Quorum.LocalUpgrading && makesEphemeral(q) {
		c.mu.local, c.mu.upgrade = false, true
	}
}

// upgradeLocked returns the request that makes the session one of the ensemble. No
// client waits for its reply. REQUIRES: c.mu.
func (c *conn) upgradeLocked(r *replica.Request) replica.Request {
	c.mu.upgrade = false
	return replica.Request{
		Request: prep.Request{
			Session: c.mu.session, Op: wire.OpCreateSession, Body: jute.AppendInt(nil, c.mu.timeout), Owner: r.Owner,
		},
		Origin: c, Received: r.Received,
	}
}

// makesEphemeral reports whether a request creates an ephemeral. A request that cannot
// be decoded does not.
func makesEphemeral(q *request) bool {
	d := jute.NewDecoder(q.body)
	switch q.Op {
	case wire.OpCreate, wire.OpCreate2:
		var r wire.CreateRequest
		r.Decode(&d, q.Op)
		return d.Err() == nil && r.Flags.IsEphemeral()
	case wire.OpMulti:
		ops := wire.DecodeMulti(&d, q.Op, nil)
		for i := range ops {
			if op := &ops[i]; (op.Type == wire.OpCreate || op.Type == wire.OpCreate2) && op.Flags.IsEphemeral() {
				return d.Err() == nil
			}
		}
	}
	return false
}

// codeFor returns the code to send to the client of a write. A leader does not know the
// local sessions of this server: it treats them as expired.
func (c *conn) codeFor(op wire.OpCode, code zk.Code) zk.Code {
	if code == zk.ErrSessionExpired && c.mu.local && (op == wire.OpCreate || op == wire.OpCreate2) {
		return zk.ErrEphemeralOnLocalSession
	}
	return code
}

// refusedReadOnly reports whether a server without a quorum refuses a request.
func refusedReadOnly(op wire.OpCode) bool {
	switch op {
	case wire.OpCloseSession:
		return false
	case wire.OpSync, wire.OpCheck:
		return true
	}
	return op.IsWrite() && op != wire.OpCreateSession
}

// refusedWithoutRoom reports whether a server whose disk is nearly full refuses an
// operation. Sessions begin and end, and syncs are answered.
func refusedWithoutRoom(op wire.OpCode) bool {
	return op != wire.OpSync && op != wire.OpCheck && refusedReadOnly(op)
}
