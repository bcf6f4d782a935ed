package client

import "sync"

// A pump carries values to a reader who may be slow, by a channel, without
// making the giver wait. Its goroutine ends when the reader has read all that
// was put before finish, or at cancel.
type pump[T any] struct {
	out  chan T
	join func(queue []T, v T) []T // adds v to the values that wait; bounds their number

	mu       sync.Mutex // guards what follows
	queue    []T
	finished bool
	wake     chan struct{} // has room for one
	quit     chan struct{} // closed by cancel
	quitOnce sync.Once
}

func newPump[T any](join func(queue []T, v T) []T) *pump[T] {
	p := &pump[T]{out: make(chan T), join: join, wake: make(chan struct{}, 1), quit: make(chan struct{})}
	go p.carry()
	return p
}

// put adds a value; after finish it does nothing.
func (p *pump[T]) put(v T) {
	p.mu.Lock()
	if !p.finished {
		p.queue = p.join(p.queue, v)
	}
	p.mu.Unlock()
	p.poke()
}

// finish closes the channel after what has been put.
func (p *pump[T]) finish() {
	p.mu.Lock()
	p.finished = true
	p.mu.Unlock()
	p.poke()
}

// cancel closes the channel at once.
func (p *pump[T]) cancel() { p.quitOnce.Do(func() { close(p.quit) }) }

func (p *pump[T]) poke() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// next takes the oldest value; more is false when there will never be another.
func (p *pump[T]) next() (v T, ok, more bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.queue) == 0 {
		p.queue = nil
		return v, false, !p.finished
	}
	v = p.queue[0]
	p.queue = p.queue[1:]
	return v, true, true
}

func (p *pump[T]) carry() {
	defer close(p.out)
	for {
		v, ok, more := p.next()
		switch {
		case ok:
			select {
			case p.out <- v:
			case <-p.quit:
				return
			}
		case !more:
			return
		default:
			select {
			case <-p.wake:
			case <-p.quit:
				return
			}
		}
	}
}
