package replica

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/internal/zab"
)

// sessions returns n requests for a session each.
func (m *machine) sessions(n int) []Request {
	var reqs []Request
	for range n {
		op, body := createSession(5000)
		reqs = append(reqs, m.request(0, op, body))
	}
	return reqs
}

// Who brings a few requests to an idle server has them durable, applied and
// answered when Bring returns; many are left to the stages.
func TestBringTakesOnAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := mustBoot(t, vfs.NewMem(), nil)
		defer m.halt()
		synctest.Wait()
		for i := range 3 {
			m.rep.Bring(m.sessions(smallBatch))
			if n := len(m.note.acknowledged()); n != (i+1)*smallBatch {
				t.Fatalf("%d told after %d", n, (i+1)*smallBatch)
			}
		}
		m.rep.Bring(m.sessions(smallBatch + 1))
		synctest.Wait()
		if n := len(m.note.acknowledged()); n != 4*smallBatch+1 {
			t.Errorf("%d told in the end", n)
		}
	})
}

// P2: what is brought is not told of before the disk has synced, whoever writes;
// and who brings more meanwhile does not wait for it.
func TestP2BroughtBeforeSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk, gate := stall()
		m, _ := mustBoot(t, disk, nil)
		defer m.halt()
		before := m.rep.LastApplied()
		gate <- struct{}{}
		go m.rep.Bring(m.sessions(1))
		synctest.Wait()
		m.rep.Bring(m.sessions(2))
		synctest.Wait()
		if n := len(m.note.acknowledged()); n > 0 || m.rep.LastApplied() != before || m.rep.Outstanding() != 3 {
			t.Errorf("%d told, applied %v, %d outstanding", n, m.rep.LastApplied(), m.rep.Outstanding())
		}
		<-gate
		synctest.Wait()
		if n := len(m.note.acknowledged()); n != 3 || m.rep.LastApplied() != before+3 || m.rep.Outstanding() != 0 {
			t.Errorf("after the syncs: %d told, applied %v, %d outstanding", n, m.rep.LastApplied(), m.rep.Outstanding())
		}
	})
}

// While its log is written a leader gathers the requests that come, as long as
// they are few; and what others bring does not go past those that wait.
func TestLeaderGathers(t *testing.T) {
	inGroup(t, 3, 0, nil, func(g *group) {
		m := g.leader()
		g.session(m, 50000)
		before := m.rep.LastApplied()
		m.rep.unlogged.Add(1) // as if a write were under way
		m.rep.Bring(m.sessions(1))
		pass(groupTick / 10)
		if z := m.rep.LastApplied(); z != before {
			t.Fatalf("applied %v, before %v", z, before)
		}
		f := g.in(Follower)[0]
		f.rep.Submit(f.sessions(smallBatch + 1))
		g.until("all are applied", func() bool { return m.rep.LastApplied() == before+smallBatch+2 })
		m.rep.Bring(m.sessions(1))
		m.rep.unlogged.Add(-1)
		m.rep.help()
		g.until("the last is applied", func() bool { return m.rep.LastApplied() == before+smallBatch+3 })
		g.agree()
	})
}

// A full queue has who puts wait, but for the writer; own makes a writer of who
// finds nothing to wait for.
func TestLogQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q logQueue
		q.init(2)
		failed := make(chan struct{})
		if !q.own() || q.own() {
			t.Fatal("one owns an idle queue, and only one")
		}
		put := 0
		go func() {
			for i := range 3 {
				q.put(job{term: uint64(i)}, true, failed)
				put++
			}
		}()
		synctest.Wait()
		if put != 2 || q.len() != 2 {
			t.Fatalf("%d put, %d wait", put, q.len())
		}
		if !q.put(job{term: 9}, false, failed) || q.len() != 3 {
			t.Fatal("the writer waits for itself")
		}
		var group []job
		go func() { group = q.take(nil) }()
		synctest.Wait()
		if len(group) != 0 {
			t.Fatal("taken while another writes")
		}
		q.done()
		synctest.Wait()
		if len(group) != 3 || group[0].term != 0 || group[1].term != 1 || group[2].term != 9 || put != 3 {
			t.Fatalf("taken: %v, %d put", group, put)
		}
		if q.own() {
			t.Fatal("owned while one waits, and another writes")
		}
		q.done()
		if group = q.take(group[:0]); len(group) != 1 {
			t.Fatalf("taken: %v", group)
		}
		q.done()
		q.close()
		if group = q.take(nil); len(group) != 0 || q.own() {
			t.Fatal("a closed queue goes on")
		}
	})
}

