package zab

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/pinfold-zk/pinfold/internal/zab/election"
	"github.com/pinfold-zk/pinfold/internal/zab/quorum"
	"github.com/pinfold-zk/pinfold/zk"
)

// Member is a server of the ensemble.
type Member struct {
	ID            int64
	Observer      bool   // it has no vote
	Weight, Group int64  // of a voter, see quorum.Weighted
	Address       string // where its peers reach it; the core only hands it on
}

// Membership is one version of the list of servers of the ensemble. It does not change.
type Membership struct {
	version zk.Zxid
	members []Member // ascending by id
	system  *quorum.System
	text    []byte
}

// NewMembership returns a membership. version is the zxid of the transaction that
// made it, and less than any transaction's for the first one, which comes from a
// file. text is what NEWLEADER and notifications carry of it. Both slices are kept.
// The errors are those of quorum.Weighted, and two members of one id.
func NewMembership(version zk.Zxid, members []Member, text []byte) (*Membership, error) {
	slices.SortFunc(members, func(a, b Member) int { return compareIDs(a.ID, b.ID) })
	weights, groups := map[int64]int64{}, map[int64]int64{}
	for i, m := range members {
		if i > 0 && m.ID == members[i-1].ID {
			return nil, fmt.Errorf("zab: two members have the id %d", m.ID)
		}
		if !m.Observer {
			weights[m.ID], groups[m.ID] = m.Weight, m.Group
		}
	}
	system, err := quorum.Weighted(weights, groups)
	if err != nil {
		return nil, fmt.Errorf("zab: membership: %w", err)
	}
	if n := len(system.Voters()); n > MaxVoters {
		return nil, fmt.Errorf("zab: membership: %d voters, more than %d", n, MaxVoters)
	}
	return &Membership{version: version, members: members, system: system, text: text}, nil
}

