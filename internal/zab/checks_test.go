package zab

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/pinfold-zk/pinfold/internal/zab/election"
	"github.com/pinfold-zk/pinfold/zk"
)

// checks watches a cluster for broken promises. The names are those of the
// invariants in ZooKeeper's TLA+ specification, or of package zab's.
type checks struct {
	proposed map[zk.Zxid][]byte // by the leaders
	leaders  map[uint32]int64   // by epoch, that served
	initial  map[uint32]zk.Zxid // what an epoch began with: the end of its leader's history
	safe     zk.Zxid            // committed, and looked at
	lenient  bool               // a peer is played, and may break the protocol
	off      bool               // strangers act in the name of servers that are away: nothing can be promised
	seen     map[string]int     // what has happened, to know that it does
	// committed is what was shown to a client by any server: it is never lost.
	committed []Entry
	changed   map[zk.Zxid]bool // changes of the membership that a server knows to be committed
}

func (x *checks) init() {
	x.seen, x.changed = map[string]int{}, map[zk.Zxid]bool{}
	x.proposed, x.leaders, x.initial = map[zk.Zxid][]byte{}, map[uint32]int64{}, map[uint32]zk.Zxid{}
}

// shown is the last transaction that a client may have seen.
func (x *checks) shown() zk.Zxid {
	if n := len(x.committed); n > 0 {
		return x.committed[n-1].Zxid
	}
	return 0
}

func (x *checks) proposes(s *server, e Entry) {
	if x.leaders[e.Zxid.Epoch()] != s.id {
		s.fail("PrimaryIntegrity: server %d proposes %v, the leader of that epoch is %d", s.id, e.Zxid, x.leaders[e.Zxid.Epoch()])
	}
	if x.proposed[e.Zxid] != nil {
		s.fail("TotalOrder: %v is proposed again", e.Zxid)
	}
	x.proposed[e.Zxid] = e.Data
}

// serves looks at a server that begins to.
func (x *checks) serves(s *server) {
	if s.wrong {
		s.fail("Divergence: server %d serves as %v, and its tree is wrong", s.id, s.role)
	}
	if s.commit < s.fuzzy {
		s.fail("PrefixConsistency: server %d serves at %v a tree that shows something up to %v", s.id, s.commit, s.fuzzy)
	}
	if s.role != Leading {
		return
	}
	if who, ok := x.leaders[s.epoch]; ok {
		s.fail("Leadership: servers %d and %d lead epoch %d", who, s.id, s.epoch)
	}
	if !x.lenient && !x.established(s) {
		s.fail("invariant 2: leader %d serves in epoch %d, which is not the current one on a quorum's disks", s.id, s.epoch)
	}
	x.leaders[s.epoch] = s.id
	x.begins(s)
	// All that any client has seen is in a leader's history, before it adds to it.
	for i, e := range x.committed {
		if i >= len(s.history) || s.history[i].Zxid != e.Zxid {
			s.fail("PrimaryIntegrity: server %d leads epoch %d without %v, which is committed", s.id, s.epoch, e.Zxid)
			return
		}
	}
	s.verified = 0
}

// begins notes what a leader's epoch begins with.
func (x *checks) begins(s *server) {
	if _, ok := x.initial[s.epoch]; !ok {
		x.initial[s.epoch] = s.core.last
	}
}

// commits looks at what a leader has committed since: a quorum has it on its disks.
func (x *checks) commits(s *server) {
	c := s.core
	if c.role != Leading || c.committed <= x.safe || x.lenient {
		return
	}
	for _, z := range append(changesIn(s, x.safe, c.committed), c.committed) {
		if z.Epoch() == c.epoch && !s.onQuorum(z) {
			s.fail("server %d commits %v, which no quorum has on its disks", s.id, z)
		}
	}
	x.safe = c.committed
}

// givesUp looks at what has gone from a disk: what is committed is still on those
// of a quorum.
func (x *checks) givesUp(s *server, es []Entry) {
	for _, e := range es {
		i := index(x.committed, e.Zxid)
		if i > 0 && x.committed[i-1].Zxid == e.Zxid && !s.onQuorum(e.Zxid) && !s.onQuorumOf(x.latest(s), e.Zxid) {
			s.fail("server %d gives up %v, which is committed, and no quorum has it", s.id, e.Zxid)
		}
	}
}

// onQuorum reports whether a quorum has z on its disks.
func (s *server) onQuorum(z zk.Zxid) bool {
	for _, m := range countsFor(s, s.history, z) {
		if !s.onQuorumOf(m, z) {
			return false
		}
	}
	return true
}

func (s *server) onQuorumOf(m *Membership, z zk.Zxid) bool {
	has := func(id int64) bool {
		d := &s.servers[id].disk
		i := index(d.history, z)
		return d.logStart >= z || i > 0 && d.history[i-1].Zxid == z
	}
	if s.cfg.Oracle { // which may have permitted either
		return slices.ContainsFunc(m.System().Voters(), has)
	}
	return m.System().Quorum(has)
}

// claims looks at a disk whose current epoch is e: it has all that e began with.
// Everything about who may lead rests on that.
func (x *checks) claims(s *server, e uint32, why string) {
	z, ok := x.initial[e]
	if i := index(s.disk.history, z); ok && z > s.disk.logStart && (i == 0 || s.disk.history[i-1].Zxid != z) {
		s.fail("the current epoch of server %d is %d (%s), which began with %v; durable is %v", s.id, e, why, z, s.disk.last())
	}
}

