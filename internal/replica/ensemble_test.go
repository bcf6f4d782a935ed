package replica

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/session"
	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/internal/zab"
	"github.com/pinfold-zk/pinfold/test/memnet"
	"github.com/pinfold-zk/pinfold/zk"
)

// group is the machines of an ensemble, in memory and virtual time. The first are
// voters, the others observers.
type group struct {
	t      *testing.T
	net    memnet.Network
	voters []int64
	ids    []int64
	disks  map[int64]*vfs.Mem
	gates  map[int64]chan struct{}    // what is in one stalls the syncs of that disk
	wrap   func(int64, vfs.FS) vfs.FS // if not nil, what a machine that starts from now on sees of its disk
	up     map[int64]*machine
	change func(id int64, o *Options)
	// corrupted are the machines whose trees were made wrong, see corrupt.
	corrupted map[int64]bool
	keeps     bool // links of machines that start from now on keep what they are sent
	// if not nil, sees what members that start from now on send
	sent func(from int64, l zab.LinkID, p *zab.Packet)
}

// tap is a network that shows what is sent.
type tap struct {
	*memnet.Port
	sent func(zab.LinkID, *zab.Packet)
}

func (t tap) Send(l zab.LinkID, ps []zab.Packet) bool {
	for i := range ps {
		t.sent(l, &ps[i])
	}
	return t.Port.Send(l, ps)
}

// groupTick is the tick of a group's members.
const groupTick = time.Second

// inGroup runs a test of a group that has just begun to serve. change may be nil.
func inGroup(t *testing.T, voters, observers int, change func(id int64, o *Options), f func(g *group)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g := &group{t: t, disks: map[int64]*vfs.Mem{}, gates: map[int64]chan struct{}{}, up: map[int64]*machine{}, change: change}
		for id := int64(1); id <= int64(voters+observers); id++ {
			g.ids = append(g.ids, id)
			if id <= int64(voters) {
				g.voters = append(g.voters, id)
			}
			g.disks[id], g.gates[id] = vfs.NewMem(), make(chan struct{}, 1)
		}
		for _, id := range g.ids {
			g.start(id)
		}
		t.Cleanup(func() {
			for _, id := range g.ids {
				g.stop(id)
			}
			g.net.Close()
		})
		g.await()
		f(g)
	})
}

// membership is who belongs to the group, as its members are told.
func (g *group) membership() *zab.Membership {
	var members []zab.Member
	for _, id := range g.ids {
		members = append(members, zab.Member{ID: id, Weight: 1, Observer: id > int64(len(g.voters))})
	}
	m, err := zab.NewMembership(0, members, []byte("version=0"))
	if err != nil {
		g.t.Fatal(err)
	}
	return m
}

// start starts a machine over its disk.
func (g *group) start(id int64) *machine {
	g.t.Helper()
	var disk vfs.FS = gated(g.disks[id], g.gates[id])
	if g.wrap != nil {
		disk = g.wrap(id, disk)
	}
	m, _ := mustBoot(g.t, disk, func(o *Options) {
		o.ServerID, o.Tick = uint8(id), groupTick
		o.Ensemble = &zab.Config{
			ID: id, Members: g.membership(), Tick: groupTick, InitLimit: 10, SyncLimit: 5, Window: 50,
		}
		if g.change != nil {
			g.change(id, o)
		}
	})
	g.up[id] = m
	var n Network = g.net.Attach(id, m.rep)
	if sent := g.sent; sent != nil {
		n = tap{n.(*memnet.Port), func(l zab.LinkID, p *zab.Packet) { sent(id, l, p) }}
	}
	if g.keeps {
		n = keeping{n.(*memnet.Port)}
	}
	m.rep.Join(n)
	g.net.Meet(id)
	return m
}

// stop ends a machine, in order; nothing if it is not up.
func (g *group) stop(id int64) {
	g.t.Helper()
	m := g.up[id]
	if m == nil {
		return
	}
	g.net.Detach(id)
	if err := m.halt(); err != nil {
		g.t.Errorf("server %d: %v", id, err)
	}
	delete(g.up, id)
}

// restart stops all machines and starts them again.
func (g *group) restart() {
	g.t.Helper()
	for _, id := range g.ids {
		g.stop(id)
	}
	for _, id := range g.ids {
		g.start(id)
	}
	g.await()
}

// part cuts a machine off from all others; heal undoes that.
func (g *group) part(id int64) {
	for _, o := range g.ids {
		if o != id {
			g.net.Cut(id, o)
		}
	}
}

