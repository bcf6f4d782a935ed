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

func TestParseItem(t *testing.T) {
	for name, want := range map[string]rank{
		"queue-0000000012":     {0, 12},
		"queue--2147483648":    {0, -1 << 31},
		"queue-05-0000000012":  {5, 12},
		"queue-123-2147483647": {123, 1<<31 - 1},
		"queue-05--2147483648": {5, -1 << 31},
	} {
		if r, ok := parseItem(name); !ok || r != want {
			t.Errorf("%s: %v, %v", name, r, ok)
		}
	}
	for _, name := range []string{"", "queue-", "queue-12", "lease-queue-0000000012", "queue-x-0000000012", "queue-5-", "queue-99999999999-0000000012"} {
		if r, ok := parseItem(name); ok {
			t.Errorf("%s is an item: %v", name, r)
		}
	}
	got := queued([]string{"queue--2147483648", "markers", "queue-01-2147483647", "queue-01--2147483648", "queue-2147483647", "lease-queue-2147483647"})
	if want := []string{"queue-2147483647", "queue--2147483648", "queue-01-2147483647", "queue-01--2147483648"}; !slices.Equal(got, want) {
		t.Errorf("in order: %v", got)
	}
}

func putAll(t *testing.T, q *Queue, items ...string) {
	t.Helper()
	for _, item := range items {
		must(t, q.Put(context.Background(), []byte(item)))
	}
}

func takeAll(t *testing.T, q *Queue) (items []string) {
	t.Helper()
	for {
		item, ok, err := q.TryTake(context.Background())
		must(t, err)
		if !ok {
			return items
		}
		items = append(items, string(item))
	}
}

func TestQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		s := inproc.Start(t)
		a, b := NewQueue(s.Client(t), "/app/queue", QueueOptions{}), NewQueue(s.Client(t), "/app/queue", QueueOptions{})
		if items := takeAll(t, b); items != nil {
			t.Fatal(items)
		}
		taken := make(chan string)
		go func() {
			item, err := b.Take(ctx)
			if err != nil {
				t.Error(err)
			}
			taken <- string(item)
		}()
		synctest.Wait()
		s.Restart()
		time.Sleep(5 * time.Second)
		putAll(t, a, "1", "2", "3")
		if item := <-taken; item != "1" {
			t.Error("taken first:", item)
		}
		if n, err := b.Size(ctx); n != 2 || err != nil {
			t.Error(n, err)
		}
		putAll(t, b, "4")
		if items := takeAll(t, a); !slices.Equal(items, []string{"2", "3", "4"}) {
			t.Error(items)
		}
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if _, err := a.Take(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}

// queueOps are the requests that queues make.
var queueOps = []wire.OpCode{wire.OpMulti, wire.OpCreate, wire.OpGetChildren2, wire.OpGetData, wire.OpExists, wire.OpSync}

// Whichever answer is lost, every item is put once and taken once, in order.
func TestQueueLostAnswers(t *testing.T) {
	happened := map[wire.OpCode]int{}
	for _, max := range []int{0, 3} {
		for _, op := range queueOps {
			for skip := range 8 {
				synctest.Test(t, func(t *testing.T) {
					ctx := context.Background()
					s := inproc.Start(t)
					q := NewQueue(s.Client(t), "/app/queue", QueueOptions{MaxSize: max})
					s.LoseAnswer(op, skip)
					putAll(t, q, "1", "2", "3")
					first, err := q.Lease(ctx)
					must(t, err)
					second, err := q.TryLease(ctx)
					must(t, err)
					must(t, second.Ack(ctx))
					must(t, first.Release(ctx))
					if items := takeAll(t, q); !slices.Equal(items, []string{"1", "3"}) || string(second.Data()) != "2" {
						t.Errorf("answer %d of %v lost: %v taken, %s leased", skip, op, items, second.Data())
					}
					happened[op] += s.Lost()
				})
			}
		}
	}
	for _, op := range queueOps {
		if happened[op] == 0 {
			t.Errorf("no answer of %v was lost", op)
		}
	}
}

