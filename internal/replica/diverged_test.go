package replica

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/pinfold-zk/pinfold/internal/storage"
	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/internal/znode"
	"github.com/pinfold-zk/pinfold/zk"
)

// logText is what several servers log.
type logText struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write implements io.Writer.
func (l *logText) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

// String returns what was logged so far.
func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// corrupt changes the data of a znode in the machine's tree: damaged memory.
func (m *machine) corrupt() {
	const path = "/zookeeper"
	m.rep.mu.Lock()
	defer m.rep.mu.Unlock()
	tree := m.rep.tree
	mode := tree.Mode(tree.Lookup(path))
	var r znode.Result
	tree.Apply(&txn.Txn{
		Header: txn.Header{Type: wire.OpSetData, Zxid: mode.Mzxid, Time: mode.Mtime},
		Op:     txn.Op{Type: wire.OpSetData, Path: path, Data: []byte("damaged"), Version: mode.Version},
	}, &r)
}

// corrupt makes the tree of a machine wrong; agree then takes no offence at the
// transaction that shows it.
func (g *group) corrupt(m *machine) {
	if g.corrupted == nil {
		g.corrupted = map[int64]bool{}
	}
	g.corrupted[g.id(m)] = true
	m.corrupt()
}

// write writes through a machine, and lets a moment pass.
func (m *machine) write(s zk.SessionID, path string) {
	op, body := create(path, nil, zk.Persistent)
	m.submit(s, op, body)
	synctest.Wait()
}

// A learner whose tree is wrong finds out by the next transaction: the client of that
// transaction is not answered, the learner leaves its role, and serves again with the
// leader's tree.
func TestALearnerWithAWrongTreeTakesTheLeaders(t *testing.T) {
	for _, mode := range []Mode{Follower, Observer} {
		inGroup(t, 3, 1, nil, func(g *group) {
			lead, m := g.leader(), g.in(mode)[0]
			s := g.session(m, 100_000)
			m.write(s, "/before")
			pass(groupTick)
			snaps, acked := lead.rep.Stats().Snaps.Load(), len(m.note.acknowledged())
			g.corrupt(m)
			m.write(s, "/wrong")
			g.until("the tree is found to be wrong", func() bool { return m.rep.Stats().DigestMismatches.Load() == 1 })
			g.until("it serves again", func() bool { return m.rep.Mode() == mode && !m.rep.diverged.Load() })
			if n := len(m.note.acknowledged()) - acked; n != 0 {
				t.Errorf("%d requests are answered from a wrong tree", n)
			}
			if n := lead.rep.Stats().Snaps.Load() - snaps; n != 1 || m.rep.Mode() != mode {
				t.Errorf("the leader has sent %d snapshots, the server is a %v", n, m.rep.Mode())
			}
			m.write(g.session(m, 100_000), "/after")
			g.agree()
			if n := m.rep.Outstanding(); n != 0 {
				t.Errorf("%d requests are outstanding", n)
			}
		})
	}
}

// A leader whose tree is wrong steps down, and follows another one with its tree.
func TestALeaderWithAWrongTreeTakesAnothers(t *testing.T) {
	var log logText
	inGroup(t, 3, 0, func(_ int64, o *Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) }, func(g *group) {
		m := g.leader()
		s := g.session(m, 100_000)
		acked := len(m.note.acknowledged())
		g.corrupt(m)
		for i := range 20 { // some are under way when the first is applied
			op, body := create(fmt.Sprintf("/%d", i), nil, zk.Persistent)
			m.submit(s, op, body)
		}
		g.until("it leads no more", func() bool { return m.rep.Mode() != Leader })
		g.await()
		if n := len(m.note.acknowledged()) - acked; n != 0 || g.leader() == m {
			t.Errorf("%d requests are answered from a wrong tree; the server is a %v", n, m.rep.Mode())
		}
		g.agree()
	})
	text := log.String()
	if n := strings.Count(text, "level=ERROR"); n != 1 || !strings.Contains(text, "is taken from the leader anew") {
		t.Errorf("%d errors are logged:\n%s", n, text)
	}
}

// A tree that goes wrong unnoticed is found before its server leads with it: else all
// others would find theirs to be wrong.
func TestNobodyBeginsToLeadWithAWrongTree(t *testing.T) {
	inGroup(t, 3, 0, nil, func(g *group) {
		g.stop(g.id(g.leader()))
		g.await()
		m := g.leader()
		m.write(g.session(m, 100_000), "/before")
		pass(groupTick)
		g.start(3)
		g.await()
		g.corrupt(m) // the server with the greatest id of those that stay
		if g.id(m) != 2 {
			t.Fatalf("server %d leads, not that with the greatest id", g.id(m))
		}
		g.part(2)
		g.until("2 has left", func() bool { return m.rep.Mode() == Idle })
		g.heal(2)
		g.stop(3)
		g.await()
		if n := m.rep.Stats().DigestMismatches.Load(); g.leader() == m || n != 1 {
			t.Errorf("server %d leads, %d mismatches", g.id(g.leader()), n)
		}
		g.start(3)
		g.await()
		g.agree()
	})
}