func (g *group) heal(id int64) {
	for _, o := range g.ids {
		if o != id {
			g.net.Heal(id, o)
		}
	}
}

// pass lets virtual time pass, until all that comes of it is done.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// until lets time pass until ok, for a minute at most.
func (g *group) until(what string, ok func() bool) {
	g.t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); pass(10 * time.Millisecond) {
		if time.Now().After(end) {
			g.t.Fatal("it did not come to pass that ", what)
		}
	}
}

// await lets time pass until all that are up serve, and one of them leads.
func (g *group) await() {
	g.t.Helper()
	g.until("all serve", func() bool {
		for _, m := range g.up {
			if !m.rep.Mode().Writable() {
				return false
			}
		}
		return len(g.in(Leader)) == 1 // a follower notices a moment later that its leader has stopped
	})
}

// in returns the machines in a mode, by id.
func (g *group) in(mode Mode) (ms []*machine) {
	for _, id := range g.ids {
		if m := g.up[id]; m != nil && m.rep.Mode() == mode {
			ms = append(ms, m)
		}
	}
	return ms
}

func (g *group) leader() *machine {
	g.t.Helper()
	ms := g.in(Leader)
	if len(ms) != 1 {
		g.t.Fatalf("%d servers lead", len(ms))
	}
	return ms[0]
}

func (g *group) id(m *machine) int64 { return int64(m.rep.o.ServerID) }

// session makes a session on a machine.
func (g *group) session(m *machine, timeoutMillis int32) zk.SessionID {
	g.t.Helper()
	before := m.note.newSession()
	op, body := createSession(timeoutMillis)
	m.submit(0, op, body)
	g.until("there is a session", func() bool { return m.note.newSession() != before })
	return m.note.newSession()
}

// submit hands a request over, of which m.note hears.
func (m *machine) submit(s zk.SessionID, op wire.OpCode, body []byte) {
	m.rep.Submit([]Request{m.request(s, op, body)})
}

// agree lets time pass until all that are up have applied the same, and checks
// that it is the same.
func (g *group) agree() string {
	g.t.Helper()
	pass(groupTick)
	g.until("all have applied the same", func() bool {
		var last zk.Zxid
		for _, m := range g.up {
			if z := m.rep.LastApplied(); last != 0 && z != last {
				return false
			} else {
				last = z
			}
		}
		return true
	})
	var first string
	for _, id := range g.ids {
		m := g.up[id]
		if m == nil {
			continue
		}
		d, err := m.dump()
		if err != nil {
			g.t.Fatalf("server %d: %v", id, err)
		}
		if first == "" {
			first = d
		}
		a, b := strings.Split(d, "\n"), strings.Split(first, "\n")
		for i := 0; d != first && i < min(len(a), len(b)); i++ {
			if a[i] != b[i] {
				g.t.Fatalf("server %d has %s\nothers have %s", id, a[i], b[i])
			}
		}
		if n := m.rep.Stats().DigestMismatches.Load(); n > 0 && !g.corrupted[id] {
			g.t.Errorf("server %d: %d digests differ", id, n)
		}
	}
	return first
}

// knows reports whether the machine's tree has a session.
func (m *machine) knows(s zk.SessionID) (ok bool) {
	m.rep.View(func(tree View) { ok = tree.HasSession(s) })
	return ok
}

// Whatever is written through whichever member, all have the same.
func TestMembersAgree(t *testing.T) {
	for seed := range uint64(5) {
		inGroup(t, 3, 1, nil, func(g *group) {
			rng := rand.New(rand.NewPCG(seed, 1))
			sessions := map[int64]zk.SessionID{}
			for _, id := range g.ids {
				sessions[id] = g.session(g.up[id], 100_000)
			}
			for i := range 300 {
				id := g.ids[rng.IntN(len(g.ids))]
				path := fmt.Sprintf("/%d", rng.IntN(20))
				op, body := create(path, []byte{byte(i)}, zk.CreateMode(rng.IntN(4)))
				switch rng.IntN(4) {
				case 0:
					op, body = setData(path, []byte{byte(i)})
				case 1:
					op, body = remove(path)
				}
				g.up[id].submit(sessions[id], op, body)
				if rng.IntN(10) == 0 {
					pass(time.Duration(rng.IntN(3)) * time.Millisecond)
				}
			}
			g.agree()
			answers := 0
			for _, m := range g.up {
				if n := m.rep.Outstanding(); n != 0 {
					t.Errorf("seed=%d: %d requests are outstanding", seed, n)
				}
				answers += len(m.note.acknowledged())
			}
			if want := 300 + len(g.ids); answers != want {
				t.Errorf("seed=%d: %d answers to %d requests", seed, answers, want)
			}
		})
	}
}

