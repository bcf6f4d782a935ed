package recipe

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/test/inproc"
	"github.com/pinfold-zk/pinfold/zk"
)

// exclusive is what the locks have in common.
type exclusive interface {
	Lock(ctx context.Context) (*Held, error)
	TryLock(ctx context.Context) (*Held, error)
}

// locks are the exclusive locks of this package.
var locks = map[string]func(c Client, opts ...LockOption) exclusive{
	"SimpleLock": func(c Client, opts ...LockOption) exclusive { return NewSimpleLock(c, "/a/lock", opts...) },
	"Lock":       func(c Client, opts ...LockOption) exclusive { return NewLock(c, "/a/lock", opts...) },
	"Lock, kazoo's names": func(c Client, opts ...LockOption) exclusive {
		return NewLock(c, "/a/lock", append(opts, UseNames(KazooNames))...)
	},
	"RWLock":        func(c Client, opts ...LockOption) exclusive { return NewRWLock(c, "/a/lock", opts...) },
	"RevocableLock": func(c Client, opts ...LockOption) exclusive { return NewRevocableLock(c, "/a/lock", opts...) },
}

func eachLock(t *testing.T, test func(t *testing.T, newLock func(c Client, opts ...LockOption) exclusive)) {
	for name, newLock := range locks {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, newLock) })
		})
	}
}

