package replica

import (
	"time"

	"github.com/pinfold-zk/pinfold/internal/pipeline"
)

// Driver gives a replica's stages their goroutines. A server has goroutines; the
// simulator runs one worker after the other, in an order that its seed decides.
//
// A worker's goroutine calls Next and Run in turn, see work. The Driver's methods
// are called without a lock held and must not block.
type Driver interface {
	// Start begins to drive r. It is called once.
	Start(r *Replica)
	// Wake makes a worker's goroutine call Next soon.
	Wake(w pipeline.Worker)
	// Bring has a Caller call Next: on the calling goroutine, or soon.
	Bring()
	// Spawn calls task beside the stages until it returns false.
	Spawn(task func() (again bool))
	// Rest pauses a task.
	Rest(d time.Duration)
}

// Turn is a worker's place in the pipeline, with what its stage was given and what
// the stage makes. Its zero value is that of a Caller. The stage that runs owns it.
type Turn struct {
	pipeline.Turn
	mail  mail   // given to Order
	group []job  // given to Log
	due   []step // given to Apply

	jobs     []job         // made by Order, for Log
	lone     bool          // of Order: jobs is one small job, with little else under way
	prompt   bool          // of Log: the disk can be waited for with a bound
	steps    []step        // made by Order and Log, for Apply
	events   []event       // made by Log, for Order
	deadline time.Duration // of Order: when it has something to do by the clock
	forwards int           // of Order: learners' requests that wait for the next round
}

// Next hands over what t's stage has made, and gives t the next stage to run. False
// means that there is none: a Caller returns, any other worker sleeps until it is
// woken, or ends if t.Exit.
func (r *Replica) Next(t *Turn) bool {
	p := &r.pipe
	p.Lock()
	p.put(t)
	wake, ok := p.machine.Next(&t.Turn, r.Now())
	if ok {
		p.take(t)
	}
	p.Unlock()
	r.wake(wake)
	return ok
}

// Run runs the stage that Next has given.
//
// The way of a write, in the order of the stages, with what each calls:
//
//  1. order   prepare the request, or forward it to the leader    orderer.step
//  2. order   propose it to the followers: the Zab core           orderer.propose
//  3. log     one write and one fsync for all jobs that wait      logger.write
//  4. order   the core counts acknowledgements and commits        orderer.tell
//  5. apply   change the tree, fire watches, answer, flush        applier.apply
//
// A standalone server has no core: what is logged is committed.
func (r *Replica) Run(t *Turn) {
	switch t.Stage {
	case pipeline.Order:
		r.order.step(t)
	case pipeline.Log:
		r.disk.write(t)
	case pipeline.Apply:
		r.tip.apply(t)
	}
}

// work runs stages until there is none for the worker.
func (r *Replica) work(t *Turn) {
	for r.Next(t) {
		r.Run(t)
	}
}

// wake wakes workers.
func (r *Replica) wake(ws pipeline.Wakes) {
	for w := pipeline.Orderer; ws != 0 && w <= pipeline.Applier; w++ {
		if ws.Has(w) {
			r.driver.Wake(w)
		}
	}
}

// Due is when the Orderer is to call Next even if it is not woken, by Now.
func (r *Replica) Due() time.Duration {
	r.pipe.Lock()
	defer r.pipe.Unlock()
	return r.pipe.machine.Due()
}

// goroutines is the Driver of a server: a goroutine for each worker.
type goroutines struct {
	r     *Replica
	woken [pipeline.Applier + 1]chan struct{} // each holds one token
}

// Start implements Driver.
func (g *goroutines) Start(r *Replica) {
	g.r = r
	for w := pipeline.Orderer; w <= pipeline.Applier; w++ {
		g.woken[w] = make(chan struct{}, 1)
	}
	r.wg.Go(g.orderer)
	r.wg.Go(g.writer)
	r.wg.Go(g.applier)
	r.wg.Go(r.sweep)
	if r.o.PurgeInterval > 0 {
		r.wg.Go(r.purge)
	}
}

// orderer is the goroutine of the Orderer. It also wakes by the clock.
func (g *goroutines) orderer() {
	t := Turn{Turn: pipeline.Turn{Worker: pipeline.Orderer}}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for g.r.work(&t); !t.Exit; g.r.work(&t) {
		timer.Reset(min(g.r.Due()-g.r.Now(), time.Hour))
		select {
		case <-g.woken[pipeline.Orderer]:
		case <-timer.C:
		}
	}
}

// writer is the goroutine of the Writer, the only one that waits for a slow disk.
func (g *goroutines) writer() { g.serve(pipeline.Writer) }

// applier is the goroutine of the Applier.
func (g *goroutines) applier() { g.serve(pipeline.Applier) }

func (g *goroutines) serve(w pipeline.Worker) {
	t := Turn{Turn: pipeline.Turn{Worker: w}}
	for g.r.work(&t); !t.Exit; g.r.work(&t) {
		<-g.woken[w]
	}
}

// Wake implements Driver.
func (g *goroutines) Wake(w pipeline.Worker) {
	select {
	case g.woken[w] <- struct{}{}:
	default:
	}
}

// Bring implements Driver.
func (g *goroutines) Bring() {
	var t Turn
	g.r.work(&t)
}

// Spawn implements Driver.
func (g *goroutines) Spawn(task func() (again bool)) {
	g.r.wg.Go(func() {
		for task() {
		}
	})
}

// Rest implements Driver.
func (g *goroutines) Rest(d time.Duration) {
	select {
	case <-time.After(d):
	case <-g.r.stopping:
	case <-g.r.failed:
	}
}