// A member that was away is brought up to date: by transactions, of memory or of
// the log, or by a snapshot if it has nothing.
func TestMemberComesBack(t *testing.T) {
	for _, c := range []struct {
		writes int
		wiped  bool
		snaps  int64
	}{{10, false, 0}, {200, false, 0}, {10, true, 1}} {
		inGroup(t, 3, 0, func(_ int64, o *Options) {
			o.SnapCount = 100_000
			if o.Ensemble != nil {
				o.Ensemble.SizeFactor = 100
			}
		}, func(g *group) {
			lead := g.leader()
			s := g.session(lead, 100_000)
			away := g.id(g.in(Follower)[0])
			g.stop(away)
			for i := range c.writes {
				op, body := create(fmt.Sprintf("/%d", i), make([]byte, 100), zk.Persistent)
				lead.submit(s, op, body)
				pass(0)
			}
			if c.wiped {
				g.disks[away] = vfs.NewMem()
			}
			g.start(away)
			g.await()
			g.agree()
			if stats := lead.rep.Stats(); stats.Snaps.Load() != c.snaps || stats.Diffs.Load() != 3-c.snaps {
				t.Errorf("%+v: %d snapshots, %d of transactions", c, stats.Snaps.Load(), stats.Diffs.Load())
			}
		})
	}
}

// What a server has not answered when it leaves its role is dropped: each request
// once, and no more than that.
func TestRequestsAreDropped(t *testing.T) {
	inGroup(t, 3, 0, nil, func(g *group) {
		for _, m := range []*machine{g.in(Follower)[0], g.leader()} {
			g.await()
			s := g.session(m, 100_000)
			g.part(g.id(m))
			op, body := create("/lost", nil, zk.Persistent)
			before := len(m.note.acknowledged())
			m.submit(s, op, body)
			m.submit(s, wire.OpSync, []byte{0, 0, 0, 1, '/'})
			g.until("it serves nobody", func() bool { return m.rep.Mode() == Idle })
			m.submit(s, op, body)
			m.rep.Resume(s, session.Owner(2), 1000, m.note)
			pass(0)
			m.note.mu.Lock()
			if m.note.dropped != 4 || len(m.note.acked) != before || m.note.synced != 0 || len(m.note.resumed) != 0 {
				t.Errorf("%d dropped, %d applied, %d synced, %v resumed", m.note.dropped, len(m.note.acked)-before, m.note.synced, m.note.resumed)
			}
			m.note.mu.Unlock()
			if n := m.rep.Outstanding(); n != 0 {
				t.Errorf("%d requests are outstanding", n)
			}
			g.heal(g.id(m))
			g.await()
			g.agree()
		}
	})
}

// A session is made global once, though a second connection of its client, which does not
// know of the first upgrade, asks for another.
func TestSessionIsUpgradedOnce(t *testing.T) {
	inGroup(t, 3, 0, func(_ int64, o *Options) { o.LocalSessions = true }, func(g *group) {
		for _, mode := range []Mode{Leader, Follower} {
			m := g.in(mode)[0]
			s := g.session(m, 100_000)
			op, body := create("/"+mode.String(), nil, zk.Persistent)
			m.submit(s, op, body)
			pass(time.Second)
			before := m.rep.LastApplied()
			op, timeout := createSession(100_000)
			m.submit(s, op, timeout)
			m.submit(s, op, timeout) // at the same time
			pass(time.Second)
			m.submit(s, op, timeout) // and when it is global
			pass(time.Second)
			if got := m.rep.LastApplied(); got != before+1 || !m.knows(s) {
				t.Errorf("%v: %d transactions make the session global", mode, got-before)
			}
			if n := m.rep.Outstanding(); n != 0 {
				t.Errorf("%v: %d requests are outstanding", mode, n)
			}
		}
	})
}