func mustLock(t *testing.T, l exclusive) *Held {
	t.Helper()
	h, err := l.Lock(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func mustUnlock(t *testing.T, h *Held) {
	t.Helper()
	if err := h.Unlock(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// pending is a Lock that is under way.
type pending struct {
	held *Held
	err  error
	done chan struct{}
}

func begin(ctx context.Context, lock func(context.Context) (*Held, error)) *pending {
	p := &pending{done: make(chan struct{})}
	go func() {
		defer close(p.done)
		p.held, p.err = lock(ctx)
	}()
	synctest.Wait()
	return p
}

// pause lets virtual time go by.
func pause(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func closed(c <-chan struct{}) bool {
	synctest.Wait()
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// left are the contenders that stay when all are gone.
func left(t *testing.T, c Client) []string {
	t.Helper()
	names := children(t, c, "/a/lock")
	if _, exists, err := c.Exists(context.Background(), "/a/lock"); len(names) == 0 && exists && err == nil {
		if stat, _, _ := c.Exists(context.Background(), "/a/lock"); stat.EphemeralOwner != 0 {
			return []string{"/a/lock"}
		}
	}
	return names
}

// A resource that refuses a fencing token smaller than one that it has seen, and
// notes when two are inside.
type resource struct {
	token   atomic.Int64
	inside  atomic.Int32
	entered atomic.Int32
}

func (r *resource) use(t *testing.T, h *Held) {
	if r.inside.Add(1) != 1 {
		t.Error("two are inside")
	}
	if was := r.token.Swap(int64(h.Token())); was >= int64(h.Token()) {
		t.Errorf("token %v after %v", h.Token(), zk.Zxid(was))
	}
	r.entered.Add(1)
	<-time.After(10 * time.Millisecond)
	r.inside.Add(-1)
}

// Clients that lose their connections, and answers, exclude each other.
func TestLockExcludes(t *testing.T) {
	const clients, rounds = 6, 8
	eachLock(t, func(t *testing.T, newLock func(c Client, opts ...LockOption) exclusive) {
		s := inproc.Start(t)
		var r resource
		var group sync.WaitGroup
		for range clients {
			c := s.Client(t, client.SessionTimeout(20*time.Second))
			group.Go(func() {
				for range rounds {
					h, err := newLock(c).Lock(context.Background())
					if err != nil {
						t.Error(err)
						return
					}
					r.use(t, h)
					if err := h.Unlock(context.Background()); err != nil {
						t.Error(err)
					}
				}
			})
		}
		over := make(chan struct{})
		go func() {
			defer close(over)
			random := rand.New(rand.NewPCG(1, 2))
			for r.entered.Load() < clients*rounds {
				<-time.After(time.Duration(random.IntN(40)) * time.Millisecond)
				switch ops := []wire.OpCode{wire.OpCreate2, wire.OpDelete, wire.OpGetData, wire.OpGetChildren2, wire.OpExists}; random.IntN(8) {
				case 0:
					s.Restart()
				case 1:
					s.Cut()
				default:
					s.LoseAnswer(ops[random.IntN(len(ops))], random.IntN(3))
				}
			}
		}()
		group.Wait()
		<-over
		if n := r.entered.Load(); n != clients*rounds || s.Lost() == 0 {
			t.Errorf("entered %d times, %d answers lost", n, s.Lost())
		}
		if names := left(t, s.Client(t)); len(names) > 0 {
			t.Errorf("%q stay", names)
		}
	})
}

// The k-th answer to a request of each kind is lost, for all k that there are.
func TestLockSurvivesEachLostAnswer(t *testing.T) {
	for _, op := range []wire.OpCode{wire.OpCreate, wire.OpCreate2, wire.OpDelete, wire.OpGetData, wire.OpGetChildren2, wire.OpExists, wire.OpSync} {
		for k, more := 0, true; more; k++ {
			eachLock(t, func(t *testing.T, newLock func(c Client, opts ...LockOption) exclusive) {
				s := inproc.Start(t)
				a, b := s.Client(t), s.Client(t)
				s.LoseAnswer(op, k)
				first := mustLock(t, newLock(a))
				second := begin(context.Background(), newLock(b).Lock)
				pause(time.Second)
				if closed(second.done) || closed(first.Lost()) {
					t.Fatalf("%v %d: the second has it, %v, or the first has lost it", op, k, second.err)
				}
				mustUnlock(t, first)
				<-second.done
				if second.err != nil || second.held.Token() <= first.Token() {
					t.Fatalf("%v %d: %v", op, k, second.err)
				}
				mustUnlock(t, second.held)
				if names := left(t, a); len(names) > 0 {
					t.Errorf("%v %d: %q stay", op, k, names)
				}
				more = s.Lost() > 0
			})
		}
	}
}

func TestLockGoesByOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := inproc.Start(t)
		first := mustLock(t, NewLock(s.Client(t), "/a/lock", HolderData([]byte("0"))))
		var waiting []*pending
		for i := 1; i < 5; i++ {
			waiting = append(waiting, begin(context.Background(), NewLock(s.Client(t), "/a/lock", HolderData(fmt.Append(nil, i))).Lock))
		}
		list, err := NewLock(s.Client(t), "/a/lock").Contenders(context.Background())
		if err != nil || len(list) != 5 {
			t.Fatalf("%d contenders, %v", len(list), err)
		}
		for i, who := range list {
			if string(who.Data) != fmt.Sprint(i) || who.Holds != (i == 0) || who.Shared {
				t.Errorf("contender %d is %+v", i, who)
			}
		}
		if list[0].Token != first.Token() || list[0].Session != first.Session() || "/a/lock/"+list[0].Name != first.Path() {
			t.Errorf("%+v is not %+v", list[0], first)
		}
		mustUnlock(t, first)
		for i, p := range waiting {
			<-p.done
			synctest.Wait()
			if p.err != nil || p.held.Token() != list[i+1].Token {
				t.Fatalf("%d: %v", i, p.err)
			}
			for _, later := range waiting[i+1:] {
				if closed(later.done) {
					t.Fatal("a later one overtook")
				}
			}
			mustUnlock(t, p.held)
		}
	})
}

// network is the way of one client to the server, which can be shut: what is sent
// comes nowhere.
type network struct {
	s    *inproc.Server
	shut atomic.Bool
}

func (n *network) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if n.shut.Load() {
		return nil, errors.New("shut")
	}
	conn, err := n.s.Dial(ctx, network, addr)
	return &hole{conn, n}, err
}

// hole is a connection of a network.
type hole struct {
	net.Conn
	network *network
}

func (h *hole) Write(p []byte) (int, error) {
	if h.network.shut.Load() {
		return len(p), nil
	}
	return h.Conn.Write(p)
}

func (h *hole) Read(p []byte) (n int, err error) {
	for {
		if n, err = h.Conn.Read(p); err != nil || !h.network.shut.Load() {
			return n, err
		}
	}
}

// Who is cut off knows that the lock is lost before another can have it.
func TestLockIsLostBeforeAnotherHasIt(t *testing.T) {
	for _, cut := range []bool{true, false} {
		for idle := range 4 {
			eachLock(t, func(t *testing.T, newLock func(c Client, opts ...LockOption) exclusive) {
				s := inproc.Start(t)
				way := &network{s: s}
				a, b := s.Client(t, client.Dialer(way.dial)), s.Client(t)
				first := mustLock(t, newLock(a))
				second := begin(context.Background(), newLock(b).Lock)
				pause(time.Duration(idle) * 1100 * time.Millisecond) // since it was heard of
				var lostAt time.Time
				go func() {
					<-first.Lost()
					lostAt = time.Now()
				}()
				way.shut.Store(true)
				began := time.Now()
				if cut {
					s.Cut()
				}
				<-second.done
				had := time.Now()
				synctest.Wait()
				if second.err != nil || lostAt.IsZero() || second.held.Token() <= first.Token() {
					t.Fatalf("%v; lost at %v", second.err, lostAt)
				}
				if !lostAt.Before(had) {
					t.Errorf("lost after %v, and another had it after %v", lostAt.Sub(began), had.Sub(began))
				}
				if d := lostAt.Sub(began); d < 3*time.Second || cut && d > 4*time.Second {
					t.Errorf("of a session of 10 s the lock was lost after %v", d)
				}
				if err := first.Err(); !errors.Is(err, ErrLost) {
					t.Error(err)
				}
				way.shut.Store(false)
				if err := first.Unlock(context.Background()); !errors.Is(err, ErrLost) {
					t.Error(err)
				}
				if closed(second.held.Lost()) {
					t.Error("the unlock of the first took the lock of the second")
				}
				mustUnlock(t, second.held)
			})
		}
	}
}

func TestLockOutlivesShortCuts(t *testing.T) {
	eachLock(t, func(t *testing.T, newLock func(c Client, opts ...LockOption) exclusive) {
		s := inproc.Start(t)
		h := mustLock(t, newLock(s.Client(t)))
		nervous := NewLock(s.Client(t), "/other", LoseWhenSuspended())
		n := mustLock(t, nervous)
		for range 10 {
			s.Stop()
			pause(1500 * time.Millisecond)
			s.Start()
			pause(2 * time.Second)
		}
		if closed(h.Lost()) {
			t.Error(h.Err())
		}
		mustUnlock(t, h)
		if !closed(n.Lost()) || !errors.Is(n.Unlock(context.Background()), ErrLost) {
			t.Error("LoseWhenSuspended is not heeded")
		}
		again, err := nervous.TryLock(context.Background())
		if err != nil {
			t.Fatal("a lock that was lost, but not its session, is not free after Unlock: ", err)
		}
		mustUnlock(t, again)
	})
}

// The session of a holder, and of one who waits, ends; with and without another.
func TestLockAndTheSessionsEnd(t *testing.T) {
	for _, opts := range [][]client.Option{nil, {client.NewSession()}} {
		eachLock(t, func(t *testing.T, newLock func(c Client, opts ...LockOption) exclusive) {
			s := inproc.Start(t)
			a, b, c := s.Client(t, opts...), s.Client(t, opts...), s.Client(t)
			first := mustLock(t, newLock(a))
			third := begin(context.Background(), newLock(c).Lock)
			if _, simple := newLock(b).(*SimpleLock); !simple || opts == nil { // which may wait with its new session
				second := begin(context.Background(), newLock(b).Lock)
				s.Expire(b.SessionID())
				if <-second.done; !errors.Is(second.err, zk.ErrSessionExpired) {
					t.Errorf("who waits learns of %v", second.err)
				}
			}
			if closed(third.done) || closed(first.Lost()) {
				t.Fatal("it is not the first's any more")
			}
			s.Expire(a.SessionID())
			<-third.done
			pause(2 * time.Second) // the first learns of it when it is connected again
			if third.err != nil || !closed(first.Lost()) || !errors.Is(first.Err(), zk.ErrSessionExpired) {
				t.Fatal(third.err, first.Err())
			}
			if err := first.Unlock(context.Background()); !errors.Is(err, ErrLost) || !errors.Is(err, zk.ErrSessionExpired) {
				t.Error(err)
			}
			if closed(third.held.Lost()) {
				t.Error("lost by the third")
			}
			mustUnlock(t, third.held)
			if names := left(t, c); len(names) > 0 {
				t.Errorf("%q stay", names)
			}
		})
	}
}

// Who gives up leaves nothing, with a connection and without.
func TestLockIsAbandoned(t *testing.T) {
	for _, stop := range []bool{false, true} {
		eachLock(t, func(t *testing.T, newLock func(c Client, opts ...LockOption) exclusive) {
			s := inproc.Start(t)
			a, b := s.Client(t), s.Client(t)
			h := mustLock(t, newLock(a))
			ctx, cancel := context.WithCancel(context.Background())
			p := begin(ctx, newLock(b).Lock)
			if stop {
				s.Stop()
				synctest.Wait()
			}
			cancel()
			<-p.done
			if !errors.Is(p.err, context.Canceled) {
				t.Fatal(p.err)
			}
			if stop {
				s.Start()
				pause(2 * time.Second)
			}
			mustUnlock(t, h)
			if names := left(t, a); len(names) > 0 {
				t.Errorf("%q stay", names)
			}
		})
	}
}

func TestUnlockWithAnEndedContext(t *testing.T) {
	eachLock(t, func(t *testing.T, newLock func(c Client, opts ...LockOption) exclusive) {
		s := inproc.Start(t)
		c := s.Client(t)
		h := mustLock(t, newLock(c))
		s.Stop()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := h.Unlock(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		if err := h.Unlock(ctx); !errors.Is(err, ErrNotHeld) {
			t.Error(err)
		}
		s.Start()
		if names := left(t, c); len(names) > 0 {
			t.Errorf("%q stay", names)
		}
	})
}

// An operator breaks a lock, and throws somebody out of the line.
func TestLockIsBroken(t *testing.T) {
	eachLock(t, func(t *testing.T, newLock func(c Client, opts ...LockOption) exclusive) {
		ctx := context.Background()
		s := inproc.Start(t)
		op := s.Client(t)
		first := mustLock(t, newLock(s.Client(t)))
		if l, ok := newLock(s.Client(t)).(*Lock); ok {
			second := begin(ctx, l.Lock)
			list, err := l.Contenders(ctx)
			if err != nil || len(list) != 2 {
				t.Fatal(list, err)
			}
			op.Delete(ctx, "/a/lock/"+list[1].Name, -1)
			if <-second.done; !errors.Is(second.err, ErrLost) {
				t.Error(second.err)
			}
		}
		op.Delete(ctx, first.Path(), -1)
		if !closed(first.Lost()) || errors.Is(first.Err(), zk.ErrSessionExpired) {
			t.Fatal("who lost it does not know, or not why: ", first.Err())
		}
		next := mustLock(t, newLock(op))
		if err := first.Unlock(ctx); !errors.Is(err, ErrLost) || closed(next.Lost()) {
			t.Error(err)
		}
		mustUnlock(t, next)
	})
}

// deaf is a client that is slow to read: an answer to a GetW comes when nobody
// waits for it any more.
type deaf struct{ *client.Client }

func (d deaf) GetW(ctx context.Context, path string) ([]byte, zk.Stat, *client.Watch, error) {
	<-ctx.Done()
	return nil, zk.Stat{}, nil, &client.Error{Op: "get", Path: path, Err: ctx.Err()}
}

// Unlock sees that the znode was gone, though no watch has told.
func TestUnlockOfABrokenLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		c := inproc.Start(t).Client(t)
		h := mustLock(t, NewLock(deaf{c}, "/a/lock"))
		if err := c.Delete(ctx, h.Path(), -1); err != nil {
			t.Fatal(err)
		}
		if closed(h.Lost()) {
			t.Fatal("it is told")
		}
		if err := h.Unlock(ctx); !errors.Is(err, ErrLost) {
			t.Error(err)
		}
	})
}

