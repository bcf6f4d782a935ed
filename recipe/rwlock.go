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
type RWLock struct{ readWrite }

// NewRWLock is a read/write lock at a path. It asks the servers for nothing.
func NewRWLock(c Client, path string, opts ...LockOption) *RWLock {
	return &RWLock{readWrite{newQueue(c, path, writeKind, readKind, opts)}}
}

// readWrite is what RWLock and RevocableLock share.
type readWrite struct{ queue queue }

// Lock waits until it may write. Errors are those of [Lock.Lock], ErrUpgrade, and
// ErrRevoked of a RevocableLock.
func (l *readWrite) Lock(ctx context.Context) (*Held, error) { return l.queue.lock(ctx, false, true) }

// TryLock is Lock without waiting; see [Lock.TryLock].
func (l *readWrite) TryLock(ctx context.Context) (*Held, error) {
	return l.queue.lock(ctx, false, false)
}

// RLock waits until it may read. Errors are those of [Lock.Lock], and ErrRevoked of a
// RevocableLock.
func (l *readWrite) RLock(ctx context.Context) (*Held, error) { return l.queue.lock(ctx, true, true) }

// TryRLock is RLock without waiting: ErrHeld says that a writer
// holds the lock or waits for it.
func (l *readWrite) TryRLock(ctx context.Context) (*Held, error) {
	return l.queue.lock(ctx, true, false)
}

// Contenders are the holders of the lock and the clients that wait for it, in order. The data
// of one that has been asked to give a RevocableLock back is "unlock". The list may be outdated
// when it is returned.
func (l *readWrite) Contenders(ctx context.Context) ([]Contender, error) {
	return l.queue.contenders(ctx)
}
