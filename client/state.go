package client

import (
	"fmt"
	"slices"
)

// State is what a session's owner must know.
type State int

// The states. A session begins Connecting and, once Connected, goes to and fro
// between Connected (or ConnectedReadOnly) and Suspended. The other three are
// final, but for Expired of a Client with NewSession, which is followed by
// Connecting.
const (
	Connecting        State = iota // no session yet
	Connected                      // a member with a quorum answers
	ConnectedReadOnly              // a member without a quorum answers, see AllowReadOnly
	Suspended                      // the connection is lost; the session may or may not have expired
	Expired                        // the servers have ended the session: its ephemeral znodes and watches are gone
	AuthFailed                     // a member has refused the credentials
	Closed                         // by Close
)

var stateNames = [...]string{"connecting", "connected", "connected read-only", "suspended", "expired", "authentication failed", "closed"}

// String names the state.
func (s State) String() string {
	if s < 0 || int(s) >= len(stateNames) {
		return fmt.Sprintf("state %d", int(s))
	}
	return stateNames[s]
}

// State returns the present state. It may be another when the caller looks at it.
func (c *Client) State() State {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state
}

// States returns a channel with every change of state from now on, in order, the
// present state first. It is closed after the last. The reader may be slow: no
// connection waits for it, and no change is dropped, until a thousand are unread;
// then pairs of Suspended and a connected state that follow each other are left
// out, the oldest first, because a reader of the rest learns the same; without such
// a pair the oldest change is. cancel ends it.
func (c *Client) States() (states <-chan State, cancel func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := newPump(joinStates)
	p.put(c.state)
	if c.dead != nil {
		p.finish()
	} else {
		c.listeners[p] = struct{}{}
	}
	return p.out, func() {
		c.mu.Lock()
		delete(c.listeners, p)
		c.mu.Unlock()
		p.cancel()
	}
}

// maxStates is how many unread changes of state are kept whole.
const maxStates = 1000

// joinStates adds s, and leaves out the oldest pair of Suspended and Connected
// when the queue is too long.
func joinStates(queue []State, s State) []State {
	queue = append(queue, s)
	if len(queue) <= maxStates {
		return queue
	}
	for i := 0; i+2 < len(queue); i++ {
		if queue[i] == Suspended && (queue[i+1] == Connected || queue[i+1] == ConnectedReadOnly) {
			return slices.Delete(queue, i, i+2)
		}
	}
	return slices.Delete(queue, 0, 1)
}

// setState changes the state and notifies all listeners; c.mu is held.
func (c *Client) setState(s State) {
	if c.state == s {
		return
	}
	c.state = s
	c.opts.metrics.StateChanged(s)
	for p := range c.listeners {
		p.put(s)
	}
}
