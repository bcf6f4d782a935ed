package recipe

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/test/inproc"
	"github.com/pinfold-zk/pinfold/zk"
)

// expired says what a holder may be told when its session has ended.
func expired(err error) bool {
	return errors.Is(err, zk.ErrSessionExpired) || errors.Is(err, ErrLeaseLost)
}

// Holders lose their sessions again and again. Each item is acknowledged once;
// who takes gets each at most once, and of the items that nobody got there are not
// more than sessions that have ended.
func TestQueueHoldersDie(t *testing.T) {
	for _, lease := range []bool{true, false} {
		for seed := range uint64(3) {
			synctest.Test(t, func(t *testing.T) { holdersDie(t, lease, seed) })
		}
	}
}

func holdersDie(t *testing.T, lease bool, seed uint64) {
	const items, holders = 60, 4
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s := inproc.Start(t)
	source := NewQueue(s.Client(t), "/queue", QueueOptions{})
	for i := range items {
		putAll(t, source, fmt.Sprint(i))
	}
	var mu sync.Mutex
	finished := map[string]int{}
	work := func(q *Queue, rng *rand.Rand) error {
		pause := func() { time.Sleep(time.Duration(rng.IntN(30)) * time.Millisecond) }
		var item []byte
		var err error
		if lease {
			var l *Lease
			if l, err = q.Lease(ctx); err == nil {
				pause()
				item, err = l.Data(), l.Ack(ctx)
			}
		} else {
			item, err = q.Take(ctx)
			pause()
		}
		if err == nil {
			mu.Lock()
			finished[string(item)]++
			mu.Unlock()
		}
		return err
	}
	var group sync.WaitGroup
	var clients []*client.Client
	for k := range holders {
		c := s.Client(t, client.NewSession())
		clients = append(clients, c)
		rng := rand.New(rand.NewPCG(seed, uint64(k)))
		group.Go(func() {
			for q := NewQueue(c, "/queue", QueueOptions{}); ctx.Err() == nil; {
				if err := work(q, rng); err != nil && ctx.Err() == nil && !expired(err) {
					t.Error(err)
				}
			}
		})
	}
	rng := rand.New(rand.NewPCG(seed, 99))
	ended := map[zk.SessionID]bool{0: true} // which is that of none
	for left := items; left > 0; {
		time.Sleep(time.Duration(rng.IntN(60)) * time.Millisecond)
		if id := clients[rng.IntN(holders)].SessionID(); !ended[id] {
			ended[id] = true
			s.Expire(id)
			synctest.Wait()
		}
		var err error
		left, err = source.Size(ctx)
		must(t, err)
	}
	settle()
	cancel()
	group.Wait()
	missing := 0
	for i := range items {
		switch n := finished[fmt.Sprint(i)]; {
		case n > 1:
			t.Errorf("seed %d: item %d was finished %d times", seed, i, n)
		case n == 0:
			missing++
		}
	}
	if missing >= len(ended) || lease && missing > 0 {
		t.Errorf("seed %d: %d items are missing, %d sessions have ended", seed, missing, len(ended)-1)
	}
}

// When a session ends before it is known whether its request was carried out,
// nobody knows, and the error says so: a new session does not try again.
func TestQueueSessionEndsWhileInDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		s := inproc.Start(t)
		g := &gate{s: s}
		c := s.Client(t, client.Dialer(g.dial), client.NewSession())
		q := NewQueue(c, "/queue", QueueOptions{})
		doubt := func(f func() error) {
			t.Helper()
			s.LoseAnswer(wire.OpMulti, 0)
			g.shut.Store(true)
			failed := make(chan error)
			go func() { failed <- f() }()
			settle()
			s.Expire(c.SessionID())
			g.shut.Store(false)
			wantErr(t, <-failed, zk.ErrSessionExpired)
			settle()
		}
		putAll(t, q, "1")
		doubt(func() error { return q.Put(ctx, []byte("2")) })
		putAll(t, q, "3")
		if n, err := q.Size(ctx); n != 3 || err != nil {
			t.Errorf("%d items, %v", n, err)
		}
		doubt(func() error {
			_, err := q.Take(ctx)
			return err
		})
		if items := takeAll(t, q); len(items) != 2 || items[0] != "2" {
			t.Errorf("left: %v", items)
		}
	})
}

// The same when the new session is there before the request is repeated.
func TestQueueSessionEndsBeforeTheRepetition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		s := inproc.Start(t)
		g := &gate{s: s}
		c := s.Client(t, client.Dialer(g.dial), client.NewSession())
		calls := 0
		q := NewQueue(hooked{c, func() {
			if calls++; calls == 3 {
				s.Expire(c.SessionID())
				g.shut.Store(false)
				settle()
			}
		}}, "/queue", QueueOptions{})
		putAll(t, q, "1")
		s.LoseAnswer(wire.OpMulti, 0)
		g.shut.Store(true)
		wantErr(t, q.Put(ctx, []byte("2")), zk.ErrSessionExpired)
		if n, err := q.Size(ctx); n != 2 || err != nil || calls != 3 {
			t.Errorf("%d items, %v; %d transactions", n, err, calls)
		}
	})
}