// Requests leave Outstanding without being applied, too: those for local sessions, and
// what is dropped with the role. Connections that wait for that are told.
func TestReleasedWithoutFlush(t *testing.T) {
	found := map[uint8]*int{}
	machines := map[uint8]*machine{}
	inGroup(t, 3, 0, func(id int64, o *Options) {
		n := new(int)
		found[o.ServerID], o.LocalSessions = n, true
		o.Clients.(*notes).released = func() {
			if m := machines[uint8(id)]; m != nil {
				*n = m.rep.Outstanding()
			}
		}
	}, func(g *group) {
		for id, m := range g.up {
			machines[uint8(id)] = m
		}
		m := g.in(Follower)[0]
		seen := found[uint8(g.id(m))]
		for what, begin := range map[string]func(){
			"local sessions": func() { m.rep.Submit(m.sessions(3)) },
			"a lost role": func() {
				s := g.session(m, 100_000)
				g.part(g.id(m))
				op, body := create("/a", nil, zk.Persistent)
				m.submit(s, op, body)
				m.submit(s, wire.OpSync, jute.AppendString(nil, "/"))
				g.until("it serves nobody", func() bool { return m.rep.Mode() == Idle })
				m.submit(s, op, body)
			},
		} {
			*seen = -1
			begin()
			pass(time.Second)
			if n := m.rep.Outstanding(); n != 0 || *seen != 0 {
				t.Errorf("%s: %d requests are outstanding, the last that waiters were told is %d", what, n, *seen)
			}
			g.heal(g.id(m))
			g.await()
		}
	})
}

// inVain has a follower forward requests that its leader never proposes, and parts it
// from the others: it serves nobody then.
func (g *group) inVain(m *machine, submit func()) {
	held := make(chan struct{})
	g.leader().rep.DumpSessions(func(SessionDump) { <-held })
	synctest.Wait()
	submit()
	synctest.Wait()
	g.part(g.id(m))
	synctest.Wait()
	close(held)
	g.until("it serves nobody", func() bool { return m.rep.Mode() == Idle })
}

// A session that was to become global when the server lost its leader is local as
// before, if nobody has heard of it.
func TestUpgradeThatIsLost(t *testing.T) {
	inGroup(t, 3, 0, func(_ int64, o *Options) { o.LocalSessions = true }, func(g *group) {
		m := g.in(Follower)[0]
		s := g.session(m, 100_000)
		op, timeout := createSession(100_000)
		ephemeral, body := create("/e", nil, zk.Ephemeral)
		g.inVain(m, func() {
			m.submit(s, op, timeout)
			m.submit(s, ephemeral, body)
		})
		g.heal(g.id(m))
		g.await()
		m.rep.Resume(s, session.Owner(2), 100_000, m.note)
		pass(0)
		if got := m.note.newSession(); got != s || m.rep.Stats().LocalSessions.Load() != 1 {
			t.Errorf("session %v, %d are local", got, m.rep.Stats().LocalSessions.Load())
		}

		// And one that was heard of is global.
		m.submit(s, op, timeout)
		m.submit(s, ephemeral, body)
		if tree := g.agree(); !strings.Contains(tree, `"/e"`) {
			t.Errorf("no ephemeral in %s", tree)
		}
		if n := m.rep.Stats().LocalSessions.Load(); n != 0 || !m.knows(s) {
			t.Errorf("%d are local", n)
		}
		m.rep.Resume(s, session.Owner(3), 100_000, m.note)
		pass(0)
		if n := len(m.note.resumed); n != 1 || !m.note.resumed[0] {
			t.Errorf("resumed: %v", m.note.resumed)
		}
	})
}

// A snapshot does not say whether a session that it lacks was made global and has ended: the
// session is over. Local sessions that nobody wanted to make global go on.
func TestUpgradeThatASnapshotLeavesOpen(t *testing.T) {
	inGroup(t, 3, 0, func(_ int64, o *Options) { o.LocalSessions, o.Ensemble.ForceSnap = true, true }, func(g *group) {
		m := g.in(Follower)[0]
		local, s := g.session(m, 100_000), g.session(m, 100_000)
		op, timeout := createSession(100_000)
		g.inVain(m, func() { m.submit(s, op, timeout) })
		g.heal(g.id(m))
		g.await()
		m.rep.Resume(s, session.Owner(2), 100_000, m.note)
		m.rep.Resume(local, session.Owner(3), 100_000, m.note)
		pass(time.Second)
		if n := m.rep.Stats().LocalSessions.Load(); n != 1 || !slices.Equal(m.note.resumed, []bool{false}) || m.note.last != local {
			t.Errorf("%d sessions are local, resumed: %v", n, m.note.resumed)
		}
	})
}

