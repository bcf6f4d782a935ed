package recipe

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pinfold-zk/pinfold/zk"
)

// A RevocableLock is an RWLock whose holders can be asked to give it back. It is
// "Recoverable Shared Locks" of the recipes page: a client that wants the lock writes
// "unlock" to the znode of a holder, which watches its own. The holder sees that
// [Held.Revoked] is closed, finishes its work and calls Unlock. Only RevokeWithin
// enforces that. A contender that still waits gives up with ErrRevoked.
//
// What is written replaces the holder's data. Curator's word, "__REVOKE__", is
// accepted too. Any client that may write to the znodes may ask: see LockACL.
//
// The methods of a RevocableLock may be called from any number of goroutines.
type RevocableLock struct{ readWrite }

// NewRevocableLock is a revocable lock at a path, for readers and writers. It asks
// the servers for nothing.
func NewRevocableLock(c Client, path string, opts ...LockOption) *RevocableLock {
	l := &RevocableLock{readWrite{newQueue(c, path, writeKind, readKind, opts)}}
	l.queue.opts.revocable = true
	return l
}

// Revoke asks a contender for the lock, and does not wait. That it is gone already
// is no error.
func (l *RevocableLock) Revoke(ctx context.Context, who Contender) error {
	if err := l.ask(ctx, who); err != nil && !errors.Is(err, zk.ErrNoNode) {
		return fmt.Errorf("recipe: revoke %s: %w", l.queue.path, err)
	}
	return nil
}

func (l *RevocableLock) ask(ctx context.Context, who Contender) error {
	if _, ok := parsePlace(who.Name); !ok {
		return fmt.Errorf("%q is not the name of a contender", who.Name)
	}
	return retry(ctx, func() error {
		_, err := l.queue.c.Set(ctx, join(l.queue.path, who.Name), []byte("unlock"), -1)
		return err
	})
}

// RevokeWithin asks a contender for the lock, and takes it away when it has not been
// given back after a time: it deletes the znode. That is what the recipes page calls
// "Revocable Shared Locks with Freaking Laser Beams". It returns when the contender
// is gone. All holders must know that this may happen: one whose lock was taken finds
// [Held.Lost] closed, and may be writing still, so fencing tokens are called for.
//
// When the context ends first, the contender has been asked, and keeps the lock.
func (l *RevocableLock) RevokeWithin(ctx context.Context, who Contender, grace time.Duration) error {
	err := l.ask(ctx, who)
	if err == nil {
		err = l.awaitOrDelete(ctx, join(l.queue.path, who.Name), grace)
	}
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return fmt.Errorf("recipe: revoke %s: %w", l.queue.path, err)
	}
	return nil
}

// awaitOrDelete returns when a znode is gone; after grace it sees to that itself.
// Being gone may be told by zk.ErrNoNode.
func (l *RevocableLock) awaitOrDelete(ctx context.Context, path string, grace time.Duration) error {
	timer := time.NewTimer(grace)
	defer timer.Stop()
	for {
		_, _, w, err := l.queue.c.GetW(ctx, path)
		switch {
		case errors.Is(err, zk.ErrConnectionLoss) && ctx.Err() == nil:
			continue
		case err != nil:
			return ended(ctx, err)
		}
		select {
		case <-w.Events(): // look again; at the session's end that fails
		case <-timer.C:
			discard(w)
			return deleteIfThere(ctx, l.queue.c, path)
		case <-ctx.Done():
			discard(w)
			return context.Cause(ctx)
		}
	}
}