// Where all trees are wrong no server serves, and none runs in circles. A server that is
// started again has the right tree, from its log, and the others get it.
func TestAllTreesAreWrong(t *testing.T) {
	var log logText
	inGroup(t, 3, 0, func(_ int64, o *Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) }, func(g *group) {
		g.stop(2)
		g.await()
		s := g.session(g.leader(), 100_000)
		for _, m := range g.up {
			g.corrupt(m)
		}
		g.leader().write(s, "/wrong")
		pass(groupTick)
		before := len(log.String())
		pass(60 * groupTick)
		text := log.String()[before:]
		for id, m := range g.up {
			if mode := m.rep.Mode(); mode != Idle {
				t.Errorf("server %d is a %v", id, mode)
			}
		}
		if n := strings.Count(text, "none has a tree for the others"); n < 10 || n > 120 {
			t.Errorf("in 60 ticks servers have declined %d times", n)
		}
		if n := strings.Count(text, "\n"); n > 1000 {
			t.Errorf("%d lines in 60 ticks", n)
		}
		g.stop(1)
		g.start(1)
		g.await()
		if id := g.id(g.leader()); id != 1 {
			t.Errorf("server %d leads", id)
		}
		g.start(2)
		g.await()
		g.agree()
	})
}

// A standalone server whose tree is wrong fails, without an answer from it. The log is
// right: so is the server that is started again.
func TestAStandaloneServerWithAWrongTreeFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.NewMem()
		m, _ := mustBoot(t, disk, nil)
		m.rep.Submit(m.sessions(1))
		synctest.Wait()
		s, acked := m.note.newSession(), len(m.note.acknowledged())
		m.corrupt()
		m.write(s, "/wrong")
		if err := m.halt(); !errors.Is(err, ErrDiverged) || !errors.Is(m.rep.Failure(), ErrDiverged) {
			t.Fatal(err)
		}
		if n := len(m.note.acknowledged()) - acked; n != 0 {
			t.Errorf("%d requests are answered from a wrong tree", n)
		}
		m, report := mustBoot(t, disk, nil)
		defer m.halt()
		if report.Mismatch > 0 || report.Diverged || m.rep.tree.Lookup("/wrong") == 0 {
			t.Errorf("%+v", report)
		}
	})
}

// wrongSnapshot is a disk whose newest snapshot was made of a wrong tree: memory was
// damaged before it was written, and the next transaction has shown it.
func wrongSnapshot(t *testing.T) *vfs.Mem {
	t.Helper()
	disk := vfs.NewMem()
	m, _ := mustBoot(t, disk, func(o *Options) { o.SnapCount = 100_000 })
	m.rep.Submit(m.sessions(1))
	synctest.Wait()
	s := m.note.newSession()
	snapshot := func() {
		if err := m.rep.snap.writeTree(m.rep.tree, (*storage.SnapshotWriter).Commit); err != nil {
			t.Fatal(err)
		}
	}
	m.write(s, "/right")
	snapshot()
	m.write(s, "/later")
	m.corrupt()
	snapshot()
	m.write(s, "/wrong")
	if err := m.halt(); !errors.Is(err, ErrDiverged) {
		t.Fatal(err)
	}
	return disk
}

// A snapshot that was made of a wrong tree is not used: the one before and the log lead
// to the right one. A new snapshot takes its place.
func TestASnapshotOfAWrongTreeIsNotUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := wrongSnapshot(t)
		m, report := mustBoot(t, disk, nil)
		if len(report.Refused) != 1 || report.Diverged || m.rep.tree.Lookup("/wrong") == 0 {
			t.Errorf("%+v", report)
		}
		if err := m.halt(); err != nil {
			t.Fatal(err)
		}
		m, report = mustBoot(t, disk, nil)
		defer m.halt()
		if len(report.Refused) != 0 || report.Mismatch != 0 {
			t.Errorf("at the next start: %+v", report)
		}
	})
}

