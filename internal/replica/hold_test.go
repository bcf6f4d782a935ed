package replica

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/internal/watch"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/internal/znode"
	"github.com/pinfold-zk/pinfold/zk"
)

// onFlush calls f whenever output is to be sent, which is when no lock is held.
type onFlush struct {
	*notes
	f func()
}

func (c *onFlush) Flush() {
	c.f()
	c.notes.Flush()
}

// manyEphemerals has a new session create n ephemerals below a new /e.
func (m *machine) manyEphemerals(t *testing.T, n int) zk.SessionID {
	t.Helper()
	op, body := createSession(30000)
	m.await(t, m.request(0, op, body))
	id := m.note.newSession()
	op, body = create("/e", nil, zk.Persistent)
	m.await(t, m.request(id, op, body))
	var reqs []Request
	for i := 0; i < n; {
		var b []byte
		for range 1000 {
			o := wire.MultiOp{Type: wire.OpCreate, CreateRequest: wire.CreateRequest{
				Path: fmt.Sprintf("/e/%d", i), ACL: zk.OpenACLUnsafe(), Flags: zk.Ephemeral,
			}}
			b = o.Append(b)
			i++
		}
		reqs = append(reqs, m.request(id, wire.OpMulti, wire.AppendMultiEnd(b)))
	}
	m.await(t, reqs...)
	return id
}

// await submits requests and waits until they are applied.
func (m *machine) await(t *testing.T, reqs ...Request) {
	t.Helper()
	want := len(m.note.acknowledged()) + len(reqs)
	m.rep.Submit(reqs)
	synctest.Wait()
	if got := len(m.note.acknowledged()); got != want {
		t.Fatalf("%d transactions are applied, want %d", got, want)
	}
}

// A lookout looks at the tree whenever output is to be sent, from when it has a machine. Its lock
// guards it.
type lookout struct {
	sync.Mutex
	m    *machine
	end  zk.Zxid // of the transaction that is to be applied in pieces, once it is known
	most int     // units of the largest piece of it
}

// boot starts a machine, and calls look from then on.
func (l *lookout) boot(t *testing.T, fsys vfs.FS, look func(View), change func(*Options)) {
	m, _ := mustBoot(t, fsys, func(o *Options) {
		o.Clients = &onFlush{notes: o.Clients.(*notes), f: func() {
			l.Lock()
			m := l.m
			l.Unlock()
			if m != nil {
				m.rep.View(func(v View) {
					l.Lock()
					defer l.Unlock()
					if l.end > 0 {
						look(v)
					}
				})
			}
		}}
		o.SnapCount = 1 << 30
		o.PieceDone = func(work int) {
			l.Lock()
			defer l.Unlock()
			if l.end > 0 {
				l.most = max(l.most, work)
			}
		}
		change(o)
	})
	l.Lock()
	defer l.Unlock()
	l.m = m
}

// next says that the next transaction is the one that is applied in pieces.
func (l *lookout) next() {
	l.Lock()
	defer l.Unlock()
	l.end = l.m.rep.LastApplied() + 1
}

// TestCloseSessionInPieces: a session with many ephemerals ends in pieces. Who reads in
// between is told the zxid of the end; it does not count as applied before all are gone.
func TestCloseSessionInPieces(t *testing.T) { synctest.Test(t, testCloseSessionInPieces) }