// Many put and take while connections break and the server restarts: each item is
// taken once.
func TestQueueUnderFaults(t *testing.T) {
	for seed := range uint64(3) {
		synctest.Test(t, func(t *testing.T) {
			const producers, takers, each = 3, 4, 40
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			s := inproc.Start(t)
			var mu sync.Mutex
			got := map[string]int{}
			var group, drains sync.WaitGroup
			for p := range producers {
				q := NewQueue(s.Client(t), "/queue", QueueOptions{MaxSize: 10 * int(seed)})
				group.Go(func() {
					for i := range each {
						if err := q.Put(ctx, fmt.Appendf(nil, "%d %d", p, i)); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			var n atomic.Int32
			for k := range takers {
				q := NewQueue(s.Client(t), "/queue", QueueOptions{})
				drains.Go(func() {
					for {
						item, err := takeOrLease(ctx, q, k%2 == 0)
						if errors.Is(err, context.Canceled) {
							return
						} else if err != nil {
							t.Error(err)
							return
						}
						mu.Lock()
						got[string(item)]++
						mu.Unlock()
						n.Add(1)
					}
				})
			}
			drains.Go(func() {
				rng := rand.New(rand.NewPCG(seed, 1))
				for i := 0; n.Load() < producers*each && i < 2000; i++ {
					time.Sleep(time.Duration(rng.IntN(40)) * time.Millisecond)
					switch rng.IntN(6) {
					case 0:
						s.Cut()
					case 1:
						s.Restart()
					default:
						s.LoseAnswer(queueOps[rng.IntN(len(queueOps))], rng.IntN(10))
					}
				}
				cancel()
			})
			group.Wait()
			drains.Wait()
			for p := range producers {
				for i := range each {
					if k := fmt.Sprintf("%d %d", p, i); got[k] != 1 {
						t.Errorf("seed %d: item %s was taken %d times", seed, k, got[k])
					}
				}
			}
		})
	}
}

func takeOrLease(ctx context.Context, q *Queue, lease bool) ([]byte, error) {
	if !lease {
		return q.Take(ctx)
	}
	l, err := q.Lease(ctx)
	if err != nil {
		return nil, err
	}
	return l.Data(), l.Ack(ctx)
}

// The items of a holder that dies come to another, those of one that has
// acknowledged do not.
func TestLeaseOfTheDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		s := inproc.Start(t)
		c := s.Client(t)
		dying, other := NewQueue(c, "/queue", QueueOptions{}), NewQueue(s.Client(t), "/queue", QueueOptions{})
		putAll(t, dying, "1", "2", "3")
		var leases []*Lease
		for range 3 {
			l, err := dying.Lease(ctx)
			must(t, err)
			leases = append(leases, l)
		}
		must(t, leases[1].Ack(ctx))
		if items := takeAll(t, other); items != nil {
			t.Errorf("taken though leased: %v", items)
		}
		waiting := make(chan *Lease)
		go func() {
			l, err := other.Lease(ctx)
			if err != nil {
				t.Error(err)
			}
			waiting <- l
		}()
		synctest.Wait()
		select {
		case <-leases[0].Lost():
			t.Error("lost too early")
		default:
		}
		s.Expire(c.SessionID())
		l := <-waiting
		if string(l.Data()) != "1" || l.Token() <= leases[0].Token() {
			t.Errorf("%s with token %v after %v", l.Data(), l.Token(), leases[0].Token())
		}
		<-leases[0].Lost()
		if err := leases[0].Ack(ctx); !errors.Is(err, zk.ErrSessionExpired) {
			t.Error(err)
		}
		must(t, l.Ack(ctx))
		<-l.Lost()
		if err := l.Ack(ctx); !errors.Is(err, ErrLeaseLost) {
			t.Error(err)
		}
		if items := takeAll(t, other); !slices.Equal(items, []string{"3"}) {
			t.Error(items)
		}
	})
}

// A client that has begun a new session does not acknowledge a lease of the one
// before, though the item be leased again.
func TestLeaseOfAnEarlierSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		s := inproc.Start(t)
		c := s.Client(t, client.NewSession())
		q := NewQueue(c, "/queue", QueueOptions{})
		putAll(t, q, "1")
		old, err := q.Lease(ctx)
		must(t, err)
		s.Expire(c.SessionID())
		<-old.Lost()
		time.Sleep(5 * time.Second)
		l, err := q.Lease(ctx)
		must(t, err)
		if err := old.Ack(ctx); !errors.Is(err, ErrLeaseLost) {
			t.Error(err)
		}
		must(t, l.Ack(ctx))
	})
}

