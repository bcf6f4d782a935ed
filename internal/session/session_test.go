package session

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pinfold-zk/pinfold/zk"
)

// silent is a server without connections.
func silent(zk.SessionID) (int64, bool) { return 0, false }

// check fails the test if the tracker contradicts itself.
func (t *Tracker) check(tb testing.TB) {
	tb.Helper()
	n := 0
	for at, bucket := range t.buckets {
		if len(bucket) == 0 || at%int64(t.cfg.TickMillis) != 0 {
			tb.Fatalf("bucket %d of %d sessions", at, len(bucket))
		}
		for id, s := range bucket {
			if t.sessions[id] != s || s.closing || s.bucket != at || s.deadline < at {
				tb.Fatalf("bucket %d holds %v: %+v", at, id, s)
			}
			n++
		}
	}
	for _, s := range t.sessions {
		if s.closing {
			n++
		}
	}
	if n != len(t.sessions) {
		tb.Fatalf("%d sessions, %d in buckets or closing", len(t.sessions), n)
	}
}

func due(t *testing.T, tr *Tracker, now int64, want ...zk.SessionID) {
	t.Helper()
	if got := tr.Due(now, silent); !slices.Equal(got, want) {
		t.Errorf("at %d: %v expired, want %v", now, got, want)
	}
	tr.check(t)
}

// A session expires at the next multiple of the tick strictly after its
// timeout, not a millisecond earlier.
func TestBuckets(t *testing.T) {
	for _, c := range []struct {
		now     int64
		timeout int32
		want    int64
	}{
		{0, 4000, 6000}, {1, 4000, 6000}, {1999, 4000, 6000}, {2000, 4000, 8000},
		{0, 5999, 6000}, {0, 6000, 8000}, {0, 0, 2000}, {7, 40000, 42000},
	} {
		tr := NewTracker(Config{TickMillis: 2000})
		tr.Add(1, c.timeout, c.now)
		due(t, tr, c.want-1)
		due(t, tr, c.want, 1)
	}
}

// Invariant 1: a sign of life counts the same, told or asked for.
func TestSignsOfLife(t *testing.T) {
	for _, asked := range []bool{false, true} {
		tr := NewTracker(Config{TickMillis: 1000})
		tr.Add(1, 3000, 0) // 4000
		tr.Add(2, 3000, 0)
		last := int64(0)
		if asked {
			last = 3500
		} else if !tr.Touch(1, 3000, 3500) {
			t.Fatal("a living session cannot be touched")
		}
		heard := func(id zk.SessionID) (int64, bool) { return last, asked && id == 1 }
		for _, c := range []struct {
			now  int64
			want []zk.SessionID
		}{{3999, nil}, {4500, []zk.SessionID{2}}, {6999, nil}, {7000, []zk.SessionID{1}}, {9000, nil}} {
			if got := tr.Due(c.now, heard); !slices.Equal(got, c.want) {
				t.Errorf("asked=%v at %d: %v, want %v", asked, c.now, got, c.want)
			}
			tr.check(t)
		}
	}
}

// A client that comes back with another timeout is judged by that, sooner or
// later than before, while the agreed one stays in the table.
func TestTimeoutOfAReconnect(t *testing.T) {
	tr := NewTracker(Config{TickMillis: 1000})
	tr.Add(1, 30000, 0)
	tr.Add(2, 4000, 0)
	tr.Touch(1, 4000, 100)
	tr.Touch(2, 30000, 100)
	due(t, tr, 4999)
	due(t, tr, 5000, 1)
	due(t, tr, 30999)
	due(t, tr, 31000, 2)
	if got, want := tr.Timeouts(), []Timeout{{1, 30000}, {2, 4000}}; !slices.Equal(got, want) {
		t.Errorf("table %v, want %v", got, want)
	}
}

