package session

import "github.com/pinfold-zk/pinfold/zk"

// Local sessions live on one server, which alone knows them: a Tracker of its own
// holds them, and no transaction tells of them. They may write, but own no
// ephemerals; for that a session is upgraded: added to the Tracker of the whole
// ensemble under the same id (protocol page, section 10).

// SetLocals makes t pass the requests of local sessions: those of locals, which
// are this server's, and all that another server gave their ids, which only that
// one can judge. server is this server's byte in session ids.
func (t *Tracker) SetLocals(locals *Tracker, server uint8) { t.locals, t.server = locals, server }

// Locals is what SetLocals was given last.
func (t *Tracker) Locals() *Tracker { return t.locals }

// CheckAny is CheckGlobal for requests that local sessions may make as well.
func (t *Tracker) CheckAny(id zk.SessionID, owner Owner) zk.Code {
	switch {
	case t.locals == nil || t.sessions[id] != nil:
		return t.CheckGlobal(id, owner)
	case t.locals.sessions[id] != nil:
		return t.locals.Check(id, owner)
	case serverOf(id) == t.server:
		return zk.ErrSessionExpired // it was local here
	}
	return zk.OK
}

// isLocal reports whether the session is of this server alone.
func (t *Tracker) isLocal(id zk.SessionID) bool {
	return t.locals != nil && t.sessions[id] == nil && t.locals.sessions[id] != nil
}

// serverOf is the byte of the server that gave the id.
func serverOf(id zk.SessionID) uint8 { return uint8(uint64(id) >> 56) }