// snapshotMidway is a disk with two snapshots. The newer one was written as an Apache server may
// write it: its digest block names the zxid before the last transaction whose effects the snapshot has.
// After that one, the log has as many transactions as later says.
func snapshotMidway(t *testing.T, deletes bool, later int) *vfs.Mem {
	t.Helper()
	disk := vfs.NewMem()
	m, _ := mustBoot(t, disk, func(o *Options) { o.SnapCount = 100_000 })
	m.rep.Submit(m.sessions(1))
	synctest.Wait()
	s := m.note.newSession()
	m.write(s, "/a")
	if err := m.rep.snap.writeTree(m.rep.tree, (*storage.SnapshotWriter).Commit); err != nil {
		t.Fatal(err)
	}
	m.write(s, "/b")
	j, err := m.rep.snap.newJob(m.rep.tree)
	if err != nil {
		t.Fatal(err)
	}
	m.write(s, "/c")
	last, digest := m.rep.tree.LastZxid(), m.rep.tree.Digest()
	if deletes {
		op, body := remove("/a")
		m.submit(s, op, body)
		synctest.Wait()
	} else {
		m.write(s, "/d")
	}
	body, done := j.walk.Next(nil, 1<<30)
	if _, err := j.w.Write(body); err != nil || !done {
		t.Fatal(err, done)
	}
	j.last, j.digest = last, digest
	if err := j.finish((*storage.SnapshotWriter).Commit); err != nil {
		t.Fatal(err)
	}
	for i := range later {
		m.write(s, fmt.Sprintf("/later-%d", i))
	}
	if err := m.halt(); err != nil {
		t.Fatal(err)
	}
	return disk
}

// A snapshot that has effects of the transaction after the one that its digest block names is used: the digest
// of that next transaction shows that the tree is right. If the log ends before it, an older snapshot is used.
func TestASnapshotHasTheTransactionAfterItsDigest(t *testing.T) {
	for _, deletes := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			for later := range 3 {
				m, report := mustBoot(t, snapshotMidway(t, deletes, later), nil)
				if len(report.Refused) != 0 || report.Mismatch != 0 || report.Diverged || (m.rep.tree.Lookup("/a") == 0) != deletes {
					t.Errorf("deletes %v, %d transactions after: %+v", deletes, later, report)
				}
				if err := m.halt(); err != nil {
					t.Fatal(err)
				}
			}
			disk := snapshotMidway(t, deletes, 0)
			cutMidway(t, disk)
			m, report := mustBoot(t, disk, nil)
			defer m.halt()
			if len(report.Refused) != 1 || report.Diverged || m.rep.tree.Lookup("/a") == 0 || m.rep.tree.Lookup("/c") == 0 || m.rep.tree.Lookup("/d") != 0 {
				t.Errorf("without the transaction: %+v", report)
			}
		})
	}
}

// openWithSnapshots opens the data directory of a disk, which the caller closes, and returns its snapshots, the newest first.
func openWithSnapshots(t *testing.T, disk *vfs.Mem) (*storage.Dir, []storage.Snapshot) {
	t.Helper()
	dir, err := storage.Open(disk, storage.Options{DataDir: "/data"})
	if err != nil {
		t.Fatal(err)
	}
	all, err := dir.Snapshots()
	if err != nil {
		t.Fatal(errors.Join(err, dir.Close()))
	}
	return dir, all
}

// cutMidway removes the transactions after the one that the digest block of the newest snapshot names.
func cutMidway(t *testing.T, disk *vfs.Mem) {
	t.Helper()
	dir, all := openWithSnapshots(t, disk)
	defer dir.Close()
	if err := dir.Truncate(all[0].Zxid + 1); err != nil {
		t.Fatal(err)
	}
}

// keepNewest removes all snapshots but the newest.
func keepNewest(t *testing.T, disk *vfs.Mem) {
	t.Helper()
	dir, all := openWithSnapshots(t, disk)
	defer dir.Close()
	for _, s := range all[1:] {
		if err := disk.Remove(dataFiles + "/" + s.Name); err != nil {
			t.Fatal(err)
		}
	}
}

// Without another snapshot a standalone server refuses to start, until its operator
// accepts the tree.
func TestAStandaloneServerRefusesAWrongTree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := wrongSnapshot(t)
		keepNewest(t, disk)
		if _, _, err := boot(disk, nil); !errors.Is(err, ErrDiverged) {
			t.Fatal(err)
		}
		m, report := mustBoot(t, disk, func(o *Options) { o.Prep.DigestEnabled, o.Tree.NoDigest = false, true })
		defer m.halt()
		if report.Diverged || m.rep.tree.Lookup("/wrong") == 0 {
			t.Errorf("%+v", report)
		}
	})
}