func testCloseSessionInPieces(t *testing.T) {
	const many = 20000
	fsys := vfs.NewMem()
	var l lookout
	var seen []int // ephemerals at each Flush
	l.boot(t, fsys, func(v View) {
		if n := v.EphemeralCount(); n > 0 && n < many {
			seen = append(seen, n)
			if v.LastZxid() != l.end || l.m.rep.LastApplied() != l.end-1 || v.Tree.LastZxid() != l.end-1 {
				t.Errorf("%d left: shown as of %v, applied is %v, the end is %v", n, v.LastZxid(), l.m.rep.LastApplied(), l.end)
			}
		}
	}, func(o *Options) { o.Prep.MaxTxnBytes = 100 << 10 }) // too little for the list
	m := l.m
	id := m.manyEphemerals(t, many)
	m.rep.Watches(func(w *watch.Tables) { w.Add(7, "/e/77", watch.Data) })
	l.next()
	m.await(t, m.request(id, wire.OpCloseSession, nil))
	l.Lock()
	defer l.Unlock()
	if len(seen) < many/znode.PieceUnits || l.most > znode.PieceUnits+znode.PieceUnits/4 {
		t.Errorf("seen %d times in between: %v; the largest piece has %d units", len(seen), seen, l.most)
	}
	if m.rep.LastApplied() != l.end {
		t.Errorf("applied is %v, want %v", m.rep.LastApplied(), l.end)
	}
	fired := 0
	for _, n := range m.note.order {
		if n.event != "" {
			fired++
		}
	}
	if fired != 1 {
		t.Errorf("%d events, want 1", fired)
	}
	want, err := m.dump()
	if err != nil {
		t.Fatal(err)
	}
	if err := m.halt(); err != ErrClosed && err != nil {
		t.Fatal(err)
	}
	again, _ := mustBoot(t, fsys, nil)
	if got, err := again.dump(); got != want || err != nil {
		t.Errorf("after a restart:\n%s%v\nwant:\n%s", got, err, want)
	}
	again.halt()
}

// TestMultiInPieces: a multi of very many operations is applied in pieces. Readers in
// between are shown which paths it changes, and the zxid before it.
func TestMultiInPieces(t *testing.T) { synctest.Test(t, testMultiInPieces) }

func testMultiInPieces(t *testing.T) {
	const many = 20000
	fsys := vfs.NewMem()
	var l lookout
	looks := 0
	l.boot(t, fsys, func(v View) {
		if v.AnyChanging() == nil {
			return
		}
		looks++
		if v.LastZxid() != l.end-1 || l.m.rep.LastApplied() != l.end-1 {
			t.Errorf("shown as of %v, applied is %v, the end is %v", v.LastZxid(), l.m.rep.LastApplied(), l.end)
		}
		if v.Changing("/e") == nil || v.Changing(fmt.Sprintf("/e/%d", many-1)) == nil || v.Changing("/zookeeper") != nil || v.Changing("/") != nil {
			t.Error("the View does not know what is being changed")
		}
	}, func(*Options) {})
	m := l.m
	id := m.manyEphemerals(t, 0)
	l.next()
	var b []byte
	for i := range many {
		o := wire.MultiOp{Type: wire.OpCreate, CreateRequest: wire.CreateRequest{Path: fmt.Sprintf("/e/%d", i), ACL: zk.OpenACLUnsafe()}}
		b = o.Append(b)
	}
	m.await(t, m.request(id, wire.OpMulti, wire.AppendMultiEnd(b)))
	l.Lock()
	defer l.Unlock()
	if looks < many/znode.PieceUnits || l.most > znode.PieceUnits+znode.PieceUnits/4 {
		t.Errorf("seen %d times in between; the largest piece has %d units", looks, l.most)
	}
	m.rep.View(func(v View) {
		if v.AnyChanging() != nil || v.LastZxid() != l.end || m.rep.LastApplied() != l.end {
			t.Errorf("in the end applied is %v, want %v", m.rep.LastApplied(), l.end)
		}
	})
	want, err := m.dump()
	if err != nil {
		t.Fatal(err)
	}
	if err := m.halt(); err != ErrClosed && err != nil {
		t.Fatal(err)
	}
	again, _ := mustBoot(t, fsys, nil)
	if got, err := again.dump(); got != want || err != nil {
		t.Error("after a restart the tree is another one")
	}
	again.halt()
}