// gate is a dialler that can be shut.
type gate struct {
	s    *inproc.Server
	shut atomic.Bool
}

func (g *gate) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if g.shut.Load() {
		return nil, errors.New("shut")
	}
	return g.s.Dial(ctx, network, addr)
}

// What a Take removes whose context ends before the answer comes is given to the
// next; a lease is released; and without a connection the context's end is heard.
func TestQueueContextEndsWhileInDoubt(t *testing.T) {
	for _, lease := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := inproc.Start(t)
			g := &gate{s: s}
			c := s.Client(t, client.Dialer(g.dial), client.SessionTimeout(20*time.Second))
			q := NewQueue(c, "/queue", QueueOptions{})
			putAll(t, q, "1", "2")
			s.LoseAnswer(wire.OpMulti, 0)
			g.shut.Store(true)
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			if item, err := takeOrLease(ctx, q, lease); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("%s, %v", item, err)
			}
			g.shut.Store(false)
			ctx = context.Background()
			if item, err := takeOrLease(ctx, q, false); err != nil || !lease && string(item) != "1" && string(item) != "2" {
				t.Errorf("%s, %v", item, err)
			}
			time.Sleep(5 * time.Second)
			if items := takeAll(t, q); len(items) != 1 {
				t.Errorf("left: %v", items)
			}
		})
	}
}

func TestQueueBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const bound, producers, each = 4, 8, 10
		ctx := context.Background()
		s := inproc.Start(t)
		opts := QueueOptions{MaxSize: bound}
		var group sync.WaitGroup
		for range producers {
			q := NewQueue(s.Client(t), "/queue", opts)
			group.Go(func() {
				for i := range each {
					if err := q.Put(ctx, []byte{byte(i)}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		taker := NewQueue(s.Client(t), "/queue", opts)
		for range producers*each - bound {
			synctest.Wait()
			if n, err := taker.Size(ctx); n != bound || err != nil {
				t.Fatalf("%d items, %v; the bound is %d", n, err, bound)
			}
			if err := taker.TryPut(ctx, nil); !errors.Is(err, ErrFull) {
				t.Fatal(err)
			}
			if _, err := taker.Take(ctx); err != nil {
				t.Fatal(err)
			}
		}
		group.Wait()
		if items := takeAll(t, taker); len(items) != bound {
			t.Error(items)
		}
		must(t, taker.TryPut(ctx, nil))
	})
}

func TestPriorityQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		s := inproc.Start(t)
		a, b := NewPriorityQueue(s.Client(t), "/queue", QueueOptions{}), NewPriorityQueue(s.Client(t), "/queue", QueueOptions{})
		take := func(want string) {
			t.Helper()
			if item, err := b.Take(ctx); err != nil || string(item) != want {
				t.Errorf("%s, %v; want %s", item, err, want)
			}
		}
		for i, p := range []int{10, 9, 1000, 9} {
			must(t, a.Put(ctx, p, fmt.Appendf(nil, "%d of %d", i, p)))
		}
		take("1 of 9")
		must(t, a.Put(ctx, 0, []byte("urgent")))
		must(t, retry(ctx, func() error { return b.items.client.Sync(ctx, "/") }))
		take("urgent")
		l, err := b.Lease(ctx)
		must(t, err)
		take("0 of 10")
		must(t, l.Release(ctx))
		take("3 of 9")
		take("2 of 1000")
		if l, err := b.TryLease(ctx); l != nil || err != nil {
			t.Error(l, err)
		}
		for _, p := range []int{-1, 1 << 31} {
			if err := a.TryPut(ctx, p, nil); !errors.Is(err, zk.ErrBadArguments) {
				t.Error(err)
			}
		}
		if n, err := a.Size(ctx); n != 0 || err != nil {
			t.Error(n, err)
		}
	})
}