// upgradeUncommitted opens a local session on the follower m and has m log its upgrade while
// the disks of the two other members stall, then parts m from them. The disks stall on.
func (g *group) upgradeUncommitted(m *machine, timeoutMillis int32) zk.SessionID {
	g.t.Helper()
	s := g.session(m, timeoutMillis)
	for _, o := range append(g.in(Leader), g.in(Follower)...) {
		if o != m {
			g.gates[g.id(o)] <- struct{}{}
		}
	}
	logged := m.rep.LastLogged()
	op, timeout := createSession(timeoutMillis)
	m.submit(s, op, timeout)
	g.until("the upgrade is logged", func() bool { return m.rep.LastLogged() > logged })
	g.part(g.id(m))
	return s
}

// A session that a server has made global in its own tree alone, by what it has logged when
// it loses its leader, stays local: the next leader may have that cut off.
func TestUpgradeThatIsLoggedAndNotCommitted(t *testing.T) {
	inGroup(t, 3, 0, func(_ int64, o *Options) { o.LocalSessions = true }, func(g *group) {
		m, leader, other := g.in(Follower)[0], g.leader(), g.in(Follower)[1]
		s := g.upgradeUncommitted(m, 100_000)
		g.until("it is applied", func() bool { return m.rep.Mode() == Idle && m.knows(s) })
		pass(groupTick)
		if n := m.rep.Stats().LocalSessions.Load(); n != 1 {
			t.Errorf("%d sessions are local", n)
		}
		for _, o := range []*machine{leader, other} {
			<-g.gates[g.id(o)]
		}
		g.heal(g.id(m))
		g.await()
	})
}

// A session that is being made global is resumed as one of the ensemble: its end is a
// transaction. A connection that its client has left does not make it global.
func TestResumeDuringAnUpgrade(t *testing.T) {
	inGroup(t, 3, 0, func(_ int64, o *Options) { o.LocalSessions = true }, func(g *group) {
		for _, mode := range []Mode{Leader, Follower} {
			m, follower := g.in(mode)[0], g.in(Follower)
			s := g.session(m, 100_000)
			for _, f := range follower {
				g.gates[g.id(f)] <- struct{}{}
			}
			op, timeout := createSession(100_000)
			m.submit(s, op, timeout)
			pass(time.Millisecond)
			next := &notes{}
			m.rep.Resume(s, session.Owner(2), 100_000, next)
			pass(0)
			if !slices.Equal(next.resumed, []bool{true}) || m.knows(s) {
				t.Errorf("%v: resumed %v, as local %v; it is global already: %v", mode, next.resumed, next.last, m.knows(s))
			}
			for _, f := range follower {
				<-g.gates[g.id(f)]
			}
			g.until("it is global", func() bool { return m.knows(s) })

			s = g.session(m, 100_000)
			m.rep.Resume(s, session.Owner(2), 100_000, next)
			pass(0)
			m.submit(s, op, timeout)
			pass(groupTick)
			if next.last != s || m.knows(s) {
				t.Errorf("%v: session %v, made global by a connection that was left: %v", mode, next.last, m.knows(s))
			}
			if n := m.rep.Outstanding(); n != 0 {
				t.Errorf("%v: %d requests are outstanding", mode, n)
			}
		}
	})
}

// stallOthers lets the disks of all members but one stall, so that no transaction is committed
// that is proposed from now on. The result undoes that.
func (g *group) stallOthers(m *machine) (undo func()) {
	for id, o := range g.up {
		if o != m {
			g.gates[id] <- struct{}{}
		}
	}
	undo = sync.OnceFunc(func() {
		for id, o := range g.up {
			if o != m {
				<-g.gates[id]
			}
		}
	})
	g.t.Cleanup(undo) // a stalled member cannot be stopped
	return undo
}