// TestQuotaOfALargeTree: stats znodes of a large subtree, created again and again in one
// multi, cost bounded work under the lock; a task counts the subtree afterwards.
func TestQuotaOfALargeTree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 20000
		var mu sync.Mutex
		most, measured := 0, false
		m, _ := mustBoot(t, vfs.NewMem(), func(o *Options) {
			o.SnapCount = 1 << 30
			o.PieceDone = func(work int) {
				mu.Lock()
				defer mu.Unlock()
				if measured {
					most = max(most, work)
				}
			}
		})
		id := m.manyEphemerals(t, many)
		for _, path := range []string{"/zookeeper/quota/e", "/zookeeper/quota/e/zookeeper_limits"} {
			op, body := create(path, []byte("count=5,bytes=5"), zk.Persistent)
			m.await(t, m.request(id, op, body))
		}
		var b []byte
		for i := range 21 {
			o := wire.MultiOp{Type: wire.OpCreate, CreateRequest: wire.CreateRequest{
				Path: "/zookeeper/quota/e/zookeeper_stats", ACL: zk.OpenACLUnsafe(),
			}}
			if b = o.Append(b); i < 20 {
				o = wire.MultiOp{Type: wire.OpDelete, Version: -1}
				o.Path = "/zookeeper/quota/e/zookeeper_stats"
				b = o.Append(b)
			}
		}
		mu.Lock()
		measured = true
		mu.Unlock()
		m.await(t, m.request(id, wire.OpMulti, wire.AppendMultiEnd(b)))
		op, body := create("/e/last", []byte("123"), zk.Persistent)
		m.await(t, m.request(id, op, body))
		time.Sleep(time.Second) // the task rests between its pieces
		synctest.Wait()
		m.rep.View(func(v View) {
			used := znode.ParseQuota(v.Data(v.Lookup("/zookeeper/quota/e/zookeeper_stats")))
			if used.Count != many+2 || used.Bytes != 3 || v.RecountDue() {
				t.Errorf("the usage is %+v", used)
			}
		})
		if most > znode.PieceUnits+znode.PieceUnits/4 || most < znode.PieceUnits/2 {
			t.Errorf("%d units of work under one hold of the lock", most)
		}
		if err := m.halt(); err != nil {
			t.Error(err)
		}
	})
}

// Flush wakes the connections that wait until Outstanding falls: what it finds is
// already without the requests that were applied.
func TestOutstandingFallsBeforeFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m *machine
		var found []int
		booted, _ := mustBoot(t, vfs.NewMem(), func(o *Options) {
			o.Clients = &onFlush{notes: o.Clients.(*notes), f: func() {
				if m != nil {
					found = append(found, m.rep.Outstanding())
				}
			}}
		})
		defer booted.halt()
		m = booted
		m.await(t, m.sessions(3)...)
		if len(found) == 0 || found[len(found)-1] != 0 {
			t.Errorf("Flush found %v requests outstanding, want 0 at its last call", found)
		}
	})
}

// TestLongViewsRest: long Views use half of the time together, short ones all of it.
func TestLongViewsRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := mustBoot(t, vfs.NewMem(), func(*Options) {})
		defer m.rep.Close()
		const piece = time.Millisecond
		view := func(pauses int) {
			m.rep.View(func(v View) {
				for range pauses {
					time.Sleep(piece) // the work
					v.Pause(func() {})
				}
			})
		}
		began := time.Now()
		if view(freePauses); time.Since(began) != freePauses*piece {
			t.Errorf("a short View takes %v, want %v", time.Since(began), freePauses*piece)
		}
		const long = 10 * freePauses
		began = time.Now()
		if view(long); time.Since(began) != (2*long-freePauses)*piece {
			t.Errorf("a long View takes %v, want %v", time.Since(began), (2*long-freePauses)*piece)
		}
		began = time.Now()
		var group sync.WaitGroup
		for range 3 {
			group.Go(func() { view(long) })
		}
		group.Wait()
		if least := 3 * (2*long - freePauses - 2) * piece; time.Since(began) < least {
			t.Errorf("three long Views take %v, want %v", time.Since(began), least)
		}
	})
}
