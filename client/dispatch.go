package client

import "sync"

// dispatcher holds the results of asynchronous operations until their callbacks
// have run, in order.
type dispatcher struct {
	mu    sync.Mutex // guards queue
	queue []completed
	wake  chan struct{} // has room for one
}

type completed struct {
	done   completion
	result result
	placed bool // holds a place in the window
}

func (d *dispatcher) init() { d.wake = make(chan struct{}, 1) }

func (d *dispatcher) put(list ...completed) {
	d.mu.Lock()
	d.queue = append(d.queue, list...)
	d.mu.Unlock()
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// take exchanges the queue for an empty one.
func (d *dispatcher) take(spare []completed) []completed {
	d.mu.Lock()
	defer d.mu.Unlock()
	list := d.queue
	d.queue = spare[:0]
	return list
}

// maxRelease is how many places the dispatcher keeps before it gives them back:
// so that those who wait are woken for a batch, not for each callback.
const maxRelease = 64

// dispatch runs the callbacks, until the Client has ended and all have run.
func (c *Client) dispatch() {
	var list []completed
	for {
		list = c.done.take(list)
		if len(list) == 0 {
			select {
			case <-c.done.wake:
				continue
			case <-c.ended:
			}
			if list = c.done.take(list); len(list) == 0 {
				return
			}
		}
		c.callBack(list)
		clear(list)
	}
}

func (c *Client) callBack(list []completed) {
	placed := 0
	for i := range list {
		k := &list[i]
		if k.placed {
			placed++
		}
		k.done.complete(&k.result)
		if placed > 0 && (placed == maxRelease || i == len(list)-1) {
			c.mu.Lock()
			c.window.leave(placed)
			c.mu.Unlock()
			placed = 0
		}
	}
}
