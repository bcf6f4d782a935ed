package recipe

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/test/inproc"
	"github.com/pinfold-zk/pinfold/zk"
)

func semaphoreOf(c Client, leases int) *Semaphore {
	return NewSemaphore(c, "/app/sem", leases, SemaphoreOptions{})
}

// holders are the data of those who have leases.
func holders(t *testing.T, s *Semaphore) (list []string) {
	t.Helper()
	hs, err := s.Holders(context.Background())
	must(t, err)
	for _, h := range hs {
		list = append(list, string(h.Data))
	}
	return list
}

func TestSemaphoreWithLostAnswers(t *testing.T) {
	sweep(t, func(t *testing.T, s *inproc.Server) {
		ctx := context.Background()
		a, b, c := semaphoreOf(s.Client(t), 2), semaphoreOf(s.Client(t), 2), semaphoreOf(s.Client(t), 2)
		if got := holders(t, a); len(got) > 0 {
			t.Errorf("holders before: %q", got)
		}
		l1, err := a.Acquire(ctx, []byte("1"))
		must(t, err)
		l2, err := b.Acquire(ctx, []byte("2"))
		must(t, err)
		if _, ok, err := c.TryAcquire(ctx, nil); ok || err != nil {
			t.Errorf("a third lease: %v, %v", ok, err)
		}
		got := make(chan *SemaphoreLease, 1)
		go func() {
			l3, err := c.Acquire(ctx, []byte("3"))
			if err != nil {
				t.Error(err)
			}
			got <- l3
		}()
		settle()
		if h := holders(t, a); !slices.Equal(h, []string{"1", "2"}) {
			t.Errorf("holders: %q", h)
		}
		must(t, l1.Release(ctx))
		l3 := <-got
		if h := holders(t, b); !slices.Equal(h, []string{"2", "3"}) || l3.Zxid() <= l2.Zxid() {
			t.Errorf("holders: %q, zxids %v, %v", h, l2.Zxid(), l3.Zxid())
		}
		if !isLost(l1.hold) || isLost(l2.hold) || isLost(l3.hold) {
			t.Error("what was released is lost, the others are not")
		}
		must(t, l2.Release(ctx))
		must(t, l3.Release(ctx))
		l4, ok, err := a.TryAcquire(ctx, nil)
		if !ok || err != nil {
			t.Fatalf("try: %v, %v", ok, err)
		}
		must(t, l4.Release(ctx))
		settle()
		if left := append(childrenOf(t, s, "/app/sem"), childrenOf(t, s, "/app/sem-__lock__")...); len(left) > 0 {
			t.Errorf("left: %q", left)
		}
	})
}

// There are never more leases than there may be, though connections break,
// sessions end, callers give up and the server restarts; and in the end all get one.
func TestSemaphoreUnderFire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := inproc.Start(t)
		const leases, sessions, rounds = 3, 8, 6
		var group sync.WaitGroup
		var mu sync.Mutex
		held, most, served := 0, 0, 0
		count := func(d int) {
			mu.Lock()
			defer mu.Unlock()
			held += d
			most = max(most, held)
			if d > 0 {
				served++
			}
		}
		for i := range sessions {
			c := s.Client(t)
			sem := semaphoreOf(c, leases)
			group.Go(func() {
				for round := range rounds {
					ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
					if (i+round)%4 == 0 {
						ctx, cancel = context.WithTimeout(context.Background(), 3*time.Second) // may be too short
					}
					l, err := sem.Acquire(ctx, nil)
					cancel()
					if errors.Is(err, context.DeadlineExceeded) {
						continue
					} else if err != nil {
						t.Errorf("session %d: %v", i, err)
						return
					}
					count(1)
					time.Sleep(time.Second)
					count(-1)
					if err := l.Release(context.Background()); err != nil {
						t.Errorf("session %d: %v", i, err)
					}
				}
			})
		}
		watcher := semaphoreOf(s.Client(t), leases)
		victim := s.Client(t)
		for i := range 12 {
			switch i % 4 {
			case 0:
				s.Cut()
			case 1:
				s.LoseAnswer(wire.OpMulti, 1)
			case 2:
				s.Restart()
			case 3:
				l, err := semaphoreOf(victim, leases).Acquire(context.Background(), []byte("victim"))
				must(t, err)
				count(1)
				s.Expire(victim.SessionID())
				count(-1) // its lease was deleted at the latest now
				<-l.Lost()
				victim = s.Client(t)
			}
			settle()
			if n := len(holders(t, watcher)); n > leases {
				t.Errorf("%d leases of %d", n, leases)
			}
		}
		group.Wait()
		settle()
		// A lease may have been given to another between Expire's deletion and count.
		if most > leases+1 || served < sessions*rounds/2 {
			t.Errorf("at most %d held at a time, %d served", most, served)
		}
		if left := append(childrenOf(t, s, "/app/sem"), childrenOf(t, s, "/app/sem-__lock__")...); len(left) > 0 {
			t.Errorf("left: %q", left)
		}
	})
}

