package zab

// queue is first in, first out. It keeps nothing of what was taken out: entries
// hold a transaction's bytes. The zero value is empty.
type queue[T any] struct {
	list []T // list[head:] is what counts
	head int
}

// Bounds of a queue's memory: fewer places in front are not worth a move, and an
// empty queue does not keep more than this.
const (
	queueSlack = 64
	queueSpare = 1 << 12
)

func (q *queue[T]) len() int { return len(q.list) - q.head }

// all is what is in the queue, the oldest first, valid until the next change.
func (q *queue[T]) all() []T { return q.list[q.head:] }

// at is the i-th oldest, valid until the next change.
func (q *queue[T]) at(i int) *T { return &q.list[q.head+i] }

func (q *queue[T]) push(v ...T) { q.list = append(q.list, v...) }

// drop takes out the n oldest.
func (q *queue[T]) drop(n int) {
	clear(q.list[q.head : q.head+n])
	q.head += n
	switch {
	case q.head == len(q.list):
		q.list, q.head = q.list[:0], 0
		if cap(q.list) > queueSpare {
			q.list = nil
		}
	case q.head >= queueSlack && 2*q.head >= len(q.list):
		k := copy(q.list, q.list[q.head:])
		clear(q.list[k:])
		q.list, q.head = q.list[:k], 0
	}
}

// cut takes out what is behind the n oldest.
func (q *queue[T]) cut(n int) {
	clear(q.list[q.head+n:])
	q.list = q.list[:q.head+n]
}