// A lock file that was replaced between two looks is another's.
func TestSimpleLockIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		s := inproc.Start(t)
		c := s.Client(t)
		h := mustLock(t, NewSimpleLock(c, "/a/lock"))
		txn := s.Client(t).Txn()
		txn.Delete("/a/lock", -1)
		txn.Create("/a/lock", nil, zk.Ephemeral, nil)
		if err := txn.Commit(ctx); err != nil {
			t.Fatal(err)
		}
		if !closed(h.Lost()) || !errors.Is(h.Unlock(ctx), ErrLost) {
			t.Error("it is not told")
		}
		if _, exists, err := c.Exists(ctx, "/a/lock"); !exists || err != nil {
			t.Error("the other's is gone, ", err)
		}
	})
}

// A znode of an earlier session, which may still be seen, is no lock.
func TestLockOfAnEarlierSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := inproc.Start(t).Client(t)
		if _, err := NewLock(renewed{c}, "/a/lock").Lock(context.Background()); !errors.Is(err, zk.ErrSessionExpired) {
			t.Error(err)
		}
		if names := left(t, c); len(names) > 0 {
			t.Errorf("%q stay", names)
		}
	})
}

func TestSimpleLockOfAnEarlierSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := inproc.Start(t)
		c := s.Client(t)
		s.LoseAnswer(wire.OpCreate2, 1) // the first finds no /a
		if _, err := NewSimpleLock(renewed{c}, "/a/lock").Lock(context.Background()); !errors.Is(err, zk.ErrSessionExpired) || s.Lost() != 1 {
			t.Error(err)
		}
		if names := left(t, c); len(names) > 0 {
			t.Errorf("%q stay", names)
		}
	})
}

