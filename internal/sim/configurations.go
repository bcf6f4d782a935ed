package sim

import (
	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/zab"
	"github.com/pinfold-zk/pinfold/zk"
)

// Of the configuration the checker demands, after every step of a member that changes what
// is on a disk, or a role:
//
//	OneAtATime           a configuration is proposed after the one before it is committed
//	ConfigOfLog          what a member knows last is the last one in its log, or a later one: a committed one, or one that the leader has told before it came
//	ConfigCommitted      what a member takes for committed is on the disks of a quorum of the configuration before, and of its own
//	ConfigMonotonic      what a member takes for committed never goes back, neither in a life nor over lives
//	OneAbleToCommit      no two servers lead, or could be elected by what is on the disks, with quorums that have no member in common
//	CommittedSurvives    a server that could be elected has on its disk all that was ever delivered

// able is a server that leads, or could be elected.
type able struct {
	m        *member
	needs    *quorums
	by       int // the members that would follow it: bit i is member i+1
	inOffice bool
}

// quorums says which sets of members are quorums of one configuration, or of two.
type quorums struct {
	key string
	of  []bool // by set
}

// roster returns a membership as the checker reads it.
func (c *checker) roster(m *zab.Membership) *roster {
	text := string(m.Text())
	r := c.rosters[text]
	if r == nil {
		var err error
		if r, err = readRoster(text); err != nil {
			c.s.fail("ConfigOfLog", "a member has the configuration %q: %v", text, err)
		}
		c.rosters[text] = r
	}
	return r
}

// proposes notes a change of the configuration that a primary proposes.
func (c *checker) proposes(m *member, e entry) {
	tx, err := txn.Decode(e.data)
	if err != nil {
		return // extend says so
	}
	r, err := readRoster(string(tx.Data))
	if err != nil || r.version != e.z {
		c.s.fail("ConfigOfLog", "member %d proposes %q at %v: %v", m.id, tx.Data, e.z, err)
	}
	if before := lastChange(m.shadow.log); before > 0 && !c.isCommitted(m, before) {
		c.s.fail("OneAtATime", "member %d proposes the configuration %v, and %v is not committed", m.id, e.z, before)
	}
	c.proposed[e.z] = r
	c.s.cover.ReconfigsProposed++
	c.s.harmChange(m)
}

// lastChange is the last transaction of a log that changes the configuration, 0 if there is none.
func lastChange(log []entry) zk.Zxid {
	for i := len(log) - 1; i >= 0; i-- {
		if log[i].changes {
			return log[i].z
		}
	}
	return 0
}

// needs returns the configurations of which the next transaction of the history needs a
// quorum: two if it changes the configuration.
func (c *checker) needs(e entry) []*roster {
	all := []*roster{c.s.latest()}
	if r := c.proposed[e.z]; r != nil {
		all = append(all, r)
	}
	return all
}

// isCommitted reports whether a change in a member's log is committed.
func (c *checker) isCommitted(m *member, z zk.Zxid) bool {
	if z == 0 || c.s.history.holds(z) {
		return true
	}
	log := m.shadow.log
	at := len(log) - 1
	for at >= 0 && log[at].z > z {
		at--
	}
	if at < 0 || log[at].z != z {
		return false
	}
	before := c.s.first()
	if b := lastChange(log[:at]); b > 0 {
		before = c.proposed[b]
	}
	for _, r := range [...]*roster{before, c.proposed[z]} {
		if !r.votes.holds(func(id int) bool { return c.hasDurable(c.s.members[id], at, log[at]) }) {
			return false
		}
	}
	return true
}

// hasDurable reports whether a transaction is on a member's disk, at a place in its log, whichever
// of the writes that are under way are finished: the log that a snapshot replaces counts until
// then, if the snapshot has the transaction too. A damaged disk may have lost what it had when
// the member acknowledged it.
func (c *checker) hasDurable(m *member, at int, e entry) bool {
	log := m.shadow.log
	has := func() bool { return len(log) > at && log[at].z == e.z && log[at].hash == e.hash }
	for i := len(m.shadow.ops) - 1; i >= 0 && !m.damaged; i-- {
		op := &m.shadow.ops[i]
		if op.kind != zab.WriteEntries && !has() {
			return false
		}
		log = op.undo(log)
	}
	return m.damaged || has()
}

