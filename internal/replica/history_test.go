package replica

import (
	"errors"
	"io"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/session"
	"github.com/pinfold-zk/pinfold/internal/storage"
	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/internal/zab"
	"github.com/pinfold-zk/pinfold/zk"
)

// epochFS is a disk that notes, each time the file currentEpoch is replaced, where
// the history would end if power were lost at that moment.
type epochFS struct {
	vfs.FS
	disk *vfs.Mem // of FS
	t    *testing.T
	mu   sync.Mutex
	ends []zk.Zxid
}

// Rename implements vfs.FS.
func (f *epochFS) Rename(from, to string) error {
	if path.Base(to) == "currentEpoch" {
		f.mu.Lock()
		for seed := range uint64(4) {
			f.ends = append(f.ends, endOf(f.t, f.disk.CrashClone(rand.New(rand.NewPCG(seed, 1)))))
		}
		f.mu.Unlock()
	}
	return f.FS.Rename(from, to)
}

// since returns the ends that were noted after the first n, and how many there are.
func (f *epochFS) since(n int) ([]zk.Zxid, int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ends[n:], len(f.ends)
}

// endOf returns the last zxid of the history on a disk.
func endOf(t *testing.T, disk vfs.FS) zk.Zxid {
	t.Helper()
	dir, err := storage.Open(disk, storage.Options{DataDir: "/data"})
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	snaps, err := dir.Snapshots()
	if err != nil {
		t.Fatal(err)
	}
	last := zk.Zxid(0)
	if len(snaps) > 0 {
		last = snaps[0].Zxid
	}
	log, err := dir.ReadLog(last)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	for {
		if _, err := log.Next(); errors.Is(err, io.EOF) {
			return max(last, log.LastZxid())
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// inWatchedGroup is inGroup with three voters whose epoch files are watched.
func inWatchedGroup(t *testing.T, f func(g *group, disks map[int64]*epochFS)) {
	t.Helper()
	inGroup(t, 3, 0, func(_ int64, o *Options) {
		o.SnapCount, o.Ensemble.SizeFactor = 100_000, 100 // no snapshots
	}, func(g *group) {
		disks := map[int64]*epochFS{}
		g.wrap = func(id int64, disk vfs.FS) vfs.FS {
			disks[id] = &epochFS{FS: disk, disk: g.disks[id], t: t}
			return disks[id]
		}
		g.restart()
		f(g, disks)
	})
}

// write has a machine log n transactions.
func (g *group) write(m *machine, s zk.SessionID, n int) {
	for range n {
		op, body := setData("/", []byte("x"))
		m.submit(s, op, body)
	}
	pass(0)
}

// A learner that is brought up to date in a new epoch has the history on its disk
// before the file currentEpoch says so: else, after a crash, it would claim the epoch
// without the transactions that it began with, and win elections (4643).
func TestEpochFileFollowsTheHistory(t *testing.T) {
	inWatchedGroup(t, func(g *group, disks map[int64]*epochFS) {
		lead, away := g.leader(), g.id(g.in(Follower)[0])
		s := g.session(lead, 100_000)
		g.agree()
		g.stop(away)
		g.write(lead, s, 40) // they come in one piece with NEWLEADER
		g.agree()
		want := lead.rep.LastApplied()
		g.stop(g.id(lead))
		g.start(away)
		g.await()
		ends, n := disks[away].since(0)
		for _, z := range ends {
			if z < want {
				t.Errorf("currentEpoch was written when the history ended at %v; the epoch begins with all up to %v", z, want)
			}
		}
		if n == 0 {
			t.Error("currentEpoch was never written")
		}
	})
}

// A log that cannot be cut to what the leader wants stays as it is until a snapshot
// has come: neither transactions nor the new epoch are written on top of what should
// have gone.
func TestNothingIsWrittenOnAFailedCut(t *testing.T) {
	inWatchedGroup(t, func(g *group, disks map[int64]*epochFS) {
		id, agreed := g.strand()
		removeSnapshots(t, disks[id]) // without one, the log cannot be cut
		_, before := disks[id].since(0)
		g.heal(id)
		g.await()
		g.agree()
		ends, _ := disks[id].since(before)
		for _, z := range ends {
			if z > agreed {
				t.Errorf("currentEpoch was written on a history that ended at %v, agreed on was %v", z, agreed)
			}
		}
		if len(ends) == 0 || g.leader().rep.Stats().Snaps.Load() == 0 {
			t.Errorf("%d epochs were written, %d snapshots sent: the cut has not failed", len(ends), g.leader().rep.Stats().Snaps.Load())
		}
	})
}

// strand parts a leader that logs two transactions which no other server gets, and
// waits until another one leads. It returns the leader's id and the last zxid that
// all agree on.
func (g *group) strand() (id int64, agreed zk.Zxid) {
	g.t.Helper()
	for range 20 {
		old := g.leader()
		id = g.id(old)
		s := g.session(old, 100_000)
		g.agree()
		agreed = old.rep.LastApplied()
		g.part(id)
		g.write(old, s, 2)
		g.until("another leads", func() bool { return len(g.in(Leader)) == 1 && g.in(Leader)[0] != old })
		if endOf(g.t, g.disks[id].CrashClone(rand.New(rand.NewPCG(1, 1)))) == agreed+2 {
			return id, agreed
		}
		g.heal(id) // it had given up before it could log them
		g.await()
	}
	g.t.Fatal("no leader logs what it alone has")
	return 0, 0
}

func removeSnapshots(t *testing.T, disk vfs.FS) {
	t.Helper()
	const dir = "/data/version-2"
	names, err := disk.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasPrefix(name, "snapshot.") {
			if err := disk.Remove(path.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A new leader deletes the ephemerals of sessions that do not exist, by
// transactions: all servers do the same.
func TestOrphansAreDroppedByTheLeader(t *testing.T) {
	inGroup(t, 3, 0, nil, func(g *group) {
		for _, id := range g.ids {
			g.stop(id)
		}
		// Damage: a transaction of a session that nobody has made.
		m, _ := mustBoot(t, g.disks[1], nil)
		m.rep.putCall(func(tr *session.Tracker, _ func(zk.SessionID) (int64, bool)) { tr.Add(77, 5000, 0) })
		op, body := create("/orphan", nil, zk.Ephemeral)
		m.submit(77, op, body)
		pass(0)
		if err := m.halt(); err != nil {
			t.Fatal(err)
		}
		for _, id := range g.ids[1:] {
			g.disks[id] = g.disks[1].CrashClone(rand.New(rand.NewPCG(1, 1)))
		}
		first := g.start(g.ids[0]) // there is no quorum yet
		first.rep.View(func(v View) {
			if v.Lookup("/orphan") == 0 {
				t.Fatal("there is no orphan")
			}
		})
		for _, id := range g.ids[1:] {
			g.start(id)
		}
		g.await()
		if tree := g.agree(); strings.Contains(tree, "orphan") {
			t.Errorf("it is still there:\n%s", tree)
		}
	})
}

// The leader answers a learner's sync before it tells the learner of the commit of
// what was sent after the sync: Apache's learners match both, in order, with what
// they have asked for, and answer no write any more if the order is another.
func TestSyncIsAnsweredInItsPlace(t *testing.T) {
	inGroup(t, 3, 0, nil, func(g *group) {
		var mu sync.Mutex
		var order []zab.PacketType
		g.sent = func(_ int64, _ zab.LinkID, p *zab.Packet) {
			mu.Lock()
			defer mu.Unlock()
			if p.Type == zab.Sync || p.Type == zab.Commit {
				order = append(order, p.Type)
			}
		}
		g.restart()
		f := g.in(Follower)[0]
		s := g.session(f, 100_000)
		mu.Lock()
		order = nil
		mu.Unlock()
		op, body := setData("/", []byte("x"))
		f.rep.Submit([]Request{f.request(s, wire.OpSync, []byte{0, 0, 0, 1, '/'}), f.request(s, op, body)})
		g.agree()
		mu.Lock()
		defer mu.Unlock()
		if len(order) != 3 || order[0] != zab.Sync {
			t.Errorf("the leader sent %v, want the SYNC and then a COMMIT to each of two", order)
		}
	})
}

// A leader tells no client that its session is over as long as the end is not
// committed: under another leader the session may live, and with it its ephemerals.
func TestAnEndIsToldWhenItIsCommitted(t *testing.T) {
	inGroup(t, 3, 0, nil, func(g *group) {
		lead := g.leader()
		s := g.session(lead, 2000)
		g.agree()
		followers := g.in(Follower)
		for _, f := range followers {
			g.gates[g.id(f)] <- struct{}{} // its disk stalls
		}
		told := func() []bool {
			lead.note.mu.Lock()
			defer lead.note.mu.Unlock()
			return slices.Clone(lead.note.resumed)
		}
		pass(5 * groupTick / 2) // the session expires; no follower has the end of it yet
		lead.rep.Resume(s, session.Owner(2), 2000, lead.note)
		pass(0)
		if got := told(); len(got) > 0 || !lead.knows(s) {
			t.Errorf("the client was told %v before the end was committed", got)
		}
		for _, f := range followers {
			<-g.gates[g.id(f)]
		}
		g.until("the client is told", func() bool { return len(told()) > 0 })
		if got := told(); len(got) != 1 || got[0] || lead.knows(s) {
			t.Errorf("the client was told %v, want that the session is over", got)
		}
	})
}
