package server

import (
	"crypto/rand"
	"slices"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/refusal"
	"github.com/pinfold-zk/pinfold/zk"
)

// login handles a SASL token. Like an auth packet it is answered at once, whatever is
// in the pipeline, because it changes what the next requests may do. A null token ends
// the connection, and so does one that cannot be decoded.
//
// A server without a login file answers with no token and no error; so does one that
// lets clients stay whose login failed. REQUIRES: c.mu.
func (c *conn) login(q *request) {
	d := jute.NewDecoder(q.body)
	token := d.Buffer()
	if d.Err() != nil || token == nil {
		c.leaveLocked()
		return
	}
	if c.s.sasl == nil {
		c.replyTokenLocked(q.Xid, nil, zk.OK)
		return
	}
	if c.mu.login == nil {
		c.mu.login = c.s.sasl.Begin()
	}
	answer, err := c.mu.login.Step(token, rand.Reader)
	if err != nil {
		c.s.refused.Warn("a SASL login failed", "client", c.remote, "err", refusal.Cut(err.Error()))
		c.loginFailed(q)
		return
	}
	if user, ok := c.mu.login.User(); ok {
		ids, ok := c.s.auth.LogIn(user, c.mu.ids)
		if !ok || !c.setIdentities(ids) {
			c.s.refused.Warn("a SASL login was refused: the user name cannot be used in an ACL, or the connection has too many identities",
				"client", c.remote, "user", refusal.Cut(user))
			c.loginFailed(q)
			return
		}
		defer c.changeIdentity()
		c.s.log.Debug("a client has logged in by SASL", "client", c.remote, "user", refusal.Cut(user))
	}
	c.replyTokenLocked(q.Xid, answer, zk.OK)
}

// loginFailed tells the client and, unless such clients may stay, ends the connection.
// REQUIRES: c.mu.
func (c *conn) loginFailed(q *request) {
	required := slices.Contains(c.s.enforced, "sasl")
	switch {
	case required:
		c.replyTokenLocked(q.Xid, nil, zk.ErrSessionClosedRequireSaslAuth)
	case c.s.cfg.Auth.SASL.AllowFailed:
		c.replyTokenLocked(q.Xid, nil, zk.OK)
		return
	default:
		c.replyTokenLocked(q.Xid, nil, zk.ErrAuthFailed)
	}
	c.leaveLocked()
}

// replyTokenLocked replies with a SASL token; nil is null. Unlike other replies it has
// a body even with an error. REQUIRES: c.mu.
func (c *conn) replyTokenLocked(xid int32, token []byte, code zk.Code) {
	at := c.beginReplyLocked(xid, 0)
	jute.PutInt(c.mu.out.Buf[at+4+12:], int32(code))
	c.mu.out.Buf = jute.AppendBuffer(c.mu.out.Buf, token)
	c.endReplyLocked(at, zk.OK)
}

// mayAskLocked reports whether the connection has authenticated as the configuration
// requires. REQUIRES: c.mu.
func (c *conn) mayAskLocked() bool {
	if len(c.s.enforced) == 0 {
		return true
	}
	for i := range c.mu.ids {
		if slices.Contains(c.s.enforced, c.mu.ids[i].Scheme) {
			return true
		}
	}
	return false
}

// turnAway refuses a request of a client that has not authenticated, and ends the
// connection. REQUIRES: c.mu.
func (c *conn) turnAway(q *request) {
	c.s.refused.Warn("connection closed: the client did not authenticate first", "client", c.remote, "required", c.s.enforced)
	c.replyErrLocked(q.Xid, 0, zk.ErrSessionClosedRequireSaslAuth)
	c.leaveLocked()
}