// Once a leader may know a session that is being made global, the leader alone decides whether
// it lives: a learner asks it before it resumes the session, though the creation is not committed.
func TestLeaderDecidesAboutAnUpgradedSession(t *testing.T) {
	inGroup(t, 3, 0, func(_ int64, o *Options) { o.LocalSessions = true }, func(g *group) {
		m, leader := g.in(Follower)[0], g.leader()
		op, timeout := createSession(100_000)

		s, next := g.session(m, 100_000), &notes{}
		undo, proposals := g.stallOthers(m), leader.rep.Stats().Proposals.Load()
		m.rep.Submit([]Request{m.request(s, op, timeout), m.request(s, wire.OpCloseSession, nil)})
		g.until("its end is proposed", func() bool { return leader.rep.Stats().Proposals.Load() == proposals+2 })
		m.rep.Resume(s, session.Owner(2), 100_000, next)
		pass(groupTick)
		if len(next.answers()) != 0 {
			t.Errorf("resumed %v while its end is not committed", next.answers())
		}
		undo()
		g.until("there is an answer", func() bool { return len(next.answers()) == 1 })
		if next.answers()[0] {
			t.Error("resumed, and it has ended")
		}

		// The leader can be asked only when it has proposed the creation.
		s, next = g.session(m, 100_000), &notes{}
		held := make(chan struct{})
		leader.rep.DumpSessions(func(SessionDump) { <-held })
		pass(0)
		m.submit(s, op, timeout)
		pass(0)
		m.rep.Resume(s, session.Owner(2), 100_000, next)
		pass(0)
		if len(next.answers()) != 0 {
			t.Errorf("resumed %v without the leader's word", next.answers())
		}
		close(held)
		g.until("there is an answer", func() bool { return len(next.answers()) == 1 && m.knows(s) })
		if !next.answers()[0] {
			t.Error("it is not resumed, and is alive")
		}
	})
}

// loseTheOthersLogs parts m from the others, whose disks stall, and restarts these without what
// their disks have not written: what m alone has logged is cut off when it comes back.
func (g *group) loseTheOthersLogs(m *machine, others []*machine, undo func()) {
	g.part(g.id(m))
	g.until("it serves nobody", func() bool { return m.rep.Mode() == Idle })
	lost := map[int64]*vfs.Mem{}
	for _, o := range others {
		lost[g.id(o)] = g.disks[g.id(o)].CrashClone(rand.New(rand.NewPCG(1, 1)))
	}
	undo()
	for id, disk := range lost {
		g.stop(id)
		g.disks[id] = disk
	}
	for id := range lost {
		g.start(id)
	}
	g.until("another leads", func() bool { return len(g.in(Leader)) == 1 && g.leader() != m })
	g.heal(g.id(m))
	g.await()
}

// A session that is being made global, and that its client has used at another member meanwhile,
// is local again where it began if its creation is lost after its client has come back.
func TestUpgradeThatIsLostAfterAMove(t *testing.T) {
	inGroup(t, 3, 0, func(_ int64, o *Options) { o.LocalSessions = true }, func(g *group) {
		m, leader := g.in(Follower)[0], g.leader()
		others := []*machine{leader, g.in(Follower)[1]}
		s, away, back := g.session(m, 2000), &notes{}, &notes{}
		undo := g.stallOthers(m)
		op, timeout := createSession(2000)
		m.submit(s, op, timeout)
		pass(groupTick)
		leader.rep.Resume(s, session.Owner(2), 2000, away)
		g.until("it is silent here", func() bool {
			away.hear(leader.rep.Now())
			return m.rep.Stats().Expired.Load() == 1
		})
		m.rep.Resume(s, session.Owner(3), 2000, back)
		g.until("the leader knows it", func() bool { return slices.Equal(back.answers(), []bool{true}) })

		g.loseTheOthersLogs(m, others, undo)
		m.rep.Resume(s, session.Owner(4), 2000, back)
		pass(groupTick / 10)
		if got := back.newSession(); got != s || m.knows(s) {
			t.Errorf("session %v is local, resumed %v", got, back.answers())
		}
	})
}

// A local session that is silent while its leader makes it global is forgotten there, also if
// the leader then loses its role, and the others have lost the creation.
func TestSilentSessionOfALeaderIsForgotten(t *testing.T) {
	inGroup(t, 3, 0, func(_ int64, o *Options) { o.LocalSessions = true }, func(g *group) {
		m, followers := g.leader(), g.in(Follower)
		s := g.session(m, 2000)
		undo := g.stallOthers(m)
		op, timeout := createSession(2000)
		m.submit(s, op, timeout)
		g.until("its end is proposed", func() bool { return m.rep.Stats().Expired.Load() == 1 })
		g.loseTheOthersLogs(m, followers, undo)
		if n := m.rep.Stats().LocalSessions.Load(); n != 0 || m.knows(s) {
			t.Errorf("%d sessions are local, it is global: %v", n, m.knows(s))
		}
	})
}

