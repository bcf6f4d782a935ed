package client

import (
	"context"
	"errors"

	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// authInfo is a credential. It is sent on every connection, before operations.
type authInfo struct {
	scheme string
	auth   []byte
	waiter *waiter // who waits for its first acceptance; nil for nobody
}

// AddAuth authenticates the session by a scheme: AddAuth(ctx, "digest",
// []byte("user:password")). Operations that are started later have the identity,
// on this connection and on those to come. A server that refuses ends the Client:
// the error is zk.ErrAuthFailed, of this operation and of all later ones.
func (c *Client) AddAuth(ctx context.Context, scheme string, auth []byte) error {
	w := c.newWaiter()
	info := authInfo{scheme, append([]byte(nil), auth...), w}
	c.mu.Lock()
	if c.dead != nil || c.closing {
		defer c.mu.Unlock()
		c.spare.Put(w)
		return &Error{Op: "addauth", Err: c.end()}
	}
	c.auth = append(c.auth, info)
	l := c.link
	if l != nil {
		c.out = info.append(c.out)
		c.sentAuth = append(c.sentAuth, len(c.auth)-1)
	}
	c.mu.Unlock()
	if l != nil {
		l.poke()
	}
	return c.wait(ctx, w, &call{name: "addauth", op: wire.OpAuth}).err
}

func (a *authInfo) append(b []byte) []byte {
	return appendFrame(b, func(b []byte) []byte {
		p := wire.AuthPacket{Scheme: a.scheme, Auth: a.auth}
		return p.Append(wire.RequestHeader{Xid: wire.XidAuth, Op: wire.OpAuth}.Append(b))
	})
}

// appendAuth writes all credentials, for a new connection; c.mu is held.
func (c *Client) appendAuth(b []byte) []byte {
	c.sentAuth = c.sentAuth[:0]
	for i := range c.auth {
		b = c.auth[i].append(b)
		c.sentAuth = append(c.sentAuth, i)
	}
	return b
}

// authAnswered takes the answer to the oldest credential; c.mu is held.
func (c *Client) authAnswered(code zk.Code) error {
	if len(c.sentAuth) == 0 {
		return errors.New("the server answers credentials that were not sent")
	}
	a := &c.auth[c.sentAuth[0]]
	c.sentAuth = c.sentAuth[1:]
	if code != zk.OK {
		return zk.ErrAuthFailed
	}
	if a.waiter != nil {
		a.waiter.complete(&result{})
		a.waiter = nil
	}
	if len(c.sentAuth) == 0 {
		c.tell(nil)
	}
	return nil
}

// failAuth tells those who wait that no credential will be accepted any more.
func (c *Client) failAuth(err error) {
	for i := range c.auth {
		if w := c.auth[i].waiter; w != nil {
			w.complete(&result{err: &Error{Op: "addauth", Err: err}})
			c.auth[i].waiter = nil
		}
	}
}
