package session

import (
	"testing"

	"github.com/pinfold-zk/pinfold/zk"
)

// The leader's rules about sessions that it does not know, with local sessions
// and without.
func TestChecksWithLocalSessions(t *testing.T) {
	const (
		own, other   = Owner(1), Owner(2)
		global       = zk.SessionID(1<<56 | 1)
		local        = zk.SessionID(1<<56 | 2)
		upgraded     = zk.SessionID(1<<56 | 3) // of both, until the upgrade is done
		gone         = zk.SessionID(1<<56 | 4) // was local here
		elsewhere    = zk.SessionID(2<<56 | 1) // may be local on server 2
		closed       = zk.SessionID(2<<56 | 2) // its end is on its way
		thisServerID = 1
	)
	tr, locals := NewTracker(Config{TickMillis: 10}), NewTracker(Config{TickMillis: 10})
	for _, id := range []zk.SessionID{global, upgraded, closed} {
		tr.Add(id, 100, 0)
		tr.SetOwner(id, own)
	}
	tr.MarkClosing(closed)
	for _, id := range []zk.SessionID{local, upgraded} {
		locals.Add(id, 100, 0)
		locals.SetOwner(id, own)
	}
	for _, c := range []struct {
		id                    zk.SessionID
		owner                 Owner
		any, anyGlobal        zk.Code // without local sessions
		withLocals, ephemeral zk.Code
	}{
		{global, own, zk.OK, zk.OK, zk.OK, zk.OK},
		{global, other, zk.ErrSessionMoved, zk.ErrSessionMoved, zk.ErrSessionMoved, zk.ErrSessionMoved},
		{local, own, zk.ErrSessionExpired, zk.ErrSessionExpired, zk.OK, zk.ErrEphemeralOnLocalSession},
		{local, other, zk.ErrSessionExpired, zk.ErrSessionExpired, zk.ErrSessionMoved, zk.ErrEphemeralOnLocalSession},
		{upgraded, own, zk.OK, zk.OK, zk.OK, zk.OK},
		{upgraded, other, zk.ErrSessionMoved, zk.ErrSessionMoved, zk.ErrSessionMoved, zk.ErrSessionMoved},
		{gone, own, zk.ErrSessionExpired, zk.ErrSessionExpired, zk.ErrSessionExpired, zk.ErrSessionExpired},
		{elsewhere, other, zk.ErrSessionExpired, zk.ErrSessionExpired, zk.OK, zk.ErrSessionExpired},
		{closed, own, zk.ErrSessionExpired, zk.ErrSessionExpired, zk.ErrSessionExpired, zk.ErrSessionExpired},
	} {
		tr.SetLocals(nil, 0)
		if got, eph := tr.CheckAny(c.id, c.owner), tr.CheckGlobal(c.id, c.owner); got != c.any || eph != c.anyGlobal {
			t.Errorf("%v by %d: %v and %v, want %v and %v", c.id, c.owner, got, eph, c.any, c.anyGlobal)
		}
		tr.SetLocals(locals, thisServerID)
		if got, eph := tr.CheckAny(c.id, c.owner), tr.CheckGlobal(c.id, c.owner); got != c.withLocals || eph != c.ephemeral {
			t.Errorf("%v by %d, with local sessions: %v and %v, want %v and %v", c.id, c.owner, got, eph, c.withLocals, c.ephemeral)
		}
	}
}