// lagging is a client that has moved to a server which has not yet applied its last
// change, until there is a sync.
type lagging struct {
	*client.Client
	synced atomic.Bool
}

func (l *lagging) Exists(ctx context.Context, path string) (zk.Stat, bool, error) {
	stat, exists, err := l.Client.Exists(ctx, path)
	if !l.synced.Load() {
		stat.Version--
	}
	return stat, exists, err
}

func (l *lagging) Sync(ctx context.Context, path string) error {
	err := l.Client.Sync(ctx, path)
	l.synced.Store(err == nil)
	return err
}

// What a Take has removed whose context has ended is found, too, when the connection
// that comes next is one to a server that lags.
func TestQueueContextEndsAndTheNextServerLags(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := inproc.Start(t)
		g := &gate{s: s}
		c := &lagging{Client: s.Client(t, client.Dialer(g.dial), client.SessionTimeout(20*time.Second))}
		q := NewQueue(c, "/queue", QueueOptions{})
		putAll(t, q, "1", "2")
		s.LoseAnswer(wire.OpMulti, 0)
		g.shut.Store(true)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if item, err := q.Take(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("%s, %v", item, err)
		}
		g.shut.Store(false)
		settle()
		for _, want := range []string{"1", "2"} {
			if item, ok, err := q.TryTake(context.Background()); err != nil || string(item) != want {
				t.Errorf("%q, %v, %v instead of %s", item, ok, err, want)
			}
		}
	})
}

// An Ack or a Release that was cut off by its context, and is called again, ends no
// lease but its own: another may have the item by then.
func TestLeaseIsEndedOnce(t *testing.T) {
	type end = func(l *Lease, ctx context.Context) error
	for _, x := range []struct {
		name          string
		first, second end
		want          error
	}{
		{"Release, Release", (*Lease).Release, (*Lease).Release, nil},
		{"Release, Ack", (*Lease).Release, (*Lease).Ack, ErrLeaseLost},
		{"Ack, Ack", (*Lease).Ack, (*Lease).Ack, nil},
		{"Ack, Release", (*Lease).Ack, (*Lease).Release, ErrLeaseLost},
	} {
		for _, sent := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, sent %v", x.name, sent), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := inproc.Start(t)
					g := &gate{s: s}
					c := s.Client(t, client.Dialer(g.dial), client.SessionTimeout(20*time.Second))
					q, other := NewQueue(c, "/queue", QueueOptions{}), NewQueue(s.Client(t), "/queue", QueueOptions{})
					putAll(t, q, "1")
					l, err := q.Lease(t.Context())
					must(t, err)
					g.shut.Store(true)
					if sent {
						s.LoseAnswer(wire.OpMulti, 0)
					} else {
						s.Cut() // it is sent when there is a connection again
					}
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					defer cancel()
					wantErr(t, x.first(l, ctx), context.DeadlineExceeded)
					theirs, err := other.TryLease(t.Context())
					must(t, err)
					g.shut.Store(false)
					if err := x.second(l, t.Context()); !errors.Is(err, x.want) {
						t.Errorf("the second: %v, want %v", err, x.want)
					}
					wantErr(t, x.second(l, t.Context()), ErrLeaseLost)
					if theirs != nil {
						must(t, theirs.Ack(t.Context()))
					}
				})
			})
		}
	}
}
