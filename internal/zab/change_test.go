package zab

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/zab/election"
	"github.com/pinfold-zk/pinfold/zk"
)

// textReader reads memberships from texts: the version, and for each member its id, role,
// weight and group. A transaction that has more than its 8 bytes ends with one.
type textReader struct{}

func (textReader) OfEntry(e Entry) *Membership {
	if len(e.Data) <= 8 {
		return nil
	}
	return textReader{}.OfText(e.Data[8:])
}

func (textReader) OfText(text []byte) *Membership {
	var version zk.Zxid
	var members []Member
	for i, field := range strings.Fields(string(text)) {
		if i == 0 {
			if _, err := fmt.Sscan(field, &version); err != nil {
				return nil
			}
			continue
		}
		var m Member
		var role string
		if _, err := fmt.Sscanf(field, "%d:%1s:%d:%d", &m.ID, &role, &m.Weight, &m.Group); err != nil {
			return nil
		}
		m.Observer = role == "o"
		members = append(members, m)
	}
	m, err := NewMembership(version, members, text)
	if err != nil {
		return nil
	}
	return m
}

// write writes what textReader reads.
func write(version zk.Zxid, members []Member) []byte {
	b := fmt.Appendf(nil, "%d", int64(version))
	for _, m := range members {
		role := "v"
		if m.Observer {
			role = "o"
		}
		b = fmt.Appendf(b, " %d:%s:%d:%d", m.ID, role, m.Weight, m.Group)
	}
	return b
}

// countsFor returns the memberships of which z needs a quorum: the latest one in the
// history up to z, and the one before if z is its transaction. It does not ask the core.
func countsFor(s *server, history []Entry, z zk.Zxid) []*Membership {
	if s.cfg.Reader == nil {
		return []*Membership{s.cfg.Members}
	}
	before, last := s.cfg.Members, s.cfg.Members
	for i := range history {
		if history[i].Zxid > z {
			break
		}
		if m := (textReader{}).OfEntry(history[i]); m != nil {
			before, last = last, m
		}
	}
	if last.version == z {
		return []*Membership{before, last}
	}
	return []*Membership{last}
}

// changesIn returns the changes of the membership later than after and up to upto.
func changesIn(s *server, after, upto zk.Zxid) (zs []zk.Zxid) {
	if s.cfg.Reader == nil {
		return nil
	}
	for _, e := range s.history[index(s.history, after):index(s.history, upto)] {
		if (textReader{}).OfEntry(e) != nil {
			zs = append(zs, e.Zxid)
		}
	}
	return zs
}

// latest is the membership that was committed last.
func (x *checks) latest(s *server) *Membership {
	all := countsFor(s, x.committed, 1<<62)
	return all[len(all)-1]
}

// commitsMembers looks at what a server takes for the committed membership: quorums of it
// and of the one before have the transaction on their disks.
func (x *checks) commitsMembers(s *server) {
	if s.cfg.Reader == nil {
		return
	}
	v := s.core.Memberships().Committed.version
	if v == 0 || x.changed[v] {
		return
	}
	if i := index(s.history, v); i == 0 || s.history[i-1].Zxid != v || !s.onQuorum(v) {
		s.fail("server %d takes the membership of %v for committed, which is not on the disks of quorums", s.id, v)
	}
	x.changed[v] = true
	x.seen["changes committed"]++
}

// established reports whether a leader's epoch is the current one on the disks of a
// quorum: of the latest membership in its history, and of the one before if it is not
// known that it was replaced.
func (x *checks) established(s *server) bool {
	end := zk.Zxid(1 << 62)
	ms := countsFor(s, s.history, end)
	if v := ms[len(ms)-1].version; !x.changed[v] {
		ms = countsFor(s, s.history, v)
	}
	for _, m := range ms {
		if !m.System().Quorum(func(id int64) bool { return s.servers[id].disk.current >= s.epoch }) {
			return false
		}
	}
	return true
}

