package zab

import (
	"fmt"

	"github.com/pinfold-zk/pinfold/zk"
)

// verify looks at what must be true of a core between two inputs.
func verify(c *Core) error {
	chain := []zk.Zxid{}
	for _, e := range c.window.All() {
		chain = append(chain, e.Zxid)
	}
	if n := len(chain); n > 0 && chain[n-1] != c.committed {
		return fmt.Errorf("the window ends at %v, committed is %v", chain[n-1], c.committed)
	}
	if c.window.Len() == 0 {
		chain = append(chain, c.committed)
	}
	for _, e := range c.learner.pending.All() {
		chain = append(chain, e.Zxid)
	}
	for _, p := range c.leader.outstanding.All() {
		chain = append(chain, p.Zxid)
	}
	for i := 1; i < len(chain); i++ {
		if !follows(chain[i-1], chain[i]) {
			return fmt.Errorf("%v is kept behind %v", chain[i], chain[i-1])
		}
	}
	bytes := 0
	for _, e := range c.window.All() {
		bytes += len(e.Data)
	}
	unsynced := int64(0)
	for _, a := range c.appends.All() {
		unsynced += a.bytes
	}
	switch last := chain[len(chain)-1]; {
	case last != c.last:
		return fmt.Errorf("what is kept ends at %v, the log at %v", last, c.last)
	case unsynced != c.unsynced:
		return fmt.Errorf("%d bytes wait for the disk, %d are counted", unsynced, c.unsynced)
	case bytes != c.window.bytes:
		return fmt.Errorf("the window counts %d bytes, it has %d", c.window.bytes, bytes)
	case c.window.Len() > 0 && c.window.base >= c.window.At(0).Zxid:
		return fmt.Errorf("the window begins with %v, behind %v", c.window.At(0).Zxid, c.window.base)
	case c.ready.Commit > c.committed || c.applied > c.ready.Commit || c.ready.Commit > c.persistedZxid && c.phase != broadcast && c.phase != draining && c.phase != settling:
		return fmt.Errorf("applied %v, to be applied %v, committed %v, durable %v", c.applied, c.ready.Commit, c.committed, c.persistedZxid)
	case c.role == Leading && c.window.base > c.persistedZxid:
		return fmt.Errorf("the window begins after %v, durable is %v", c.window.base, c.persistedZxid)
	case c.persistedZxid > c.last || c.persisted > c.seq:
		return fmt.Errorf("durable are %v and write %d, of %v and write %d", c.persistedZxid, c.persisted, c.last, c.seq)
	case c.currentEpoch > c.acceptedEpoch || c.last.Epoch() > c.currentEpoch:
		return fmt.Errorf("epochs %d and %d, the log ends at %v", c.acceptedEpoch, c.currentEpoch, c.last)
	case c.epoch > c.acceptedEpoch:
		return fmt.Errorf("epoch %d, accepted is %d", c.epoch, c.acceptedEpoch)
	case c.ready.Serving != (c.phase == broadcast) || c.ready.Role != c.role || c.ready.Term != c.term:
		return fmt.Errorf("told is %v in term %d, serving %v; it is %v in %d, phase %d", c.ready.Role, c.ready.Term, c.ready.Serving, c.role, c.term, c.phase)
	case (c.role == Looking) != (c.phase == electing || c.phase == settling):
		return fmt.Errorf("%v in phase %d", c.role, c.phase)
	case c.members.Committed.version > c.members.Seen.version || c.members.Committed != c.members.Seen && c.role == Leading && c.leader.stage == leading && c.committed >= c.members.Seen.version:
		return fmt.Errorf("memberships %v and %v, committed is %v", c.members.Committed.version, c.members.Seen.version, c.committed)
	case c.role != Looking && len(c.waiting) > 0:
		return fmt.Errorf("%v with %d links that wait", c.role, len(c.waiting))
	}
	return verifyLearners(c)
}

// verifyLearners looks at a leader's links.
func verifyLearners(c *Core) error {
	s := &c.leader
	if len(s.links) != len(s.learners) {
		return fmt.Errorf("%d links, %d learners", len(s.links), len(s.learners))
	}
	for _, l := range s.learners {
		switch {
		case s.links[l.link] != l:
			return fmt.Errorf("link %d is another's", l.link)
		case l.holds && s.holders[l.id] != l:
			return fmt.Errorf("server %d has another link", l.id)
		case (l.acks != nil) != (l.holds && !l.observer) || l.acks != nil && s.acksOf(l.id) != l.acks:
			return fmt.Errorf("the acknowledgements of server %d are counted elsewhere", l.id)
		case l.heldUpto > l.heldAfter && (l.state != synced || l.heldUpto != c.committed):
			return fmt.Errorf("COMMITs up to %v are held back from %d, committed is %v", l.heldUpto, l.id, c.committed)
		case l.state == upToDate && s.stage == leading && s.leaseEnd > l.contact+c.ticks(c.cfg.SyncLimit):
			return fmt.Errorf("server %d is silent for too long at %v, looked for at %v", l.id, l.contact+c.ticks(c.cfg.SyncLimit), s.leaseEnd)
		}
	}
	for id, l := range s.holders {
		if l.id != id || s.links[l.link] != l {
			return fmt.Errorf("server %d is not linked", id)
		}
	}
	return nil
}