// Invariant 2.
func TestClosing(t *testing.T) {
	tr := NewTracker(Config{TickMillis: 1000, Standalone: true})
	tr.Add(1, 1000, 0)
	tr.Add(2, 1000, 0)
	tr.MarkClosing(1)
	tr.MarkClosing(1)
	tr.MarkClosing(99)
	if tr.Touch(1, 1000, 500) || tr.Add(1, 1000, 500) || tr.Touch(99, 1000, 500) {
		t.Error("a closing session, or none, was touched")
	}
	due(t, tr, 2000, 2)
	due(t, tr, 90000)
	for _, id := range []zk.SessionID{1, 2} {
		for _, code := range []zk.Code{tr.Check(id, 5), tr.CheckGlobal(id, 5), tr.SetOwner(id, 5)} {
			if code != zk.ErrSessionExpired {
				t.Errorf("closing session %v: %v", id, code)
			}
		}
		if !tr.Tracked(id) {
			t.Errorf("%v is gone before its closeSession is applied", id)
		}
		tr.Remove(id)
		tr.check(t)
	}
	if tr.Len() != 0 || tr.Tracked(1) {
		t.Errorf("%d sessions are left", tr.Len())
	}
}

// Invariant 3.
func TestCheck(t *testing.T) {
	for _, standalone := range []bool{true, false} {
		tr := NewTracker(Config{TickMillis: 1000, Standalone: standalone})
		unknown := zk.ErrSessionExpired
		if standalone {
			unknown = zk.ErrUnknownSession
		}
		if got := tr.Check(1, 5); got != unknown {
			t.Errorf("unknown: %v", got)
		}
		if got := tr.CheckGlobal(1, 5); got != zk.ErrSessionExpired {
			t.Errorf("unknown, global: %v", got)
		}
		if got := tr.SetOwner(1, 5); got != zk.ErrSessionExpired {
			t.Errorf("owner of unknown: %v", got)
		}
		if !tr.Add(1, 1000, 0) || tr.Add(1, 1000, 0) {
			t.Error("a session is new once")
		}
		for i, c := range []struct {
			owner Owner
			want  zk.Code
		}{{5, zk.OK}, {5, zk.OK}, {6, zk.ErrSessionMoved}, {5, zk.OK}} {
			if got := tr.Check(1, c.owner); got != c.want {
				t.Errorf("check %d by %d: %v", i, c.owner, got)
			}
		}
		if got := tr.SetOwner(1, 6); got != zk.OK {
			t.Errorf("SetOwner: %v", got)
		}
		if tr.CheckGlobal(1, 6) != zk.OK || tr.Check(1, 5) != zk.ErrSessionMoved {
			t.Error("the owner did not change")
		}
	}
}

// Invariant 4: the connections of sessions that are not due are not asked for.
func TestDueAsksFewConnections(t *testing.T) {
	const sessions, ticks, timeout = 1000, 300, 30
	tr := NewTracker(Config{TickMillis: 1000})
	for id := range zk.SessionID(sessions) {
		tr.Add(id+1, timeout*1000, int64(id))
	}
	asked := 0
	for now := int64(1000); now <= ticks*1000; now += 1000 {
		if got := tr.Due(now, func(zk.SessionID) (int64, bool) { asked++; return now, true }); got != nil {
			t.Fatalf("at %d: %v expired", now, got)
		}
	}
	if most := sessions * (ticks/timeout + 1); asked > most {
		t.Errorf("asked %d times, want at most %d", asked, most)
	}
}

func TestDump(t *testing.T) {
	tr := NewTracker(Config{TickMillis: 1000})
	date := func(at int64) string { return fmt.Sprintf("<%d>", at) }
	if got := string(AppendDump(nil, tr.Buckets(silent), date)); got != "Session Sets (0)/(0):\n" {
		t.Errorf("empty: %q", got)
	}
	for i, id := range []zk.SessionID{0x100000cf31d0002, 0x100000cf31d0001, 0x100000cf31d0003, -1} {
		tr.Add(id, 4000+int32(i%3)*2000, 0)
	}
	tr.MarkClosing(-1)
	tr.Touch(0x100000cf31d0001, 4000, 2000)
	heard := func(id zk.SessionID) (int64, bool) { return 3000, id == 0x100000cf31d0003 }
	want := "Session Sets (3)/(3):\n" +
		"1 expire at <5000>:\n\t0x100000cf31d0002\n" +
		"1 expire at <7000>:\n\t0x100000cf31d0001\n" +
		"1 expire at <12000>:\n\t0x100000cf31d0003\n"
	if got := string(AppendDump(nil, tr.Buckets(heard), date)); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	tr.check(t)
}

func TestNewTrackerRefusesATickOfZero(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	NewTracker(Config{})
}

// modelSession is a session as the protocol page describes it: it expires at
// the round after its latest sign of life, each told at once.
type modelSession struct {
	agreed, current int32
	expiry          int64
	closing         bool
	owner           Owner
	connected       bool
	last            int64
}