func compareIDs(a, b int64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// Version is the zxid of the transaction that made the membership.
func (m *Membership) Version() zk.Zxid { return m.version }

// Members returns all members, ascending by id. The caller must not change them.
func (m *Membership) Members() []Member { return m.members }

// countsAs reports whether o has the same members with the same votes. Addresses may differ: in the
// configuration files that an ensemble begins with, each server may name the others in its way.
func (m *Membership) countsAs(o *Membership) bool { return countAlike(m.members, o.members) }

func countAlike(m, o []Member) bool {
	return slices.EqualFunc(m, o, func(a, b Member) bool {
		a.Address, b.Address = "", ""
		return a == b
	})
}

// without returns the members but for one.
func (m *Membership) without(id int64) []Member {
	return slices.DeleteFunc(slices.Clone(m.members), func(o Member) bool { return o.ID == id })
}

// Member returns the member of an id; ok is false if there is none.
func (m *Membership) Member(id int64) (member Member, ok bool) {
	i, ok := slices.BinarySearchFunc(m.members, id, func(m Member, id int64) int { return compareIDs(m.ID, id) })
	if !ok {
		return Member{}, false
	}
	return m.members[i], true
}

// System says which sets of the voters are quorums.
func (m *Membership) System() *quorum.System { return m.system }

// Text is the membership as NEWLEADER and notifications carry it. The caller must
// not change it.
func (m *Membership) Text() []byte { return m.text }

// MembershipReader reads memberships for the core, to which transactions and texts
// are opaque. Its methods are pure functions; the core calls them from its own.
type MembershipReader interface {
	// OfEntry returns the membership that a transaction makes, with the zxid of the
	// transaction as its version; nil if the transaction makes none.
	OfEntry(e Entry) *Membership
	// OfText reads Membership.Text; nil if it cannot be read.
	OfText(text []byte) *Membership
}

// Memberships is what a server knows of the membership. A transaction that changes it
// counts from when it is proposed: until it is committed, everything needs a quorum
// of Committed and a quorum of Seen. The next change is proposed after that.
type Memberships struct {
	// Committed is the latest that is known to be committed.
	Committed *Membership
	// Seen is the latest in the history; the same as Committed, or not known to be
	// committed.
	Seen *Membership
	// Unsure tells that the history came as a snapshot and there may be one between
	// Committed and Seen, or after Seen, that this server does not know. Such a server
	// must not lead: it would count the wrong votes. It ends with UPTODATE.
	Unsure bool
	// Blind tells that Seen may not be the latest in the history: that came as a snapshot whose tree
	// does not tell, or a change was cut off that hid others. NEWLEADER ends it, or another history.
	Blind bool
	// Own tells that Committed is this server's own list, from its configuration, and that no leader
	// has told which membership counts: a server that joins lists itself. It is not kept on the disk, which has no
	// Memberships as long as it is true.
	Own bool
	// SureAt tells, if Blind, where the history ends of which Committed and Seen are surely all that
	// there is to know: the one before the snapshot, as long as neither has changed since. It is
	// noHistory if there is none, and 0 if not Blind.
	SureAt zk.Zxid
}

// noHistory is a zxid at which no history ends.
const noHistory zk.Zxid = -1

// System says which sets of servers are quorums at present.
func (m *Memberships) System() *quorum.System {
	if m.Committed == m.Seen {
		return m.Seen.system
	}
	return quorum.Both(m.Committed.system, m.Seen.system)
}

// Members returns the members of both, ascending by id: the servers to which links
// are kept. Of a server that is in both it returns what Seen says.
func (m *Memberships) Members() []Member {
	all := slices.Clone(m.Seen.members)
	for _, old := range m.Committed.members {
		if _, ok := m.Seen.Member(old.ID); !ok {
			all = append(all, old)
		}
	}
	slices.SortFunc(all, func(a, b Member) int { return compareIDs(a.ID, b.ID) })
	return all
}

// Memberships returns what this server knows of the membership.
func (c *Core) Memberships() Memberships { return c.members }

// recoverMembers returns what the server begins with: what its disk holds, or the
// configuration's if that is later. A transaction that the log does not hold was not
// acknowledged. A doubt about a snapshot is void if a crash has kept that from the disk: a zxid
// has one history, so what was known of it before is true again. If the snapshot is on the disk, the tree
// shows what it showed when it came, and what has changed since. A server that heals has no history: it knows
// what was committed, and nothing else.
func recoverMembers(cfg *Config, s *State) Memberships {
	m, first := s.Members, cfg.Members
	m.Own = cfg.Reader != nil && (m.Own || m.Committed == nil)
	if m.Blind && m.SureAt == s.Last {
		m.Unsure, m.Blind, m.SureAt = false, false, 0
	}
	if m.Committed == nil || m.Committed.version < first.version {
		m.Committed = first
	}
	if s.Heals {
		return Memberships{Committed: m.Committed, Seen: m.Committed}
	}
	if m.Blind && cfg.Reader != nil {
		m = m.shown(cfg.Reader.OfText(s.MembersShown), s.Last)
	}
	if m.Seen == nil || m.Seen.version <= m.Committed.version || m.Seen.version > s.Last && !m.Unsure {
		m.Seen = m.Committed
	}
	return m
}

// dynamic reports whether transactions may change the membership.
func (c *Core) dynamic() bool { return c.cfg.Reader != nil }

// observes reports whether this server is an observer, or has no vote until it has healed. A
// server that is no member follows without a vote. So does one that is an observer, and becomes
// a voter by a change that is not known to be committed: those that have the change
// need its vote and its acknowledgements to commit it.
func (c *Core) observes() bool {
	if c.heals {
		return true
	}
	m, ok := c.members.Committed.Member(c.cfg.ID)
	return ok && m.Observer && !c.members.Seen.system.Voter(c.cfg.ID) && !(c.heard != nil && c.heard.system.Voter(c.cfg.ID))
}

// setMembers replaces what this server knows of the membership, on its disk too, and
// derives the voters and the links from it.
func (c *Core) setMembers(m Memberships) {
	if m == c.members {
		return
	}
	if m.SureAt = 0; m.Blind {
		m.SureAt = noHistory
	}
	c.keepMembers(m)
}

func (c *Core) keepMembers(m Memberships) {
	c.deriveMembers(m)
	c.write(WriteMembers).Members = m
}

func (c *Core) deriveMembers(m Memberships) {
	c.members = m
	c.countVotes()
	c.election.SetElectorate(c.electorate())
	c.ready.Members = m.Members()
	if c.heard != nil {
		beside := Memberships{Committed: &Membership{members: c.ready.Members}, Seen: c.heard}
		c.ready.Members = beside.Members()
	}
}

// newcomer reports whether this server has a vote only by a change that is not known
// to be committed. Voters that have not seen the change do not vote for it.
func (c *Core) newcomer() bool {
	return c.members.Committed.system.Weight(c.cfg.ID) == 0 && c.members.Seen.system.Weight(c.cfg.ID) > 0
}

// yield makes a newcomer leave the lead to others in every second election that it
// begins. Where it is a candidate, all voters must have seen the change; where it is not,
// another server must have a history that is as long.
func (c *Core) yield() {
	c.yields = !c.yields
	if c.newcomer() {
		c.election.SetElectorate(c.electorate())
	}
}

func (c *Core) electorate() election.Electorate {
	seen := zk.Zxid(0)
	if c.members.Committed != c.members.Seen && !c.members.Unsure {
		seen = c.members.Seen.version
	}
	e := election.Electorate{
		System: c.system, Observer: c.observes(), Abstains: c.members.Unsure || c.yields && c.newcomer(),
		TrustsLeader: c.trustsLeader(), ConfigText: c.members.Committed.text, Seen: seen, Changes: c.dynamic(),
	}
	switch m := &c.members; {
	case m.Committed != m.Seen && !m.Blind:
		e.SeenText = m.Seen.text
	case m.Committed == m.Seen && !m.Unsure && !m.Own && c.dynamic():
		e.SeenText = []byte{}
	}
	if c.heard != nil {
		e.System, e.Heard = quorum.Beside(c.system, c.heard.system), c.heard.version
		e.Abstains = e.Abstains || c.system.Weight(c.cfg.ID) == 0
	}
	return e
}

// seeEntry looks whether a transaction that is about to be appended changes the
// membership. The change is on the disk before the transaction. A change that NEWLEADER told ahead of the history, which is what
// a server that heals or observes is told, is forgotten if the history goes on without it: its leader was lost, and it was not committed.
func (c *Core) seeEntry(e Entry) {
	if !c.dynamic() {
		return
	}
	if m := c.members; m.Seen != m.Committed && m.Seen.version > c.last && e.Zxid > m.Seen.version {
		c.cutMembers(c.last)
	}
	if to := c.cfg.Reader.OfEntry(e); to != nil {
		c.see(to)
	}
}

// see notes a membership that is later in the history. The one before is committed:
// else the leader would not have proposed this one. Which one was before is not known
// between a snapshot and NEWLEADER, nor before the first NEWLEADER, as this server's own list may not be the ensemble's.
func (c *Core) see(to *Membership) {
	m := c.members
	if to.version <= m.Seen.version {
		return
	}
	switch {
	case m.Own && c.role != Leading:
		m.Unsure = true
	case !m.Unsure || c.role == Leading || c.learner.newLeader:
		m.Committed, m.Unsure = m.Seen, false
	}
	m.Seen, m.Own = to, false
	c.learner.sawChange = c.role != Leading
	c.setMembers(m)
}

// commitMembers notes that the history up to z is committed. The error says why this
// server must leave its role; nil if it need not.
func (c *Core) commitMembers(z zk.Zxid) error {
	m := c.members
	if m.Committed == m.Seen && !m.Unsure || m.Seen.version > z {
		return nil
	}
	c.setMembers(Memberships{Committed: m.Seen, Seen: m.Seen})
	c.event(Event{Kind: EventMembers, Zxid: m.Seen.version})
	switch {
	case c.role == Leading && m.Seen.system.Weight(c.cfg.ID) == 0:
		return fmt.Errorf("it has no vote since the change of the membership at %v", m.Seen.version)
	case c.role != Leading && c.observes() != (c.role == Observing):
		return fmt.Errorf("it has another role since the change of the membership at %v", m.Seen.version)
	}
	return nil
}

// cutMembers forgets a change of the membership that is not in the history up to z. If there
// may be others between Committed and that one, the latest in the history is not known any more.
func (c *Core) cutMembers(z zk.Zxid) {
	m := c.members
	if m.Seen.version > z {
		m.Seen, m.Blind = m.Committed, m.Unsure
		c.setMembers(m)
	}
}

// doubtMembers notes that a snapshot takes the place of the history.
func (c *Core) doubtMembers() {
	m := c.members
	if !c.dynamic() || m.Blind {
		return
	}
	m.SureAt = c.last
	if m.Unsure || m.Own {
		m.SureAt = noHistory
	}
	m.Unsure, m.Blind, m.Own = true, true, false
	c.keepMembers(m)
}

// shown returns what a server that is Blind knows when it has read in the tree, whose history ends at last, that
// to is the latest change: that counts as Seen. It is not known to be committed: a leader sends snapshots before it has
// a quorum. Nor is it known which change was before it, unless to is the transaction after the history in which
// all changes were known: an epoch has one leader, so that history is a part of the snapshot's. What does not tell is m itself:
//   - nil: the tree has no membership, or one that cannot be read.
//   - Another one of the version of Committed. It is a first one, which comes from a file, and one of the two
//     servers may have an outdated file, or join.
//   - One after last, and after Committed. A snapshot is fuzzy: there may be others that are earlier and in the history.
func (m Memberships) shown(to *Membership, last zk.Zxid) Memberships {
	switch {
	case to == nil, to.version == m.Committed.version && !m.Committed.countsAs(to):
		return m
	case to.version <= m.Committed.version:
		m.Seen, m.Unsure = m.Committed, false // the history has no later one
	case to.version > last:
		return m
	case to.version == m.Seen.version:
		m.Unsure = m.SureAt <= 0 // else it was known before the snapshot came, and so was the one before it
	case m.SureAt > 0 && to.version == m.SureAt+1:
		m.Committed, m.Seen, m.Unsure = m.Seen, to, false // nothing is between the two; and see
	default:
		m.Seen, m.Unsure = to, true
	}
	m.Blind, m.SureAt = false, 0
	return m
}

// takeShown takes the latest membership that a snapshot at z shows; see shown.
func (c *Core) takeShown(text []byte, z zk.Zxid) {
	if !c.dynamic() {
		return
	}
	m := c.members.shown(c.cfg.Reader.OfText(text), z)
	c.learner.sawChange = c.learner.sawChange || m.Seen != c.members.Seen
	c.setMembers(m)
}

// takeMembers takes the membership that NEWLEADER tells, which is the latest in the
// leader's history, and by that in this server's.
func (c *Core) takeMembers(text []byte) error {
	if !c.dynamic() {
		return nil
	}
	to := c.cfg.Reader.OfText(text)
	m := c.members
	m.Blind, m.Own = false, false
	switch {
	case to == nil:
		return errors.New("the membership in NEWLEADER cannot be read")
	case to.version == m.Committed.version:
		if !m.Committed.countsAs(to) {
			m.Committed = to // of the first version each server has its own: a joining one lists itself
		}
		m.Seen, m.Unsure = m.Committed, false
	case to.version == m.Seen.version:
		// It was known before the snapshot came, and so was the one before it.
		if l := &c.learner; l.sure && !l.sawChange {
			m.Unsure = false
		}
	case to.version > m.Committed.version:
		m.Seen, m.Unsure = to, true
	}
	c.setMembers(m)
	return nil
}

// Why a change of the membership is not proposed.
var (
	ErrChanging = errors.New("zab: another change of the membership is not committed")
	ErrNoQuorum = errors.New("zab: no quorum of the new voters is up to date")
)

// AdmitChange reports why a change of the membership cannot be proposed now, as the
// transaction that its version names; nil if it can. The error wraps ErrChanging or
// ErrNoQuorum.
// REQUIRES: this server leads, and serves.
func (c *Core) AdmitChange(to *Membership) error { return c.admitChange(to, to.version) }

// admitChange reports why a change of the membership cannot be proposed now; nil if
// it can. A quorum of the new voters must follow and be up to date: the change, and
// all that follows it, needs them. An observer that is to get a vote does not count,
// nor does one that has just lost it: should this leader be lost, they would wait for
// a leader as observers, and none could be elected without them.
func (c *Core) admitChange(to *Membership, z zk.Zxid) error {
	switch {
	case to.version != z:
		return fmt.Errorf("zab: a membership of version %v in transaction %v", to.version, z)
	case c.members.Committed != c.members.Seen:
		return ErrChanging
	case !to.system.Quorum(func(id int64) bool {
		l := c.leader.holders[id]
		was, _ := c.members.Committed.Member(id)
		return id == c.cfg.ID || l != nil && !l.observer && !was.Observer && l.state == upToDate
	}):
		return ErrNoQuorum
	}
	return nil
}

// seeProposed looks whether one of the entries that are to be proposed changes the
// membership. The error says why it cannot be proposed.
func (c *Core) seeProposed(es []Entry) error {
	if !c.dynamic() {
		return nil
	}
	var to *Membership
	for i := range es {
		m := c.cfg.Reader.OfEntry(es[i])
		switch {
		case m == nil:
		case to != nil:
			return ErrChanging
		default:
			if err := c.admitChange(m, es[i].Zxid); err != nil {
				return err
			}
			to = m
		}
	}
	if to != nil {
		c.see(to)
	}
	return nil
}

// changes reports whether a transaction is the latest that changes the membership.
func (c *Core) changes(z zk.Zxid) bool { return c.dynamic() && z == c.members.Seen.version }

// commitPacket tells a follower that z is committed.
func (c *Core) commitPacket(z zk.Zxid) Packet {
	if c.changes(z) {
		return Packet{Type: CommitAndActivate, Zxid: z, Data: c.designated()}
	}
	return Packet{Type: Commit, Zxid: z}
}

// informPacket tells an observer of a transaction that is committed.
func (c *Core) informPacket(e *Entry) Packet {
	if d := c.learner.designated; d != nil {
		return Packet{Type: InformAndActivate, Zxid: e.Zxid, Data: append(slices.Clone(d), e.Data...)}
	}
	if c.role == Leading && c.changes(e.Zxid) {
		return Packet{Type: InformAndActivate, Zxid: e.Zxid, Data: append(c.designated(), e.Data...)}
	}
	return Packet{Type: Inform, Zxid: e.Zxid, Data: e.Data}
}

// retryAt has this server, once it has left its role, take the one that it has under a
// designated leader, without an election. The discovery of that leader finds out whether a
// quorum does the same.
func (c *Core) retryAt(leader int64) {
	if c.members.Seen.system.Weight(leader) == 0 || leader == c.cfg.ID && (c.members.Unsure || c.heals) {
		return
	}
	c.retry = leader
}

// designated is the id of the leader that an Apache learner expects after a change of
// the membership: this server or, if it has no vote any more, the voter that has
// acknowledged the most.
func (c *Core) designated() []byte {
	return binary.BigEndian.AppendUint64(nil, uint64(c.designatedID()))
}

func (c *Core) designatedID() int64 {
	id, voters := c.cfg.ID, c.members.Seen.system
	if voters.Weight(id) == 0 {
		best := int64(-1)
		for _, v := range voters.Voters() {
			if a := c.acknowledged(v); a > best && voters.Weight(v) > 0 {
				id, best = v, a
			}
		}
	}
	return id
}
