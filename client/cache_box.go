package client

import (
	"sync"

	"github.com/pinfold-zk/pinfold/zk"
)

// cacheBox holds what has come for a Cache, in the order in which the Client has
// read it: answers, events, and calls of Sync. put never blocks.
type cacheBox struct {
	mu     sync.Mutex // guards what follows; a leaf, taken under the Client's mu
	items  []boxItem
	events int // among items
	limit  int // of events
	closed bool
	idle   bool // nothing is here, and nothing that was here is under way
	wake   chan struct{}
}

// boxItem is an answer, if read is set; a call of Sync, if reached is; or an
// event.
type boxItem struct {
	read   *cacheRead
	result result

	event zk.Event
	gen   int  // of the watch
	lost  bool // too many events came: anything may have changed

	zxid    zk.Zxid       // newest that the Client had been shown
	reached chan struct{} // closed when the Cache has zxid
}

func (b *cacheBox) init(limit int) { b.limit, b.wake = limit, make(chan struct{}, 1) }

// put adds an item; after close it returns false.
func (b *cacheBox) put(i boxItem) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	b.idle = false
	b.items = append(b.items, i)
	b.poke()
	return true
}

// close forgets what is there, and what comes.
func (b *cacheBox) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed, b.idle, b.items = true, false, nil
}

// putEvent adds an event. When there are too many, all are replaced by one that
// says so. Of consecutive events of a state only the first counts.
func (b *cacheBox) putEvent(e zk.Event, gen int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return
	}
	b.idle = false
	last := len(b.items) - 1
	switch {
	case e.Type == zk.EventNone && last >= 0 && b.items[last].event == (zk.Event{Type: e.Type, State: e.State}) && b.items[last].gen == gen:
	case e.Type == zk.EventNone:
		b.items = append(b.items, boxItem{event: zk.Event{Type: e.Type, State: e.State}, gen: gen})
	case b.events < b.limit:
		b.events++
		b.items = append(b.items, boxItem{event: e, gen: gen})
	default:
		b.overflow(gen)
	}
	b.poke()
}

// overflow replaces all events by one overflow event, at the position of the first:
// answers after it do not show every change. b.mu is held.
func (b *cacheBox) overflow(gen int) {
	kept, found := b.items[:0], false
	for _, i := range b.items {
		if i.event.Path == "" && !i.lost {
			kept = append(kept, i)
			continue
		}
		if !found {
			kept = append(kept, boxItem{lost: true, gen: gen})
			found = true
		}
	}
	clear(b.items[len(kept):])
	b.items, b.events = kept, 0
}

func (b *cacheBox) poke() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// take returns what is there. When that is nothing, and settled says that no read
// is under way, the Cache is idle.
func (b *cacheBox) take(settled bool) []boxItem {
	b.mu.Lock()
	defer b.mu.Unlock()
	items := b.items
	b.items, b.events = nil, 0
	b.idle = settled && len(items) == 0
	return items
}

// quiet reports whether the Cache has processed all that its Client has received. The
// Client's mu is held.
func (b *cacheBox) quiet() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.idle
}

// cacheSink puts the events of a watch into the box.
type cacheSink struct {
	box *cacheBox
	gen int
}

func (s cacheSink) event(e zk.Event) { s.box.putEvent(e, s.gen) }
