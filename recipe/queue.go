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
type Queue struct{ *items }

// NewQueue returns the queue at path. Nothing is created.
func NewQueue(c Client, path string, opts QueueOptions) *Queue {
	return &Queue{newItems(c, path, opts, false)}
}

// Put adds an item. While the queue is full, it waits. When the context ends before
// the answer has come, the item may have been put or not. After any other error
// it was not put, but that of the session's end, after which the outcome is unknown.
func (q *Queue) Put(ctx context.Context, item []byte) error {
	return q.put(ctx, itemPrefix, item, true)
}

// TryPut is Put, and fails with ErrFull instead of waiting.
func (q *Queue) TryPut(ctx context.Context, item []byte) error {
	return q.put(ctx, itemPrefix, item, false)
}