// broken is a client whose lock file is deleted before its states are asked for.
type broken struct{ deaf }

func (b broken) States() (<-chan client.State, func()) {
	b.Delete(context.Background(), "/a/lock", -1) // that it is not there shows below
	return b.deaf.States()
}

func TestSimpleLockIsBrokenAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := inproc.Start(t).Client(t)
		if _, err := NewSimpleLock(broken{deaf{c}}, "/a/lock").Lock(context.Background()); !errors.Is(err, ErrLost) {
			t.Error(err)
		}
	})
}

// A lock file whose maker did not wait for the answer does not stay.
func TestSimpleLockIsTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := inproc.Start(t)
		c := s.Client(t)
		if err := makePath(context.Background(), c, "/a", nil); err != nil {
			t.Fatal(err)
		}
		s.LoseAnswer(wire.OpCreate2, 0)
		ctx, cancel := context.WithCancel(context.Background())
		p := begin(ctx, NewSimpleLock(slow{c}, "/a/lock").Lock)
		if cancel(); !closed(p.done) || !errors.Is(p.err, context.Canceled) {
			t.Fatal(p.err)
		}
		if names := left(t, c); len(names) > 0 || s.Lost() != 1 {
			t.Errorf("%q stay; %d answers lost", names, s.Lost())
		}
		stat, _, err := c.Exists(context.Background(), "/a")
		if err != nil || stat.Cversion != 2 {
			t.Errorf("not created and deleted: %+v, %v", stat, err)
		}
	})
}

