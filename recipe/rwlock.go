package recipe

import "context"

// An RWLock is held by one writer or by any number of readers. Writers wait for all
// earlier contenders, readers for the last earlier writer: contenders never overtake,
// so readers cannot starve a writer. It is "Read/Write Locks" of the paper (2.4)
// and "Shared Locks" of the recipes page. All readers that wait for a writer wake
// when it leaves, as they should.
//
// A fencing token excludes earlier holders only: two readers at a time have two
// tokens, and a system that takes reads in the order of tokens would refuse one of
// them. It should compare those of readers with the writers' alone.
//
// The methods of an RWLock may be called from any number of goroutines.
type RWLock struct{ queue queue }

// NewRWLock is a read/write lock at a path. It asks the servers for nothing.
func NewRWLock(c Client, path string, opts ...LockOption) *RWLock {
	return &RWLock{newQueue(c, path, writeKind, readKind, opts)}
}

// Lock waits until it may write. Errors are those of [Lock.Lock], and ErrUpgrade.
func (l *RWLock) Lock(ctx context.Context) (*Held, error) { return l.queue.lock(ctx, false, true) }

// TryLock is Lock without waiting; see [Lock.TryLock].
func (l *RWLock) TryLock(ctx context.Context) (*Held, error) {
	return l.queue.lock(ctx, false, false)
}

// RLock waits until it may read. Errors are those of [Lock.Lock].
func (l *RWLock) RLock(ctx context.Context) (*Held, error) { return l.queue.lock(ctx, true, true) }

// TryRLock is RLock without waiting: ErrHeld says that a writer
// holds the lock or waits for it.
func (l *RWLock) TryRLock(ctx context.Context) (*Held, error) { return l.queue.lock(ctx, true, false) }

// Contenders are the holders of the lock and the clients that wait for it, in order. The list
// may be outdated when it is returned.
func (l *RWLock) Contenders(ctx context.Context) ([]Contender, error) {
	return l.queue.contenders(ctx)
}
