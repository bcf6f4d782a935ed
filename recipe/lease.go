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

// A Lease is an item of a queue that its holder works on, and that nobody else
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
// not: calling Ack again makes sure, and ErrLeaseLost is then an answer too.
func (l *Lease) Ack(ctx context.Context) error {
	return l.end(ctx, func(t *client.Txn) { t.Delete(join(l.queue.path, l.name), -1) })
}

// Release gives the item back, to where it was in the queue. Others see it there
// when they read the list of items anew; in a Queue that is when they have taken
// what they had read.
func (l *Lease) Release(ctx context.Context) error {
	defer l.queue.stale.Store(true)
	return l.end(ctx, func(*client.Txn) {})
}

// end gives up the lease together with what add adds, in the session that took it
// out: an earlier lease of the same item may be that of another session.
func (l *Lease) end(ctx context.Context, add func(t *client.Txn)) error {
	err := l.queue.marks.commit(ctx, func(t *client.Txn, _ string) {
		t.Check(l.marker, -1)
		t.Delete(l.path(), -1)
		add(t)
	}, nil)
	if failure(err) == zk.ErrNoNode {
		err = fmt.Errorf("%w: %s", ErrLeaseLost, l.name)
	}
	if err == nil && l.hold != nil {
		l.hold.cancel()
		<-l.hold.lost
	}
	return err
}

func (l *Lease) path() string { return join(l.queue.path, leasePrefix+l.name) }

// lease takes out a lease of the first item; nil if there is none, and wait is not
// set.
func (q *items) lease(ctx context.Context, wait bool) (*Lease, error) {
	var l *Lease
	ok, err := q.choose(ctx, wait, nil, func(name string, data []byte) error {
		mine := &Lease{queue: q, name: name, data: data}
		l = mine
		return q.marks.commit(ctx, func(t *client.Txn, marker string) {
			mine.marker = marker
			t.Check(join(q.path, name), -1)
			t.Create(mine.path(), nil, zk.Ephemeral, q.opts.ACL)
		}, func(ctx context.Context) { mine.Release(ctx) }) // fails at the session's end alone
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
	var stat zk.Stat
	var exists bool
	err := retry(ctx, func() (err error) {
		stat, exists, err = l.queue.client.Exists(ctx, l.path())
		return err
	})
	if err == nil && !exists {
		err = fmt.Errorf("%w: %s", ErrLeaseLost, l.name)
	}
	if err == nil {
		l.hold = keep(ctx, l.queue.client, l.path(), stat.Czxid)
	}
	return err
}