// slow is deaf while anybody waits.
type slow struct{ *client.Client }

func (s slow) GetW(ctx context.Context, path string) ([]byte, zk.Stat, *client.Watch, error) {
	if ctx.Done() == nil {
		return s.Client.GetW(ctx, path)
	}
	return deaf(s).GetW(ctx, path)
}

func TestTryLock(t *testing.T) {
	eachLock(t, func(t *testing.T, newLock func(c Client, opts ...LockOption) exclusive) {
		ctx := context.Background()
		s := inproc.Start(t)
		a, b := s.Client(t), s.Client(t)
		h, err := newLock(a).TryLock(ctx)
		if err != nil {
			t.Fatal(err)
		}
		before, _, _ := a.Exists(ctx, "/a/lock")
		if _, err := newLock(b).TryLock(ctx); !errors.Is(err, ErrHeld) {
			t.Error(err)
		}
		if after, _, _ := a.Exists(ctx, "/a/lock"); after != before {
			t.Error("it wrote to learn that the lock is held")
		}
		mustUnlock(t, h)
		if h, err = newLock(b).TryLock(ctx); err != nil {
			t.Fatal(err)
		}
		mustUnlock(t, h)
	})
}

// counting counts the requests that matter to a herd.
type counting struct {
	*client.Client
	reads, writes *atomic.Int32
}

func (c counting) Children(ctx context.Context, path string) ([]string, zk.Stat, error) {
	c.reads.Add(1)
	return c.Client.Children(ctx, path)
}

func (c counting) GetW(ctx context.Context, path string) ([]byte, zk.Stat, *client.Watch, error) {
	c.reads.Add(1)
	return c.Client.GetW(ctx, path)
}

func (c counting) Create2(ctx context.Context, path string, data []byte, mode zk.CreateMode, acl []zk.ACL) (string, zk.Stat, error) {
	c.writes.Add(1)
	return c.Client.Create2(ctx, path, data, mode, acl)
}

