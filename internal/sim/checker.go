package sim

import (
	"strings"
	"time"

	"github.com/pinfold-zk/pinfold/internal/zab"
	"github.com/pinfold-zk/pinfold/zk"
)

// checker checks Zab's invariants whenever a member's core wants something done,
// which is whenever anything can have changed. They bear the names that they
// have in ZooKeeper's TLA+ specification. There is one history of what was
// delivered (history); each member's log is compared with it as far as the member
// has delivered, once for each transaction, so that most of them are about one
// comparison:
//
//	Leadership          an epoch has one leader, from the moment on at which it writes the epoch as its current one
//	PrefixConsistency   what two members have delivered is the same, as far as both have: each equals the history
//	Integrity           what is in a log was broadcast by the primary of its epoch, with this content
//	Agreement           what one member has delivered no other one skips, and none cuts off
//	TotalOrder          all deliver in the same order: by zxid, without a gap
//	LocalPrimaryOrder   of one epoch, in the order of their broadcast, which has no gap
//	GlobalPrimaryOrder  an older epoch's before a newer one's
//	PrimaryIntegrity    before a primary broadcasts, it has delivered everything of older epochs that any member delivers
//
// Beside them, of what Zab's proofs rest on:
//
//	Durability     what was on a member's disk is there when it comes back
//	AckedIsDurable what it acknowledges is on its disk
//	EpochHistory   a member writes its current epoch after the history that the epoch began with
//	EpochFile      the files of the epochs hold at a start what the member has promised, and no epoch whose beginning its log lacks
//	InitialHistory a member that serves in an epoch has delivered the history that the epoch began with
//	UpToDate       a follower that begins to serve has delivered what its leader had when it said UPTODATE
//	QuorumDurable  what is delivered is on the disks of a quorum
//	Divergence     the next transaction with a digest reveals a corrupted tree, and no client is served from it
//	Healing        a member heals only if its disk is damaged, and keeps what it remembers of its promises
//	HandOver       a leader that hands over leaves when all that it has proposed is delivered, by a quorum of the others too
//	Stranger       what is no member, and says what it likes, takes no role from members that all serve, and uses up no epochs
//	Protocol       no member refuses a peer, or leaves its role, because of what another member has sent
type checker struct {
	s         *Sim
	initial   map[uint32][]entry // the history that an epoch began with
	leaders   map[uint32]*member // by epoch
	broadcast map[zk.Zxid]broadcast
	newest    uint32                 // the newest epoch whose leader has served
	upToDate  map[zab.LinkID]int     // what a leader had delivered when it said so, by the learner's link
	offered   map[zab.LinkID][]entry // the log of the sender of a snapshot, by the receiver's link

	proposed  map[zk.Zxid]*roster // configurations, by their transactions
	rosters   map[string]*roster  // by their texts
	known     map[zk.Zxid]bool    // configurations that some member rightly took for committed
	quorumsOf map[string]*quorums // by the texts of the configurations that are needed
}

// broadcast is a transaction as its primary has logged it.
type broadcast struct {
	hash    uint64
	at      time.Duration
	applied zk.Zxid // what the primary had applied at least when it made it
}

// isOrderOfWork reports whether an invariant is of how members work, not of what
// comes of it.
func isOrderOfWork(invariant string) bool {
	switch invariant {
	case "AckedIsDurable", "EpochHistory", "InitialHistory", "UpToDate", "QuorumDurable", "Protocol":
		return true
	}
	return false
}

// shadow is what a member's log must be.
type shadow struct {
	log       []entry
	delivered int     // of log
	applied   zk.Zxid // at its last step, or later
	ops       []logOp
	epochs    epochs

	known, saved zab.Memberships // of the core, and on the disk
	knew         zab.Memberships // known before the last truncation

	uncut   []entry // the log before the last truncation
	before  bounds  // the current epoch before it
	role    zab.Role
	term    uint64
	serving bool
	epoch   uint32
}

// logOp is a write that may not be durable yet, and how to undo it.
type logOp struct {
	kind  zab.WriteKind
	count int // of entries appended
	epoch uint32
	cut   []entry // that were cut off, or the whole log that was replaced
}

// undo returns the log as it was before the write.
func (op *logOp) undo(log []entry) []entry {
	switch op.kind {
	case zab.WriteEntries:
		return log[:len(log)-op.count]
	case zab.WriteTruncate:
		return append(log[:len(log):len(log)], op.cut...)
	case zab.WriteInstall:
		return op.cut
	}
	return log
}