// saved notes what a member has on its disk of the configuration.
func (c *checker) saved(m *member, now *zab.Memberships) {
	h := &m.shadow
	if was := h.saved.Committed; was != nil && now.Committed.Version() < was.Version() {
		c.s.fail("ConfigMonotonic", "member %d has saved that %v is committed, and saves %v", m.id, was.Version(), now.Committed.Version())
	}
	h.saved = *now
	if !m.up {
		h.known = *now // the core begins with it
	}
}

// knows notes what a member's core knows of the configuration.
func (c *checker) knows(m *member, now *zab.Memberships) {
	h := &m.shadow
	if was := h.known.Committed; was != nil && now.Committed.Version() < was.Version() {
		c.s.fail("ConfigMonotonic", "member %d took %v for committed, and takes %v", m.id, was.Version(), now.Committed.Version())
	}
	h.known = *now
}

// configuration checks what a member knows, after a step.
func (c *checker) configuration(m *member) {
	k := &m.shadow.known
	if k.Committed == nil {
		return
	}
	committed, seen, last := k.Committed.Version(), k.Seen.Version(), lastChange(m.shadow.log)
	for _, known := range [...]*zab.Membership{k.Committed, k.Seen} {
		if r := c.proposed[known.Version()]; known.Version() > 0 && (r == nil || r.text() != string(known.Text())) {
			c.s.fail("ConfigOfLog", "member %d knows the configuration %v as %q, which nobody has proposed", m.id, known.Version(), known.Text())
		}
	}
	want := max(last, committed)
	if !k.Unsure && seen != want && (seen < want || seen <= m.shadow.last()) {
		c.s.fail("ConfigOfLog", "member %d goes by the configurations %v and %v, and the last in its log is %v", m.id, committed, seen, last)
	}
	if committed > 0 && !c.known[committed] {
		if !c.isCommitted(m, committed) {
			c.s.fail("ConfigCommitted", "member %d takes the configuration %v for committed, which is not on the disks of quorums", m.id, committed)
		}
		c.known[committed] = true
	}
}

// onDisk is the log as it is if no write that is under way is finished.
func (h *shadow) onDisk() []entry {
	log := h.log
	for i := len(h.ops) - 1; i >= 0; i-- {
		log = h.ops[i].undo(log)
	}
	return log
}

// mixed reports whether members go by different configurations.
func (c *checker) mixed() bool {
	var first *zab.Memberships
	for _, m := range c.s.members[1:] {
		k := &m.shadow.saved
		switch {
		case k.Committed == nil || m.gone:
		case first == nil:
			first = k
		case string(k.Committed.Text()) != string(first.Committed.Text()), string(k.Seen.Text()) != string(first.Seen.Text()):
			return true
		}
	}
	return false
}

// ableToCommit checks which servers lead, and which could be elected.
func (c *checker) ableToCommit() {
	if !c.s.profile.reconfigs.on || !c.mixed() {
		return
	}
	var all []able
	logs := map[*member][]entry{}
	for _, m := range c.s.members[1:] {
		if m.shadow.saved.Committed != nil && !m.gone && !m.damaged {
			logs[m] = m.shadow.onDisk()
		}
	}
	for _, m := range c.s.members[1:] {
		if log, ok := logs[m]; ok {
			if a, ok := c.couldLead(m, log, logs); ok {
				all = append(all, a)
			}
			if m.up && m.shadow.serving && m.shadow.leads() {
				all = append(all, c.leads(m, logs))
			}
		}
	}
	c.s.cover.AbleJudged++
	for i, a := range all {
		for _, b := range all[:i] {
			if a.needs != b.needs && a.m != b.m {
				c.together(a, b)
			}
		}
	}
}

