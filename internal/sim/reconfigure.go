package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/internal/zab"
	"github.com/pinfold-zk/pinfold/zk"
)

// In a quarter of the runs an operator, the first client, changes the configuration of
// the ensemble at random. Some of the members are in no other member's list when they start. A member that
// is removed goes on.

// reconfigurations is what a run with an operator has.
type reconfigurations struct {
	on        bool
	every     time.Duration // how often the operator asks for something, on average
	joiners   int           // members that are not in the first configuration
	rewritten bool          // members write what is committed into their zoo.cfg, and read it when they start
	grouped   float64       // chance that a whole configuration has weights and groups
	harm      float64       // chance that something fails while a change is on its way
}

// drawReconfigurations draws them from a source of their own, see drawVariants. forced
// has every run have them.
func (p *profile) drawReconfigurations(r *rand.Rand, forced bool) {
	if r.IntN(4) > 0 && !forced {
		return
	}
	p.reconfigs = reconfigurations{
		on: true, every: [...]time.Duration{30 * time.Millisecond, 100 * time.Millisecond, 300 * time.Millisecond}[r.IntN(3)],
		joiners: r.IntN(4), rewritten: r.IntN(2) == 0,
		grouped: [...]float64{0, 0, 0.3}[r.IntN(3)], harm: [...]float64{0, 0.3, 0.8}[r.IntN(3)],
	}
	p.stranger = noStranger // it may not speak for a voter, and anyone may become one
	if r.IntN(2) == 0 {
		p.electorate = drawElectorate(r, p.voters)
	}
}

// operatorName is the name and the password of the superuser.
const operatorName = "super"

// first is the configuration that the members begin with.
func (s *Sim) first() *roster { return s.history.model.rosters[0] }

// latest is the configuration that was committed last.
func (s *Sim) latest() *roster {
	all := s.history.model.rosters
	return all[len(all)-1]
}

// holds reports whether a set of members is a quorum of the configuration that was
// committed last.
func (s *Sim) holds(has func(id int) bool) bool { return s.latest().votes.holds(has) }

// pending returns the configurations that may be committed next: those in a log that are
// later than the latest, and what requests without an answer may lead to.
func (s *Sim) pending() []*roster {
	latest := s.latest()
	all := []*roster{latest}
	for _, m := range s.members[1:] {
		log := m.shadow.log
		for i := len(log) - 1; i >= 0 && log[i].z > latest.version; i-- {
			if r := s.check.proposed[log[i].z]; r != nil && !slices.Contains(all, r) {
				all = append(all, r)
			}
		}
	}
	for _, from := range all[:len(all):len(all)] {
		for _, q := range s.changes {
			if _, ok := s.history.outcomes[request{q.session, q.xid}]; ok {
				continue
			}
			if to, code := q.change.apply(from, from.version); code == zk.OK {
				all = append(all, to)
			}
		}
	}
	return all
}

// isVoter reports whether a member has a vote, or may get one by a change that is pending.
func (m *member) isVoter() bool {
	if !m.s.profile.reconfigs.on {
		return m.voter
	}
	return slices.ContainsFunc(m.s.pending(), func(r *roster) bool { return r.voter(m.id) })
}

// counted reports whether a member may still count, or be counted by another, as a voter: by what
// is on any disk, or in its own zoo.cfg, by which it would go with an empty disk.
func (m *member) counted() bool {
	if !m.s.profile.reconfigs.on {
		return m.voter
	}
	return m.isVoter() || parsedVoter(m.listed, m.id) || slices.ContainsFunc(m.s.members[1:], func(o *member) bool {
		if o.gone || o == m {
			return false
		}
		k := &o.shadow.saved
		for _, known := range [...]*zab.Membership{k.Committed, k.Seen} {
			if known != nil && m.s.check.roster(known).voter(m.id) {
				return true
			}
		}
		return !o.filled && parsedVoter(o.listed, m.id)
	})
}

func parsedVoter(text string, id int) bool {
	r, err := readRoster(text)
	return err == nil && r.voter(id)
}

// list returns what is in the member's zoo.cfg. A member that no other one lists is given
// the configuration that was committed last, and itself.
func (m *member) list() string {
	if m.listed != "" {
		return m.listed
	}
	r := m.s.latest()
	if p := &m.s.profile; m.id <= p.voters+p.observers {
		r = m.s.first()
	}
	if r.line(m.id) == nil {
		l := rosterLine{id: m.id, port: 2888, observer: m.s.chance(0.3), weight: 1}
		r = newRoster(0, r.with(l), !r.votes.plain)
		m.s.cover.Joiners++
	} else {
		r = newRoster(0, r.lines, !r.votes.plain)
	}
	m.listed = r.text()
	m.s.say(m.who, "is configured with %q", m.listed)
	return m.listed
}