// TestModel runs random operations, with time going on, against eager buckets.
func TestModel(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 0))
		tick := int32(1 + r.IntN(100))
		tr := NewTracker(Config{TickMillis: tick})
		m := map[zk.SessionID]*modelSession{}
		now := int64(0)
		round := func(at int64, timeout int32) int64 {
			return ((at+int64(timeout))/int64(tick) + 1) * int64(tick)
		}
		heard := func(id zk.SessionID) (int64, bool) { return m[id].last, m[id].connected }
		for step := range 500 {
			now += int64(r.IntN(40))
			id, owner := zk.SessionID(1+r.IntN(30)), Owner(1+r.IntN(3))
			timeout := int32(r.IntN(500))
			s := m[id]
			alive := s != nil && !s.closing
			switch r.IntN(8) {
			case 0:
				if tr.Add(id, timeout, now) != (s == nil) {
					t.Fatalf("seed=%d step %d: Add", seed, step)
				}
				if s == nil {
					m[id] = &modelSession{agreed: timeout, current: timeout, expiry: round(now, timeout)}
				} else if alive {
					s.current, s.expiry = timeout, round(now, timeout)
				}
			case 1:
				if tr.Touch(id, timeout, now) != alive {
					t.Fatalf("seed=%d step %d: Touch", seed, step)
				}
				if alive {
					s.current, s.expiry = timeout, round(now, timeout)
				}
			case 2, 3: // heard of over a connection; the tracker is not told
				if alive {
					s.connected, s.last, s.expiry = true, now, round(now, s.current)
				}
			case 4:
				tr.MarkClosing(id)
				if s != nil {
					s.closing = true
				}
			case 5:
				tr.Remove(id)
				delete(m, id)
			case 6:
				want := zk.OK
				switch {
				case !alive:
					want = zk.ErrSessionExpired
				case s.owner == NoOwner:
					s.owner = owner
				case s.owner != owner:
					want = zk.ErrSessionMoved
				}
				if got := tr.Check(id, owner); got != want {
					t.Fatalf("seed=%d step %d: Check %v, want %v", seed, step, got, want)
				}
			case 7:
				var want []zk.SessionID
				for _, id := range slices.Sorted(maps.Keys(m)) {
					if s := m[id]; !s.closing && s.expiry <= now {
						s.closing = true
						want = append(want, id)
					}
				}
				got := tr.Due(now, heard)
				slices.Sort(got)
				if !slices.Equal(got, want) {
					t.Fatalf("seed=%d step %d at %d: %v expired, want %v", seed, step, now, got, want)
				}
			}
			tr.check(t)
		}
		var table []Timeout
		buckets := map[int64][]zk.SessionID{}
		for _, id := range slices.Sorted(maps.Keys(m)) {
			table = append(table, Timeout{id, m[id].agreed})
			if !m[id].closing {
				buckets[m[id].expiry] = append(buckets[m[id].expiry], id)
			}
		}
		if got := tr.Timeouts(); !slices.Equal(got, table) {
			t.Fatalf("seed=%d: table %v, want %v", seed, got, table)
		}
		for _, b := range tr.Buckets(heard) {
			if !slices.Equal(b.IDs, buckets[b.AtMillis]) {
				t.Fatalf("seed=%d: bucket %v, want %v", seed, b, buckets[b.AtMillis])
			}
			delete(buckets, b.AtMillis)
		}
		if len(buckets) != 0 {
			t.Fatalf("seed=%d: buckets %v are missing", seed, buckets)
		}
	}
}

// TestOrder is invariant 5.
func TestOrder(t *testing.T) {
	tr := NewTracker(Config{TickMillis: 10})
	for _, id := range []zk.SessionID{9, 3, 7, 1, 8, 2} {
		tr.Add(id, int32(id%3)*10, 0)
	}
	due(t, tr, 1000, 3, 9, 1, 7, 2, 8)
}

// One operation is one tick of a server with 100,000 lively sessions.
func BenchmarkDue(b *testing.B) {
	tr := NewTracker(Config{TickMillis: 2000})
	now := int64(0)
	for id := range zk.SessionID(100_000) {
		tr.Add(id+1, 30000, int64(id)%30000)
	}
	b.ReportAllocs()
	for b.Loop() {
		now += 2000
		tr.Due(now, func(zk.SessionID) (int64, bool) { return now, true })
	}
}
