package recipe

import (
	"context"
	"fmt"
	"math"

	"github.com/pinfold-zk/pinfold/zk"
)

// A PriorityQueue is a Queue whose items have priorities; a lower number is taken
// first, as with UNIX, and among equals what was put first (the recipes page,
// "Priority Queues"). The names of its items are "queue-YY-NUMBER", where YY is the
// priority. A taker reads the list of items again when it has received an event for the
// list.
//
// Otherwise it is a Queue, with the same promises.
type PriorityQueue struct{ *items }

// NewPriorityQueue returns the priority queue at path. Nothing is created.
func NewPriorityQueue(c Client, path string, opts QueueOptions) *PriorityQueue {
	return &PriorityQueue{newItems(c, path, opts, true)}
}

// Put adds an item; see Queue.Put. A priority is 0 or more, and at most 2^31-1;
// otherwise the error is zk.ErrBadArguments.
func (q *PriorityQueue) Put(ctx context.Context, priority int, item []byte) error {
	return q.putRanked(ctx, priority, item, true)
}

// TryPut is Put, and fails with ErrFull instead of waiting.
func (q *PriorityQueue) TryPut(ctx context.Context, priority int, item []byte) error {
	return q.putRanked(ctx, priority, item, false)
}

func (q *PriorityQueue) putRanked(ctx context.Context, priority int, item []byte, wait bool) error {
	if priority < 0 || priority > math.MaxInt32 {
		return fmt.Errorf("recipe: priority %d: %w", priority, zk.ErrBadArguments)
	}
	return q.put(ctx, fmt.Sprintf("%s%02d-", itemPrefix, priority), item, wait)
}
