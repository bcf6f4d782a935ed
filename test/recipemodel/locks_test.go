package recipemodel

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/recipe"
	"github.com/pinfold-zk/pinfold/zk"
)

// locks are the locks of all kinds.
type locks struct {
	*arena
	path      string
	file      bool // the path is the lock itself
	reentrant bool
	revocable bool
	// of makes the lock of a client: how to have it to read or write, waiting or not.
	of func(c recipe.Client) locker

	taken sync.Map // znodes that somebody may have deleted
}

type locker func(ctx context.Context, shared, wait bool) (*recipe.Held, error)

func newSimpleLock(w *world, path string) role {
	return &locks{arena: newArena(w, "simple lock"), path: path, file: true, of: func(c recipe.Client) locker {
		l := recipe.NewSimpleLock(c, path)
		return func(ctx context.Context, _, wait bool) (*recipe.Held, error) {
			if wait {
				return l.Lock(ctx)
			}
			return l.TryLock(ctx)
		}
	}}
}

func newLock(opts ...recipe.LockOption) func(w *world, path string) role {
	return func(w *world, path string) role {
		return &locks{arena: newArena(w, "lock"), path: path, of: func(c recipe.Client) locker {
			l := recipe.NewLock(c, path, opts...)
			return func(ctx context.Context, _, wait bool) (*recipe.Held, error) {
				if wait {
					return l.Lock(ctx)
				}
				return l.TryLock(ctx)
			}
		}}
	}
}

func newReentrantLock(w *world, path string) role {
	k := newLock(recipe.Reentrant())(w, path).(*locks)
	k.label, k.reentrant = "reentrant lock", true
	return k
}

// A readWriter is one of the two locks that have readers.
type readWriter interface {
	Lock(ctx context.Context) (*recipe.Held, error)
	TryLock(ctx context.Context) (*recipe.Held, error)
	RLock(ctx context.Context) (*recipe.Held, error)
	TryRLock(ctx context.Context) (*recipe.Held, error)
}

func readOrWrite(l readWriter) locker {
	return func(ctx context.Context, shared, wait bool) (*recipe.Held, error) {
		switch {
		case shared && wait:
			return l.RLock(ctx)
		case shared:
			return l.TryRLock(ctx)
		case wait:
			return l.Lock(ctx)
		}
		return l.TryLock(ctx)
	}
}

func newRWLock(opts ...recipe.LockOption) func(w *world, path string) role {
	return func(w *world, path string) role {
		return &locks{arena: newArena(w, "read/write lock"), path: path, of: func(c recipe.Client) locker {
			return readOrWrite(recipe.NewRWLock(c, path, opts...))
		}}
	}
}

func newRevocableLock(w *world, path string) role {
	return &locks{arena: newArena(w, "revocable lock"), path: path, revocable: true, of: func(c recipe.Client) locker {
		return readOrWrite(recipe.NewRevocableLock(c, path))
	}}
}

func (k *locks) work(ctx context.Context, l *life) error {
	get := k.of(l.c)
	if !k.reentrant && !k.revocable {
		return k.owner(ctx, l, get)
	}
	beside := make(chan error, 1)
	go func() {
		if k.revocable {
			beside <- k.revoker(ctx, l)
		} else {
			beside <- k.owner(ctx, l, get)
		}
	}()
	err := k.owner(ctx, l, get)
	return errors.Join(err, <-beside)
}

// owner has the lock again and again.
func (k *locks) owner(ctx context.Context, l *life, get locker) error {
	for ctx.Err() == nil {
		once, cancel := l.bounded(ctx)
		shared := l.roll(2) == 0
		held, err := get(once, shared, l.roll(6) > 0)
		if err == nil {
			err = k.hold(ctx, l, held, shared && held != nil && k.shares())
		}
		switch {
		case errors.Is(err, recipe.ErrHeld), k.revocable && errors.Is(err, recipe.ErrRevoked),
			k.revocable && errors.Is(err, recipe.ErrLost):
			err = nil
			wait(ctx, time.Duration(l.roll(20))*time.Millisecond)
		case errors.Is(err, recipe.ErrLost) && errors.Is(err, zk.ErrSessionExpired) && l.renews:
			err = nil
		}
		err = l.goes(ctx, once, k.label, err)
		cancel()
		if err != nil {
			return err
		}
		wait(ctx, time.Duration(l.roll(20))*time.Millisecond)
	}
	return context.Cause(ctx)
}

// shares reports whether this kind of lock has readers.
func (k *locks) shares() bool { return k.label == "read/write lock" || k.revocable }

