package server

import (
	"crypto/rand"
	"slices"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/kerberos"
	"github.com/pinfold-zk/pinfold/internal/refusal"
	"github.com/pinfold-zk/pinfold/internal/sasl"
	"github.com/pinfold-zk/pinfold/zk"
)

// Logins are the mechanisms by which clients may log in by SASL. The zero value has none.
// A client does not name the mechanism: its first token shows it.
type Logins struct {
	Digest   func() *sasl.Exchange // begins a login by DIGEST-MD5; nil: there is none
	Kerberos *kerberos.Acceptor    // GSSAPI; nil: none
	Names    kerberos.Mapping      // of principals
}

// login is a client's exchange. One of its fields is not nil.
type login struct {
	digest   *sasl.Exchange
	kerberos *kerberos.Acceptance
}

// begin begins the exchange for which a client has sent a first token.
func (l *Logins) begin(token []byte) *login {
	if l.byKerberos(token) {
		return &login{kerberos: l.Kerberos.Begin()}
	}
	return &login{digest: l.Digest()}
}

// byKerberos reports whether a client's first token begins a login by GSSAPI.
func (l *Logins) byKerberos(token []byte) bool {
	return l.Kerberos != nil && (l.Digest == nil || kerberos.Begins(token))
}

// isKerberos reports whether the exchange that has begun is one of GSSAPI or, if none has, whether token begins such a one.
func (l *Logins) isKerberos(begun *login, token []byte) bool {
	if begun != nil {
		return begun.kerberos != nil
	}
	return l.byKerberos(token)
}

func (l *login) step(token []byte) (answer []byte, err error) {
	if l.kerberos != nil {
		return l.kerberos.Step(token)
	}
	return l.digest.Step(token, rand.Reader)
}

// user returns the name that ACLs have for the client that has logged in; "" if its
// principal has none. ok is false if no client has logged in.
func (l *login) user(names *kerberos.Mapping) (name string, ok bool) {
	if l.kerberos == nil {
		return l.digest.User()
	}
	principal, ok := l.kerberos.Principal()
	if !ok {
		return "", false
	}
	name, _ = names.User(principal) // the error says that there is none
	return name, true
}

// login handles a SASL token. Like an auth packet it is answered at once, whatever is
// in the pipeline, because it changes what the next requests may do. A null token ends
// the connection, and so does one that cannot be decoded.
//
// A server without a login file answers with no token and no error; so does one that
// lets clients stay whose login failed.
//
// It returns false, without effect, if the token is one of Kerberos, which takes long: it
// is for answerToken. REQUIRES: c.mu.
func (c *conn) login(q *request) (done bool) {
	d := jute.NewDecoder(q.body)
	token := d.Buffer()
	l := &c.s.logins
	switch {
	case d.Err() != nil || token == nil:
		c.leaveLocked()
	case l.Digest == nil && l.Kerberos == nil:
		c.replyTokenLocked(q.Xid, nil, zk.OK)
	case l.isKerberos(c.mu.login, token):
		return false
	default:
		if c.mu.login == nil {
			c.mu.login = l.begin(token)
		}
		answer, err := c.mu.login.step(token)
		c.finishStep(q, answer, err)
	}
	return true
}

// answerToken handles the frame at the front of b, a token of Kerberos, without a lock. It
// returns the frame's length.
func (c *conn) answerToken(b []byte) (n int) {
	frame, n, _, _ := c.nextFrame(b) // complete and valid: it was decoded before
	d := jute.NewDecoder(frame)
	var q request
	q.Decode(&d)
	q.body = d.Rest()
	body := jute.NewDecoder(q.body)
	token := body.Buffer()
	c.mu.Lock()
	if c.mu.login == nil {
		c.mu.login = c.s.logins.begin(token)
	}
	l := c.mu.login
	c.mu.Unlock()
	c.pauseReading()
	answer, err := l.step(token)
	c.resumeReading()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.countReceivedLocked(1, n)
	c.mu.stats.noteRequest(&q)
	if !c.mu.closed {
		c.finishStep(&q, answer, err)
	}
	c.leaving = c.leaving || c.mu.closing
	return n
}

// finishStep answers a token by the outcome of the exchange's step. REQUIRES: c.mu.
func (c *conn) finishStep(q *request, answer []byte, err error) {
	if err != nil {
		c.s.refused.Warn("a SASL login failed", "client", c.remote, "err", refusal.Reason(err))
		c.loginFailed(q)
		return
	}
	if user, ok := c.mu.login.user(&c.s.logins.Names); ok {
		ids, ok := c.s.auth.LogIn(user, c.mu.ids)
		if !ok || user == "" && c.mu.login.kerberos != nil || !c.setIdentities(ids) {
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
	c.penalize()
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
