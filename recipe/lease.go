package recipe

import (
	"context"
	"errors"
	"fmt"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/zk"
)

// ErrLeaseLost is the error of Ack and Release when the session that took out the
// lease has ended, or when the lease was over already.
var ErrLeaseLost = errors.New("recipe: the lease is lost")

// A Lease is an item of a queue that its holder works on, and that no other client
// gets meanwhile. Ack removes it. Until then it stays in the queue: when the
// holder releases it, or dies, it comes to another. So an item is processed at
// least once, and by more than one holder at the same time only if one goes on
// after its session has ended; see Lost and Token.
type Lease struct {
	queue  *items
	name   string
	data   []byte
	marker string // of the session that has the lease
	hold   *hold

	turn chan struct{} // holds one value, of the goroutine that owns what follows
	over bool          // it was ended by this Lease, or is not there any more
	open *openEnd      // the call before, if its outcome was not known; nil if there is none
}

// An openEnd is an Ack or a Release whose context has ended before the answer came.
type openEnd struct {
	ack        bool
	carriedOut bool          // once done is closed
	done       chan struct{} // closed when it is known, or never will be
}

// Data is the item.
func (l *Lease) Data() []byte { return l.data }

// Name is the name of the item's znode, which no other item of the queue has had.
func (l *Lease) Name() string { return l.name }

// Token is the fencing token: it grows from one holder of an item to the next.
func (l *Lease) Token() zk.Zxid { return l.hold.czxid }

// Lost is closed when the lease is over, by whatever cause.
func (l *Lease) Lost() <-chan struct{} { return l.hold.lost }

// Ack removes the item from the queue: it is done with. When the context has ended
// before the answer came, the item may be removed or not, and the lease goes on if
// not: calling Ack again waits until that is known, and makes sure.
func (l *Lease) Ack(ctx context.Context) error { return l.end(ctx, true) }

// Release gives the item back, to where it was in the queue. Others see it there
// when they read the list of items again; in a Queue that is when they have taken
// what they had read. What was said of Ack and its context holds for Release.
func (l *Lease) Release(ctx context.Context) error {
	defer l.queue.stale.Store(true)
	return l.end(ctx, false)
}

// end gives up the lease, and with ack the item. It is carried out once at most: when
// it was, another may have a lease of the same item, in the same place. So what an
// earlier call did whose context had ended must be known before the next one begins.
func (l *Lease) end(ctx context.Context, ack bool) error {
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if c := l.open; c != nil {
		select {
		case <-c.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		l.open, l.over = nil, c.carriedOut
		if c.carriedOut && c.ack == ack {
			return nil
		}
	}
	if l.over {
		return l.errLost()
	}
	return l.commit(ctx, ack)
}

// commit ends the lease in the session that took it out: an earlier lease of the same
// item may be that of another session.
func (l *Lease) commit(ctx context.Context, ack bool) error {
	c := &openEnd{ack: ack, done: make(chan struct{})}
	open, err := l.queue.marks.commit(ctx, func(t *client.Txn, _ string) {
		t.Check(l.marker, -1)
		t.Delete(l.path(), -1)
		if ack {
			t.Delete(join(l.queue.path, l.name), -1)
		}
	}, func(_ context.Context, carriedOut bool) {
		c.carriedOut = carriedOut
		l.queue.stale.Store(true)
		close(c.done)
	})
	switch {
	case open:
		l.open = c
	case failure(err) == zk.ErrNoNode:
		l.over, err = true, l.errLost()
	case err == nil:
		l.over = true
		if l.hold != nil {
			l.hold.cancel()
			<-l.hold.lost
		}
	}
	return err
}

func (l *Lease) errLost() error { return fmt.Errorf("%w: %s", ErrLeaseLost, l.name) }

func (l *Lease) path() string { return join(l.queue.path, leasePrefix+l.name) }

// lease takes out a lease of the first item; nil if there is none, and wait is not
// set.
func (q *items) lease(ctx context.Context, wait bool) (*Lease, error) {
	var l *Lease
	ok, err := q.choose(ctx, wait, nil, func(name string, data []byte) error {
		mine := &Lease{queue: q, name: name, data: data, turn: make(chan struct{}, 1)}
		l = mine
		_, err := q.marks.commit(ctx, func(t *client.Txn, marker string) {
			mine.marker = marker
			t.Check(join(q.path, name), -1)
			t.Create(mine.path(), nil, zk.Ephemeral, q.opts.ACL)
		}, func(ctx context.Context, carriedOut bool) {
			if carriedOut {
				mine.Release(ctx) // fails at the session's end alone
			}
		})
		return err
	})
	if err != nil || !ok {
		return nil, err
	}
	if err := l.watch(ctx); err != nil {
		background(ctx, func(ctx context.Context) { l.Release(ctx) })
		return nil, err
	}
	return l, nil
}

// watch begins to tell of the lease's loss.
func (l *Lease) watch(ctx context.Context) error {
	stat, exists, err := statOf(ctx, l.queue.client, l.path())
	if err == nil && !exists {
		err = l.errLost()
	}
	if err == nil {
		l.hold = keep(ctx, l.queue.client, l.path(), stat.Czxid)
	}
	return err
}
