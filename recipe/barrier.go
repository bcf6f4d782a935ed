package recipe

import (
	"context"

	"github.com/pinfold-zk/pinfold/zk"
)

// A Barrier blocks all callers of Wait for as long as a znode exists (the recipes
// page, "Barriers"). Without it they pass. The znode is persistent:
// the barrier stays closed after the end of the session that has closed it.
//
// Any number of clients and goroutines may use a Barrier.
type Barrier struct {
	client Client
	path   string
	opts   BarrierOptions
}

// BarrierOptions are what NewBarrier may be told.
type BarrierOptions struct {
	ACL []zk.ACL // of znodes that are created; nil is world:anyone:cdrwa
}

// NewBarrier returns the barrier that the znode path is. Nothing is created.
func NewBarrier(c Client, path string, opts BarrierOptions) *Barrier {
	return &Barrier{client: c, path: path, opts: opts}
}

// Close puts the barrier in place. That it is there already is no error.
func (b *Barrier) Close(ctx context.Context) error {
	return makePath(ctx, b.client, b.path, b.opts.ACL)
}

// Open deletes the barrier, and all callers of Wait pass. A missing barrier is no
// error.
func (b *Barrier) Open(ctx context.Context) error {
	return deleteIfThere(ctx, b.client, b.path)
}

// Closed reports whether the barrier is in place.
func (b *Barrier) Closed(ctx context.Context) (closed bool, err error) {
	err = retry(ctx, func() error {
		if err := b.client.Sync(ctx, b.path); err != nil {
			return err
		}
		_, closed, err = b.client.Exists(ctx, b.path)
		return err
	})
	return closed, err
}

// Wait returns when the barrier is not in place: at once, or when it is opened. A
// Close that had returned, to whichever client, before Wait was called holds
// Wait back. Wait may miss that the barrier is opened when it is closed again at
// once.
//
// The error is the context's, or that of a session that has ended.
func (b *Barrier) Wait(ctx context.Context) error {
	err := syncWith(ctx, b.client, b.path) // a server that lags does not know it yet
	if err != nil {
		return err
	}
	return waitGone(ctx, b.client, b.path)
}