// newChanging is an ensemble whose membership changes.
func newChanging(seed uint64) *chaos {
	rng := rand.New(rand.NewPCG(seed, 11))
	voters := 1 + rng.IntN(4)
	others := rng.IntN(4)
	if voters+others < 3 {
		others = 3 - voters
	}
	members := membersOf(voters, rng.IntN(others+1)).Members()
	cfg := Config{
		Members: must(NewMembership(0, members, write(0, members))), Reader: textReader{},
		Tick: 20 * ms, InitLimit: 5 + rng.IntN(10), SyncLimit: 2 + rng.IntN(5),
		Window: rng.IntN(6), SizeFactor: []float64{0.33, 0.33, -1}[rng.IntN(3)], ForceSnap: rng.IntN(4) == 0,
		FinalizeWait: 10 * ms, MinNotify: 10 * ms, MaxNotify: 100 * ms,
	}
	x := chaosOf(rng, voters, others, cfg)
	x.steps = 200 + rng.IntN(1500)
	x.changes = 1 + rng.IntN(30)
	return x
}

// change proposes a change of the membership.
func (x *chaos) change() {
	s := x.leader()
	if s == nil {
		return
	}
	z, left := s.core.NextZxid()
	if left < 1 {
		return
	}
	e := x.entry(z)
	e.Data = append(e.Data, write(z, x.drawMembers(s))...)
	if (textReader{}).OfEntry(e) == nil {
		return // nobody has a vote
	}
	switch err := s.core.Propose([]Entry{e}); {
	case errors.Is(err, ErrChanging), errors.Is(err, ErrNoQuorum):
		x.check.seen[err.Error()]++
	case err != nil:
		s.fail("server %d: %v", s.id, err)
	default:
		x.say("%d: proposes the membership %s", s.id, e.Data[8:])
		x.check.proposes(s, e)
		x.check.seen["changes proposed"]++
	}
	s.drive()
}

// drawMembers draws members: one more or less than now, another weight or role, without
// the leader, or any.
func (x *chaos) drawMembers(leader *server) []Member {
	id := int64(1 + x.rng.IntN(len(x.servers)-1))
	one := Member{ID: id, Weight: 1}
	kind := x.rng.IntN(6)
	switch kind {
	case 0: // it leaves
	case 1:
		one.Weight = int64(x.rng.IntN(4))
	case 2:
		one.Observer, one.Weight = true, 0
	case 3:
		id = leader.id
	case 4:
		var members []Member
		for id := range int64(len(x.servers) - 1) {
			if x.rng.IntN(3) > 0 {
				members = append(members, Member{ID: id + 1, Weight: int64(x.rng.IntN(3)), Group: int64(x.rng.IntN(2))})
			}
		}
		return members
	}
	members := slices.DeleteFunc(slices.Clone(leader.core.Memberships().Seen.Members()), func(m Member) bool { return m.ID == id })
	if kind != 0 && kind != 3 {
		members = append(members, one)
	}
	return members
}

// All that TestChaos demands holds while transactions change the membership: voters
// come and go, change their weights, become observers and the other way round, the
// leader is removed; and in peace the ensemble comes to serve.
func TestMembershipChanges(t *testing.T) {
	n := *seedsFlag
	if n == defaultSeeds {
		n = 300 // of those that are drawn by default
	}
	first, last := seedRange(n)
	all := map[string]int{}
	for seed := first; seed <= last; seed++ {
		seen, err := newChanging(seed).runSafely()
		if err != nil {
			t.Fatalf("seed=%d: %v\n\tgo test ./internal/zab -run TestMembershipChanges -seed %d -show", seed, err, seed)
		}
		for what, n := range seen {
			all[what] += n
		}
	}
	for _, what := range slices.Sorted(maps.Keys(all)) {
		t.Logf("%8d %s", all[what], what)
	}
}

// changing is testConfig with a membership that transactions change.
func changing(voters int) Config {
	cfg := testConfig(voters)
	cfg.Reader, cfg.Members = textReader{}, textReader{}.OfText(write(0, cfg.Members.Members()))
	return cfg
}

