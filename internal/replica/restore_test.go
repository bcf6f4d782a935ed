package replica

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-zk/pinfold/internal/storage"
	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/test/faultfs"
	"github.com/pinfold-zk/pinfold/zk"
)

// snapshotOf returns the bytes of a new snapshot of a machine.
func snapshotOf(t *testing.T, m *machine) []byte {
	t.Helper()
	taken, err := m.rep.TakeSnapshot(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	f, _, err := m.dir.OpenFile(taken)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// state is what a machine has, without its zxid.
func state(t *testing.T, m *machine) string {
	t.Helper()
	d, err := m.dump()
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(d, "\n")
	return rest
}

// setsRoot has a machine set the root's data.
func setsRoot(t *testing.T, m *machine, s zk.SessionID, data string) {
	t.Helper()
	op, body := setData("/", []byte(data))
	m.await(t, m.request(s, op, body))
}

// A restored standalone server has the state of the snapshot, goes on from there, and
// still has it after a restart.
func TestRestore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.NewMem()
		m, _ := mustBoot(t, disk, nil)
		op, body := createSession(30000)
		m.await(t, m.request(0, op, body))
		session := m.note.newSession()
		setsRoot(t, m, session, "old")
		op, body = create("/e", []byte("x"), zk.Ephemeral)
		m.await(t, m.request(session, op, body))
		want, snapshot, said := state(t, m), snapshotOf(t, m), m.rep.LastApplied()
		for i := range 100 {
			setsRoot(t, m, session, fmt.Sprint(i))
		}
		op, body = createSession(30000)
		m.await(t, m.request(0, op, body))
		later, before := m.note.newSession(), m.rep.LastApplied()

		z, err := m.rep.Restore(context.Background(), bytes.NewReader(snapshot))
		if err != nil || z != said {
			t.Fatalf("the snapshot of %v: %v, %v", said, z, err)
		}
		if got := state(t, m); got != want {
			t.Fatalf("restored is\n%s\nwant\n%s", got, want)
		}
		if m.rep.LastApplied() <= before || m.rep.Mode() != Standalone {
			t.Errorf("at %v after %v, %v", m.rep.LastApplied(), before, m.rep.Mode())
		}
		for _, id := range []zk.SessionID{session, later} {
			m.rep.Resume(id, 7, 30000, m.note)
			synctest.Wait()
		}
		if got := m.note.answers(); len(got) != 2 || !got[0] || got[1] {
			t.Errorf("the session of the snapshot and a later one go on: %v", got)
		}
		setsRoot(t, m, session, "new")
		want = state(t, m)
		if err := m.halt(); err != nil {
			t.Fatal(err)
		}
		m, _ = mustBoot(t, disk, nil)
		if got := state(t, m); got != want {
			t.Errorf("after a restart it is\n%s\nwant\n%s", got, want)
		}
		// Another server, which has less, takes the zxid of the snapshot.
		fresh, _ := mustBoot(t, vfs.NewMem(), nil)
		if _, err := fresh.rep.Restore(context.Background(), bytes.NewReader(snapshot)); err != nil || fresh.rep.LastApplied() != said {
			t.Errorf("a new server is at %v, %v; the snapshot at %v", fresh.rep.LastApplied(), err, said)
		}
		for _, m := range []*machine{m, fresh} {
			if err := m.halt(); err != nil {
				t.Error(err)
			}
		}
	})
}

// What is no snapshot, or not all of one, changes nothing.
func TestBadRestores(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := mustBoot(t, vfs.NewMem(), nil)
		op, body := createSession(30000)
		m.await(t, m.request(0, op, body))
		setsRoot(t, m, m.note.newSession(), "x")
		snapshot := snapshotOf(t, m)
		want := state(t, m)
		refused := func(what string, src io.Reader, as error) {
			t.Helper()
			if _, err := m.rep.Restore(context.Background(), src); !errors.Is(err, as) {
				t.Errorf("%s: %v", what, err)
			}
		}
		for n := range snapshot {
			if tail := len(snapshot) - n; tail == 21 || tail == 21+33 {
				continue // the optional blocks are missing, which is allowed
			}
			refused(fmt.Sprintf("%d bytes of %d", n, len(snapshot)), bytes.NewReader(snapshot[:n]), storage.ErrCorrupt)
			flipped := bytes.Clone(snapshot)
			flipped[n] ^= 1 << (n % 8)
			if n < 8 || n >= 16 { // the identity of the database is not looked at
				refused(fmt.Sprintf("byte %d flipped", n), bytes.NewReader(flipped), storage.ErrCorrupt)
			}
		}
		gone := errors.New("gone")
		refused("a client that goes", io.MultiReader(bytes.NewReader(snapshot[:len(snapshot)/2]), faultyReader{gone}), gone)
		if got := state(t, m); got != want || m.rep.Mode() != Standalone {
			t.Errorf("changed to\n%s", got)
		}
		if names, err := m.dir.Snapshots(); err != nil || len(names) > 2 {
			t.Errorf("snapshots %v, %v", names, err)
		}
		if err := m.halt(); err != nil {
			t.Error(err)
		}
	})
}

type faultyReader struct{ err error }

func (r faultyReader) Read([]byte) (int, error) { return 0, r.err }

