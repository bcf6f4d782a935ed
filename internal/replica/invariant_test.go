package replica

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-zk/pinfold/internal/session"
	"github.com/pinfold-zk/pinfold/internal/txn"
	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/internal/watch"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// P2: nothing is applied, and no client is told, before the disk has synced, whichever way
// the requests come. A caller that comes with more meanwhile does not wait for the disk.
func TestP2NothingBeforeSync(t *testing.T) {
	for name, hand := range map[string]func(*Replica, []Request){"Submit": (*Replica).Submit, "Bring": bring} {
		synctest.Test(t, func(t *testing.T) {
			disk, gate := stall()
			m, _ := mustBoot(t, disk, nil)
			defer m.halt()
			before := m.rep.LastApplied()
			gate <- struct{}{}
			go hand(m.rep, m.sessions(1))
			synctest.Wait()
			hand(m.rep, m.sessions(2))
			synctest.Wait()
			if n := len(m.note.acknowledged()); n > 0 || m.rep.LastApplied() != before || m.rep.Outstanding() != 3 {
				t.Errorf("%s: %d told, applied %v, %d outstanding", name, n, m.rep.LastApplied(), m.rep.Outstanding())
			}
			<-gate
			synctest.Wait()
			if n := len(m.note.acknowledged()); n != 3 || m.rep.LastApplied() != before+3 || m.rep.Outstanding() != 0 {
				t.Errorf("%s, after the syncs: %d told, applied %v, %d outstanding", name, n, m.rep.LastApplied(), m.rep.Outstanding())
			}
		})
	}
}

// P3: transactions are applied in the order of their zxids, without a gap, also
// over the end of an epoch's counter.
func TestP3Rollover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.NewMem()
		m, _ := mustBoot(t, disk, func(o *Options) { o.InitialCounter = 1<<32 - 5 })
		submit := func(n int) {
			for range n {
				m.rep.Submit(m.sessions(1))
			}
			synctest.Wait()
		}
		submit(20)
		if err := m.halt(); err != nil {
			t.Fatal(err)
		}
		txns := m.note.acknowledged()
		if len(txns) != 20 {
			t.Fatalf("%d transactions: %v", len(txns), m.rep.Failure())
		}
		last := zk.Zxid(0)
		for i, b := range txns {
			tx, err := txn.Decode(b)
			if err != nil {
				t.Fatal(err)
			}
			next := tx.Zxid == last+1 || tx.Zxid.Epoch() == last.Epoch()+1 && tx.Zxid.Counter() == 1
			if i > 0 && !next {
				t.Errorf("%v comes after %v", tx.Zxid, last)
			}
			last = tx.Zxid
		}
		if last.Epoch() != 1 {
			t.Errorf("the last is %v", last)
		}
		m, report := mustBoot(t, disk, nil)
		if report.Zxid != last || report.Sessions != 20 {
			t.Errorf("recovered %+v, want %v", report, last)
		}
		submit(5)
		compare(t, m, append(txns, m.note.acknowledged()...), "after the rollover")
		if err := m.halt(); err != nil {
			t.Fatal(err)
		}
	})
}

// P4: the events of a transaction are fired before its request is told of, both
// under the lock that readers take.
func TestP4EventsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := mustBoot(t, vfs.NewMem(), nil)
		defer m.halt()
		op, body := createSession(50000)
		m.rep.Submit([]Request{m.request(0, op, body)})
		synctest.Wait()
		s := m.note.newSession()
		m.rep.View(func(v View) { v.AddWatch(7, "/", watch.Recursive) })
		var reqs []Request
		for i := range 50 {
			op, body := create(fmt.Sprintf("/n%d", i), nil, zk.Ephemeral)
			reqs = append(reqs, m.request(s, op, body))
		}
		reqs = append(reqs, m.request(s, wire.OpCloseSession, nil))
		m.note.mu.Lock()
		m.note.order = nil
		m.note.mu.Unlock()
		m.rep.Submit(reqs)
		synctest.Wait()
		m.note.mu.Lock()
		defer m.note.mu.Unlock()
		if len(m.note.order) != 50*2+50+1 {
			t.Fatalf("%d notes", len(m.note.order))
		}
		if !slices.IsSortedFunc(m.note.order, func(a, b note) int {
			if a.zxid != b.zxid {
				return int(a.zxid - b.zxid)
			}
			// Within one transaction replies come last.
			return strings.Compare(b.event, "") - strings.Compare(a.event, "")
		}) {
			t.Errorf("order %+v", m.note.order)
		}
	})
}

