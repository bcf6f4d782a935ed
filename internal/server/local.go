package server

import (
	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/prep"
	"github.com/pinfold-zk/pinfold/internal/replica"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// ResumedLocal reports the session, which lives on this server alone (replica.Origin).
func (c *conn) ResumedLocal(id zk.SessionID, timeoutMillis int32) {
	c.establish(id, timeoutMillis, true)
}

// Leave ends the connection at once (replica.Origin).
func (c *conn) Leave(reason string) { c.kill(reason) }

// upgradeFor makes a local session one of the ensemble if the request needs that,
// and this server may. REQUIRES: c.mu; the session is local.
//
// Whether the next closeSession goes through the log hangs on it. The upgrade
// itself is submitted in front of the next request that is.
func (c *conn) upgradeFor(q *request) {
	if c.s.cfg.Quorum.LocalUpgrading && makesEphemeral(q) {
		c.mu.local, c.mu.upgrade = false, true
	}
}

// upgradeLocked is the request that makes the session one of the ensemble. Nobody
// waits for its reply. REQUIRES: c.mu.
func (c *conn) upgradeLocked(r *replica.Request) replica.Request {
	c.mu.upgrade = false
	return replica.Request{
		Request: prep.Request{
			Session: c.mu.session, Op: wire.OpCreateSession, Body: jute.AppendInt(nil, c.mu.timeout), Owner: r.Owner,
		},
		Origin: c, Received: r.Received,
	}
}

// makesEphemeral reports whether a request is to create an ephemeral. What cannot
// be read does not.
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

// codeFor is the code with which a write is answered. A leader knows nothing of
// the sessions that are local here: to it they are expired.
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