// refuseCut takes back the last truncation: the log did not hold its end, and stays
// as it was, without what was to be built on the truncation. The log reports an epoch
// that follows it as written before the core learns of the failure.
func (h *shadow) refuseCut() {
	h.log, h.epochs.current, h.known = h.uncut, h.before, h.knew
	clear(h.ops) // those that are still to be counted undo nothing
}

func (h *shadow) leads() bool { return h.role == zab.Leading }

func (h *shadow) last() zk.Zxid {
	if len(h.log) == 0 {
		return 0
	}
	return h.log[len(h.log)-1].z
}

func (c *checker) init(s *Sim) {
	c.initial, c.upToDate = map[uint32][]entry{}, map[zab.LinkID]int{}
	c.s, c.leaders, c.broadcast, c.offered = s, map[uint32]*member{}, map[zk.Zxid]broadcast{}, map[zab.LinkID][]entry{}
	c.proposed, c.rosters, c.known, c.quorumsOf = map[zk.Zxid]*roster{}, map[string]*roster{}, map[zk.Zxid]bool{}, map[string]*quorums{}
}

// saw takes what a member's core wants done.
func (c *checker) saw(m *member, rd *zab.Ready) {
	h := &m.shadow
	t := &c.s.trace
	t.note(uint64(m.id), uint64(rd.Role), rd.Term, uint64(rd.Commit), uint64(len(rd.Writes)), uint64(len(rd.Sends)))
	before := *h
	if h.term != rd.Term || h.serving != rd.Serving || h.role != rd.Role {
		c.s.disturbed(c.s.now)
	}
	h.role, h.term, h.serving, h.epoch = rd.Role, rd.Term, rd.Serving, rd.Epoch
	for i := range rd.Events {
		c.event(m, &rd.Events[i])
	}
	for i := range rd.Sends {
		for k := range rd.Sends[i].Packets {
			p := &rd.Sends[i].Packets[k]
			t.note(uint64(p.Type), uint64(p.Zxid))
			c.s.cover.packet(p.Type)
			switch p.Type {
			case zab.Ack:
				c.acked(m, p.Zxid)
			case zab.UpToDate:
				if e := c.s.net.ends[rd.Sends[i].Link]; e != nil && e.peer != nil {
					c.upToDate[e.peer.id] = h.delivered
				}
			}
		}
	}
	for i := range rd.Writes {
		c.write(m, &rd.Writes[i])
	}
	h.applied = m.rep.LastApplied()
	if rd.Serving {
		c.advance(m, rd.Commit)
	}
	if len(rd.Writes) > 0 || before.serving != h.serving || before.term != h.term {
		c.configuration(m)
		c.ableToCommit()
	}
	if !rd.Serving {
		return
	}
	if before.serving && before.term == rd.Term {
		return
	}
	switch rd.Role {
	case zab.Leading:
		c.established(m)
	case zab.Observing:
		m.observed = c.s.now
	}
	if want := c.upToDate[m.leader]; rd.Role == zab.Following && h.delivered < want {
		c.s.fail("UpToDate", "member %d begins to serve with %d transactions, its leader had %d", m.id, h.delivered, want)
	}
	if began := c.initial[rd.Epoch]; h.delivered < len(began) {
		c.s.fail("InitialHistory", "member %d serves in epoch %d and has not delivered %v", m.id, rd.Epoch, began[h.delivered].z)
	}
}

// acked checks that a learner has on its disk what it acknowledges.
func (c *checker) acked(m *member, z zk.Zxid) {
	h := &m.shadow
	n := h.durable()
	if z.Counter() == 0 {
		if want := len(c.initial[z.Epoch()]); n < want {
			c.s.fail("AckedIsDurable", "member %d acknowledges epoch %d and has %d of its %d transactions on its disk", m.id, z.Epoch(), n, want)
		}
		return
	}
	if n == 0 || h.log[n-1].z < z {
		c.s.fail("AckedIsDurable", "member %d acknowledges %v, which is not on its disk", m.id, z)
	}
}

// durable is how much of the log is on the disk for sure.
func (h *shadow) durable() int {
	n := len(h.log)
	for i := len(h.ops) - 1; i >= 0; i-- {
		switch op := &h.ops[i]; op.kind {
		case zab.WriteEntries:
			n -= op.count
		case zab.WriteInstall:
			return 0
		}
	}
	return n
}