// event looks at what a server says: among our own, nobody breaks the protocol.
func (x *checks) event(s *server, e *Event) {
	x.cover(e)
	if e.Kind != EventLeft && e.Kind != EventRefused && e.Kind != EventResync {
		return
	}
	if x.lenient || e.Kind == EventRefused && s.wire(e.Link) == nil { // a stranger's link
		return
	}
	for _, text := range []string{"COMMIT of", "is not due", "the first ACK", "was not proposed", "from a learner", "another ensemble", "during", "before", "behind"} {
		if strings.Contains(e.Reason, text) {
			s.fail("protocol: server %d: %v", s.id, e.Reason)
		}
	}
}

// cover counts what has happened.
func (x *checks) cover(e *Event) {
	switch e.Kind {
	case EventSyncing:
		kind, _, _ := strings.Cut(e.Reason, " ")
		if strings.Contains(e.Reason, "the log from") {
			kind += " from the log"
		}
		x.seen[kind]++
	case EventLeft, EventGone, EventResync, EventServing:
		reason := strings.Map(func(r rune) rune {
			if r >= '0' && r <= '9' {
				return -1
			}
			return r
		}, e.Reason)
		x.seen[fmt.Sprintf("event %d: %.60s", e.Kind, reason)]++
	}
}

// shows looks at what a server that serves may show its clients.
func (x *checks) shows(s *server) {
	n := index(s.history, s.commit)
	for ; s.verified < n; s.verified++ {
		e := s.history[s.verified]
		switch i := s.verified; {
		case x.proposed[e.Zxid] == nil || !bytes.Equal(x.proposed[e.Zxid], e.Data):
			s.fail("Integrity: server %d shows %v, which was not proposed so", s.id, e.Zxid)
		case i < len(x.committed):
			if c := x.committed[i]; c.Zxid != e.Zxid {
				s.fail("Agreement: server %d shows %v in place %d, another showed %v", s.id, e.Zxid, i, c.Zxid)
			}
		case i > 0 && e.Zxid <= x.committed[i-1].Zxid:
			s.fail("GlobalPrimaryOrder: server %d shows %v after %v", s.id, e.Zxid, x.committed[i-1].Zxid)
		default:
			x.committed = append(x.committed, e)
		}
		if s.violation != nil {
			return
		}
	}
	if n > 0 && s.history[n-1].Zxid != s.commit && s.commit.Counter() != 0 {
		s.fail("Integrity: server %d shows up to %v, which it does not have", s.id, s.commit)
	}
	if s.commit > s.disk.last() {
		x.seen["applied before it was durable here"]++
		if !x.lenient && !s.onQuorum(s.commit) {
			s.fail("invariant 3: server %d shows %v, which is not durable, neither here nor on a quorum's disks", s.id, s.commit)
		}
	}
}

func (x *checks) stopped(s *server) { s.verified = 0 }

// synced looks at a sync that is answered: it sees all that any client had seen
// when it was asked for.
func (x *checks) synced(s *server, m syncMark, at zk.Zxid) {
	if at < m.sees {
		s.fail("Sync: server %d answers at %v; when it was asked, %v was shown", s.id, at, m.sees)
	}
}

// sends looks at what a server tells another: it must be durable.
func (x *checks) sends(s *server, p *Packet) {
	d := &s.disk
	switch {
	case p.Type == Ack && p.Zxid.Counter() != 0:
		if i := index(d.history, p.Zxid); i == 0 || d.history[i-1].Zxid != p.Zxid {
			s.fail("invariant 2: server %d acknowledges %v, which is not durable", s.id, p.Zxid)
		}
	case p.Type == Ack:
		x.claims(s, p.Zxid.Epoch(), "it acknowledges NEWLEADER")
		if d.current != p.Zxid.Epoch() || slices.ContainsFunc(s.writes, func(w begun) bool { return w.Kind != WriteEntries && w.Kind != WriteMembers }) {
			s.fail("invariant 2: server %d acknowledges NEWLEADER of epoch %d, durable is %d", s.id, p.Zxid.Epoch(), d.current)
		}
	case p.Type == AckEpoch:
		if d.accepted != s.epoch {
			s.fail("invariant 2: server %d accepts epoch %d, durable is %d", s.id, s.epoch, d.accepted)
		}
	case p.Type == NewLeader:
		x.begins(s)
	}
}

// votes looks at a vote for oneself: it tells of what is durable.
func (x *checks) votes(s *server, n *election.Notification) {
	if n.State != election.Looking || n.Leader != s.id {
		return
	}
	if s.core.diverged {
		if n.PeerEpoch >= 0 {
			s.fail("Divergence: server %d stands for epoch %d, %v, and its tree is wrong", s.id, n.PeerEpoch, n.Zxid)
		}
		return
	}
	if unfit := n.PeerEpoch < 0 && s.core.unfitUntil > 0; !unfit && (n.Zxid != s.disk.last() || n.PeerEpoch != int64(s.disk.current)) {
		s.fail("invariant 5: server %d stands for epoch %d, %v; durable is %d, %v", s.id, n.PeerEpoch, n.Zxid, s.disk.current, s.disk.last())
	}
}
