package replica

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/internal/storage"
	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/test/faultfs"
)

// stall returns a disk whose syncs wait while the gate is held.
func stall() (fsys *faultfs.FS, gate chan struct{}) {
	gate = make(chan struct{}, 1)
	return gated(vfs.NewMem(), gate), gate
}

// gated is a disk where the syncs of the log wait while the gate is held, which is
// while something is in it.
func gated(disk *vfs.Mem, gate chan struct{}) *faultfs.FS {
	return faultfs.New(disk, 0, faultfs.None, func(op faultfs.Op) {
		if op.Kind == "sync" && strings.Contains(op.Name, "log.") {
			gate <- struct{}{}
			<-gate
		}
	})
}

// The disk of a leader stalls: it goes on, as the disks of a quorum work. What it has
// applied meanwhile is in its log afterwards.
func TestLeadersDiskStalls(t *testing.T) {
	eachWriter(t, func(t *testing.T) {
		inGroup(t, 3, 0, nil, func(g *group) { g.writeThroughStall(g.leader(), Leader, 10) })
	})
}

// eachWriter runs a test with files of the log that Callers write as well, and with others.
func eachWriter(t *testing.T, f func(t *testing.T)) {
	defer func(was storage.LogOptions) { bootLog = was }(bootLog)
	t.Run("the Writer", f)
	bootLog = storage.LogOptions{PreallocBytes: 256 << 10}
	t.Run("Callers", f)
}

// The disk of a follower stalls for a minute: its clients are served all the same.
func TestFollowersDiskStalls(t *testing.T) {
	eachWriter(t, func(t *testing.T) {
		inGroup(t, 3, 0, nil, func(g *group) { g.writeThroughStall(g.in(Follower)[0], Follower, 30) })
	})
}

// A leader whose disk stays away hands over, and follows when the disk is back.
func TestALeaderWhoseDiskStaysAwayHandsOver(t *testing.T) {
	inGroup(t, 3, 0, nil, func(g *group) {
		m := g.leader()
		gate := g.gates[g.id(m)]
		gate <- struct{}{}
		m.rep.Submit(m.sessions(1)) // something that its disk does not finish
		g.until("another leads", func() bool {
			ms := g.in(Leader)
			return len(ms) == 1 && ms[0] != m
		})
		if mode := m.rep.Mode(); mode != Idle {
			t.Errorf("it is %v while its disk is away", mode)
		}
		<-gate
		g.until("it follows", func() bool { return m.rep.Mode() == Follower })
		g.agree()
	})
}

// writeThroughStall stalls the disk of m, has clients of all members write, each pass
// of them two seconds after the one before, and lets the disk go on.
func (g *group) writeThroughStall(m *machine, mode Mode, passes int) {
	s := g.session(m, 50000)
	gate := g.gates[g.id(m)]
	gate <- struct{}{}
	logged := m.rep.LastLogged()
	for range passes {
		for _, each := range append(g.in(Follower), g.leader()) {
			before := g.leader().rep.LastApplied()
			op, body := setData("/", []byte("x"))
			bring(each.rep, []Request{each.request(s, op, body)})
			g.until("a write is applied", func() bool { return each.rep.LastApplied() == before+1 })
		}
		pass(2 * time.Second)
	}
	if m.rep.Mode() != mode || m.rep.LastLogged() != logged {
		g.t.Errorf("the member is %v, its log at %v, before at %v", m.rep.Mode(), m.rep.LastLogged(), logged)
	}
	<-gate
	g.until("the log follows", func() bool { return m.rep.LastLogged() == m.rep.LastApplied() })
	g.agree()
}

// A Caller that writes to a disk that stalls is replaced; the replica goes on, and Work reports it in the end. While
// the disk is slow no Caller writes.
func TestACallerThatWaitsIsReplaced(t *testing.T) {
	defer func(was storage.LogOptions) { bootLog = was }(bootLog)
	bootLog = storage.LogOptions{PreallocBytes: 256 << 10}
	inGroup(t, 3, 0, nil, func(g *group) {
		m := g.leader()
		s := g.session(m, 50000)
		pass(time.Second)
		gate := g.gates[g.id(m)]
		var reader stoodIn
		works := make(chan bool, 1)
		write := func() {
			op, body := setData("/", []byte("x"))
			m.rep.Bring([]Request{m.request(s, op, body)})
			go func() { works <- m.rep.Work(&reader) }()
			pass(10 * LookEvery)
		}
		write()
		if !<-works || reader.calls != 0 {
			t.Fatal("a Caller is replaced although the disk is quick")
		}
		gate <- struct{}{}
		before := m.rep.LastApplied()
		write()
		if len(works) != 0 || reader.calls != 1 {
			t.Fatalf("a Caller that waits for the disk is replaced %d times", reader.calls)
		}
		g.until("the write is applied", func() bool { return m.rep.LastApplied() == before+1 })
		<-gate
		if <-works {
			t.Error("Work does not report that the Caller was replaced")
		}
		gate <- struct{}{}
		write() // the disk was slow: this one is the Writer's
		if len(works) != 1 || reader.calls != 1 {
			t.Error("a Caller writes although the disk was slow")
		}
		<-gate
		<-works
		g.agree()
	})
}

