// Package fifo is a queue in memory: first in, first out.
package fifo

import (
	"cmp"
	"unsafe"
)

// A Queue keeps no reference to removed values, so it holds no memory that is not needed. The zero
// value is empty. It is used by one goroutine at a time.
type Queue[T any] struct {
	// Spare is how many bytes an empty queue keeps for the next values. 0 is 32 KiB, which is for
	// queues of which there are many. A queue that a server has once and that is filled and emptied
	// all the time keeps what it needs: to grow from nothing each time costs copies and page faults.
	Spare int

	list []T // list[head:] is what counts
	head int
}

// Bounds of a queue's memory: fewer places in front are not worth a move, and spare is the default
// of Spare.
const (
	slack = 64
	spare = 32 << 10
)

// Len is the number of values.
func (q *Queue[T]) Len() int { return len(q.list) - q.head }

// All is what is in the queue, the oldest first, valid until the next change.
func (q *Queue[T]) All() []T { return q.list[q.head:] }

// At is the i-th oldest, valid until the next change.
func (q *Queue[T]) At(i int) *T { return &q.list[q.head+i] }

// Push adds values.
func (q *Queue[T]) Push(v ...T) { q.list = append(q.list, v...) }

// Drop takes out the n oldest.
func (q *Queue[T]) Drop(n int) {
	clear(q.list[q.head : q.head+n])
	q.head += n
	switch {
	case q.head == len(q.list):
		q.list, q.head = q.list[:0], 0
		if cap(q.list)*int(unsafe.Sizeof(*new(T))) > cmp.Or(q.Spare, spare) {
			q.list = nil
		}
	case q.head >= slack && 2*q.head >= len(q.list):
		k := copy(q.list, q.list[q.head:])
		clear(q.list[k:])
		q.list, q.head = q.list[:k], 0
	}
}

// Cut removes all values except the n oldest.
func (q *Queue[T]) Cut(n int) {
	clear(q.list[q.head+n:])
	q.list = q.list[:q.head+n]
}

// Places is how many values the queue has memory for.
func (q *Queue[T]) Places() int { return cap(q.list) }