// A release wakes one of many; that of a SimpleLock wakes all.
func TestNoHerd(t *testing.T) {
	const waiters = 20
	for name, want := range map[string][2]int32{"Lock": {1, 0}, "SimpleLock": {waiters, waiters}} {
		synctest.Test(t, func(t *testing.T) {
			s := inproc.Start(t)
			h := mustLock(t, locks[name](s.Client(t)))
			var reads, writes atomic.Int32
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			var all []*pending
			for range waiters {
				all = append(all, begin(ctx, locks[name](counting{s.Client(t), &reads, &writes}).Lock))
			}
			reads.Store(0)
			writes.Store(0)
			mustUnlock(t, h)
			synctest.Wait()
			got := 0
			for _, p := range all {
				if closed(p.done) {
					got++
				}
			}
			if r, w := reads.Load(), writes.Load(); got != 1 || r != want[0] || w != want[1] {
				t.Errorf("%s: %d have it after %d reads and %d creates, want %v", name, got, r, w, want)
			}
		})
	}
}

func TestReentrantLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		s := inproc.Start(t)
		c := s.Client(t)
		l, other := NewLock(c, "/a/lock", Reentrant()), NewLock(c, "/a/lock", Reentrant())
		first, second := mustLock(t, l), mustLock(t, l)
		third, err := l.TryLock(ctx)
		if err != nil || second.Token() != first.Token() || third.Path() != first.Path() {
			t.Fatal(err, second.Token(), first.Token())
		}
		mustUnlock(t, first)
		mustUnlock(t, third)
		if err := third.Unlock(ctx); !errors.Is(err, ErrNotHeld) {
			t.Error(err)
		}
		if _, err := other.TryLock(ctx); !errors.Is(err, ErrHeld) {
			t.Error("another value is another owner, not ", err)
		}
		mustUnlock(t, second)
		h := mustLock(t, other)
		waiting, behind := begin(ctx, l.Lock), begin(ctx, l.Lock)
		mustUnlock(t, h)
		<-waiting.done
		<-behind.done
		if waiting.err != nil || behind.err != nil || waiting.held.Token() != behind.held.Token() {
			t.Fatal(waiting.err, behind.err)
		}
		c.Delete(ctx, waiting.held.Path(), -1)
		if !closed(behind.held.Lost()) {
			t.Fatal("not lost")
		}
		again := mustLock(t, l)
		if again.Token() <= waiting.held.Token() {
			t.Error("a lost lock was given again")
		}
		if !errors.Is(waiting.held.Unlock(ctx), ErrLost) || !errors.Is(behind.held.Unlock(ctx), ErrLost) || closed(again.Lost()) {
			t.Error("the old holds are not lost, or the new one is")
		}
		mustUnlock(t, again)
	})
}

// Contenders of other libraries are waited for, and others' znodes are not.
func TestLockHeedsOthersNames(t *testing.T) {
	for _, name := range []string{
		"_c_0b1f8a2e-1111-2222-3333-444455556666-lock-", "lock-", "0b1f8a2e11112222333344445555666a__lock__",
		"0b1f8a2e11112222333344445555666a__rlock__", "x-__READ__", "x-__WRIT__", "guid-read-", "guid-write-",
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx := context.Background()
			s := inproc.Start(t)
			c := s.Client(t)
			for _, p := range []string{"/a", "/a/lock", "/a/lock/lease-0000000000", "/a/lock/locks"} {
				if _, err := c.Create(ctx, p, nil, zk.Persistent, nil); err != nil {
					t.Fatal(err)
				}
			}
			other, err := c.Create(ctx, "/a/lock/"+name, nil, zk.EphemeralSequential, nil)
			if err != nil {
				t.Fatal(err)
			}
			p := begin(ctx, NewLock(c, "/a/lock").Lock)
			if closed(p.done) {
				t.Fatalf("%s is not waited for: %v", name, p.err)
			}
			c.Delete(ctx, other, -1)
			if <-p.done; p.err != nil {
				t.Fatal(p.err)
			}
			mustUnlock(t, p.held)
		})
	}
}

// told is a client whose states a test tells.
type told struct {
	*client.Client
	states chan client.State
	heard  int64 // when, in milliseconds; 0 is now
}

func (c told) States() (<-chan client.State, func()) { return c.states, func() {} }
func (c told) SessionTimeout() time.Duration         { return 10 * time.Second }
func (c told) Heard() time.Time {
	if c.heard != 0 {
		return time.UnixMilli(c.heard)
	}
	return time.Now()
}