// event counts what the coverage tells.
func (c *checker) event(m *member, e *zab.Event) {
	c.s.trace.note(uint64(e.Kind), uint64(e.Peer), uint64(e.Epoch))
	cover := &c.s.cover
	switch e.Kind {
	case zab.EventElected:
		cover.Elections++
		if !c.s.latest().votes.plain {
			cover.Weighted++
		}
	case zab.EventServing:
		cover.Served++
	case zab.EventHealed:
		c.healed(m)
	case zab.EventResync:
		cover.Resyncs++
		if strings.Contains(e.Reason, "the log cannot be cut") {
			m.shadow.refuseCut()
		}
	case zab.EventRefused:
		cover.Refused++
		if !c.s.stranger.caused(m, e) {
			c.protocol(m, e)
		}
	case zab.EventLeft:
		c.protocol(m, e)
		switch {
		case strings.Contains(e.Reason, "no zxids left"):
			cover.Rollovers++
		case strings.Contains(e.Reason, "a quorum does without it"), strings.Contains(e.Reason, "no quorum has acknowledged"):
			cover.Stalls++
		}
	case zab.EventSyncing:
		kind, _, _ := strings.Cut(e.Reason, " ")
		switch {
		case kind == "SNAP":
			cover.Snaps++
		case strings.Contains(e.Reason, "and the log from"):
			cover.LogSyncs++
		case strings.Contains(e.Reason, " and 0 transactions") && kind == "DIFF":
			cover.EmptyDiffs++
		case kind == "DIFF":
			cover.Diffs++
		}
		if kind == "TRUNC" {
			cover.Truncs++
		}
	}
}

// lawful are the reasons for which links and roles may end: something was lost or
// took too long, a disk is stalled, another server has more right to lead, or a log begins with the
// snapshot of a leader that did not get its quorum, and is to end before that.
var lawful = [...]string{
	"within initLimit", "nothing heard", "nothing is heard for", "is lost", "no quorum of followers", "no zxids left",
	"a quorum does without it", "no quorum has acknowledged", "bytes wait for it",
	"the log cannot be cut", "is not reached within", "is gone", "has a longer history", "looks for a leader again", "which has elected it, votes for", "has accepted epoch", "is accepted already",
	"has no vote since the change", "has another role since the change", "leads from the change of the membership", "that gave it a vote is not in the leader's history", "its membership has version",
	"its tree is not what the log leads to", "hands over to the others", "it has healed",
}

// protocol checks why a role is left, or a peer refused.
func (c *checker) protocol(m *member, e *zab.Event) {
	for _, l := range lawful {
		if strings.Contains(e.Reason, l) {
			return
		}
	}
	c.s.fail("Protocol", "member %d ends a role or a link (%d): %s", m.id, e.Peer, e.Reason)
}

// write follows a member's log.
func (c *checker) write(m *member, w *zab.Write) {
	h := &m.shadow
	op := logOp{kind: w.Kind, epoch: w.Epoch}
	h.epochs.asked(w)
	switch w.Kind {
	case zab.WriteEntries:
		for _, e := range w.Entries {
			c.append(m, entryOf(e))
		}
		op.count = len(w.Entries)
		c.s.trace.note(uint64(h.last()))
	case zab.WriteTruncate:
		n := len(h.log)
		for n > 0 && h.log[n-1].z > w.Zxid {
			n--
		}
		if n == 0 && w.Zxid != 0 || n > 0 && h.log[n-1].z != w.Zxid {
			c.s.fail("Integrity", "member %d is to end its log at %v, which it does not hold", m.id, w.Zxid)
		}
		if n < h.delivered {
			c.s.fail("Agreement", "member %d has delivered %v and cuts it off", m.id, h.log[n].z)
		}
		op.cut = append([]entry(nil), h.log[n:]...)
		if lastChange(op.cut) > 0 {
			c.s.cover.ReconfigsCut++
		}
		h.uncut = append([]entry(nil), h.log...)
		h.before, h.knew = h.epochs.current, h.known
		h.log = h.log[:n]
	case zab.WriteInstall:
		m.installed = c.s.now
		op.cut = h.log
		h.log = c.offered[w.Link]
		delete(c.offered, w.Link)
		if h.delivered > len(h.log) {
			c.s.fail("Durability", "member %d has delivered %d transactions and replaces its log by one of %d, up to %v", m.id, h.delivered, len(h.log), w.Zxid)
		}
	case zab.WriteCurrentEpoch:
		if h.role == zab.Leading {
			c.leadership(m, w.Epoch)
			c.initial[w.Epoch] = append([]entry(nil), h.log...)
		}
		c.epochHistory(m, w.Epoch)
	case zab.WriteMembers:
		c.knows(m, &w.Members)
	}
	h.ops = append(h.ops, op)
}

