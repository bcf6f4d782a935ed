package sim

import (
	"time"

	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// A local session is known to one server alone. No transaction creates it, so the
// history does not hold it: a client whose session the history does not hold has a
// local one. It may write all but ephemerals; its first ephemeral makes it a session of
// the ensemble, if members upgrade sessions. Its end changes nothing in the tree.

// localHome is the server that knows a client's local session; m is nil for a session
// of the ensemble.
type localHome struct {
	m       *member
	life    int           // of m, when the session began: no server keeps one over a restart
	heard   time.Duration // when m last read something from the client
	timeout time.Duration
	lasting bool // it is kept when m's role changes; otherwise it lives while m only reads
	// proposed: a leader has proposed the session's creation, for the client has asked for an
	// ephemeral. That leader knows the session before this is committed, and so does a member
	// that only reads, if it has logged the creation: it shows its whole log.
	proposed bool
	asked    time.Duration // when the client has first asked for an ephemeral
}

// proposed notes a transaction that makes a client's local session one of the ensemble.
func (s *Sim) proposed(e entry) {
	if !s.profile.upgrading {
		return
	}
	tx, err := txn.Decode(e.data)
	if err != nil || tx.Header.Type != wire.OpCreateSession {
		return
	}
	for _, c := range s.clients {
		if c.session == tx.Session && c.home.m != nil {
			c.home.proposed = true
		}
	}
}

// settle notes whether the session that a client has been given is local.
func (c *client) settle(k *clientConn) {
	s := c.s
	if s.history.sessions[c.session] != nil {
		c.home = localHome{}
		return
	}
	p := &s.profile
	if c.home.proposed && (c.home.m != k.m || c.home.life != k.life) {
		// Until the creation is committed the session may become local again: home stays.
		return
	}
	if !p.localSessions && !k.reads {
		s.fail("LocalSession", "%s has session %v with member %d, and no transaction creates it", c.who, c.session, k.m.id)
	}
	if c.home.m == nil {
		s.cover.Locals++
	} else {
		s.cover.LocalsResumed++
		if c.home.m != k.m || c.home.life != k.life {
			s.fail("LocalSession", "%s goes on with the local session %v of member %d at member %d, or after a restart", c.who, c.session, c.home.m.id, k.m.id)
		}
	}
	c.home = localHome{m: k.m, life: k.life, heard: k.asked, timeout: c.timeout, lasting: p.localSessions, proposed: c.home.proposed, asked: c.home.asked}
}

// judgeLocalDenied checks that a local session is over whose client is told so by the
// server that knows it: the server has not heard of the client for the session's timeout, or
// is unsure.
func (c *client) judgeLocalDenied() {
	h, s := &c.home, c.s
	if h.m == nil {
		return
	}
	s.cover.LocalsOver++
	k := c.conn
	silent := float64(k.asked-h.heard) * (1 + s.profile.drift)
	if !h.unsure() && h.lasting && h.m == k.m && h.life == k.life && silent < float64(h.timeout) && s.history.sessions[c.session] == nil {
		s.fail("LocalSession", "%s is told by member %d that its local session %v is over, which the member heard of %v ago; its timeout is %v",
			c.who, k.m.id, c.session, k.asked-h.heard, h.timeout)
	}
}

// unsure reports whether the server may be unable to tell whether the session was made one of the
// ensemble and has ended: since the client asked for that, the server was sent a snapshot, or has
// begun to observe. An observer is not sent what is not committed, and a voter that heals observes.
func (h *localHome) unsure() bool {
	return h.asked > 0 && max(h.m.installed, h.m.observed) >= h.asked
}

// codeHere is the code with which a client is answered a write that the leader has
// refused with code: only the server of a local session knows why it owns no ephemerals.
func (c *client) codeHere(q *ask, code zk.Code) zk.Code {
	local := c.home.m != nil && c.s.history.sessions[c.session] == nil
	if local && code == zk.ErrSessionExpired && (q.op == wire.OpCreate || q.op == wire.OpCreate2) {
		return zk.ErrEphemeralOnLocalSession
	}
	return code
}

// upgraded counts a createSession that makes a local session one of the ensemble.
func (h *history) upgraded(tx *txn.Txn) {
	for _, c := range h.s.clients {
		if c.session == tx.Session && c.home.m != nil {
			h.s.cover.Upgrades++
		}
	}
}

// localCheck returns what the leader's check must find of a session that the history
// does not hold, or no more. Where sessions are local the leader lets pass what another
// server has let pass, and judges by itself only the sessions that it gave their ids.
func (h *history) localCheck(tx *txn.Txn, q *ask, codes []zk.Code) zk.Code {
	h.model.now.owns = zk.ErrSessionExpired
	if !h.s.profile.localSessions || q.op == wire.OpCloseSession {
		return zk.ErrSessionExpired
	}
	leader := h.s.check.leaders[tx.Zxid.Epoch()]
	own := leader != nil && byte(uint64(tx.Session)>>56) == byte(leader.id)
	ended := h.sessions[tx.Session] != nil // its leader may still know that it is ending
	for i, code := range codes {
		switch {
		case own && code == zk.ErrEphemeralOnLocalSession:
			h.model.now.owns = code
		case own && code == zk.ErrSessionMoved:
			return code
		case code == zk.ErrSessionExpired && (own || ended) && !q.ops[i].Flags.IsEphemeral():
			return code
		}
	}
	return zk.OK
}