// From Look(false) on no Caller waits for the disk, and its writes are made aside; from Look(true) on Callers write again. Look
// tells whether the log was written.
func TestSeldomWritesAreMadeAside(t *testing.T) {
	defer func(was storage.LogOptions) { bootLog = was }(bootLog)
	bootLog = storage.LogOptions{PreallocBytes: 256 << 10}
	inGroup(t, 1, 0, nil, func(g *group) {
		m := g.leader()
		s := g.session(m, 50000)
		pass(time.Second)
		gate := g.gates[g.id(m)]
		write := func() {
			op, body := setData("/", []byte("x"))
			m.rep.Bring([]Request{m.request(s, op, body)})
			m.rep.Work(new(stoodIn))
		}
		stalled := func() (waits bool) {
			gate <- struct{}{}
			ended := make(chan bool, 1)
			go func() { write(); ended <- true }()
			pass(LookEvery / 2)
			waits = len(ended) == 0
			<-gate
			<-ended
			pass(time.Second)
			write() // the disk is quick again
			pass(time.Second)
			return waits
		}
		if !stalled() {
			t.Fatal("no Caller writes")
		}
		m.rep.Look(false)
		write() // the one before had it that a Caller makes this one
		pass(time.Second)
		if stalled() {
			t.Error("a Caller writes although writes are taken for seldom")
		}
		if !m.rep.Look(true) || m.rep.Look(true) {
			t.Error("Look is wrong about whether the log was written")
		}
		write()
		pass(time.Second)
		if !stalled() {
			t.Error("no Caller writes although writes are taken for frequent")
		}
	})
}

// Writes without a pause make a token of Busy while they are taken for seldom; ones with pauses do not, nor do few.
func TestManyWritesMakeAToken(t *testing.T) {
	inGroup(t, 1, 0, nil, func(g *group) {
		m := g.leader()
		s := g.session(m, 50000)
		write := func(n int, pause time.Duration) {
			for range n {
				op, body := setData("/", []byte("x"))
				bring(m.rep, []Request{m.request(s, op, body)})
				pass(pause)
			}
			pass(2 * LookEvery)
		}
		write(10, LookEvery/2)
		m.rep.Look(false)
		write(10, 2*LookEvery)
		for range 10 {
			write(busyFlushes-1, LookEvery/2)
		}
		if len(m.rep.Busy()) != 0 {
			t.Error("there is a token, although the writes were seldom, or not taken for it")
		}
		write(busyFlushes, LookEvery/2)
		if len(m.rep.Busy()) != 1 {
			t.Error("there is no token")
		}
	})
}

// A snapshot becomes visible when the log has everything that it may hold: what was
// applied while the member's own disk stalled must be durable first.
func TestASnapshotIsNotAheadOfItsLog(t *testing.T) {
	inGroup(t, 3, 0, nil, func(g *group) {
		m := g.leader()
		s := g.session(m, 50000)
		pass(time.Second)
		gate := g.gates[g.id(m)]
		gate <- struct{}{} // the next sync of the log waits
		before := m.rep.LastApplied()
		op, body := setData("/", []byte("x"))
		bring(m.rep, []Request{m.request(s, op, body)})
		g.until("the write is applied", func() bool { return m.rep.LastApplied() == before+1 })
		files, err := m.dir.Snapshots()
		if err != nil {
			t.Fatal(err)
		}
		m.rep.snap.start(m.rep.snap.applied(1000, 0))
		pass(time.Second)
		if now, err := m.dir.Snapshots(); err != nil || len(now) != len(files) || m.rep.LastLogged() > before {
			t.Errorf("%d snapshots became %d while the log ends at %v, %v", len(files), len(now), m.rep.LastLogged(), err)
		}
		<-gate
		g.until("the snapshot is there", func() bool {
			now, err := m.dir.Snapshots()
			return err == nil && len(now) > len(files)
		})
		g.agree()
	})
}

// What waits for a stalled disk counts with all its memory: the decoded form of small
// transactions takes several times their bytes.
func TestWhatWaitsForTheDiskCountsDecoded(t *testing.T) {
	const limit = 1 << 20
	inGroup(t, 3, 0, func(_ int64, o *Options) {
		if o.Ensemble != nil {
			o.Ensemble.StallBytes = limit
		}
	}, func(g *group) {
		m := g.in(Follower)[0]
		s := g.session(m, 50000)
		gate := g.gates[g.id(m)]
		gate <- struct{}{}
		leader := g.leader()
		op, body := setData("/", []byte("x"))
		written := 0
		for ; m.rep.Mode() == Follower && written < limit/100; written += 100 {
			before := leader.rep.LastApplied()
			leader.rep.Submit(slices.Repeat([]Request{leader.request(s, op, body)}, 100))
			g.until("the writes are applied", func() bool { return leader.rep.LastApplied() == before+100 })
			pass(groupTick)
		}
		if m.rep.Mode() != Idle {
			t.Errorf("the member is %v with %d transactions that wait for its disk", m.rep.Mode(), written)
		}
		<-gate
		g.until("the member follows", func() bool { return m.rep.Mode() == Follower })
		g.agree()
	})
}