// A member that starts with a wrong tree neither leads nor serves until a leader has
// sent it a snapshot, and that is what it starts with from then on.
func TestAMemberStartsWithAWrongTree(t *testing.T) {
	inGroup(t, 3, 0, nil, func(g *group) {
		m := g.leader()
		id := g.id(m)
		s := g.session(m, 100_000)
		m.write(s, "/before")
		pass(groupTick)
		for _, id := range g.ids {
			g.stop(id)
		}
		g.damageDigest(id)
		m = g.start(id)
		if !m.rep.diverged.Load() {
			t.Fatal("the tree is not found to be wrong")
		}
		for _, o := range g.ids {
			if o != id {
				g.start(o)
			}
		}
		g.await()
		if m.rep.Mode() != Follower || g.leader().rep.Stats().Snaps.Load() != 1 {
			t.Errorf("it is a %v", m.rep.Mode())
		}
		g.stop(id)
		m = g.start(id)
		if m.rep.diverged.Load() {
			t.Error("it has a wrong tree again")
		}
		g.await()
		g.agree()
	})
}

// damageDigest writes, over the disk of a server that is down, a snapshot of a wrong
// tree at the first transaction, and removes the others.
func (g *group) damageDigest(id int64) {
	g.t.Helper()
	g.corrupted = map[int64]bool{id: true}
	dir, err := storage.Open(g.disks[id], storage.Options{DataDir: "/data"})
	if err != nil {
		g.t.Fatal(err)
	}
	defer dir.Close()
	log, err := dir.ReadLog(0)
	if err != nil {
		g.t.Fatal(err)
	}
	defer log.Close()
	payload, err := log.Next()
	if err != nil {
		g.t.Fatal(err)
	}
	tx, err := txn.Decode(payload)
	if err != nil {
		g.t.Fatal(err)
	}
	wrong := &machine{rep: &Replica{tree: znode.New(testTree)}}
	var r znode.Result
	wrong.rep.tree.Apply(&tx, &r)
	wrong.corrupt()
	snaps, err := dir.Snapshots()
	if err != nil {
		g.t.Fatal(err)
	}
	for _, s := range snaps {
		if err := g.disks[id].Remove(dataFiles + "/" + s.Name); err != nil {
			g.t.Fatal(err)
		}
	}
	writer := &Replica{
		o: Options{Dir: dir}, log: slog.New(slog.DiscardHandler), clock: wallClock{},
	}
	writer.o.Prep.DigestEnabled, writer.o.LastZxidBlock = true, true
	writer.snap.Replica = writer
	if err := writer.snap.writeTree(wrong.rep.tree, (*storage.SnapshotWriter).Commit); err != nil {
		g.t.Fatal(err)
	}
}

// No learner is sent a tree that is wrong, nor does a snapshot of it become visible.
func TestAWrongTreeIsNotHandedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := mustBoot(t, vfs.NewMem(), nil)
		defer m.halt()
		before, err := m.dir.Snapshots()
		if err != nil {
			t.Fatal(err)
		}
		task := m.rep.snap.applied(1000, 0)
		m.rep.diverged.Store(true)
		if err := m.rep.streamTree(io.Discard); !errors.Is(err, ErrDiverged) {
			t.Error("the tree is sent:", err)
		}
		right, begun := m.rep.tree, false
		err = m.rep.streamTree(writer(func([]byte) { // a right one takes its place while it is sent
			if !begun {
				begun, m.rep.tree = true, znode.New(m.rep.o.Tree)
				m.rep.diverged.Store(false)
			}
		}))
		if m.rep.tree = right; !begun || !errors.Is(err, ErrDiverged) {
			t.Error("the tree that is replaced is sent:", err)
		}
		m.rep.diverged.Store(true)
		m.rep.snap.start(task)
		synctest.Wait()
		if after, err := m.dir.Snapshots(); err != nil || len(after) != len(before) {
			t.Errorf("%d snapshots became %d, %v", len(before), len(after), err)
		}
		m.rep.diverged.Store(false)
	})
}

type writer func(p []byte)

func (w writer) Write(p []byte) (int, error) {
	w(p)
	return len(p), nil
}

// A member without digests has nothing to compare: it follows a leader that has them.
func TestAMemberWithoutDigests(t *testing.T) {
	inGroup(t, 3, 0, func(id int64, o *Options) {
		if id == 1 {
			o.Prep.DigestEnabled, o.Tree.NoDigest = false, true
		}
	}, func(g *group) {
		lead := g.leader()
		lead.write(g.session(lead, 100_000), "/a")
		pass(groupTick)
		m := g.up[1]
		if n := m.rep.Stats().DigestMismatches.Load(); n != 0 || m.rep.Mode() != Follower || m.rep.tree.Lookup("/a") == 0 {
			t.Errorf("%d mismatches, a %v", n, m.rep.Mode())
		}
	})
}
