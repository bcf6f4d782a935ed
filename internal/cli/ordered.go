package cli

import "context"

// An ordered runs asynchronous operations, a bounded number at a time, and takes
// their answers in the caller's goroutine, in order. finish it in all cases.
type ordered[T any] struct {
	ctx     context.Context // its end ends the waiting
	limit   int
	waiting []answering[T]
	err     error // the first; nothing is taken after it
}

type answering[T any] struct {
	answer chan answer[T]
	take   func(T, error) error
}

type answer[T any] struct {
	value T
	err   error
}

func newOrdered[T any](ctx context.Context, limit int) *ordered[T] {
	return &ordered[T]{ctx: ctx, limit: limit}
}

// begin starts an operation, whose answer take will have, and waits until there
// are fewer than the limit before that. start is given the callback for the
// operation. The error is the first of a take, or the context's.
func (o *ordered[T]) begin(start func(done func(T, error)), take func(T, error) error) error {
	for o.err == nil && len(o.waiting) >= o.limit {
		o.next()
	}
	if o.err != nil {
		return o.err
	}
	ch := make(chan answer[T], 1)
	start(func(value T, err error) { ch <- answer[T]{value, err} })
	o.waiting = append(o.waiting, answering[T]{ch, take})
	return nil
}

// next waits for the oldest answer.
//
// REQUIRES: o.err is nil, something is waited for.
func (o *ordered[T]) next() {
	select {
	case a := <-o.waiting[0].answer:
		o.err = o.waiting[0].take(a.value, a.err)
	case <-o.ctx.Done():
		o.err = o.ctx.Err()
	}
	o.waiting[0] = answering[T]{}
	o.waiting = o.waiting[1:]
}

// finish takes what is left. Its error is the first of a take.
func (o *ordered[T]) finish() error {
	for o.err == nil && len(o.waiting) > 0 {
		o.next()
	}
	return o.err
}
