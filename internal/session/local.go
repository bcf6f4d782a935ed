package session

import "github.com/pinfold-zk/pinfold/zk"

// Local sessions exist on one server only: they are in a Tracker of their own, and no
// transaction mentions them. They may write, but must not own ephemerals; for that the
// server upgrades the session: it adds it to the ensemble's Tracker under the same id
// (protocol page, section 10).

// SetLocals makes t accept the requests of local sessions: those in locals, which
// belong to this server, and all sessions whose ids another server assigned, because
// only that server can check them. server is this server's byte in session ids.
func (t *Tracker) SetLocals(locals *Tracker, server uint8) { t.locals, t.server = locals, server }

// Locals returns the argument of the last SetLocals.
func (t *Tracker) Locals() *Tracker { return t.locals }

// CheckAny is CheckGlobal for requests that local sessions may make too.
func (t *Tracker) CheckAny(id zk.SessionID, owner Owner) zk.Code {
	switch {
	case t.locals == nil || t.sessions[id] != nil:
		return t.CheckGlobal(id, owner)
	case t.locals.sessions[id] != nil:
		return t.locals.Check(id, owner)
	case serverOf(id) == t.server:
		return zk.ErrSessionExpired // it was a local session of this server
	}
	return zk.OK
}

// isLocal reports whether the session is local to this server.
func (t *Tracker) isLocal(id zk.SessionID) bool {
	return t.locals != nil && t.sessions[id] == nil && t.locals.sessions[id] != nil
}

// serverOf returns the byte of the server that assigned the id.
func serverOf(id zk.SessionID) uint8 { return uint8(uint64(id) >> 56) }