// A server whose history came as a snapshot, with a change of the membership that it did
// not know, may not know another one before that. It votes for others only, also after a
// restart, until UPTODATE tells that the change is committed.
func TestAnUnsureServerIsNoCandidate(t *testing.T) {
	z := zk.MakeZxid(4, 2)
	four := write(z, membersOf(4, 0).Members())
	for _, c := range []struct {
		name     string
		text     []byte
		upToDate bool
		unsure   bool
	}{
		{"a change that it did not know", four, false, true},
		{"the membership that it knew", write(0, membersOf(3, 0).Members()), false, false},
		{"a change that is committed", four, true, false},
		{"a link that is lost before NEWLEADER", nil, false, true},
	} {
		cfg := changing(3)
		o, l := follows2(t, cfg, history(4, 1))
		p := newLeaderOf(5)
		p.Data = c.text
		o.step(l, Packet{Type: Snap, Zxid: zk.MakeZxid(4, 3)})
		if c.text != nil {
			o.step(l, p)
		}
		o.persist()
		if c.upToDate {
			o.step(l, upToDatePacket())
			o.persist()
		}
		known := o.core.Memberships()
		o.core.LinkDown(o.now, l, errLink)
		o.drive()
		o.persist()
		restarted := newSolo(t, cfg, State{AcceptedEpoch: 5, CurrentEpoch: o.core.currentEpoch, Last: zk.MakeZxid(4, 3), Members: known})
		for _, core := range []*Core{o.core, restarted.core} {
			want(t, c.name+": unsure", core.Memberships().Unsure, c.unsure)
			want(t, c.name+": stands", core.election.Vote().Leader != election.NoCandidate, !c.unsure)
		}
	}
}

// A server that joins lists itself in its first membership. The leader's takes the place of that:
// else a change that makes it a voter would have it count a quorum of its own list.
func TestTheLeadersFirstMembershipCounts(t *testing.T) {
	own := changing(3) // this server, 1, joins 2 and 3
	leaders := write(0, []Member{{ID: 2, Weight: 1}, {ID: 3, Weight: 1}})
	o, l := follows2(t, own, history(4, 1))
	p := newLeaderOf(5)
	p.Data = append(own.Members.Text(), "  "...) // the same members by another text
	before := o.core.Memberships().Committed
	o.step(l, diffOf(zk.MakeZxid(4, 1)), p)
	want(t, "keeps its own text", o.core.Memberships().Committed == before, true)
	o, l = follows2(t, own, history(4, 1))
	p.Data = leaders
	o.step(l, diffOf(zk.MakeZxid(4, 1)), p, upToDatePacket())
	o.persist()
	want(t, "has a vote", o.core.Memberships().Committed.System().Voter(1), false)
	z := zk.MakeZxid(5, 1)
	o.step(l, Packet{Type: Proposal, Zxid: z, Data: append(make([]byte, 8), write(z, own.Members.Members())...)})
	want(t, "a newcomer", o.core.newcomer(), true)
}

// The history that a server joins by may have a change of the membership that is not committed. The
// list by which it joins is not what the ensemble counts by until then: the server is unsure, also if
// the link breaks before NEWLEADER and after a restart, until the change is committed.
func TestAServerJoinsDuringAChange(t *testing.T) {
	cfg := changing(4) // this server, 1, joins 2, 3 and 4
	leaders := textReader{}.OfText(write(0, []Member{{ID: 2, Weight: 1}, {ID: 3, Weight: 1}, {ID: 4, Weight: 1}}))
	one, two := zk.MakeZxid(5, 1), zk.MakeZxid(5, 2)
	change := write(two, membersOf(3, 0).Members())
	history := []Packet{
		diffOf(0), {Type: Proposal, Zxid: one, Data: make([]byte, 8)},
		{Type: Proposal, Zxid: two, Data: append(make([]byte, 8), change...)},
	}
	p := newLeaderOf(5)
	p.Data = change
	for _, c := range []struct {
		name     string
		had      Memberships
		packets  []Packet
		unsure   bool
		restarts bool
	}{
		{"NEWLEADER tells the change", Memberships{}, append(slices.Clone(history), p), true, true},
		{"a link that is lost before NEWLEADER", Memberships{}, history, true, true},
		{"the change is committed", Memberships{}, append(slices.Clone(history), p, upToDatePacket(), Packet{Type: Commit, Zxid: one}, Packet{Type: Commit, Zxid: two}), false, false},
		{"a leader has told the list before", Memberships{Committed: leaders, Seen: leaders}, append(slices.Clone(history), p), false, true},
	} {
		o, l := follows2(t, cfg, State{AcceptedEpoch: 4, Members: c.had})
		o.step(l, c.packets...)
		o.persist()
		known := o.core.Memberships()
		want(t, c.name+": unsure", known.Unsure, c.unsure)
		if !c.restarts {
			continue
		}
		o.core.LinkDown(o.now, l, errLink)
		o.drive()
		o.persist()
		restarted := newSolo(t, cfg, State{AcceptedEpoch: 5, CurrentEpoch: 5, Last: two, Members: known})
		for _, core := range []*Core{o.core, restarted.core} {
			want(t, c.name+": unsure without a leader", core.Memberships().Unsure, c.unsure)
			if c.unsure {
				want(t, c.name+": stands", core.election.Vote().Leader == 1, false)
			}
		}
	}
}