// hold is what somebody does with the lock. The error is that of Unlock, unless it
// may be.
func (k *locks) hold(ctx context.Context, l *life, held *recipe.Held, shared bool) error {
	h := &holding{l: l, token: held.Token(), session: held.Session(), lost: held.Lost(), shared: shared}
	h.taken = func() bool {
		_, ok := k.taken.Load(held.Path())
		return ok
	}
	k.enter(h)
	if !shared && !k.reentrant { // two who are one owner would be in each other's way
		k.use(ctx, h)
	}
	switch {
	case k.revocable && l.roll(3) == 0: // until it is asked to give it back
		select {
		case <-held.Revoked():
		case <-held.Lost():
		case <-ctx.Done():
		}
	default:
		l.rest(ctx)
	}
	if l.abandon.Load() {
		return errAbandoned
	}
	k.leave(h)
	err := l.gives(ctx, held.Unlock)
	if errors.Is(err, recipe.ErrLost) && (h.taken() || l.doubtful(h.session, h.since)) {
		return nil
	}
	return err
}

// revoker asks for the lock again and again.
func (k *locks) revoker(ctx context.Context, l *life) error {
	for ctx.Err() == nil {
		if err := k.revoke(ctx, l); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// revoke asks somebody for the lock, or takes it away.
func (k *locks) revoke(ctx context.Context, l *life) error {
	once, cancel := l.bounded(ctx)
	defer cancel()
	lock := recipe.NewRevocableLock(l.c, k.path)
	list, err := lock.Contenders(once)
	if err == nil && len(list) > 0 {
		who := list[l.roll(len(list))]
		if l.roll(2) == 0 {
			err = lock.Revoke(once, who)
		} else {
			k.taken.Store(k.path+"/"+who.Name, true)
			err = lock.RevokeWithin(once, who, time.Duration(l.roll(100))*time.Millisecond)
		}
	}
	err = l.goes(ctx, once, "revoke", err)
	wait(ctx, time.Duration(l.roll(1000))*time.Millisecond)
	return err
}

func (k *locks) quiet(ctx context.Context, c *client.Client) {
	if k.file {
		if data, stat, err := c.Get(ctx, k.path); !errors.Is(err, zk.ErrNoNode) {
			k.w.errorf("%s: nobody has it, but the lock file is there: %q of session %x, %v", k.label, data, stat.EphemeralOwner, err)
		}
		return
	}
	k.w.demandChildren(ctx, c, k.path, 0)
}

func (k *locks) end(ctx context.Context, c *client.Client) {
	k.check()
	k.quiet(ctx, c)
}

// demandChildren demands that a znode, if it is there, has so many children.
func (w *world) demandChildren(ctx context.Context, c *client.Client, path string, want int) {
	names, _, err := c.Children(ctx, path)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		w.errorf("%s: %v", path, err)
	}
	if len(names) != want {
		w.errorf("%s has %d children, not %d: %v", path, len(names), want, names)
	}
}

// elections elect leaders, whom all observe.
type elections struct {
	*arena
	path string

	mu   sync.Mutex // guards what follows
	said map[zk.Zxid][]string
	told map[*life]recipe.Leader // last
	boss *recipe.Leadership      // stays at the end
}

func newElection(w *world, path string) role {
	return &elections{arena: newArena(w, "election"), path: path, said: map[zk.Zxid][]string{}, told: map[*life]recipe.Leader{}}
}

func (k *elections) work(ctx context.Context, l *life) error {
	e := recipe.NewElection(l.c, k.path, recipe.HolderData([]byte("nothing yet")))
	for ctx.Err() == nil {
		once, cancel := l.bounded(ctx)
		leads, err := e.Campaign(once)
		if err == nil {
			err = k.lead(ctx, l, leads)
		}
		if errors.Is(err, recipe.ErrLost) && errors.Is(err, zk.ErrSessionExpired) && l.renews {
			err = nil
		}
		err = l.goes(ctx, once, "campaign", err)
		cancel()
		if err != nil {
			return err
		}
		wait(ctx, time.Duration(l.roll(20))*time.Millisecond)
	}
	return context.Cause(ctx)
}

func (k *elections) lead(ctx context.Context, l *life, leads *recipe.Leadership) error {
	h := &holding{l: l, token: leads.Epoch(), session: l.c.SessionID(), lost: leads.Lost()}
	k.enter(h)
	k.use(ctx, h)
	if l.roll(2) == 0 {
		once, cancel := l.bounded(ctx)
		err := leads.Proclaim(once, []byte("order "+h.token.Hex()))
		cancel()
		if err != nil && !errors.Is(err, recipe.ErrLost) && !l.excused(once, err) {
			return err
		}
	}
	l.rest(ctx)
	if l.abandon.Load() {
		return errAbandoned
	}
	k.mu.Lock()
	if k.w.ctx.Err() != nil && k.boss == nil && h.sound() {
		k.boss = leads
		k.mu.Unlock()
		return context.Cause(ctx)
	}
	k.mu.Unlock()
	k.leave(h)
	err := l.gives(ctx, leads.Resign)
	if errors.Is(err, recipe.ErrLost) && l.doubtful(h.session, h.since) {
		return nil
	}
	return err
}

// watch observes: leaders come in the order of their epochs, each once.
func (k *elections) watch(ctx context.Context, l *life) error {
	e := recipe.NewElection(l.c, k.path)
	var last recipe.Leader
	var highest zk.Zxid
	first := true
	return e.Observe(ctx, func(leader recipe.Leader) {
		switch {
		case leader.Epoch != 0 && leader.Epoch < highest:
			k.w.errorf("election: client %d was told of epoch %v after %v", l.n, leader.Epoch, highest)
		case !first && leader.Epoch == last.Epoch && string(leader.Data) == string(last.Data):
			k.w.errorf("election: client %d was told of epoch %v twice", l.n, leader.Epoch)
		}
		first, last, highest = false, leader, max(highest, leader.Epoch)
		k.mu.Lock()
		k.told[l] = leader
		k.mu.Unlock()
	})
}

func (k *elections) quiet(ctx context.Context, c *client.Client) {
	e := recipe.NewElection(c, k.path)
	if k.boss == nil {
		leads, err := e.Campaign(ctx)
		if err != nil {
			k.w.errorf("election: %v", err)
			return
		}
		k.boss = leads
	}
	if err := k.boss.Proclaim(ctx, []byte("the end")); err != nil {
		k.w.errorf("election: proclaim: %v", err)
	}
	wait(ctx, 10*time.Second)
	k.converged(k.boss.Epoch(), "the end")
	k.w.demandChildren(ctx, c, k.path, 1)
	if err := k.boss.Resign(ctx); err != nil {
		k.w.errorf("election: resign: %v", err)
	}
	wait(ctx, 10*time.Second)
	k.converged(0, "")
	k.w.demandChildren(ctx, c, k.path, 0)
}

// converged demands that all who observe know the leader.
func (k *elections) converged(epoch zk.Zxid, data string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, l := range k.w.connected() {
		if t := k.told[l]; t.Epoch != epoch || string(t.Data) != data {
			k.w.errorf("election: at the end client %d knows epoch %v with %q, not %v with %q", l.n, t.Epoch, t.Data, epoch, data)
		}
	}
}

func (k *elections) end(ctx context.Context, c *client.Client) {
	k.check()
	k.w.demandChildren(ctx, c, k.path, 0)
}

// semaphores have a number of holders at a time.
type semaphores struct {
	*arena
	path string
}

func newSemaphore(w *world, path string) role {
	k := &semaphores{arena: newArena(w, "semaphore"), path: path}
	k.room = 1 + w.rng.IntN(3)
	return k
}

func (k *semaphores) work(ctx context.Context, l *life) error {
	s := recipe.NewSemaphore(l.c, k.path, k.room, recipe.SemaphoreOptions{})
	for ctx.Err() == nil {
		once, cancel := l.bounded(ctx)
		var lease *recipe.SemaphoreLease
		var err error
		if l.roll(4) > 0 {
			lease, err = s.Acquire(once, nil)
		} else {
			lease, _, err = s.TryAcquire(once, nil)
		}
		if err == nil && lease != nil {
			err = k.hold(ctx, l, s, lease)
		}
		err = l.goes(ctx, once, "semaphore", err)
		cancel()
		if err != nil {
			return err
		}
		wait(ctx, time.Duration(l.roll(20))*time.Millisecond)
	}
	return context.Cause(ctx)
}

func (k *semaphores) hold(ctx context.Context, l *life, s *recipe.Semaphore, lease *recipe.SemaphoreLease) error {
	h := &holding{l: l, token: lease.Zxid(), session: l.c.SessionID(), lost: lease.Lost()}
	k.mu.Lock()
	k.newest = [2]zk.Zxid{} // several have it, so that the order says nothing
	k.mu.Unlock()
	k.enter(h)
	if l.roll(4) == 0 {
		list, err := s.Holders(ctx)
		if err == nil && len(list) > k.room {
			k.w.errorf("semaphore: %d have one of %d leases", len(list), k.room)
		}
	}
	l.rest(ctx)
	if l.abandon.Load() {
		return errAbandoned
	}
	k.leave(h)
	return l.gives(ctx, lease.Release)
}

func (k *semaphores) quiet(ctx context.Context, c *client.Client) {
	k.w.demandChildren(ctx, c, k.path, 0)
	k.w.demandChildren(ctx, c, k.path+"-__lock__", 0)
}

func (k *semaphores) end(ctx context.Context, c *client.Client) { k.quiet(ctx, c) }
