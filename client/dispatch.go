package client

import "sync"

// dispatcher holds the results of asynchronous operations until their callbacks
// have run, in order. It has a goroutine only while there are some.
type dispatcher struct {
	dispatch func() // of the Client

	mu    sync.Mutex // guards what follows
	queue completions
	spare []completions // at most keepLists that have been worked off
	busy  bool          // dispatch runs
	idle  sync.Cond     // signals that it has ended
}

type completed struct {
	done   completion
	result result
	placed bool // holds a place in the window
}

// completions are results in request order. Behind its length a list is zero, so
// that results can be read where they stay.
type completions []completed

// add makes room for a result, which is valid until the next add.
func (l *completions) add(done completion) *result {
	if n := len(*l); n < cap(*l) {
		*l = (*l)[:n+1]
	} else {
		*l = append(*l, completed{})
	}
	k := &(*l)[len(*l)-1]
	k.done, k.placed = done, true
	return &k.result
}

// undo takes the last add back. The result must be zero.
func (l *completions) undo() {
	n := len(*l) - 1
	(*l)[n] = completed{}
	*l = (*l)[:n]
}

func (d *dispatcher) init(dispatch func()) {
	d.dispatch = dispatch
	d.idle.L = &d.mu
}

// put queues results. The list is the dispatcher's from then on; the caller has an
// empty one for it.
func (d *dispatcher) put(list completions) completions {
	if len(list) == 0 {
		return list
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	var empty completions
	if len(d.queue) == 0 {
		d.queue = list
		if n := len(d.spare); n > 0 {
			d.spare, empty = d.spare[:n-1], d.spare[n-1]
		}
	} else {
		d.queue = append(d.queue, list...)
		clear(list)
		empty = list[:0]
	}
	if !d.busy {
		d.busy = true
		go d.dispatch()
	}
	return empty
}

// Lists whose memory is kept for their next use: how many, and how long at most.
// One is filled and one worked off while a third waits.
const (
	keepLists     = 2
	keepCompleted = 1024
)

// take exchanges a list that has been worked off for the queue. An empty answer ends
// dispatch.
func (d *dispatcher) take(done completions) completions {
	clear(done)
	d.mu.Lock()
	defer d.mu.Unlock()
	if cap(done) > 0 && cap(done) <= keepCompleted && len(d.spare) < keepLists {
		d.spare = append(d.spare, done[:0])
	}
	list := d.queue
	d.queue = nil
	if len(list) == 0 {
		d.busy = false
		d.idle.Broadcast()
	}
	return list
}

// shrink gives back the memory of lists, which an idle Client does not need.
func (d *dispatcher) shrink() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.spare = nil
}

// wait returns when no callback runs or waits.
func (d *dispatcher) wait() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for d.busy {
		d.idle.Wait()
	}
}

// maxRelease is the number of places that the dispatcher collects before it releases
// them, so that waiting callers are woken once a batch, not once a callback.
const maxRelease = 64

// dispatch runs the callbacks that wait.
func (c *Client) dispatch() {
	var list completions
	for {
		if list = c.done.take(list); len(list) == 0 {
			return
		}
		c.callBack(list)
		c.lent.giveBack(list)
	}
}

func (c *Client) callBack(list completions) {
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
