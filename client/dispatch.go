package client

import "sync"

// dispatcher holds the results of asynchronous operations until their callbacks
// have run, in order. It has a goroutine only while there are some.
type dispatcher struct {
	dispatch func() // of the Client

	mu    sync.Mutex // guards what follows
	queue []completed
	spare []completed // the queue's memory, for its next use
	busy  bool        // dispatch runs
	idle  sync.Cond   // signals that it has ended
}

type completed struct {
	done   completion
	result result
	placed bool // holds a place in the window
}

func (d *dispatcher) init(dispatch func()) {
	d.dispatch = dispatch
	d.idle.L = &d.mu
}

func (d *dispatcher) put(list ...completed) {
	if len(list) == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.queue == nil {
		d.queue, d.spare = d.spare, nil
	}
	d.queue = append(d.queue, list...)
	if !d.busy {
		d.busy = true
		go d.dispatch()
	}
}

// keepCompleted is the longest list whose memory is kept for its next use.
const keepCompleted = 1024

// take exchanges the queue for one that has been worked off. An empty answer ends
// dispatch.
func (d *dispatcher) take(done []completed) []completed {
	clear(done)
	d.mu.Lock()
	defer d.mu.Unlock()
	if cap(done) <= keepCompleted {
		d.spare = done[:0]
	}
	list := d.queue
	d.queue = nil
	if len(list) == 0 {
		d.busy = false
		d.idle.Broadcast()
	}
	return list
}

// wait returns when no callback runs or waits.
func (d *dispatcher) wait() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for d.busy {
		d.idle.Wait()
	}
}

// maxRelease is how many places the dispatcher keeps before it gives them back:
// so that those who wait are woken for a batch, not for each callback.
const maxRelease = 64

// dispatch runs the callbacks that wait.
func (c *Client) dispatch() {
	var list []completed
	for {
		if list = c.done.take(list); len(list) == 0 {
			return
		}
		c.callBack(list)
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
