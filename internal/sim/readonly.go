package sim

import (
	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// A member without a quorum serves clients that only read, if it is configured so. It
// shows what its log has. That is a prefix of the history as far as the history goes; the
// rest may still be committed, or be cut off by the next leader. An answer at a zxid that
// is not committed yet is judged when it is.

// readOnlyWelcome checks that a client may be served by a member that only reads.
func (c *client) readOnlyWelcome() {
	k, s := c.conn, c.s
	if !c.mayRead || c.probe || !s.profile.readOnly {
		s.fail("ReadOnly", "%s is served by member %d, which only reads, and did not ask for that", c.who, k.m.id)
	}
	s.cover.ReadOnly++
	c.watches.forget() // those that it sets here fire for nothing
}

// answeredReadOnly judges the answer of a member that only reads: what writes is
// refused, and what reads shows a state that the member's log has led to.
func (c *client) answeredReadOnly(q *ask, h *wire.ReplyHeader, d jute.Decoder) {
	s := c.s
	s.cover.ReadOnlyReads++
	switch {
	case q.op == wire.OpCloseSession && h.Err == zk.OK:
		c.newSession()
		return
	case q.op == wire.OpSync || q.op.IsWrite() && q.op != wire.OpCloseSession:
		if s.cover.code(h.Err); h.Err != zk.ErrNotReadOnly {
			s.fail("ReadOnly", "%s: %v %s is answered %v by member %d, which only reads", c.who, q.op, q.path, h.Err, c.member)
		}
		return
	}
	z := h.Zxid
	if z > 0 && s.check.broadcast[z].hash == 0 {
		s.fail("ReadOnly", "%s is shown %v by member %d, which no leader has proposed", c.who, z, c.member)
	}
	hist := s.history
	if hist.holds(z) {
		c.read(q, h, &d)
		c.whole(q, &d)
		return
	}
	s.cover.Uncommitted++
	head, body := *h, jute.NewDecoder(append([]byte(nil), d.Rest()...))
	hist.deferred[z] = append(hist.deferred[z], func() {
		c.read(q, &head, &body)
		c.whole(q, &body)
	})
}
