package client

import (
	"bytes"
	"context"
	"errors"

	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// authInfo is a credential. It is sent on every connection, before operations.
type authInfo struct {
	scheme string
	auth   []byte
	done   completion // called at its first acceptance; nil for none
}

// AddAuth authenticates the session by a scheme: AddAuth(ctx, "digest",
// []byte("user:password")). Operations that are started later have the identity,
// on this connection and on those to come. A server that refuses ends the Client:
// the error is zk.ErrAuthFailed, of this operation and of all later ones.
func (c *Client) AddAuth(ctx context.Context, scheme string, auth []byte) error {
	w := c.newWaiter()
	if err := c.addAuth(authInfo{scheme, bytes.Clone(auth), w}); err != nil {
		c.spare.Put(w)
		return err
	}
	return c.wait(ctx, w, &call{name: "addauth", op: wire.OpAuth}).err
}

// AddAuthAsync is AddAuth with a callback. It takes no place among the outstanding
// operations.
func (c *Client) AddAuthAsync(scheme string, auth []byte, done func(err error)) {
	if err := c.addAuth(authInfo{scheme, bytes.Clone(auth), errDone(done)}); err != nil {
		c.callBackNow(errDone(done), err)
	}
}

func (c *Client) addAuth(info authInfo) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead != nil || c.closing {
		return &Error{Op: "addauth", Err: c.end()}
	}
	c.auth = append(c.auth, info)
	if c.link != nil {
		c.out = info.append(c.out)
		c.sentAuth = append(c.sentAuth, len(c.auth)-1)
		c.link.poke()
	}
	return nil
}

// tell reports the result of a credential, once; c.mu is held.
func (a *authInfo) tell(c *Client, err error) {
	switch done := a.done.(type) {
	case nil:
	case *waiter:
		done.complete(&result{err: err})
	default:
		c.callBackNow(done, err)
	}
	a.done = nil
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
	a.tell(c, nil)
	if len(c.sentAuth) == 0 {
		c.tell(nil)
	}
	return nil
}

// failAuth fails all callers that wait for a credential to be accepted.
func (c *Client) failAuth(err error) {
	for i := range c.auth {
		c.auth[i].tell(c, &Error{Op: "addauth", Err: err})
	}
}