// A server that joins a leader without other voters has a list in which that is no majority. It takes the
// leader's list, which lacks it. It keeps its own if that is no list that it can join by,
// or if it has a history.
func TestAServerJoinsOne(t *testing.T) {
	alone := []Member{{ID: 2, Weight: 1}}
	for _, c := range []struct {
		name    string
		state   election.State
		last    zk.Zxid
		leaders []Member
		joins   bool
	}{
		{"it has no history", election.Leading, 0, alone, true},
		{"it has one", election.Leading, zk.MakeZxid(4, 1), alone, false},
		{"the other looks too", election.Looking, 0, alone, false},
		{"the leader lists it", election.Leading, 0, membersOf(2, 0).Members(), false},
		{"the leader lists another", election.Leading, 0, []Member{{ID: 2, Weight: 1}, {ID: 3, Weight: 1, Observer: true}}, false},
	} {
		var s State
		if c.last != 0 {
			s = history(c.last.Epoch(), c.last.Counter())
		}
		o := newSolo(t, changing(2), s)
		o.core.Notification(o.now, election.Notification{
			From: 2, State: c.state, Leader: 2, PeerEpoch: 1, ElectionEpoch: 1, Version: 2, Config: write(0, c.leaders),
		})
		o.drive()
		want(t, c.name+": has the leader's list", !o.core.Memberships().Committed.System().Voter(1), c.joins)
	}
	// Of three, two are a majority: it waits for both.
	o := newSolo(t, changing(3), State{})
	o.core.Notification(o.now, election.Notification{
		From: 2, State: election.Leading, Leader: 2, PeerEpoch: 1, ElectionEpoch: 1, Version: 2,
		Config: write(0, []Member{{ID: 2, Weight: 1}, {ID: 3, Weight: 1}}),
	})
	o.drive()
	want(t, "of three: has a vote", o.core.Memberships().Committed.System().Voter(1), true)
}

// A server that was sent a snapshot, and not NEWLEADER after it, does not know which changes of
// the membership its history has: what other servers say in an election does not tell it.
func TestNoVoteTellsWhatASnapshotHides(t *testing.T) {
	z := zk.MakeZxid(4, 2)
	four := write(z, membersOf(4, 0).Members())
	for _, c := range []struct {
		name string
		text []byte
		seen zk.Zxid
	}{
		{"a server that knows of no change", write(0, membersOf(3, 0).Members()), 0},
		{"a server with a change that is committed", four, 0},
	} {
		cfg := changing(3)
		o, l := follows2(t, cfg, history(4, 1))
		o.step(l, Packet{Type: Snap, Zxid: zk.MakeZxid(4, 9)})
		o.persist()
		o.core.LinkDown(o.now, l, errLink)
		o.drive()
		o.persist()
		known := o.core.Memberships()
		restarted := newSolo(t, cfg, State{AcceptedEpoch: 5, CurrentEpoch: o.core.currentEpoch, Last: zk.MakeZxid(4, 9), Members: known})
		for _, s := range []*solo{o, restarted} {
			s.core.Notification(s.now, election.Notification{From: 3, State: election.Looking, Leader: 3, ElectionEpoch: 1, Config: c.text, Seen: c.seen})
			s.drive()
			s.persist()
			want(t, c.name+": unsure", s.core.Memberships().Unsure, true)
			want(t, c.name+": stands", s.core.election.Vote().Leader == 1, false)
		}
	}
}