// stranded reports whether a member finds no leader before an operator changes its list. Either
// no member of the ensemble lists it, and the voters that it lists are lost, or as lost as it is
// itself. Or it lists itself as a voter, no other member does, and some that it lists are lost, so
// that the others are no quorum of its list.
func (m *member) stranded() bool {
	known := m.shadow.saved.Committed
	if known == nil {
		return false
	}
	if m.s.latest().line(m.id) == nil && !m.s.findable()[m.id] {
		return true
	}
	if p := &m.s.profile; m.id <= p.voters+p.observers || known.Version() > 0 {
		return false
	}
	return !m.s.check.roster(known).votes.holds(func(id int) bool { return id != m.id && !m.s.members[id].gone })
}

// findable returns, by id, the living members of the ensemble, and those that know one of these,
// or of those that do.
func (s *Sim) findable() []bool {
	found := make([]bool, len(s.members))
	for _, l := range s.latest().lines {
		found[l.id] = !s.members[l.id].gone
	}
	for range s.members {
		for _, m := range s.members[1:] {
			if known := m.shadow.saved.Committed; known != nil && !m.gone && !found[m.id] {
				found[m.id] = slices.ContainsFunc(s.check.roster(known).lines, func(l rosterLine) bool { return !l.observer && found[l.id] })
			}
		}
	}
	return found
}

// membersSaved is what a node does with its files (replica.Options.MembersSaved).
func (m *member) membersSaved(now zab.Memberships) {
	m.s.check.saved(m, &now)
	if !m.s.profile.reconfigs.rewritten {
		return
	}
	own, ok := now.Committed.Member(int64(m.id))
	if ok && own.Address != "" {
		m.listed = string(now.Committed.Text())
	}
	if m.next = ""; now.Seen != now.Committed {
		m.next = string(now.Seen.Text())
	}
}

// askReconfig has the operator ask for a change; another client may ask too, and is refused.
func (c *client) askReconfig() {
	change := c.s.drawChange()
	c.sendReconfig(change)
}

func (c *client) sendReconfig(change *rosterChange) {
	r := wire.ReconfigRequest{
		JoiningServers: change.joiningText(), LeavingServers: change.leavingText(), NewMembers: change.wholeText(), CurConfigID: int64(change.version),
	}
	what := "joining " + r.JoiningServers + " leaving " + r.LeavingServers
	if r.NewMembers != nil {
		what = strings.ReplaceAll(*r.NewMembers, "\n", " ")
	}
	q := &ask{
		op: wire.OpReconfig, path: configPath, change: change, what: what, body: r.Append(nil),
		ops: []wire.MultiOp{{Type: wire.OpReconfig, CreateRequest: wire.CreateRequest{Path: configPath}}},
	}
	c.s.cover.ReconfigsAsked++
	c.s.changes = append(c.s.changes, q)
	c.ask(q)
}

// drawChange draws a change of the latest configuration.
func (s *Sim) drawChange() *rosterChange {
	r, rng := s.latest(), s.rng
	id := 1 + rng.IntN(len(s.members)-1)
	if l := s.leader(); l != nil && s.chance(0.2) {
		id = l.id
	}
	line := rosterLine{id: id, port: 2888 + 10*rng.IntN(3), observer: s.chance(0.3)}
	c := &rosterChange{version: -1}
	switch n := rng.IntN(6); {
	case n == 0:
		c.version = r.version
	case n == 1 && s.chance(0.3):
		c.version = r.version - 1
	}
	switch n := rng.IntN(20); {
	case n < 5:
		c.leaving = []int{id}
	case n < 12:
		c.joining = []rosterLine{line}
	case n < 14: // one comes, and another goes
		c.joining, c.leaving = []rosterLine{line}, []int{1 + rng.IntN(len(s.members)-1)}
	case n == 14:
		s.drawOdd(c)
	default:
		c.replaced = s.drawRoster(r)
	}
	if s.unhealthy(c) {
		c.joining, c.leaving, c.replaced = nil, nil, r
	}
	return c
}

// unhealthy reports whether a change could leave the ensemble without a quorum for ever: a
// voter that is lost, or has lost its disk, would be needed. A leader refuses that if it
// knows, and it may not know yet.
func (s *Sim) unhealthy(c *rosterChange) bool {
	for _, from := range s.pending() {
		to, code := c.apply(from, 0)
		if code == zk.OK && !to.votes.holds(func(id int) bool { return s.members[id].healthy() }) {
			return true
		}
	}
	return false
}

// healthy reports whether a member has all that it has promised, and comes back.
func (m *member) healthy() bool { return !m.gone && !m.damaged && m.wrong == nil && !m.corrupt }