// The lease of a killed holder goes to who waits.
func TestSemaphoreOfAKilledHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		s := inproc.Start(t)
		killed, c := s.Client(t), s.Client(t)
		l, err := semaphoreOf(killed, 1).Acquire(ctx, nil)
		must(t, err)
		got := make(chan error, 1)
		go func() {
			_, err := semaphoreOf(c, 1).Acquire(ctx, nil)
			got <- err
		}()
		settle()
		s.Expire(killed.SessionID())
		must(t, <-got)
		<-l.Lost()
		_, err = semaphoreOf(killed, 1).Acquire(ctx, nil)
		wantErr(t, err, zk.ErrSessionExpired)
	})
}

// Who gives up, first in line or behind, leaves nothing in the way.
func TestSemaphoreGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := inproc.Start(t)
		l, err := semaphoreOf(s.Client(t), 1).Acquire(context.Background(), nil)
		must(t, err)
		ctx, cancel := context.WithCancel(context.Background())
		ends := make(chan error, 2)
		for range 2 {
			c := s.Client(t)
			go func() {
				_, err := semaphoreOf(c, 1).Acquire(ctx, nil)
				ends <- err
			}()
		}
		settle()
		s.Stop()
		synctest.Wait()
		cancel()
		wantErr(t, <-ends, context.Canceled)
		wantErr(t, <-ends, context.Canceled)
		s.Start()
		settle()
		must(t, l.Release(context.Background()))
		if left := append(childrenOf(t, s, "/app/sem"), childrenOf(t, s, "/app/sem-__lock__")...); len(left) > 0 {
			t.Errorf("left: %q", left)
		}
	})
}

// A place in the line that is gone gives no lease: not in a new session, nor when
// somebody has deleted it.
func TestSemaphoreWithoutItsPlace(t *testing.T) {
	for _, expired := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			ctx := context.Background()
			s := inproc.Start(t)
			c := s.Client(t, client.NewSession())
			l, err := semaphoreOf(s.Client(t), 1).Acquire(ctx, nil)
			must(t, err)
			got := make(chan error, 1)
			go func() {
				_, err := semaphoreOf(c, 1).Acquire(ctx, nil)
				got <- err
			}()
			settle()
			want := error(zk.ErrSessionExpired)
			if expired {
				s.Expire(c.SessionID())
			} else {
				want = zk.ErrNoNode
				must(t, s.Client(t).Delete(ctx, "/app/sem-__lock__/"+childrenOf(t, s, "/app/sem-__lock__")[0], -1))
			}
			must(t, l.Release(ctx))
			wantErr(t, <-got, want)
			settle()
			if left := childrenOf(t, s, "/app/sem"); len(left) > 0 {
				t.Errorf("left: %q", left)
			}
		})
	}
}

func TestSemaphoreNumberOfLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		s := inproc.Start(t)
		c := s.Client(t)
		_, err := semaphoreOf(c, 0).Acquire(ctx, nil)
		if err == nil || !strings.Contains(err.Error(), "0 leases") {
			t.Errorf("a semaphore of none: %v", err)
		}
		l, err := semaphoreOf(c, 2).Acquire(ctx, nil)
		must(t, err)
		must(t, l.Release(ctx))
		_, err = semaphoreOf(c, 3).Acquire(ctx, nil)
		wantErr(t, err, ErrLeases)
		_, err = c.Set(ctx, "/app/sem", nil, -1) // as kazoo has it for a moment
		must(t, err)
		_, err = semaphoreOf(c, 3).Acquire(ctx, nil)
		must(t, err)
	})
}

// Without a connection a lease is lost before its session can end.
func TestSemaphoreLeaseIsLostInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		s := inproc.Start(t)
		c := s.Client(t, client.SessionTimeout(9*time.Second))
		l, err := semaphoreOf(c, 1).Acquire(ctx, nil)
		must(t, err)
		s.Restart()
		time.Sleep(time.Minute)
		synctest.Wait()
		select {
		case <-l.Lost():
			t.Fatal("lost by a restart")
		default:
		}
		s.Stop()
		start := time.Now()
		<-l.Lost()
		if after := time.Since(start); after > 9*time.Second/3 {
			t.Errorf("lost after %v", after)
		}
		s.Start()
		must(t, l.Release(ctx))
		if left := childrenOf(t, s, "/app/sem"); len(left) > 0 {
			t.Errorf("left: %q", left)
		}
	})
}

// interloper is a Client before whose next transaction something else happens.
type interloper struct {
	AsyncClient
	before func()
}

func (c *interloper) Txn() *client.Txn {
	c.before()
	return c.AsyncClient.Txn()
}

// A place that is lost at the last moment gives no lease either.
func TestSemaphorePlaceLostAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		s := inproc.Start(t)
		other := s.Client(t)
		c := &interloper{s.Client(t), func() {
			for _, place := range childrenOf(t, s, "/app/sem-__lock__") {
				must(t, other.Delete(ctx, "/app/sem-__lock__/"+place, -1))
			}
		}}
		_, err := semaphoreOf(c, 1).Acquire(ctx, nil)
		wantErr(t, err, zk.ErrNoNode)
		if left := childrenOf(t, s, "/app/sem"); len(left) > 0 {
			t.Errorf("left: %q", left)
		}
	})
}

// TryAcquire overtakes nobody: it waits for who is in front, as long as there is a
// free lease.
func TestSemaphoreTryKeepsTheLine(t *testing.T) {
	for _, taken := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			ctx := context.Background()
			s := inproc.Start(t)
			slow, c := s.Client(t), s.Client(t)
			_, err := slow.Create(ctx, "/app", nil, zk.Persistent, nil)
			must(t, err)
			_, err = slow.Create(ctx, "/app/sem-__lock__", nil, zk.Persistent, nil)
			must(t, err)
			place, err := slow.Create(ctx, "/app/sem-__lock__/slow__lock__", nil, zk.EphemeralSequential, nil)
			must(t, err)
			tried := make(chan bool, 1)
			go func() {
				_, ok, err := semaphoreOf(c, 1).TryAcquire(ctx, nil)
				if err != nil {
					t.Error(err)
				}
				tried <- ok
			}()
			settle()
			if len(tried) > 0 {
				t.Fatal("it has not waited")
			}
			if taken {
				_, err = slow.Create(ctx, "/app/sem/slow", nil, zk.Ephemeral, nil)
			} else {
				err = slow.Delete(ctx, place, -1)
			}
			must(t, err)
			if ok := <-tried; ok == taken {
				t.Errorf("a lease: %v, though taken by the other: %v", ok, taken)
			}
		})
	}
}
