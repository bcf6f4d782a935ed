package server

import "runtime"

// places bounds how many goroutines do one kind of work at the same time: half as many as there are processors, and one at
// least. The others wait, on a channel: as runnable goroutines, of which there may be thousands, they would be in front of
// the goroutines of other clients, and of one that holds the tree's lock and was preempted, by a collection of garbage
// for example.
type places chan struct{}

// place is that of one goroutine among those that work.
type place struct {
	of  places
	has bool
}

func newPlaces() places { return make(places, max(1, runtime.GOMAXPROCS(0)/2)) }

// begin waits until the caller may work, at most as long as all that have begun to wait before. The caller must not
// wait for its client before it calls end. REQUIRES: no lock is held.
func (p places) begin() place {
	p <- struct{}{}
	return place{p, true}
}

// end lets another goroutine work, if it was not called before. It never blocks.
func (p *place) end() {
	if p.has {
		p.has = false
		<-p.of
	}
}
