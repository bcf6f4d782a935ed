package cli

import (
	"context"
	"sync"
)

// answers carries what callbacks of the client learn to the goroutine that
// started the operations, so that only that one goroutine decides. Callbacks
// never wait.
type answers[T any] struct {
	mu   sync.Mutex // guards list
	list []T
	wake chan struct{} // has room for one
	read []T           // taken and handled; its room is used again
}

func newAnswers[T any]() *answers[T] { return &answers[T]{wake: make(chan struct{}, 1)} }

func (a *answers[T]) put(x T) {
	a.mu.Lock()
	a.list = append(a.list, x)
	a.mu.Unlock()
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// take waits until there is an answer, and returns all there are. They are good
// until the next take. The error is the context's.
func (a *answers[T]) take(ctx context.Context) ([]T, error) {
	for {
		if list := a.poll(); len(list) > 0 {
			return list, nil
		}
		select {
		case <-a.wake:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// poll is take without waiting.
func (a *answers[T]) poll() []T {
	clear(a.read)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.list, a.read = a.read[:0], a.list
	return a.read
}
