package recipe

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/test/inproc"
	"github.com/pinfold-zk/pinfold/zk"
)

func TestBarrier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		s := inproc.Start(t)
		owner := NewBarrier(s.Client(t), "/app/barrier", BarrierOptions{})
		must(t, owner.Wait(ctx)) // there is none
		must(t, owner.Close(ctx))
		must(t, owner.Close(ctx))
		var passed atomic.Int32
		for range 5 {
			b := NewBarrier(s.Client(t), "/app/barrier", BarrierOptions{})
			go func() {
				if err := b.Wait(ctx); err != nil {
					t.Error(err)
				}
				passed.Add(1)
			}()
		}
		synctest.Wait()
		for _, disturb := range []func(){s.Cut, s.Restart} {
			disturb()
			time.Sleep(5 * time.Second)
			synctest.Wait()
			if closed, err := owner.Closed(ctx); !closed || err != nil || passed.Load() != 0 {
				t.Fatalf("closed: %v, %v; %d passed", closed, err, passed.Load())
			}
		}
		must(t, owner.Open(ctx))
		synctest.Wait()
		if passed.Load() != 5 {
			t.Errorf("%d of 5 passed", passed.Load())
		}
		must(t, owner.Open(ctx))
	})
}

// A lost answer changes nothing, whichever it is.
func TestBarrierLostAnswers(t *testing.T) {
	for _, op := range []wire.OpCode{wire.OpCreate, wire.OpDelete, wire.OpSync, wire.OpExists} {
		synctest.Test(t, func(t *testing.T) {
			ctx := context.Background()
			s := inproc.Start(t)
			b := NewBarrier(s.Client(t), "/app/barrier", BarrierOptions{})
			s.LoseAnswer(op, 0)
			must(t, b.Close(ctx))
			passed := make(chan error)
			go func() { passed <- b.Wait(ctx) }()
			synctest.Wait()
			select {
			case err := <-passed:
				t.Fatalf("%v: passed a closed barrier: %v", op, err)
			default:
			}
			must(t, b.Open(ctx))
			must(t, <-passed)
			if s.Lost() != 1 {
				t.Errorf("%v: %d answers lost", op, s.Lost())
			}
		})
	}
}

func TestBarrierEndsWithContextAndSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := inproc.Start(t)
		c := s.Client(t)
		b := NewBarrier(c, "/barrier", BarrierOptions{})
		must(t, b.Close(context.Background()))
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := b.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		passed := make(chan error)
		go func() { passed <- b.Wait(context.Background()) }()
		synctest.Wait()
		s.Expire(c.SessionID())
		if err := <-passed; !errors.Is(err, zk.ErrSessionExpired) {
			t.Error(err)
		}
		if closed, err := NewBarrier(s.Client(t), "/barrier", BarrierOptions{}).Closed(context.Background()); !closed || err != nil {
			t.Errorf("closed: %v, %v", closed, err)
		}
	})
}