// epochHistory checks that a member's log holds what the epoch began with.
func (c *checker) epochHistory(m *member, epoch uint32) {
	log := m.shadow.log
	for i, e := range c.initial[epoch] {
		if i >= len(log) || log[i].z != e.z || log[i].hash != e.hash {
			c.s.fail("EpochHistory", "member %d writes epoch %d and its log does not hold %v, with which the epoch began", m.id, epoch, e.z)
		}
	}
}

// append checks Integrity: a primary broadcasts, the others log what was.
func (c *checker) append(m *member, e entry) {
	h := &m.shadow
	if h.role == zab.Leading && h.serving {
		if b, ok := c.broadcast[e.z]; ok && b.hash != e.hash {
			c.s.fail("Leadership", "member %d broadcasts %v, which is another's already", m.id, e.z)
		}
		c.leadership(m, e.z.Epoch())
		c.broadcast[e.z] = broadcast{e.hash, c.s.now, h.applied}
		c.s.proposed(e)
		if e.changes {
			c.proposes(m, e)
		}
		c.s.cover.Transactions++
	} else if b, ok := c.broadcast[e.z]; !ok || b.hash != e.hash {
		c.s.fail("Integrity", "member %d logs %v, which nobody has broadcast (or not with this content: %v)", m.id, e.z, ok)
	}
	h.log = append(h.log, e)
}

// leadership checks that an epoch has one leader.
func (c *checker) leadership(m *member, epoch uint32) {
	if l := c.leaders[epoch]; l != nil && l != m {
		c.s.fail("Leadership", "epoch %d is led by member %d and by member %d", epoch, l.id, m.id)
	}
	c.leaders[epoch] = m
}

// offer notes the sender's log up to the snapshot that it sends, for the member that installs it.
func (c *checker) offer(from *member, l zab.LinkID, z zk.Zxid) {
	h := &from.shadow
	n := len(h.log)
	for n > 0 && h.log[n-1].z > z {
		n--
	}
	if n > 0 && h.log[n-1].z != z {
		c.s.fail("Integrity", "member %d sends a snapshot at %v, which its log does not hold", from.id, z)
	}
	c.offered[l] = append([]entry(nil), h.log[:n]...)
}

// advance compares what a member delivers with the history.
func (c *checker) advance(m *member, commit zk.Zxid) {
	h, hist := &m.shadow, c.s.history
	for h.delivered < len(h.log) && h.log[h.delivered].z <= commit {
		e := h.log[h.delivered]
		if h.delivered < len(hist.entries) {
			want := hist.entries[h.delivered]
			if want.z != e.z {
				c.s.fail("Agreement", "member %d delivers %v where others have delivered %v", m.id, e.z, want.z)
			}
			if want.hash != e.hash {
				c.s.fail("PrefixConsistency", "member %d delivers another %v than others", m.id, e.z)
			}
		} else {
			c.deliver(m, e)
		}
		h.delivered++
	}
}

// deliver handles a transaction that no member has delivered before.
func (c *checker) deliver(m *member, e entry) {
	last := c.s.history.last()
	switch {
	case e.z.Epoch() < last.Epoch():
		c.s.fail("GlobalPrimaryOrder", "member %d delivers %v after %v", m.id, e.z, last)
	case e.z.Epoch() == last.Epoch() && e.z != last+1:
		c.s.fail("LocalPrimaryOrder", "member %d delivers %v after %v", m.id, e.z, last)
	case e.z.Epoch() > last.Epoch() && e.z.Counter() != 1:
		c.s.fail("TotalOrder", "member %d delivers %v after %v: the epoch's beginning is missing", m.id, e.z, last)
	case e.z.Epoch() < c.newest:
		c.s.fail("PrimaryIntegrity", "member %d delivers %v, which the primary of epoch %d has not", m.id, e.z, c.newest)
	}
	at := len(c.s.history.entries)
	holds := func(id int) bool { return c.hasDurable(c.s.members[id], at, e) }
	for _, r := range c.needs(e) {
		if !r.votes.holds(holds) {
			c.s.fail("QuorumDurable", "member %d delivers %v, which is not on the disks of a quorum of %+v", m.id, e.z, r.votes)
		}
	}
	c.s.history.extend(e)
}