// A crash before a snapshot has come to the disk leaves the history that was there before it, and
// what was known of the memberships in that: the server is a candidate as before. Otherwise nobody could
// lead for ever, if it has the latest history of those that are left. If it was in doubt
// before, or what it knows has changed since, the doubt stays.
func TestASnapshotThatIsNotInstalledLeavesNoDoubt(t *testing.T) {
	last, snapshot := zk.MakeZxid(4, 3), zk.MakeZxid(4, 9)
	two, three := zk.MakeZxid(4, 2), zk.MakeZxid(4, 10)
	change := func(z zk.Zxid) *Membership { return textReader{}.OfText(write(z, membersOf(4, 0).Members())) }
	cfg := changing(3)
	for _, c := range []struct {
		name  string
		had   Memberships
		more  []Packet // after the snapshot
		ends  zk.Zxid  // the history at the restart
		sure  bool
		voter int64 // only after the change
	}{
		{"it is not installed", Memberships{}, nil, last, true, 0},
		{"it is installed", Memberships{}, nil, snapshot, false, 0},
		{"a change was pending", Memberships{Committed: cfg.Members, Seen: change(two)}, nil, last, true, 4},
		{"it was in doubt before", Memberships{Committed: cfg.Members, Seen: change(two), Unsure: true}, nil, last, false, 4},
		{"the same, without NEWLEADER", Memberships{Committed: cfg.Members, Seen: change(two), Unsure: true, Blind: true, SureAt: two}, nil, last, false, 4},
		{"a later change, which was cut off with all that came with it", Memberships{Committed: cfg.Members, Seen: change(two)},
			[]Packet{{Type: Proposal, Zxid: three, Data: append(make([]byte, 8), change(three).Text()...)}}, last, false, 4},
	} {
		s := history(4, 3)
		s.Members = c.had
		o, l := follows2(t, cfg, s)
		o.step(l, append([]Packet{{Type: Snap, Zxid: snapshot}}, c.more...)...)
		restarted := newSolo(t, cfg, State{AcceptedEpoch: 5, CurrentEpoch: 4, Last: c.ends, Members: o.core.Memberships()})
		m := restarted.core.Memberships()
		if c.sure {
			want(t, c.name+": writes", restarted.wrote[0].Members, m)
			want(t, c.name+": blind", m.Blind, false)
		}
		restarted.persist()
		want(t, c.name+": unsure", m.Unsure, !c.sure)
		want(t, c.name+": stands", restarted.core.election.Vote().Leader == 1, c.sure)
		if c.voter != 0 {
			want(t, c.name+": counts the change", m.Seen.System().Voter(c.voter), true)
		}
	}
}

