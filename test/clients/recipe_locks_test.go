package clients

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/recipe"
	"github.com/pinfold-zk/pinfold/zk"
)

// mortal is the session of a client that will be killed: others need not wait long. It outlives a
// busy machine that stands still.
var mortal = client.SessionTimeout(5 * time.Second)

// A locking is a way for a client to hold something that nobody else holds.
type locking func(c *client.Client) func(ctx context.Context) (*recipe.Held, error)

func simpleLocking(c *client.Client) func(context.Context) (*recipe.Held, error) {
	return recipe.NewSimpleLock(c, "/lock").Lock
}

func lineLocking(c *client.Client) func(context.Context) (*recipe.Held, error) {
	return recipe.NewLock(c, "/lock").Lock
}

func kazooLocking(c *client.Client) func(context.Context) (*recipe.Held, error) {
	return recipe.NewLock(c, "/lock", recipe.UseNames(recipe.KazooNames)).Lock
}

func writeLocking(c *client.Client) func(context.Context) (*recipe.Held, error) {
	return recipe.NewRWLock(c, "/lock").Lock
}

func revocableLocking(c *client.Client) func(context.Context) (*recipe.Held, error) {
	return recipe.NewRevocableLock(c, "/lock").Lock
}

// exclusive has a client die that holds a lock, and others take turns, some of
// them cut off now and then, while a server is restarted. Two never hold it, and
// each holder's token is newer than those before.
func exclusive(lock locking) func(t *testing.T, e *Env) {
	return func(t *testing.T, e *Env) {
		const workers, turns = 4, 6
		ctx := e.Context()
		victim := e.Client(mortal)
		first, err := lock(victim)(ctx)
		must(t, err)
		e.Hold(victim)
		var inside atomic.Int32
		var newest atomic.Int64
		newest.Store(int64(first.Token()))
		half := make(chan struct{}, workers)
		turn := func(c *client.Client, i int) error {
			held, err := lock(c)(ctx)
			if err != nil {
				return fmt.Errorf("lock: %w", err)
			}
			if n := inside.Add(1); n != 1 {
				t.Errorf("%d hold it", n)
			}
			if old := zk.Zxid(newest.Swap(int64(held.Token()))); held.Token() <= old {
				t.Errorf("token %v after %v", held.Token(), old)
			}
			if i%3 == 2 {
				e.Cut(c)
			}
			if err := settle(e, c); err != nil {
				return fmt.Errorf("holding it: %w", err)
			}
			inside.Add(-1)
			if err := held.Unlock(ctx); err != nil {
				return fmt.Errorf("unlock: %w", err)
			}
			return nil
		}
		var all sync.WaitGroup
		for range workers {
			c := e.Client()
			all.Go(func() {
				for i := range 2 * turns {
					if i == turns {
						half <- struct{}{}
					}
					if err := turn(c, i); err != nil {
						t.Error(err)
						break
					}
				}
			})
		}
		for range workers {
			select {
			case <-half:
			case <-ctx.Done():
				t.Error("the workers do not get on")
			}
		}
		e.Restart()
		all.Wait()
		select {
		case <-first.Lost():
		case <-ctx.Done():
			t.Error("the dead client's lock is not lost")
		}
	}
}

// readersTogether hold a read/write lock at the same time, while a writer waits
// for the last of them, one of whom is dead; through a restart.
func readersTogether(t *testing.T, e *Env) {
	ctx := e.Context()
	dead, reader, writer := e.Client(mortal), e.Client(), e.Client()
	_, err := recipe.NewRWLock(dead, "/lock").RLock(ctx)
	must(t, err)
	held, err := recipe.NewRWLock(reader, "/lock").RLock(ctx)
	must(t, err)
	if _, err := recipe.NewRWLock(writer, "/lock").TryLock(ctx); !errors.Is(err, recipe.ErrHeld) {
		t.Errorf("a writer beside readers: %v", err)
	}
	written := make(chan error, 1)
	go func() {
		w, err := recipe.NewRWLock(writer, "/lock").Lock(ctx)
		if err == nil {
			err = w.Unlock(ctx)
		}
		written <- err
	}()
	e.Hold(dead)
	e.Restart()
	must(t, settle(e, reader))
	select {
	case err := <-written:
		t.Errorf("the writer has not waited for the reader: %v", err)
	default:
	}
	must(t, held.Unlock(ctx))
	must(t, <-written)
}