// established checks a leader that begins to serve.
func (c *checker) established(m *member) {
	h, hist := &m.shadow, c.s.history
	c.leadership(m, h.epoch)
	// A leader that was cut off may begin to serve when a newer one has already:
	// it is alone, and what is of newer epochs is not for it to deliver.
	if older := hist.upto(zk.MakeZxid(h.epoch, 0)); h.delivered < older {
		c.s.fail("PrimaryIntegrity", "member %d leads epoch %d and has not delivered %v", m.id, h.epoch, hist.entries[h.delivered].z)
	}
	c.newest = max(c.newest, h.epoch)
}

// wrote tells that n writes are durable.
func (c *checker) wrote(m *member, n int) {
	h := &m.shadow
	for i := range h.ops[:n] {
		op := &h.ops[i]
		h.epochs.wrote(op, h.ops[i+1:])
		if op.kind == zab.WriteInstall {
			c.s.cover.Installs++
		}
	}
	h.ops = h.ops[:copy(h.ops, h.ops[n:])]
	c.ableToCommit()
}

// stopped tells that a member's life has ended.
func (c *checker) stopped(m *member) { m.shadow.serving, m.shadow.role = false, zab.Looking }

// started compares what a member finds on its disk with what must be there: one
// of the states that the writes which were not durable have led through.
func (c *checker) started(m *member) {
	if m.rep.Healing() {
		c.heals(m)
		return
	}
	if m.heals { // the power failed when the end of the healing was durable
		c.healed(m)
	}
	h := &m.shadow
	last := m.rep.LastApplied()
	for {
		if n := len(h.log); n == 0 && last == 0 || n > 0 && h.log[n-1].z == last {
			break
		}
		if len(h.ops) == 0 {
			c.s.fail("Durability", "member %d comes back with %v, it had %v on its disk", m.id, last, h.last())
		}
		c.undo(h, last)
	}
	h.ops = nil
	// It may have delivered more than its disk had, if a quorum's had it
	// (QuorumDurable): it delivers that again.
	h.delivered = min(h.delivered, len(h.log))
	c.epochFiles(m, last)
	c.readsBack(m)
	if !m.rep.Fuzzy() {
		c.s.history.sawDigest(last, m.digest(), m.who+" at its start")
	}
}

// undo takes back the last write or, of one that can be done in part, so much
// that the log ends at last.
func (c *checker) undo(h *shadow, last zk.Zxid) {
	op := h.ops[len(h.ops)-1]
	h.ops = h.ops[:len(h.ops)-1]
	switch op.kind {
	case zab.WriteEntries:
		keep := len(h.log) - op.count
		for n := len(h.log); n > keep; n-- {
			if h.log = h.log[:n-1]; h.last() == last {
				return
			}
		}
	case zab.WriteTruncate:
		h.log = append(h.log, op.cut...)
		c.cutTo(h, last)
	case zab.WriteInstall:
		h.log = op.cut
		c.cutTo(h, last)
	}
}

// cutTo ends the log at last, if it holds that: a truncation that was not
// finished may have got that far.
func (c *checker) cutTo(h *shadow, last zk.Zxid) {
	for n := len(h.log); n > 0 && h.log[n-1].z >= last; n-- {
		if h.log[n-1].z == last {
			h.log = h.log[:n]
			return
		}
	}
}

// wiped tells that a member's disk is empty.
func (c *checker) wiped(m *member) { m.shadow = shadow{} }

// applied checks the tree of a member after a turn of its applier.
func (c *checker) applied(m *member) {
	if n := m.rep.Stats().DigestMismatches.Load(); n > m.found {
		c.s.fail("EqualDigest", "member %d has found %d transactions after which its digest is not the leader's; its tree was corrupted %d times", m.id, n, m.found)
	}
	if !m.rep.Fuzzy() && !m.diverged() {
		c.s.history.sawDigest(m.rep.LastApplied(), m.digest(), m.who)
	}
}