// The tree of a leader's snapshot shows the latest change of the membership in the history up to the
// snapshot. What is hidden then is only what was committed before that. The same is known after a restart, whether what
// the tree shows came to the disk or not.
func TestASnapshotShowsTheLatestMembership(t *testing.T) {
	last, snapshot := zk.MakeZxid(4, 3), zk.MakeZxid(4, 9)
	two, five := zk.MakeZxid(4, 2), zk.MakeZxid(4, 5)
	cfg := changing(3)
	first := cfg.Members
	change := func(z zk.Zxid, voters int) *Membership {
		return textReader{}.OfText(write(z, membersOf(voters, 0).Members()))
	}
	known, later := change(two, 4), change(snapshot+1, 4)
	for _, c := range []struct {
		name            string
		had             Memberships
		shows           []byte
		committed, seen zk.Zxid
		unsure, blind   bool
	}{
		{"no change", Memberships{}, first.Text(), 0, 0, false, false},
		{"the change that was pending here", Memberships{Committed: first, Seen: change(two, 4)}, change(two, 4).Text(), 0, two, false, false},
		{"the same, and what was committed before it was not known", Memberships{Committed: first, Seen: change(two, 4), Unsure: true}, change(two, 4).Text(), 0, two, true, false},
		{"not the change that was pending here", Memberships{Committed: first, Seen: change(two, 4)}, first.Text(), 0, 0, false, false},
		{"a change that is known to be committed", Memberships{Committed: known, Seen: known}, change(two, 4).Text(), two, two, false, false},
		{"a change after the snapshot's zxid that is known to be committed", Memberships{Committed: later, Seen: later}, later.Text(), snapshot + 1, snapshot + 1, false, false},
		{"less than is known to be committed", Memberships{Committed: known, Seen: known}, first.Text(), two, two, false, false},
		{"a change that was not known", Memberships{}, change(five, 5).Text(), 0, five, true, false},
		{"a later change than was pending here", Memberships{Committed: first, Seen: change(two, 4)}, change(five, 5).Text(), 0, five, true, false},
		{"the transaction after the history", Memberships{}, change(last+1, 5).Text(), 0, last + 1, false, false},
		{"the same, while a change was pending here", Memberships{Committed: first, Seen: change(two, 4)}, change(last+1, 5).Text(), two, last + 1, false, false},
		{"the same, and what was committed before was not known", Memberships{Committed: first, Seen: change(two, 4), Unsure: true}, change(last+1, 5).Text(), 0, last + 1, true, false},
		{"a change after the snapshot's zxid", Memberships{}, change(snapshot+1, 5).Text(), 0, 0, true, true},
		{"the members of a server that joins", Memberships{}, write(0, membersOf(4, 0).Members()), 0, 0, true, true},
		{"nothing", Memberships{}, nil, 0, 0, true, true},
		{"what cannot be read", Memberships{}, []byte("x"), 0, 0, true, true},
	} {
		s := history(4, 3)
		s.Members = c.had
		o, l := follows2(t, cfg, s)
		o.step(l, Packet{Type: Snap, Zxid: snapshot, Data: c.shows})
		var saved []Memberships // in the order of the writes
		installed := -1
		for i := range o.wrote {
			switch o.wrote[i].Kind {
			case WriteMembers:
				saved = append(saved, o.wrote[i].Members)
			case WriteInstall:
				installed = len(saved)
			}
		}
		o.core.LinkDown(o.now, l, errLink)
		o.drive()
		o.persist()
		cores := map[string]*Core{"it goes on": o.core}
		for i, m := range append([]Memberships{s.Members}, saved...) {
			after := State{AcceptedEpoch: 5, CurrentEpoch: 4, Last: snapshot, Members: m, MembersShown: c.shows}
			if i >= installed { // the writes before that are on the disk
				r := newSolo(t, cfg, after)
				r.persist()
				cores[fmt.Sprintf("after a restart, with write %d", i)] = r.core
			}
			if i > 0 && i <= installed {
				after.Last, after.MembersShown = last, first.Text()
				if c.had.Seen != nil {
					after.MembersShown = c.had.Seen.Text()
				}
				r := newSolo(t, cfg, after)
				want(t, c.name+", not installed: unsure", r.core.Memberships().Unsure, c.had.Unsure)
			}
		}
		want(t, c.name+": the doubt is on the disk before the snapshot", installed > 0 && saved[0].Unsure && saved[0].Blind || c.had.Unsure, true)
		for when, core := range cores {
			m, what := core.Memberships(), c.name+", "+when
			want(t, what+": committed", m.Committed.Version(), c.committed)
			want(t, what+": unsure", m.Unsure, c.unsure)
			want(t, what+": blind", m.Blind, c.blind)
			want(t, what+": stands", core.election.Vote().Leader == 1, !c.unsure)
			if !c.blind {
				want(t, what+": seen", m.Seen.Version(), c.seen)
			}
		}
	}
}