// An observer that comes back to its leader is not sent what is proposed and not committed: a
// session that was being made global is not local for it, for the leader may know it.
func TestUpgradeThatAnObserverDoesNotSee(t *testing.T) {
	inGroup(t, 3, 1, func(_ int64, o *Options) { o.LocalSessions = true }, func(g *group) {
		m, next := g.in(Observer)[0], &notes{}
		s := g.session(m, 100_000)
		undo := g.stallOthers(m)
		op, timeout := createSession(100_000)
		m.submit(s, op, timeout)
		pass(time.Millisecond)
		g.part(g.id(m))
		g.until("it serves nobody", func() bool { return m.rep.Mode() == Idle })
		g.heal(g.id(m))
		g.await()
		m.rep.Resume(s, session.Owner(2), 100_000, next)
		pass(groupTick / 10)
		undo()
		g.until("it is global", func() bool { return m.knows(s) && len(next.answers()) > 0 })
		if !slices.Equal(next.answers(), []bool{true}) || next.last != 0 {
			t.Errorf("resumed %v, as local %v", next.answers(), next.last)
		}
	})
}

// The leader hears of a session that is being made global, in the pings of the session's server,
// before the creation is committed.
func TestPingsTellOfUpgrades(t *testing.T) {
	inGroup(t, 3, 0, func(_ int64, o *Options) { o.LocalSessions = true }, func(g *group) {
		m, leader := g.in(Follower)[0], g.leader()
		s := g.session(m, 2000)
		undo := g.stallOthers(m)
		op, timeout := createSession(2000)
		m.submit(s, op, timeout)
		for range 12 {
			m.note.hear(m.rep.Now())
			pass(groupTick / 2)
		}
		undo()
		pass(groupTick / 2)
		if n := leader.rep.Stats().Expired.Load(); n != 0 || !m.knows(s) {
			t.Errorf("%d lively sessions have expired", n)
		}
	})
}

// A session that was made global and has ended while its server had no leader is over: its
// ephemerals are deleted. The server learns of the end by the log, or by a snapshot.
func TestUpgradedSessionEndsWithoutItsServer(t *testing.T) {
	for _, snap := range []bool{false, true} {
		inGroup(t, 3, 0, func(_ int64, o *Options) { o.LocalSessions, o.Ensemble.ForceSnap = true, snap }, func(g *group) {
			m, leader, other := g.in(Follower)[0], g.leader(), g.in(Follower)[1]
			s := g.upgradeUncommitted(m, 8_000)
			for _, o := range []*machine{leader, other} {
				<-g.gates[g.id(o)]
			}
			g.until("the others know the session", func() bool { return leader.knows(s) })
			g.until("it has ended", func() bool { return !leader.knows(s) })
			g.heal(g.id(m))
			g.await()
			m.rep.Resume(s, session.Owner(2), 8_000, m.note)
			pass(time.Second)
			if n := m.rep.Stats().LocalSessions.Load(); !slices.Equal(m.note.resumed, []bool{false}) || n != 0 {
				t.Errorf("snapshot %v: resumed: %v, %d sessions are local", snap, m.note.resumed, n)
			}
		})
	}
}

// A server without a quorum does not tell a client that its session is over by an end in its
// log that may be cut off.
func TestReadOnlyServerDoesNotKnowEnds(t *testing.T) {
	inGroup(t, 3, 0, func(_ int64, o *Options) { o.ReadOnly = true }, func(g *group) {
		m := g.leader()
		s := g.session(m, 2000)
		g.agree()
		for _, f := range g.in(Follower) {
			g.gates[g.id(f)] <- struct{}{}
			defer func() { <-g.gates[g.id(f)] }()
		}
		logged := m.rep.LastLogged()
		g.until("the end is logged", func() bool { return m.rep.LastLogged() > logged })
		g.part(g.id(m))
		g.until("it only reads", func() bool { return m.rep.Mode() == ReadOnly })
		if m.knows(s) {
			t.Fatal("the end is not applied")
		}
		next := &leaver{notes: &notes{}}
		m.rep.Resume(s, session.Owner(2), 2000, next)
		pass(0)
		if next.left != 1 || len(next.resumed) > 0 {
			t.Errorf("told to leave %d times, resumed %v", next.left, next.resumed)
		}
	})
}

// The sessions of a learner live on what it tells the leader in its pings.
func TestPingsKeepSessionsAlive(t *testing.T) {
	inGroup(t, 3, 1, nil, func(g *group) {
		m := g.in(Observer)[0]
		s := g.session(m, 3000)
		for range 20 {
			pass(groupTick / 2)
			m.note.hear(m.rep.Now())
		}
		if !m.knows(s) {
			t.Fatal("a lively session has expired")
		}
		pass(6 * groupTick)
		for _, o := range g.up {
			if o.knows(s) {
				t.Errorf("server %d: a silent session is left", g.id(o))
			}
		}
	})
}