// drawOdd draws a text that is refused.
func (s *Sim) drawOdd(c *rosterChange) {
	switch s.rng.IntN(5) {
	case 0:
		c.odd, c.oddAs = "server.x=10.0.1.1:2888:3888;10.0.1.1:2181", zk.ErrMarshalling
	case 1:
		c.odd, c.oddAs = "server.1=10.0.1.1:2888:3888", zk.ErrBadArguments // no client address
	case 2:
		c.odd, c.oddAs = "nonsense", zk.ErrBadArguments
	case 3:
		c.odd, c.oddAs, c.oddWhole = "server.x=10.0.1.1:2888:3888;10.0.1.1:2181", zk.ErrMarshalling, true
	default:
		c.odd, c.oddAs, c.oddWhole = "server.1=10.0.1.1:2888:3888:observer;10.0.1.1:2181", zk.ErrMarshalling, true
	}
}

// drawRoster draws a whole configuration: any members, equals or in groups.
func (s *Sim) drawRoster(now *roster) *roster {
	groups := s.chance(s.profile.reconfigs.grouped)
	var lines []rosterLine
	for _, m := range s.members[1:] {
		l := rosterLine{id: m.id, port: 2888 + 10*s.rng.IntN(3), observer: s.chance(0.2), weight: 1}
		if had := now.line(m.id); had != nil && s.chance(0.5) {
			l = *had
		}
		if groups {
			l.weight, l.group = s.rng.IntN(4), s.rng.IntN(3)
		}
		if s.chance(0.7) {
			lines = append(lines, l)
		}
	}
	return newRoster(0, lines, groups)
}

// askConfig reads the configuration, sometimes after a sync.
func (c *client) askConfig() {
	if c.s.chance(0.3) {
		c.askSync()
	}
	r := wire.PathWatch{Path: configPath, Watch: c.s.chance(0.5)}
	c.ask(&ask{op: wire.OpGetData, path: configPath, watch: r.Watch, body: r.Append(nil)})
}

// operates has a client do what is done in a run with an operator. It reports whether
// the client has asked for something.
func (c *client) operates() bool {
	s := c.s
	if !s.profile.reconfigs.on || c.conn.reads {
		return false
	}
	switch {
	case c.operator && s.chance(0.8), s.chance(0.005):
		c.askReconfig()
		if c.operator && s.chance(0.1) {
			c.askReconfig() // two at once
		}
	case c.operator, s.chance(0.04):
		c.askConfig()
	default:
		return false
	}
	return true
}

// reconfig is a change of the configuration.
func (m *model) reconfig(q *ask, op *wire.MultiOp) result {
	fails := func(code zk.Code) result { return result{op: op.Type, code: code} }
	from := m.rosters[len(m.rosters)-1]
	switch {
	case m.now.check != zk.OK:
		return fails(m.now.check)
	case m.now.refused == zk.ErrReconfigInProgress && from.version > m.now.quotas:
		return fails(m.now.refused) // the leader cannot have known that the last one is committed
	case q.change.version != -1 && q.change.version != from.version:
		return fails(zk.ErrBadVersion)
	}
	to, code := q.change.apply(from, m.now.z)
	v := m.get(configPath)
	switch {
	case code != zk.OK:
		return fails(code)
	case m.now.refused == zk.ErrNewConfigNoQuorum:
		return fails(m.now.refused)
	case !allows(v.acl, zk.PermWrite, q.ids):
		return fails(zk.ErrNoAuth)
	}
	v.data, v.version, v.mzxid, v.mtime = to.text(), -1, m.now.z, m.now.time
	m.put(configPath, v)
	m.event(zk.EventNodeDataChanged, configPath, v.acl)
	m.rosters = append(m.rosters, to)
	return result{op: op.Type, stat: v.stat(), data: v.data}
}

// judgeReconfig compares the configuration that a transaction makes with the model's.
func (h *history) judgeReconfig(tx *txn.Txn, q *ask) {
	to := h.s.latest()
	if string(tx.Data) != to.text() {
		h.differs(tx, q, "makes the configuration %q, must be %q", tx.Data, to.text())
	}
	h.s.cover.Reconfigs++
	if l := h.s.check.leaders[tx.Zxid.Epoch()]; l != nil && !to.voter(l.id) {
		h.s.cover.LeadersRemoved++
	}
}