// A server that heals or observes is told of a pending change ahead of its history. If its next leader goes on without that change,
// it is forgotten before it could count: it would become the membership with the next commit.
func TestAChangeThatDoesNotComeIsForgotten(t *testing.T) {
	last := zk.MakeZxid(4, 3)
	change := textReader{}.OfText(write(last+1, membersOf(4, 0).Members()))
	next := zk.MakeZxid(5, 1)
	entryOf := func(text []byte) []byte { return append(make([]byte, 8), text...) }
	for _, c := range []struct {
		name  string
		entry Packet
		seen  zk.Zxid
	}{
		{"the next epoch goes on without it", proposalOf(next), 0},
		{"with another one", Packet{Type: Proposal, Zxid: next, Data: entryOf(write(next, membersOf(5, 0).Members()))}, next},
		{"it comes", Packet{Type: Proposal, Zxid: last + 1, Data: entryOf(change.Text())}, last + 1},
	} {
		cfg := changing(3)
		o, l := follows2(t, cfg, history(4, 3))
		o.core.setMembers(Memberships{Committed: cfg.Members, Seen: change})
		o.step(l, diffOf(last), c.entry)
		m := o.core.Memberships()
		want(t, c.name+": seen", m.Seen.Version(), c.seen)
		want(t, c.name+": committed", m.Committed.Version(), 0)
		want(t, c.name+": unsure", m.Unsure, false)
	}
}

// What a snapshot shows is not known to be committed: its leader may have had no quorum. Nor is what was committed before it, until UPTODATE
// or a server that has seen the same change tells that.
func TestWhatASnapshotShowsMayNotBeCommitted(t *testing.T) {
	snapshot, z := zk.MakeZxid(4, 9), zk.MakeZxid(4, 5)
	five := write(z, membersOf(5, 0).Members())
	four := write(zk.MakeZxid(4, 2), membersOf(4, 0).Members())
	shown := func() (*solo, LinkID) {
		o, l := follows2(t, changing(3), history(4, 1))
		o.step(l, Packet{Type: Snap, Zxid: snapshot, Data: five})
		return o, l
	}
	o, l := shown()
	newLeader := newLeaderOf(5)
	newLeader.Data = five
	o.step(l, newLeader)
	o.persist()
	want(t, "NEWLEADER tells the same: unsure", o.core.Memberships().Unsure, true)
	o.step(l, upToDatePacket())
	o.persist()
	want(t, "UPTODATE: unsure", o.core.Memberships().Unsure, false)
	want(t, "UPTODATE: committed", o.core.Memberships().Committed.Version(), z)

	none := []byte{}
	for _, c := range []struct {
		name      string
		seen      zk.Zxid
		seenText  []byte
		leader    int64
		ends      zk.Zxid // the history of the leader that is voted for
		unsure    bool
		committed zk.Zxid
	}{
		{"a server that has not seen it", 0, none, 3, z - 2, true, zk.MakeZxid(4, 2)},
		{"one that has", z, nil, 3, z - 2, false, zk.MakeZxid(4, 2)},
		{"one whose history ends just before it", 0, none, 3, z - 1, false, zk.MakeZxid(4, 2)},
		{"the same, of Apache's, which does not say whether it has a change", 0, nil, 3, z - 1, true, zk.MakeZxid(4, 2)},
		{"the same, with a change that may not be committed", z - 1, write(z-1, membersOf(4, 0).Members()), 3, z - 1, true, zk.MakeZxid(4, 2)},
		{"one that votes for a server whose history ends just before it", 0, none, 2, z - 1, true, zk.MakeZxid(4, 2)},
	} {
		o, l = shown()
		o.core.LinkDown(o.now, l, errLink)
		o.drive()
		o.persist()
		o.core.Notification(o.now, election.Notification{
			From: 3, State: election.Looking, Leader: c.leader, Zxid: c.ends, ElectionEpoch: 1, Config: four, Seen: c.seen, SeenText: c.seenText,
		})
		o.drive()
		o.persist()
		want(t, c.name+": unsure", o.core.Memberships().Unsure, c.unsure)
		want(t, c.name+": committed", o.core.Memberships().Committed.Version(), c.committed)
		want(t, c.name+": seen", o.core.Memberships().Seen.Version(), z)
	}
}

// A server that does not know what was committed before Seen, and has Seen cut off, does not know the latest
// change in its history any more, before NEWLEADER tells it: no vote of others does.
func TestACutHidesChanges(t *testing.T) {
	cfg := changing(3)
	z := zk.MakeZxid(4, 5)
	s := history(4, 7)
	s.Members = Memberships{Committed: cfg.Members, Seen: textReader{}.OfText(write(z, membersOf(5, 0).Members())), Unsure: true}
	o, l := follows2(t, cfg, s)
	o.step(l, Packet{Type: Trunc, Zxid: zk.MakeZxid(4, 4)})
	o.core.LinkDown(o.now, l, errLink)
	o.drive()
	o.persist()
	o.core.Notification(o.now, election.Notification{From: 3, State: election.Looking, Leader: 3, ElectionEpoch: 1, Config: cfg.Members.Text()})
	o.drive()
	o.persist()
	want(t, "unsure", o.core.Memberships().Unsure, true)
	want(t, "stands", o.core.election.Vote().Leader == 1, false)
}

