package recipe

import "context"

// A Queue is first in, first out (the recipes page, "Queues"): a taker gets the
// oldest item that is left. Items are persistent znodes, not
// ephemeral ones as on the page: an item outlives the session that put it.
//
// An item is put once, though answers be lost. There are two ways to get one:
//
//   - Take removes the item, then returns it. The caller has it at most once: when
//     it dies before it has done its work, the item is lost.
//   - Lease returns an item that stays in the queue until Ack. It is delivered at
//     least once: when the holder dies before Ack, another gets it.
//
// Both can be used on the same queue; an item that is leased is not taken. A client
// reads the list of items, and takes from it until it is exhausted, as the page
// says; an item whose lease ended without Ack waits for the next list. Between two
// that take at the same time there is no order. Any number of goroutines may use a
// Queue.
type Queue struct{ items *items }

// NewQueue returns the queue at path. Nothing is created.
func NewQueue(c Client, path string, opts QueueOptions) *Queue {
	return &Queue{newItems(c, path, opts, false)}
}

// Put adds an item. While the queue is full, it waits. When the context ends before
// the answer has come, the item may have been put or not. After any other error
// it was not put, but that of the session's end, after which the outcome is unknown.
func (q *Queue) Put(ctx context.Context, item []byte) error {
	return q.items.put(ctx, itemPrefix, item, true)
}

// TryPut is Put, and fails with ErrFull instead of waiting.
func (q *Queue) TryPut(ctx context.Context, item []byte) error {
	return q.items.put(ctx, itemPrefix, item, false)
}

// Take removes the first item and returns it, when there is one. What the end of
// the context has cut off is not lost while this Queue is there: an item that was
// removed all the same is given to the next Take of this Queue. When the session
// has ended while the answer was awaited, an item may be lost.
func (q *Queue) Take(ctx context.Context) ([]byte, error) {
	item, _, err := q.items.take(ctx, true)
	return item, err
}

// TryTake is Take, and returns false instead of waiting. It sees all items that any
// client had put before the call.
func (q *Queue) TryTake(ctx context.Context) (item []byte, ok bool, err error) {
	return q.items.take(ctx, false)
}

// Lease takes out a lease of the first item without a lease, when there
// is one.
func (q *Queue) Lease(ctx context.Context) (*Lease, error) { return q.items.lease(ctx, true) }

// TryLease is Lease, and returns nil instead of waiting. It sees all items that any
// client had put before the call.
func (q *Queue) TryLease(ctx context.Context) (*Lease, error) { return q.items.lease(ctx, false) }

// Size counts the items, those that are leased included.
func (q *Queue) Size(ctx context.Context) (int, error) { return q.items.size(ctx) }