// The answer to a ping is never null: an Apache leader would close the link.
func TestPingsAreNeverNull(t *testing.T) {
	inGroup(t, 3, 0, nil, func(g *group) {
		var answers, null atomic.Int32
		g.sent = func(_ int64, _ zab.LinkID, p *zab.Packet) {
			if p.Type == zab.Ping {
				answers.Add(1)
				if p.Data == nil {
					null.Add(1)
				}
			}
		}
		id := g.id(g.in(Follower)[0])
		g.stop(id)
		m := g.start(id)
		g.await()
		pass(3 * groupTick)
		s := g.session(m, 10_000)
		for range 4 {
			m.note.hear(m.rep.Now())
			pass(groupTick)
		}
		if answers.Load() < 7 || null.Load() > 0 || !m.knows(s) {
			t.Errorf("%d pings, %d of them null", answers.Load(), null.Load())
		}
	})
}

// A leader sends a proposal and its commit first to the learner whose client has asked for it.
func TestTheAskerIsSentToFirst(t *testing.T) {
	inGroup(t, 3, 0, nil, func(g *group) {
		var mu sync.Mutex
		first := map[zab.PacketType][]zab.LinkID{} // links over which it went, in order
		var lead int64
		g.sent = func(from int64, l zab.LinkID, p *zab.Packet) {
			mu.Lock()
			defer mu.Unlock()
			if from == lead && (p.Type == zab.Proposal || p.Type == zab.Commit) {
				first[p.Type] = append(first[p.Type], l)
			}
		}
		g.restart()
		mu.Lock()
		lead = g.id(g.leader())
		mu.Unlock()
		asked := map[zab.LinkID]bool{}
		for _, m := range g.in(Follower) {
			s := g.session(m, 100_000)
			g.agree()
			mu.Lock()
			clear(first)
			mu.Unlock()
			for range 2 {
				g.write(m, s, 1)
				g.agree()
			}
			mu.Lock()
			p, c := first[zab.Proposal], first[zab.Commit]
			if len(p) != 4 || len(c) != 4 || p[0] != p[2] || p[0] == p[1] || !slices.Equal(p, c) {
				t.Errorf("server %d has asked: proposals went over the links %v, commits over %v", g.id(m), p, c)
			} else {
				asked[p[0]] = true
			}
			mu.Unlock()
		}
		if len(asked) != 2 {
			t.Errorf("whichever learner asked, %d links came first", len(asked))
		}
	})
}

// A server keeps no digests of a tree that a leader's snapshot has put ahead of its zxid: they are
// not those of the other servers at that zxid.
func TestNoDigestsOfAFuzzyTree(t *testing.T) {
	inGroup(t, 3, 0, nil, func(g *group) {
		lead, m := g.leader(), g.in(Follower)[0]
		s := g.session(lead, 100_000)
		m.rep.fuzzy.Store(true)
		g.write(lead, s, 2*digestEvery)
		g.agree()
		all, _ := lead.rep.Stats().Digests()
		fuzzy, _ := m.rep.Stats().Digests()
		if len(all) < 2 || len(fuzzy) != 0 {
			t.Errorf("%d digests at the leader, %d of the fuzzy tree", len(all), len(fuzzy))
		}
		m.rep.fuzzy.Store(false)
		g.write(lead, s, digestEvery)
		g.agree()
		if after, _ := m.rep.Stats().Digests(); len(after) != 1 {
			t.Errorf("%d digests afterwards", len(after))
		}
	})
}

// A server whose tree a leader's snapshot has put ahead of its own log, and that
// loses the leader before the rest has come, does not show that tree to readers.
func TestNoReadOnlyModeWithAFuzzyTree(t *testing.T) {
	for _, fuzzy := range []bool{false, true} {
		inGroup(t, 3, 0, func(_ int64, o *Options) { o.ReadOnly = true }, func(g *group) {
			m := g.in(Follower)[0]
			g.part(g.id(m))
			g.until("it serves nobody", func() bool { return m.rep.Mode() == Idle })
			m.rep.fuzzy.Store(fuzzy)
			pass(readOnlyAfter + groupTick)
			if want := map[bool]Mode{false: ReadOnly, true: Idle}[fuzzy]; m.rep.Mode() != want {
				t.Errorf("fuzzy %v: %v, want %v", fuzzy, m.rep.Mode(), want)
			}
		})
	}
}