// readConfig compares what a read of the configuration shows. Before the first change a member
// that serves shows the configuration of the ensemble, not the one with which it joins; one that only reads, that has
// joined while the first change was pending, or whose zoo.cfg is later than its log, what its own zoo.cfg has. The time of the last change is a server's own after a
// restart.
func (c *client) readConfig(q *ask, z zk.Zxid, v version, d *jute.Decoder) {
	s, shown := c.s, d.Buffer()
	if z < v.mzxid || len(s.history.model.rosters) == 1 || v.mzxid == 0 {
		v.data = string(c.conn.config)
		if first := s.history.model.rosters[0]; !c.conn.reads && string(shown) != v.data && strings.HasSuffix(v.data, fmt.Sprintf("version=%x", uint64(first.version))) {
			v.data = first.text()
		}
	}
	c.equal(q, z, string(shown), v.data)
	stat, want := wire.DecodeStat(d), v.stat()
	want.Mtime = stat.Mtime
	c.equal(q, z, stat, want)
	s.cover.ConfigsRead++
}

// harmChange has something fail while a change is on its way.
func (s *Sim) harmChange(leader *member) {
	p := &s.profile
	if !s.faulting || !s.chance(p.reconfigs.harm) {
		return
	}
	s.after(s.between(0, 3*(p.netDelay+p.diskDelay)), func() {
		if !s.faulting {
			return
		}
		kinds := [...]faultKind{
			crashPower, crashProcess, crashInWrite, killInWrite, leaderDown, leaderDown, leaderAlone, leaderAlone, pause,
			cutLink, partition, partition, cutPair, crashAll, diskStall, partitionOneWay,
		}
		m := s.members[1+s.rng.IntN(len(s.members)-1)]
		if s.chance(0.3) {
			m = leader
		}
		k := kinds[s.rng.IntN(len(kinds))]
		if s.harm(k, m) {
			s.cover.ReconfigsHarmed++
			s.disturbed(max(s.now, m.paused, m.slow, m.lag))
			s.say("sim", "fault within a reconfiguration: %v, member %d", k, m.id)
		}
	})
}

// mustReconfigure demands that the healed ensemble can be changed: all that is left of it
// becomes one configuration, and a write is answered after that.
func (s *Sim) mustReconfigure() {
	for range 2 {
		if to := s.allLeft(); to.voters() >= 2 {
			s.mustBecome(to)
		}
	}
}

// allLeft is a configuration of all that is left. Present voters stay; of the others so many
// become voters that the present ones are a quorum, which a leader demands.
func (s *Sim) allLeft() *roster {
	var lines []rosterLine
	latest, more := s.latest(), -1
	for _, m := range s.members[1:] {
		if !m.gone && latest.voter(m.id) {
			lines = append(lines, rosterLine{id: m.id, port: 2888})
			more++
		}
	}
	for _, m := range s.members[1:] {
		if !m.gone && !m.stranded() && !latest.voter(m.id) {
			l := rosterLine{id: m.id, port: 2888, observer: more <= 0 || s.chance(0.2)}
			if !l.observer {
				more--
			}
			lines = append(lines, l)
		}
	}
	return newRoster(0, lines, false)
}

func (s *Sim) mustBecome(to *roster) {
	c := newClient(s, len(s.clients))
	c.operator, c.probe = true, true
	c.becomeOperator()
	c.to = &rosterChange{version: -1, replaced: to}
	s.clients = append(s.clients, c)
	c.begin()
	if !s.runUntil(s.now+progressLimit, func() bool { return c.probed }) {
		s.fail("Progress", "%v after all was healed the configuration is not changed to %q: %s", progressLimit, to.text(), s.describe())
	}
	c.retire()
	s.mustProgress()
}

// becomeOperator gives a client the password of the superuser.
func (c *client) becomeOperator() {
	c.operator, c.user = true, operatorName
	c.ids = []zk.ID{c.ids[0], {Scheme: "super"}, identity(operatorName, operatorName)}
}

// describeRosters lists the configurations, for a failure.
func (s *Sim) describeRosters() (text string) {
	for _, r := range s.history.model.rosters {
		text += fmt.Sprintf("\n  %v: %s", r.version, strings.ReplaceAll(r.text(), "\n", " "))
	}
	return text
}

// reconfigured takes the answer to the change that a client probes with. It asks again if the
// leader has not got to know its followers yet, or is about to leave. A change that was on
// its way before may have come meanwhile, and there may be other voters now.
func (c *client) reconfigured(code zk.Code) {
	switch code {
	case zk.OK:
		c.probed = true
	case zk.ErrNewConfigNoQuorum, zk.ErrReconfigInProgress, zk.ErrSessionExpired, zk.ErrSessionMoved:
		if to := c.s.allLeft(); to.voters() >= 2 {
			c.to = &rosterChange{version: -1, replaced: to}
		}
		c.s.after(100*time.Millisecond, c.work)
	default:
		c.s.fail("Progress", "%s: the last change of the configuration is refused: %v", c.who, code)
	}
}