// revoking asks a holder, through a restart, and takes from a dead one.
func revoking(t *testing.T, e *Env) {
	ctx := e.Context()
	holder, dead, other := e.Client(), e.Client(), e.Client()
	held, err := recipe.NewRevocableLock(holder, "/lock").Lock(ctx)
	must(t, err)
	lock := recipe.NewRevocableLock(other, "/lock")
	must(t, settle(e, other))
	contenders, err := lock.Contenders(ctx)
	if err != nil || len(contenders) != 1 || contenders[0].Token != held.Token() {
		t.Fatalf("contenders %+v, %v", contenders, err)
	}
	e.Cut(holder)
	e.Restart()
	must(t, lock.Revoke(ctx, contenders[0]))
	select {
	case <-held.Revoked():
	case <-ctx.Done():
		t.Fatal("the holder is not asked")
	}
	must(t, held.Unlock(ctx))
	_, err = recipe.NewRevocableLock(dead, "/lock").Lock(ctx)
	must(t, err)
	e.Hold(dead)
	must(t, settle(e, other))
	contenders, err = lock.Contenders(ctx)
	if err != nil || len(contenders) != 1 {
		t.Fatalf("contenders %+v, %v", contenders, err)
	}
	must(t, lock.RevokeWithin(ctx, contenders[0], 100*time.Millisecond))
	mine, err := lock.Lock(ctx)
	must(t, err)
	must(t, mine.Unlock(ctx))
}

// elections has leaders die, and a server restarted under one. Each leader's epoch
// is newer, and an observer sees no older one after a newer.
func elections(t *testing.T, e *Env) {
	ctx := e.Context()
	watcher := e.Client()
	observed := make(chan recipe.Leader, 100)
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		// It ends with its context; what else may end it, the test misses the leader by.
		_ = recipe.NewElection(watcher, "/election").Observe(watching, func(l recipe.Leader) { observed <- l })
	}()
	var epoch zk.Zxid
	for i := range 3 {
		opts := []client.Option{mortal}
		if i == 2 {
			opts = nil
		}
		c := e.Client(opts...)
		l, err := recipe.NewElection(c, "/election", recipe.HolderData(fmt.Append(nil, i))).Campaign(ctx)
		must(t, err)
		if l.Epoch() <= epoch {
			t.Errorf("epoch %v after %v", l.Epoch(), epoch)
		}
		epoch = l.Epoch()
		var seen zk.Zxid
		for seen != epoch {
			select {
			case o := <-observed:
				if o.Epoch != 0 && o.Epoch < seen {
					t.Errorf("the observer sees %v after %v", o.Epoch, seen)
				}
				seen = o.Epoch
			case <-ctx.Done():
				t.Fatalf("the observer does not see leader %d", i)
			}
		}
		if i < 2 {
			e.Hold(c)
			continue
		}
		e.Cut(c)
		e.Restart()
		must(t, l.Proclaim(ctx, []byte("still")))
		must(t, settle(e, watcher))
		now, err := recipe.NewElection(watcher, "/election").Leader(ctx)
		if err != nil || now.Epoch != epoch || string(now.Data) != "still" {
			t.Errorf("after the restart the leader is %+v, %v", now, err)
		}
		must(t, l.Resign(ctx))
	}
}

// semaphores let two in, of whom one dies.
func semaphores(t *testing.T, e *Env) {
	const workers, turns = 4, 8
	ctx := e.Context()
	dead := e.Client(mortal)
	_, err := recipe.NewSemaphore(dead, "/s", 2, recipe.SemaphoreOptions{}).Acquire(ctx, nil)
	must(t, err)
	e.Hold(dead)
	var inside, most atomic.Int32
	half := make(chan struct{}, workers)
	var all sync.WaitGroup
	for range workers {
		c := e.Client()
		all.Go(func() {
			s := recipe.NewSemaphore(c, "/s", 2, recipe.SemaphoreOptions{})
			for i := range turns {
				if i == turns/2 {
					half <- struct{}{}
				}
				l, err := s.Acquire(ctx, nil)
				if err != nil {
					t.Errorf("acquire: %v", err)
					return
				}
				n := inside.Add(1)
				for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
				}
				if err := settle(e, c); err != nil {
					t.Errorf("inside: %v", err)
				}
				inside.Add(-1)
				if err := l.Release(ctx); err != nil {
					t.Errorf("release: %v", err)
				}
			}
		})
	}
	for range workers {
		select {
		case <-half:
		case <-ctx.Done():
			t.Error("the workers do not get on")
		}
	}
	e.Restart()
	all.Wait()
	if n := most.Load(); n > 2 {
		t.Errorf("%d were inside at the same time", n)
	}
}
