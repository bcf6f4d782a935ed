package client

import "sync"

// pumpBuffer is how many values a pump's channel holds: those are there as soon as
// put returns, without a goroutine.
const pumpBuffer = 16

// A pump delivers values through a channel to a reader that may be slow; put never
// blocks. It runs a goroutine only while values exceed the channel's capacity; the
// goroutine ends when the queue is drained, at end or at cancel.
type pump[T any] struct {
	out  chan T
	join func(queue []T, v T) []T // adds v to the values that wait; bounds their number

	mu       sync.Mutex // guards what follows
	queue    []T        // what the channel had no room for
	carrying bool       // carry runs: only it sends and closes
	quit     chan struct{}
	finished bool // nothing more is put
	drop     bool // by end or cancel: nothing that waits is carried any more
	last     []T  // what end puts in its place
}

func newPump[T any](join func(queue []T, v T) []T) *pump[T] {
	return &pump[T]{out: make(chan T, pumpBuffer), join: join}
}

// put adds a value; after finish, end and cancel it does nothing. The channel has
// the value when put returns, unless others wait already or it is full.
func (p *pump[T]) put(v T) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.finished {
		return
	}
	if !p.carrying {
		select {
		case p.out <- v:
			return
		default:
		}
		p.carrying, p.quit = true, make(chan struct{})
		go p.carry(p.quit)
	}
	p.queue = p.join(p.queue, v)
}

// finish closes the channel after all values that have been put.
func (p *pump[T]) finish() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.finished && !p.carrying {
		p.close()
	}
	p.finished = true
}

// end closes the channel after v. Values that the channel has no room for are dropped,
// the oldest first, so that the pump ends without a reader.
func (p *pump[T]) end(v T) { p.stop(v) }

// cancel closes the channel at once and drops what has not been read.
func (p *pump[T]) cancel() { p.stop() }

func (p *pump[T]) stop(last ...T) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.drop || p.finished && !p.carrying {
		return
	}
	p.finished, p.drop, p.last = true, true, last
	if p.carrying {
		close(p.quit)
		return
	}
	p.close()
}

// close ends the pump; p.mu is held, and no other goroutine sends.
func (p *pump[T]) close() {
	p.queue, p.carrying = nil, false
	for p.drop && len(p.out) > 0 && (len(p.last) == 0 || len(p.out) == cap(p.out)) {
		select {
		case <-p.out:
		default: // the reader was quicker
		}
	}
	for _, v := range p.last {
		p.out <- v
	}
	close(p.out)
}

func (p *pump[T]) carry(quit chan struct{}) {
	for {
		v, ok := p.next()
		if !ok {
			return
		}
		select {
		case p.out <- v:
		case <-quit: // next sees it too
		}
	}
}

// next takes the oldest value that waits. Without one carry has nothing to do.
func (p *pump[T]) next() (v T, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.drop, p.finished && len(p.queue) == 0:
		p.close()
		return v, false
	case len(p.queue) == 0:
		p.queue, p.carrying = nil, false
		return v, false
	}
	v, p.queue = p.queue[0], p.queue[1:]
	return v, true
}