// Who has been made the writer, and finds more to write than there is room for before
// it gets to it, does not wait for itself: it gives that up.
func TestOwnerDoesNotWaitForItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := mustBoot(t, vfs.NewMem(), nil)
		defer m.halt()
		synctest.Wait()
		r := m.rep
		r.turn.Lock() // as helpAs
		r.mayWrite = true
		const jobs = 3 * stageBatches
		for range jobs {
			if !r.toWriter(job{synced: []Request{}}) {
				t.Fatal("the disk has failed")
			}
		}
		r.mayWrite = false
		if len(r.lone) > 0 {
			t.Errorf("%d are left to who waited for room", len(r.lone))
		}
		r.turn.Unlock()
		synctest.Wait()
		if n := r.unlogged.Load(); n != 0 {
			t.Errorf("%d of %d are not written", n, jobs)
		}
		if !r.toLog.own() {
			t.Error("somebody writes still")
		}
		r.toLog.done()
	})
}

// What was owned is taken before what has come meanwhile.
func TestLogQueueGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q logQueue
		q.init(2)
		failed := make(chan struct{})
		var group []job
		go func() { group = q.take(nil) }()
		synctest.Wait()
		if !q.own() {
			t.Fatal("an idle queue is not owned")
		}
		for i := range 2 {
			if q.full() {
				t.Fatalf("full with %d", i)
			}
			q.put(job{term: uint64(i + 1)}, true, failed)
		}
		if !q.full() {
			t.Fatal("not full")
		}
		q.giveUp(job{term: 0})
		synctest.Wait()
		if len(group) != 3 || group[0].term != 0 || group[1].term != 1 || group[2].term != 2 {
			t.Fatalf("taken: %v", group)
		}
	})
}

// A failure of the disk wakes who waits for room.
func TestLogQueueFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q logQueue
		q.init(1)
		failed := make(chan struct{})
		q.put(job{}, true, failed)
		ok := true
		go func() { ok = q.put(job{}, true, failed) }()
		synctest.Wait()
		close(failed)
		q.release()
		synctest.Wait()
		if ok {
			t.Error("put into a full queue")
		}
	})
}

// Of peers that are refused again and again one a second is worth a line, which
// says how many were not.
func TestRefusalsAreFewLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		m, _ := mustBoot(t, vfs.NewMem(), nil)
		defer m.halt()
		m.rep.log = slog.New(slog.NewTextHandler(&out, nil))
		refuse := func(n int) {
			for range n {
				m.rep.logEvent(&zab.Event{Kind: zab.EventRefused, Peer: 7, Reason: "of another ensemble"})
			}
		}
		refuse(5)
		pass(refusalPeriod)
		refuse(2)
		text := out.String()
		if n := strings.Count(text, "refused"); n != 2 || !strings.Contains(text, "omitted=4") {
			t.Errorf("%d lines:\n%s", n, text)
		}
	})
}

// TestReleaseSpare: what was released is garbage, and what comes then works.
func TestReleaseSpare(t *testing.T) {
	r := &Replica{pool: make(batchPool, pooledBatches)}
	for range pooledBatches + 1 {
		r.pool.put(new(batch))
	}
	if len(r.pool) != pooledBatches {
		t.Fatalf("%d batches are kept", len(r.pool))
	}
	r.ReleaseSpare()
	if len(r.pool) != 0 || r.pool.get() == nil {
		t.Errorf("%d batches are kept after ReleaseSpare", len(r.pool))
	}
}