// couldLead reports whether a server could be elected by what is on the disks: those whose
// histories are not later are a quorum. Then it has all that was delivered.
func (c *checker) couldLead(m *member, log []entry, logs map[*member][]entry) (able, bool) {
	h := &m.shadow
	k := h.goesBy(log)
	if k.Unsure || !c.roster(k.Seen).weighs(m.id) {
		return able{}, false
	}
	a := able{m: m, needs: c.quorums(&k)}
	for o, other := range logs {
		e, f := o.shadow.epochs.current.durable, h.epochs.current.durable
		if (e < f || e == f && lastOf(other) <= lastOf(log)) && c.mayElect(o, other, m, &k) {
			a.by |= 1 << (o.id - 1)
		}
	}
	if !a.needs.of[a.by] {
		return able{}, false
	}
	hist := c.s.history
	if n := len(hist.entries); n > 0 && (len(log) < n || log[n-1].z != hist.entries[n-1].z || log[n-1].hash != hist.entries[n-1].hash) {
		c.s.fail("CommittedSurvives", "member %d could be elected by the members %b, goes by the configurations %v and %v, and its log lacks %v%s",
			m.id, a.by, k.Committed.Version(), k.Seen.Version(), hist.last(), c.s.describeRosters())
	}
	return a, true
}

// goesBy is what a server goes by with what is on its disk: a change that the log does not
// hold does not count.
func (h *shadow) goesBy(log []entry) zab.Memberships {
	k := h.saved
	if k.Seen.Version() > lastOf(log) && !k.Unsure && k.Seen.Version() > k.Committed.Version() {
		k.Seen = k.Committed
	}
	return k
}

// mayElect reports whether a server may vote for another one: by what it has on its disk that
// one has a vote, or by a change that the other one has in its log and tells of. A member that no
// other one lists is a candidate for itself alone.
func (c *checker) mayElect(o *member, log []entry, m *member, its *zab.Memberships) bool {
	k := o.shadow.goesBy(log)
	told := its.Seen != its.Committed && c.roster(its.Seen).weighs(m.id)
	return told || c.roster(k.Committed).weighs(m.id) || c.roster(k.Seen).weighs(m.id)
}

// leads returns a leader in office, which those can follow that have accepted no later epoch.
func (c *checker) leads(m *member, logs map[*member][]entry) able {
	h := &m.shadow
	a := able{m: m, needs: c.quorums(&h.known), inOffice: true}
	for o := range logs {
		if o.shadow.epochs.accepted.durable <= h.epoch {
			a.by |= 1 << (o.id - 1)
		}
	}
	return a
}

func lastOf(log []entry) zk.Zxid {
	if len(log) == 0 {
		return 0
	}
	return log[len(log)-1].z
}

// weighs reports whether a member has a vote that counts.
func (r *roster) weighs(id int) bool { return id <= len(r.votes.weights) && r.votes.weights[id-1] > 0 }

// quorums returns the quorums of which a server that knows k needs one.
func (c *checker) quorums(k *zab.Memberships) *quorums {
	key := string(k.Committed.Text()) + "|" + string(k.Seen.Text())
	q := c.quorumsOf[key]
	if q == nil {
		q = &quorums{key: key, of: make([]bool, 1<<(len(c.s.members)-1))}
		old, now := c.roster(k.Committed), c.roster(k.Seen)
		for set := range q.of {
			has := func(id int) bool { return set&(1<<(id-1)) != 0 }
			q.of[set] = old.votes.holds(has) && now.votes.holds(has)
		}
		c.quorumsOf[key] = q
	}
	return q
}

// together checks that two servers cannot both commit: no quorum of the one is apart from
// every quorum of the other.
func (c *checker) together(a, b able) {
	common := a.by & b.by
	for part := common; ; part = (part - 1) & common {
		if x, y := a.by&^common|part, b.by&^part; a.needs.of[x] && b.needs.of[y&^x] {
			c.s.fail("OneAbleToCommit", "member %d (in office %v) can commit with the members %b, and member %d (%v) with %b; the quorums are of %q and of %q%s",
				a.m.id, a.inOffice, x, b.m.id, b.inOffice, y&^x, a.needs.key, b.needs.key, c.s.describeRosters())
		}
		if part == 0 {
			return
		}
	}
}
