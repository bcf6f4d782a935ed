package replica

import (
	"sync"
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
	// Work has a Caller call Next: on the calling goroutine, or soon. reader and the result
	// are those of Replica.Work.
	Work(reader Reader) (goOn bool)
	// Look is a look of Replica.Look at the Caller that writes.
	Look(again bool)
	// Spawn calls task beside the stages until it returns false.
	Spawn(task func() (again bool))
	// Rest pauses a task, or a View that has released the lock.
	Rest(d time.Duration)
	// Wait returns when all workers have exited and all tasks have ended. Only Close calls
	// it, which may block.
	Wait()
}

// goroutines is the Driver of a server: a goroutine for each worker.
type goroutines struct {
	r        *Replica
	woken    [pipeline.Applier + 1]chan struct{} // each holds one token
	callers  sync.Pool                           // of *Turn, each reset
	watchdog watchdog
	wg       sync.WaitGroup
}

// Start implements Driver.
func (g *goroutines) Start(r *Replica) {
	g.r = r
	for w := pipeline.Orderer; w <= pipeline.Applier; w++ {
		g.woken[w] = make(chan struct{}, 1)
	}
	g.watchdog.init()
	g.wg.Go(g.orderer)
	g.wg.Go(g.writer)
	g.wg.Go(g.applier)
	g.wg.Go(r.tendLog)
	g.wg.Go(sweeper{r}.sweep)
	if r.o.PurgeInterval > 0 {
		g.wg.Go(sweeper{r}.purge)
	}
}

// orderer is the goroutine of the Orderer. It also wakes by the clock, when its turn is due.
func (g *goroutines) orderer() {
	t := Turn{Turn: pipeline.Turn{Worker: pipeline.Orderer}}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for g.r.work(&t); !t.Exit; g.r.work(&t) {
		timer.Reset(min(t.Due-g.r.Now(), time.Hour))
		select {
		case <-g.woken[pipeline.Orderer]:
		case <-timer.C:
		}
	}
}

// writer is the goroutine of the Writer, the only one that waits for a disk for long.
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
func (g *goroutines) Wake(w pipeline.Worker) { nudge(g.woken[w]) }

// Work implements Driver.
func (g *goroutines) Work(reader Reader) (goOn bool) {
	t, _ := g.callers.Get().(*Turn)
	if t == nil {
		t = new(Turn)
	}
	t.Replaceable = reader != nil
	for goOn = true; g.r.Next(t); {
		if t.Stage != pipeline.Log {
			g.r.Run(t)
			continue
		}
		g.watchdog.begin(reader)
		g.r.Run(t)
		if !g.watchdog.end() {
			goOn, t.Replaceable = false, false
		}
	}
	t.reset()
	g.callers.Put(t)
	return goOn
}

// Look implements Driver.
func (g *goroutines) Look(again bool) { g.watchdog.tend(again) }

// Spawn implements Driver.
func (g *goroutines) Spawn(task func() (again bool)) {
	g.wg.Go(func() {
		for task() {
		}
	})
}

// Wait implements Driver.
func (g *goroutines) Wait() {
	g.wg.Wait()
	g.watchdog.close()
}

// Rest implements Driver.
func (g *goroutines) Rest(d time.Duration) { g.r.ticks(time.After(d)) }
