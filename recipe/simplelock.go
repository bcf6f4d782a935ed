package recipe

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/zk"
)

// A SimpleLock is a lock file: the paper's "Simple Locks" (2.4). The client that creates the
// ephemeral znode at the path has the lock; the others watch it and try again when
// it is gone. All that wait wake at once and one of them gets it, whichever is the
// first (the herd effect): for few contenders, or for a path that others use so. A
// [Lock] is better otherwise.
//
// The znode's data is a GUID, by which a holder whose answer was lost knows its own,
// a line feed, and HolderData. Reentrant and UseNames mean nothing to it.
//
// Deleting by name, Unlock could meet the znode of a successor. It looks whose it is
// first; between the look and the deletion the session would have to end and be
// renewed (client.NewSession).
//
// The methods of a SimpleLock may be called from any number of goroutines.
type SimpleLock struct {
	c    Client
	path string
	opts lockOptions
}

// NewSimpleLock is a lock file at a path. It asks the servers for nothing.
func NewSimpleLock(c Client, path string, opts ...LockOption) *SimpleLock {
	l := &SimpleLock{c: c, path: path}
	for _, o := range opts {
		o(&l.opts)
	}
	return l
}

// Lock waits for the lock. Errors are those of [Lock.Lock].
func (l *SimpleLock) Lock(ctx context.Context) (*Held, error) { return l.lock(ctx, true) }

// TryLock is Lock without waiting: ErrHeld says that another client has
// the lock.
func (l *SimpleLock) TryLock(ctx context.Context) (*Held, error) { return l.lock(ctx, false) }

func (l *SimpleLock) lock(ctx context.Context, wait bool) (*Held, error) {
	guid := newGUID()
	for {
		cl, err := l.create(ctx, guid, wait)
		if err != nil {
			return nil, fmt.Errorf("recipe: lock %s: %w", l.path, err)
		}
		cl.start(ctx)
		v, err := newVigil(ctx, l.c, l.opts.patience(l.c), cl)
		if err == nil {
			err = l.sure(ctx, cl)
		}
		if err == nil && cl.hold(v) {
			return &Held{lock: l.path, claim: cl}, nil
		}
		if v != nil {
			v.stop()
		}
		cl.leave(ctx) // what it cannot delete now is deleted in the background
		if err != nil {
			return nil, fmt.Errorf("recipe: lock %s: %w", l.path, err)
		}
	}
}

// sure sees that the session lives while the vigil is kept.
func (l *SimpleLock) sure(ctx context.Context, cl *claim) error {
	stat, exists, err := statOf(ctx, l.c, l.path)
	if err == nil && (!exists || stat.Czxid != cl.stat.Czxid) {
		err = cl.sessionOr(fmt.Errorf("%w: %w", ErrLost, errDeleted))
	}
	return err
}

// create makes the znode, as soon as it can. A znode that an abandoned request
// may have created is deleted in the background.
func (l *SimpleLock) create(ctx context.Context, guid string, wait bool) (cl *claim, err error) {
	open := false // the znode may be ours
	defer func() {
		if err != nil && open {
			background(ctx, func(ctx context.Context) { l.takeBack(ctx, guid) })
		}
	}()
	data := append([]byte(guid+"\n"), l.opts.data...)
	var m maker
	for {
		_, stat, err := m.create(ctx, l.c, l.path, data, zk.Ephemeral, l.opts.acl)
		switch {
		case err == nil:
			return l.claim(stat), nil
		case errors.Is(err, zk.ErrNoNode) && l.path != "/":
			if err := makePath(ctx, l.c, parent(l.path), l.opts.acl); err != nil {
				return nil, err
			}
			continue
		case errors.Is(err, zk.ErrNodeExists), errors.Is(err, zk.ErrConnectionLoss) && ctx.Err() == nil:
			open = open || maybe(err)
		default:
			open = open || maybe(err)
			return nil, ended(ctx, err)
		}
		stat, w, err := l.read(ctx, guid)
		switch {
		case errors.Is(err, zk.ErrNoNode):
			continue
		case err != nil:
			return nil, err
		case w == nil && stat.EphemeralOwner == int64(l.c.SessionID()):
			return l.claim(stat), nil
		case w == nil:
			return nil, zk.ErrSessionExpired
		case !wait:
			discard(w)
			return nil, ErrHeld
		}
		select {
		case <-w.Events():
		case <-ctx.Done():
			discard(w)
			return nil, context.Cause(ctx)
		}
	}
}

func (l *SimpleLock) claim(stat zk.Stat) *claim {
	return &claim{c: l.c, path: l.path, stat: stat, common: true}
}

// read returns a watch of another's znode, or the Stat of ours without one.
func (l *SimpleLock) read(ctx context.Context, guid string) (stat zk.Stat, w *client.Watch, err error) {
	var data []byte
	err = retry(ctx, func() error {
		data, stat, w, err = l.c.GetW(ctx, l.path)
		return err
	})
	if err == nil && strings.HasPrefix(string(data), guid) {
		discard(w)
		w = nil
	}
	return stat, w, err
}

// takeBack deletes the znode if it is ours. What is still on its way is there when
// the sync has been answered.
func (l *SimpleLock) takeBack(ctx context.Context, guid string) error {
	err := syncWith(ctx, l.c, l.path)
	if err != nil {
		return err
	}
	stat, w, err := l.read(ctx, guid)
	if err != nil {
		return err
	}
	if w != nil {
		discard(w)
		return nil
	}
	return deleteMade(ctx, l.c, l.path, stat.Czxid)
}

// Holder returns the holder of the lock; held is false if there is none. The answer
// may be outdated when it is returned.
func (l *SimpleLock) Holder(ctx context.Context) (holder Contender, held bool, err error) {
	var data []byte
	var stat zk.Stat
	data, stat, err = dataOf(ctx, l.c, l.path)
	if errors.Is(err, zk.ErrNoNode) {
		return Contender{}, false, nil
	}
	if err != nil {
		return Contender{}, false, fmt.Errorf("recipe: holder of %s: %w", l.path, err)
	}
	if guid, rest, ok := strings.Cut(string(data), "\n"); ok && len(guid) == len(newGUID()) {
		data = []byte(rest)
	}
	name := l.path[strings.LastIndexByte(l.path, '/')+1:]
	return Contender{Name: name, Holds: true, Data: data, Session: zk.SessionID(stat.EphemeralOwner), Token: stat.Czxid}, true, nil
}