// A change of the membership is on the disk before its transaction. If a crash takes the
// transaction away, the change is forgotten, on the disk too, before the server votes.
func TestAChangeThatTheLogLostIsForgotten(t *testing.T) {
	cfg := changing(3)
	next := textReader{}.OfText(write(zk.MakeZxid(4, 2), membersOf(4, 0).Members()))
	for last, seen := range map[zk.Zxid]*Membership{zk.MakeZxid(4, 1): cfg.Members, zk.MakeZxid(4, 2): next} {
		o := newSolo(t, cfg, State{
			AcceptedEpoch: 4, CurrentEpoch: 4, Last: last, Members: Memberships{Committed: cfg.Members, Seen: next},
		})
		want(t, "seen", o.core.Memberships().Seen, seen)
		if seen == next {
			want(t, "looks", o.core.phase, electing)
			continue
		}
		want(t, "looks before that is on the disk", o.core.phase, settling)
		want(t, "writes", o.wrote[0].Members, Memberships{Committed: cfg.Members, Seen: cfg.Members})
		o.persist()
		want(t, "looks", o.core.phase, electing)
	}
}

// A change that is cut off by the next leader does not count any more.
func TestAChangeThatIsCutOffIsForgotten(t *testing.T) {
	cfg := changing(3)
	z := zk.MakeZxid(4, 2)
	next := textReader{}.OfText(write(z, membersOf(5, 0).Members()))
	s := history(4, 2)
	s.Members = Memberships{Committed: cfg.Members, Seen: next}
	o, l := follows2(t, cfg, s)
	want(t, "voters", len(o.core.system.Voters()), 5)
	o.step(l, Packet{Type: Trunc, Zxid: zk.MakeZxid(4, 1)})
	want(t, "voters", len(o.core.system.Voters()), 3)
	want(t, "writes", o.wrote[len(o.wrote)-1].Members.Seen, cfg.Members)
	want(t, "links to", len(o.core.members.Members()), 3)
}

// A follower goes to the leader that COMMITANDACTIVATE designates, without an election. An
// Apache leader that is not designated commits nothing any more, and stays: with a
// follower that stays too it would be there for ever.
func TestAFollowerGoesToTheDesignatedLeader(t *testing.T) {
	z := zk.MakeZxid(5, 1)
	for _, c := range []struct {
		name       string
		designated int64
		role       Role
		follows    int64
	}{
		{"the present leader", 2, Following, 2},
		{"another voter", 3, Following, 3},
		{"this server", 1, Leading, 0},
		{"a server that has no vote", 9, Looking, 0},
	} {
		o, l := follows2(t, changing(3), history(4, 1))
		newLeader := newLeaderOf(5)
		newLeader.Data = write(0, membersOf(3, 0).Members())
		o.step(l, diffOf(zk.MakeZxid(4, 1)), newLeader, upToDatePacket())
		o.persist()
		change := binary.BigEndian.AppendUint64(nil, 1)
		o.step(l, Packet{Type: Proposal, Zxid: z, Data: append(change, write(z, membersOf(3, 1).Members())...)})
		o.persist()
		term := o.core.term
		o.step(l, Packet{Type: CommitAndActivate, Zxid: z, Data: binary.BigEndian.AppendUint64(nil, uint64(c.designated))})
		o.core.Persisted(o.now, o.began) // that it is committed
		o.drive()
		want(t, c.name+": role", o.core.role, c.role)
		want(t, c.name+": follows", o.core.learner.leader, c.follows)
		want(t, c.name+": leaves", o.core.term != term || c.role == Looking, c.designated != 2)
		want(t, c.name+": committed", o.core.Memberships().Committed.Version(), z)
	}
}