// A vigil begins when a server with a quorum answers, and counts the time since
// none does.
func TestVigil(t *testing.T) {
	for _, test := range []struct {
		states []client.State // one a second, after Suspended and Connected
		gone   int            // the second at which it is given up
		why    error
		heard  int // the second at which servers have heard of the session last; 0 if they do all the time
	}{
		{[]client.State{client.Suspended, client.Connected}, 14, errUnheard, 4},
		{[]client.State{client.Suspended}, 5, errSuspended, 0},
		{[]client.State{client.Suspended, client.ConnectedReadOnly, client.Suspended}, 5, errSuspended, 0},
		{[]client.State{client.Suspended, client.Connected, client.ConnectedReadOnly}, 7, errSuspended, 0},
		{[]client.State{client.Suspended, client.Connected}, 0, nil, 0},
		{[]client.State{client.Suspended, client.Expired}, 3, zk.ErrSessionExpired, 0},
		{[]client.State{client.Closed}, 2, client.ErrClosed, 0},
		{[]client.State{client.AuthFailed}, 2, zk.ErrAuthFailed, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			c := told{states: make(chan client.State)}
			if test.heard != 0 {
				c.heard = began.Add(time.Duration(test.heard) * time.Second).UnixMilli()
			}
			all := append([]client.State{client.ConnectedReadOnly, client.Connected}, test.states...)
			go func() {
				for _, s := range all {
					c.states <- s
					time.Sleep(time.Second)
				}
			}()
			v, err := newVigil(context.Background(), c, 3*time.Second, &claim{})
			if err != nil || time.Since(began) != time.Second {
				t.Fatal(err, time.Since(began))
			}
			defer v.stop()
			var why error
			var at time.Duration
			v.report(func(err error) { why, at = err, time.Since(began) })
			pause(20 * time.Second)
			synctest.Wait()
			if why != test.why || at != time.Duration(test.gone)*time.Second {
				t.Errorf("%v: given up after %v: %v", all, at, why)
			}
		})
	}
}

func TestSimpleLockHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		c := inproc.Start(t).Client(t)
		l := NewSimpleLock(c, "/a/lock", HolderData([]byte("me\nmyself")))
		if _, held, err := l.Holder(ctx); held || err != nil {
			t.Fatal(held, err)
		}
		h := mustLock(t, l)
		who, held, err := l.Holder(ctx)
		want := Contender{Name: "lock", Holds: true, Data: []byte("me\nmyself"), Session: h.Session(), Token: h.Token()}
		if err != nil || !held || !slices.Equal(who.Data, want.Data) || who.Session != want.Session || who.Token != want.Token || who.Name != want.Name {
			t.Errorf("%+v, %v, %v", who, held, err)
		}
		mustUnlock(t, h)
	})
}

// deafServer is a way to the server on which nothing arrives any more, though events
// still come back.
type deafServer struct {
	net.Conn
	shut *atomic.Bool
}

func (d deafServer) Write(p []byte) (int, error) {
	if d.shut.Load() {
		return len(p), nil
	}
	return d.Conn.Write(p)
}

// Who is not heard of any more knows that the lock is lost before another can have
// it, though it hears of others.
func TestLockIsLostWhenNothingArrives(t *testing.T) {
	eachLock(t, func(t *testing.T, newLock func(c Client, opts ...LockOption) exclusive) {
		ctx := context.Background()
		s := inproc.Start(t)
		var shut atomic.Bool
		a := s.Client(t, client.SessionTimeout(6*time.Second), client.Dialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := s.Dial(ctx, network, addr)
			return deafServer{conn, &shut}, err
		}))
		b := s.Client(t)
		must(t, makePath(ctx, b, "/noise", nil))
		_, err := a.AddWatch(ctx, "/noise", zk.AddWatchPersistent)
		must(t, err)
		first := mustLock(t, newLock(a))
		second := begin(ctx, newLock(b).Lock)
		shut.Store(true)
		for !closed(second.done) {
			if _, err := b.Set(ctx, "/noise", nil, -1); err != nil {
				t.Fatal(err)
			}
			pause(500 * time.Millisecond)
		}
		if second.err != nil || second.held.Token() <= first.Token() {
			t.Fatalf("the second: %v", second.err)
		}
		if !closed(first.Lost()) {
			t.Error("another has the lock, and it is not lost")
		}
		shut.Store(false)
		s.Cut()
		if err := first.Unlock(ctx); !errors.Is(err, ErrLost) {
			t.Error(err)
		}
		mustUnlock(t, second.held)
	})
}
