package client

import (
	"time"
)

// A probe is a request whose answer is awaited to learn until when servers have
// heard of the session. There is one at a time; at is zero without one.
type probe struct {
	at  time.Time // not after it was sent
	xid int32
}

// sends makes the request that is about to be sent the probe, if there is none.
func (c *Client) sends(xid int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.probe.at.IsZero() {
		c.probe = probe{time.Now(), xid}
	}
}

// proven notes that the probe was answered. c.mu is held.
func (c *Client) proven() {
	c.heard, c.probe = c.probe.at, probe{}
}

// Heard returns the send time of the last request that was answered: a server has heard
// from the session at that time or later, and keeps the session for SessionTimeout from
// then on, by its clock. When more time has passed, the session may have expired, even
// if events or late answers still arrive, because later requests may have been lost. It
// is zero before the first session.
func (c *Client) Heard() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.heard
}