// P6: between the stages wait a few batches, whatever is submitted; the rest
// gathers in one, and one sync carries it.
func TestP6OneSyncForAllThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk, gate := stall()
		m, _ := mustBoot(t, disk, nil)
		gate <- struct{}{}
		const n = 500
		for range n {
			m.rep.Submit(m.sessions(1))
			synctest.Wait()
		}
		if got := m.rep.Outstanding(); got != n {
			t.Errorf("%d outstanding, want %d", got, n)
		}
		syncs, _, _, _ := m.rep.Stats().Synced.Get()
		<-gate
		synctest.Wait()
		after, _, _, most := m.rep.Stats().Synced.Get()
		if len(m.note.acknowledged()) != n || after-syncs > 4 || most < n/2 {
			t.Errorf("%d told; %d syncs, one of %d transactions", len(m.note.acknowledged()), after-syncs, most)
		}
		if err := m.halt(); err != nil {
			t.Fatal(err)
		}
	})
}

// Snapshots come after so many transactions, do not stop them, and roll the log;
// old files are purged.
func TestSnapshotsAndPurge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.NewMem()
		m, _ := mustBoot(t, disk, func(o *Options) { o.SnapCount, o.PurgeInterval, o.PurgeRetain = 100, time.Hour, 3 })
		op, body := createSession(50_000_000)
		for range 2000 {
			m.rep.Submit([]Request{m.request(0, op, body)})
			synctest.Wait()
		}
		snaps, err := m.dir.Snapshots()
		if err != nil || len(snaps) < 2000/101 || len(snaps) > 2000/50+1 {
			t.Errorf("%d snapshots, %v", len(snaps), err)
		}
		time.Sleep(time.Hour + time.Second)
		synctest.Wait()
		if snaps, err = m.dir.Snapshots(); err != nil || len(snaps) != 3 {
			t.Errorf("%d snapshots after the purge, %v", len(snaps), err)
		}
		if err := m.halt(); err != nil {
			t.Fatal(err)
		}
		m2, report := mustBoot(t, disk, nil)
		if report.Sessions != 2000 || report.Mismatch > 0 {
			t.Errorf("%+v", report)
		}
		m2.halt()
	})
}

// A log that is long when the server starts is reason for a snapshot, and for
// others later.
func TestSnapshotDueAtStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.NewMem()
		m, _ := mustBoot(t, disk, func(o *Options) { o.SnapCount = 1 << 20 })
		op, body := createSession(50_000_000)
		for range 100 {
			m.rep.Submit([]Request{m.request(0, op, body)})
			synctest.Wait()
		}
		if err := m.halt(); err != nil {
			t.Fatal(err)
		}
		m, _ = mustBoot(t, disk, func(o *Options) { o.SnapCount = 40 })
		defer m.halt()
		synctest.Wait()
		if snaps, err := m.dir.Snapshots(); err != nil || len(snaps) != 2 || snaps[0].Zxid != 100 {
			t.Errorf("after the start: %v, %v", snaps, err)
		}
		for range 41 {
			m.rep.Submit([]Request{m.request(0, op, body)})
			synctest.Wait()
		}
		if snaps, err := m.dir.Snapshots(); err != nil || len(snaps) < 3 {
			t.Errorf("after 41 more: %v, %v", snaps, err)
		}
	})
}

// An ephemeral whose session does not exist is removed at the start, and a new
// snapshot has it no more.
func TestOrphansAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.NewMem()
		m, _ := mustBoot(t, disk, nil)
		// Damage: a transaction of a session that nobody has made.
		op, body := create("/orphan", nil, zk.Ephemeral)
		m.rep.putCall(func(tr *session.Tracker, _ func(zk.SessionID) (int64, bool)) { tr.Add(77, 5000, 0) })
		m.rep.Submit([]Request{m.request(77, op, body)})
		synctest.Wait()
		if err := m.halt(); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			m, report := mustBoot(t, disk, nil)
			if report.Znodes == 0 || m.rep.tree.Lookup("/orphan") != 0 {
				t.Errorf("the orphan is there: %+v", report)
			}
			if err := m.halt(); err != nil {
				t.Fatal(err)
			}
		}
	})
}
