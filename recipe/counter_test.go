package recipe

import (
	"context"
	"errors"
	"math"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/test/inproc"
	"github.com/pinfold-zk/pinfold/zk"
)

// Each change counts once, whatever answer is lost, and though another changes the
// number between any two of them.
func TestCounterWithLostAnswers(t *testing.T) {
	sweep(t, func(t *testing.T, s *inproc.Server) {
		ctx := context.Background()
		a, b := NewCounter(s.Client(t), "/app/n", CounterOptions{}), NewCounter(s.Client(t), "/app/n", CounterOptions{})
		want := CounterValue{}
		for i := range int64(3) {
			for n, c := range []*Counter{a, b} {
				delta := 10*i + int64(n) + 1
				want = CounterValue{want.N + delta, want.Version + 1}
				if got, err := c.Add(ctx, delta); err != nil || got != want {
					t.Errorf("add %d: %+v, %v, not %+v", delta, got, err, want)
				}
			}
		}
		if got, err := a.Get(ctx); err != nil || got != want {
			t.Errorf("get: %+v, %v", got, err)
		}
		got, err := a.CompareAndSet(ctx, want, 7)
		if err != nil || got != (CounterValue{7, want.Version + 1}) {
			t.Errorf("compare and set: %+v, %v", got, err)
		}
		_, err = b.CompareAndSet(ctx, want, 8)
		wantErr(t, err, zk.ErrBadVersion)
		if got, err = b.Set(ctx, -3); err != nil || got.N != -3 {
			t.Errorf("set: %+v, %v", got, err)
		}
		must(t, a.Close(ctx))
		must(t, b.Close(ctx))
		settle()
		if names := childrenOf(t, s, "/app/n"); len(names) > 0 {
			t.Errorf("left: %q", names)
		}
	})
}

// A change whose answer is lost is found although others have changed the number
// many times since, and is not made twice.
func TestCounterAgainstManyOthers(t *testing.T) {
	for _, carriedOut := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			ctx := context.Background()
			s := inproc.Start(t)
			other := NewCounter(s.Client(t), "/n", CounterOptions{})
			m := &between{AsyncClient: s.Client(t), before: func() {
				for range 5 {
					_, err := other.Add(ctx, 100)
					must(t, err)
				}
			}}
			m.once.Do(func() {}) // not yet
			n := NewCounter(m, "/n", CounterOptions{})
			_, err := n.Add(ctx, 1)
			must(t, err)
			m.once = sync.Once{}
			if carriedOut {
				s.LoseAnswer(wire.OpMulti, 0)
			} else {
				m.before()
			}
			_, err = n.Add(ctx, 1)
			must(t, err)
			if got, err := other.Get(ctx); err != nil || got.N < 502 || got.N%100 != 2 {
				t.Errorf("the number is %+v, %v", got, err)
			}
		})
	}
}

// Many sessions add at once, while connections break and the server restarts.
func TestCounterOfManySessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		s := inproc.Start(t)
		const sessions, adds = 5, 20
		var group sync.WaitGroup
		for range sessions {
			n := NewCounter(s.Client(t), "/n", CounterOptions{})
			group.Go(func() {
				for range adds {
					if _, err := n.Add(ctx, 1); err != nil {
						t.Error(err)
					}
				}
			})
		}
		for i := range 10 {
			s.LoseAnswer(wire.OpMulti, i)
			settle()
			s.Cut()
		}
		s.Restart()
		group.Wait()
		if got, err := NewCounter(s.Client(t), "/n", CounterOptions{}).Get(ctx); err != nil || got.N != sessions*adds {
			t.Errorf("the number is %+v, %v, not %d", got, err, sessions*adds)
		}
	})
}

func TestCounterLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		s := inproc.Start(t)
		c := s.Client(t)
		n := NewCounter(c, "/n", CounterOptions{})
		for _, test := range []struct{ from, delta int64 }{{math.MaxInt64, 1}, {math.MinInt64, -1}, {-2, math.MinInt64}} {
			_, err := n.Set(ctx, test.from)
			must(t, err)
			_, err = n.Add(ctx, test.delta)
			wantErr(t, err, ErrOverflow)
		}
		_, err := c.Set(ctx, "/n", []byte("seven"), -1)
		must(t, err)
		for _, op := range []func() error{
			func() error { _, err := n.Get(ctx); return err },
			func() error { _, err := n.Add(ctx, 1); return err },
			func() error { return n.Watch(ctx, func(CounterValue) {}) },
		} {
			wantErr(t, op(), strconv.ErrSyntax)
		}
		if _, err := NewCounter(c, "/new", CounterOptions{}).CompareAndSet(ctx, CounterValue{}, 5); err != nil {
			t.Errorf("a counter that was never changed: %v", err)
		}
	})
}

// A session that ends takes its part with it; a new one of the same Client goes on.
func TestCounterAcrossSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		s := inproc.Start(t)
		c, lasting := s.Client(t), s.Client(t, client.NewSession())
		for _, tc := range []*client.Client{c, lasting} {
			n := NewCounter(tc, "/n", CounterOptions{})
			_, err := n.Add(ctx, 1)
			must(t, err)
			s.Expire(tc.SessionID())
			_, err = n.Add(ctx, 1)
			if tc == c {
				wantErr(t, err, zk.ErrSessionExpired)
			} else if err != nil && !errors.Is(err, zk.ErrSessionExpired) {
				t.Error(err)
			}
			settle()
			if _, err = n.Add(ctx, 1); (err == nil) != (tc == lasting) {
				t.Errorf("after that: %v", err)
			}
		}
		if names := childrenOf(t, s, "/n"); len(names) != 1 {
			t.Errorf("below it are %q", names)
		}
	})
}

// A change that was given up leaves no znode behind, and the next one counts.
func TestCounterGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := inproc.Start(t)
		n := NewCounter(s.Client(t), "/n", CounterOptions{})
		_, err := n.Add(context.Background(), 1)
		must(t, err)
		s.Stop()
		synctest.Wait()
		ctx, cancel := context.WithCancel(context.Background())
		added := make(chan error)
		for range 2 {
			go func() {
				_, err := n.Add(ctx, 1)
				added <- err
			}()
		}
		synctest.Wait()
		cancel()
		wantErr(t, <-added, context.Canceled)
		wantErr(t, <-added, context.Canceled)
		s.Start()
		got, err := n.Add(context.Background(), 10)
		if err != nil || got.N < 11 || got.N > 12 {
			t.Errorf("then: %+v, %v", got, err)
		}
		settle()
		if names := childrenOf(t, s, "/n"); len(names) != 1 {
			t.Errorf("below it are %q", names)
		}
	})
}

func TestCounterWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		s := inproc.Start(t)
		n, w := NewCounter(s.Client(t), "/n", CounterOptions{}), &seen{end: make(chan error, 1)}
		go func() {
			w.end <- NewCounter(s.Client(t), "/n", CounterOptions{}).Watch(ctx, func(v CounterValue) { w.add(strconv.FormatInt(v.N, 10)) })
		}()
		settle()
		for range 3 {
			_, err := n.Add(ctx, 2)
			must(t, err)
			settle()
			s.Cut()
		}
		if want := []string{"0", "0", "2", "4", "6"}; !slices.Equal(w.list, want) && !slices.Equal(w.list, want[1:]) {
			t.Errorf("saw %q", w.list)
		}
		cancel()
		wantErr(t, <-w.end, context.Canceled)
	})
}

// When the session ends, and another begins, before a lost answer can be looked for,
// the error says so.
func TestCounterOfASessionThatWasRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		s := inproc.Start(t)
		c := s.Client(t, client.NewSession())
		m := &between{AsyncClient: c, before: func() {
			s.Expire(c.SessionID())
			settle()
		}}
		m.once.Do(func() {}) // not yet
		n := NewCounter(m, "/n", CounterOptions{})
		_, err := n.Add(ctx, 1)
		must(t, err)
		m.once = sync.Once{}
		s.LoseAnswer(wire.OpMulti, 0)
		_, err = n.Add(ctx, 1)
		wantErr(t, err, zk.ErrSessionExpired)
		if e := (*client.Error)(nil); !errors.As(err, &e) || !e.Maybe {
			t.Errorf("the error does not say that it may have been added: %v", err)
		}
	})
}