// A crash at any operation of a restore leaves the state before or the one after.
func TestRestoreCrash(t *testing.T) {
	for at, crashed := 1, true; crashed; at++ {
		synctest.Test(t, func(t *testing.T) {
			mem := vfs.NewMem()
			m, _ := mustBoot(t, mem, nil)
			op, body := createSession(30000)
			m.await(t, m.request(0, op, body))
			setsRoot(t, m, m.note.newSession(), "restored")
			restored, snapshot := state(t, m), snapshotOf(t, m)
			setsRoot(t, m, m.note.newSession(), "before")
			before := state(t, m)
			if err := m.halt(); err != nil {
				t.Fatal(err)
			}
			fault := faultfs.New(mem, at, faultfs.Crash, nil)
			m, _, err := boot(fault, nil)
			if err == nil {
				_, err = m.rep.Restore(context.Background(), bytes.NewReader(snapshot))
				m.halt() // may fail
			}
			crashed = fault.Ops() >= at
			for seed := range uint64(3) {
				again, _ := mustBoot(t, mem.CrashClone(rand.New(rand.NewPCG(uint64(at), seed))), nil)
				got := state(t, again)
				if got != restored && (got != before || err == nil) {
					t.Errorf("crash at operation %d, outcome %d: after %v it has\n%s", at, seed, err, got)
				}
				if err := again.halt(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// restore asks m to restore, in virtual time.
func (g *group) restore(m *machine, snapshot []byte) error {
	g.t.Helper()
	return g.outcome("a restore", func(done func(error)) {
		go func() {
			_, err := m.rep.Restore(context.Background(), bytes.NewReader(snapshot))
			done(err)
		}()
	})
}

// An ensemble has the restored state, also the member that was away, and after restarts.
func TestRestoreOfAnEnsemble(t *testing.T) {
	inGroup(t, 3, 1, nil, func(g *group) {
		m := g.leader()
		s := g.session(m, 100_000)
		g.write(m, s, 10)
		snapshot, want := snapshotOf(t, m), state(t, m)
		op, body := create("/later", nil, zk.Persistent)
		m.submit(s, op, body)
		g.agree()
		if err := g.restore(g.in(Follower)[0], snapshot); !errors.Is(err, ErrNotLeader) {
			t.Errorf("a follower says %v", err)
		}
		away := g.id(g.in(Follower)[0])
		g.stop(away)
		pass(groupTick)
		before := m.rep.LastApplied()
		if err := g.restore(m, snapshot); err != nil {
			t.Fatal(err)
		}
		g.until("there is a leader", func() bool { return len(g.in(Leader)) == 1 })
		if l := g.leader(); l != m || l.rep.LastApplied() != before+1 || state(t, l) != want {
			t.Errorf("server %d leads at %v, before it was %v; it has\n%s", g.id(l), l.rep.LastApplied(), before, state(t, l))
		}
		g.await()
		s = g.session(m, 100_000)
		g.write(m, s, 3)
		g.agree()
		g.start(away)
		g.await()
		g.agree()
		want = state(t, m)
		g.restart()
		g.agree()
		if got := state(t, g.leader()); got != want {
			t.Errorf("after a restart of all\n%s\nwant\n%s", got, want)
		}
	})
}

// A snapshot with later epochs than the ensemble has: no zxid is before those of its znodes.
func TestRestoreOfLaterEpochs(t *testing.T) {
	var snapshot []byte
	var said zk.Zxid
	inGroup(t, 3, 0, nil, func(g *group) {
		for range 4 {
			g.restart()
		}
		s := g.session(g.leader(), 100_000)
		g.write(g.leader(), s, 3)
		g.agree()
		snapshot, said = snapshotOf(t, g.leader()), g.leader().rep.LastApplied()
	})
	inGroup(t, 3, 0, nil, func(g *group) {
		if err := g.restore(g.leader(), snapshot); err != nil {
			t.Fatal(err)
		}
		g.await()
		s := g.session(g.leader(), 100_000)
		g.write(g.leader(), s, 3)
		g.agree()
		if z := g.leader().rep.LastApplied(); z.Epoch() <= said.Epoch() {
			t.Errorf("at %v, the snapshot was at %v", z, said)
		}
	})
}

// If the others have elected another leader meanwhile, nothing is restored anywhere.
func TestARestoreThatComesTooLateIsTakenBack(t *testing.T) {
	inGroup(t, 3, 0, nil, func(g *group) {
		var stalls atomic.Bool
		goOn := make(chan struct{})
		g.wrap = func(_ int64, disk vfs.FS) vfs.FS {
			return faultfs.New(disk, 0, faultfs.None, func(op faultfs.Op) {
				if op.Kind == "rename" && stalls.CompareAndSwap(true, false) {
					<-goOn
				}
			})
		}
		g.restart()
		m := g.leader()
		s := g.session(m, 100_000)
		g.write(m, s, 10)
		snapshot := snapshotOf(t, m)
		op, body := create("/later", nil, zk.Persistent)
		m.submit(s, op, body)
		g.agree()
		want := state(t, m)
		stalls.Store(true)
		told := make(chan error, 1)
		go func() {
			_, err := m.rep.Restore(context.Background(), bytes.NewReader(snapshot))
			told <- err
		}()
		g.until("another leads", func() bool { ms := g.in(Leader); return len(ms) == 1 && ms[0] != m })
		pass(time.Second)
		close(goOn)
		g.until("the outcome is told", func() bool { return len(told) == 1 })
		if err := <-told; !errors.Is(err, ErrNotRestored) {
			t.Errorf("it says %v", err)
		}
		g.await()
		g.agree()
		if got := state(t, m); got != want {
			t.Errorf("it has\n%s\nwant\n%s", got, want)
		}
	})
}
