package sim

import (
	"flag"
	"fmt"
	"iter"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/internal/pipeline"
	"github.com/pinfold-zk/pinfold/internal/replica"
)

var (
	deviateFlag = flag.Int("deviations", -1, "TestHandOvers: how many deviations a schedule may have; -1 is what each case says")
	handFlag    = flag.String("schedule", "", "TestHandOvers: run only this schedule, as a failure prints it")
)

// An explorer runs the goroutines of one server in every order that differs in the
// hand-overs: of its three workers, of its clients' connections and of its links. Each
// is a hand, a coroutine that pauses where another may go on: after it has been given a
// stage, before the Zab core's output is carried out, before replies are flushed, and
// wherever it waits. One schedule is the list of the choices that were made; the next one
// is run from the start, with the last choice changed that can be changed (stateless
// search). Without a deviation a hand goes on until it waits, and then the next one that can
// in a fixed order. A deviation is that another hand is chosen: in place of one that can go
// on, which is a preemption, or of the next in that order. A schedule has at most so many;
// none is tried first, then one, and so on (delay-bounded scheduling). That the next hand
// goes on while one waits for the disk is no deviation.
type explorer struct {
	bound int // of deviations

	path  []choice
	depth int // of path, in the present schedule
	left  int // deviations that it may still have
	trail []string
	quiet bool // no choices are made: the server is being brought up

	hands   []*hand
	options []*hand // memory of step
	cur     *hand   // runs
	last    *hand   // ran last
	moves   int
	runs    int
}

// choice is one point of a schedule: option chosen of n.
type choice struct{ chosen, n int }

// hand is a goroutine of the server.
type hand struct {
	name  string
	next  func() (struct{}, bool)
	stop  func()
	yield func(struct{}) bool
	ready func() bool // what it waits for; nil: it can go on
	idle  bool        // it waits for the disk: to let others go on is no preemption
	done  bool
}

// errStopped unwinds a hand whose schedule has ended.
type errStopped struct{}

// maxMoves ends a schedule that goes round in circles.
const maxMoves = 10_000

// begin prepares for the next schedule.
func (x *explorer) begin() {
	x.depth, x.left, x.trail, x.hands, x.cur, x.last, x.moves = 0, x.bound, x.trail[:0], nil, nil, nil, 0
	x.quiet = true
	x.runs++
}

// advance changes the last choice that can be changed. It reports false if there is none.
func (x *explorer) advance() bool {
	for n := len(x.path) - 1; n >= 0; n-- {
		if c := &x.path[n]; c.chosen+1 < c.n {
			c.chosen++
			x.path = x.path[:n+1]
			return true
		}
	}
	return false
}

// choose returns one of n options; in the end each is chosen.
func (x *explorer) choose(n int) int {
	if n == 1 || x.quiet {
		return 0
	}
	if x.depth == len(x.path) {
		x.path = append(x.path, choice{0, n})
	}
	c := x.path[x.depth]
	if c.n != n {
		panic(fmt.Sprintf("a schedule is not repeated: choice %d had %d options and has %d", x.depth, c.n, n))
	}
	x.depth++
	return c.chosen
}

// add adds a hand that runs f.
func (x *explorer) add(name string, f func()) *hand {
	h := &hand{name: name}
	h.next, h.stop = iter.Pull(func(yield func(struct{}) bool) {
		defer func() {
			if p := recover(); p != nil {
				if _, ok := p.(errStopped); !ok {
					panic(fmt.Sprintf("%v\n%s", p, debug.Stack()))
				}
			}
		}()
		h.yield = yield
		f()
	})
	x.hands = append(x.hands, h)
	return h
}

// pause lets other hands go on. Called by what is no hand it does nothing.
func (x *explorer) pause() { x.await(nil, false) }

// await pauses the present hand until ready reports true. idle says that the hand has
// nothing to run: another one may go on without a preemption.
func (x *explorer) await(ready func() bool, idle bool) {
	h := x.cur
	if h == nil {
		return
	}
	h.ready, h.idle = ready, idle
	if !h.yield(struct{}{}) {
		panic(errStopped{})
	}
	h.ready, h.idle = nil, false
}

func (h *hand) can() bool { return !h.done && (h.ready == nil || h.ready()) }

// step lets one hand go on up to its next pause. It reports false if none can.
func (x *explorer) step() bool {
	options := x.options[:0]
	first := slices.Index(x.hands, x.last)
	if first >= 0 && x.last.idle {
		first++
	}
	for i := range x.hands {
		if h := x.hands[(max(first, 0)+i)%len(x.hands)]; h.can() {
			options = append(options, h)
			if x.left == 0 || x.quiet {
				break
			}
		}
	}
	if x.options = options; len(options) == 0 {
		return false
	}
	chosen := x.choose(len(options))
	if chosen > 0 {
		x.left--
	}
	x.run(options[chosen])
	return true
}

func (x *explorer) run(h *hand) {
	if x.moves++; x.moves > maxMoves {
		panic("no end")
	}
	if !x.quiet {
		x.trail = append(x.trail, h.name)
	}
	x.cur, x.last = h, h
	_, more := h.next()
	x.cur, h.done = nil, !more
}

// end stops what is left of a schedule.
func (x *explorer) end() {
	for _, h := range x.hands {
		h.stop()
	}
}

// schedule prints the choices, for -schedule.
func (x *explorer) schedule() string {
	var b strings.Builder
	for _, c := range x.path[:min(x.depth, len(x.path))] {
		fmt.Fprintf(&b, "%d.", c.chosen)
	}
	return strings.TrimSuffix(b.String(), ".")
}

// workers drives a replica with hands (replica.Driver).
type workers struct {
	x      *explorer
	r      *replica.Replica
	woken  [pipeline.Applier + 1]bool // each is a token
	due    time.Duration              // the Orderer's timer
	owners [pipeline.Apply + 1]int    // of each stage
	hands  []*hand                    // of the workers and tasks
	prompt bool                       // Callers may wait for the disk
	stuck  bool                       // the disk finishes no write
}

// Start implements replica.Driver.
func (d *workers) Start(r *replica.Replica) {
	d.r = r
	for w := pipeline.Orderer; w <= pipeline.Applier; w++ {
		d.hands = append(d.hands, d.x.add(w.String(), func() { d.worker(w) }))
	}
}

// worker is the goroutine of a worker: it works, and sleeps until it is woken.
func (d *workers) worker(w pipeline.Worker) {
	t := &replica.Turn{Turn: pipeline.Turn{Worker: w}}
	for {
		d.work(t)
		if t.Exit {
			return
		}
		if w == pipeline.Orderer {
			d.due = t.Due
		}
		d.x.await(func() bool { return d.woken[w] || w == pipeline.Orderer && d.r.Now() >= d.due }, false)
		d.woken[w] = false
	}
}

// work runs stages until there is none for the worker.
func (d *workers) work(t *replica.Turn) {
	for turns := 1; d.r.Next(t); turns++ {
		stage := t.Stage
		d.owners[stage]++
		disk := stage == pipeline.Log && !t.Closing
		switch {
		case d.owners[stage] > 1:
			panic(fmt.Sprintf("M1: the stage %v has two owners", stage))
		case disk && t.Worker != pipeline.Writer && !t.Replaceable:
			panic(fmt.Sprintf("M3: the %v may wait for the disk", t.Worker))
		case t.Worker == pipeline.Caller && turns > pipeline.MaxTurns:
			panic("M4: a Caller is not released")
		}
		if disk && t.Worker == pipeline.Caller && d.replaces() {
			d.x.add("replaced caller", func() {
				d.run(t)
				d.work(t)
			})
			return
		}
		d.run(t)
	}
}

// replaces reports whether a Caller that writes is replaced. What it reads goes on with the
// present hand, and another one writes.
func (d *workers) replaces() bool {
	switch x := d.x; {
	case x.quiet:
		return false
	case d.stuck:
		return true
	case x.cur == nil || x.left == 0 || x.choose(2) == 0:
		return false
	}
	d.x.left--
	return true
}

// run runs the stage of a worker.
func (d *workers) run(t *replica.Turn) {
	stage := t.Stage
	disk := stage == pipeline.Log && !t.Closing
	if disk && d.stuck && !d.x.quiet {
		d.x.await(func() bool { return false }, true)
	}
	d.x.await(nil, disk)
	d.r.Run(t)
	d.owners[stage]--
}

// Wake implements replica.Driver.
func (d *workers) Wake(w pipeline.Worker) { d.woken[w] = true }

// Work implements replica.Driver.
func (d *workers) Work(reader replica.Reader) (goOn bool) {
	t := new(replica.Turn)
	t.Replaceable = d.prompt && reader != nil
	d.work(t)
	return true
}

// Look implements replica.Driver.
func (d *workers) Look(bool) {}

// taskName is the name of the hands of tasks, which run beside the stages.
const taskName = "task"

// Spawn implements replica.Driver.
func (d *workers) Spawn(task func() bool) {
	d.hands = append(d.hands, d.x.add(taskName, func() {
		for task() {
			d.x.pause()
		}
	}))
}

// Rest implements replica.Driver.
func (d *workers) Rest(time.Duration) { d.x.await(nil, true) }

// Wait implements replica.Driver.
func (d *workers) Wait() {
	d.x.await(func() bool {
		return !slices.ContainsFunc(d.hands, func(h *hand) bool { return !h.done })
	}, false)
}

// handOvers is a case of TestHandOvers: a kind of server, and what its clients do.
type handOvers struct {
	name       string
	kind       serverKind
	clients    [][]action
	deviations int // the most that are tried
}

// TestHandOvers runs the real stages of a server, with real connections, in every order of
// their hand-overs with a bounded number of deviations, and checks P1 to P7 of
// docs/architecture.md in each: every request is answered (no deadlock, no lost wake-up),
// in order, after it is durable, after the events before it.
func TestHandOvers(t *testing.T) {
	for _, k := range handOverCases() {
		t.Run(k.name, func(t *testing.T) {
			most := k.deviations
			switch {
			case *deviateFlag >= 0:
				most = *deviateFlag
			case raceDetector:
				most = 1
			}
			for bound := range most + 1 {
				began := time.Now()
				x := &explorer{bound: bound}
				if err := x.explore(&k); err != nil {
					t.Fatalf("%d deviations, schedule %d: %v\n%s\nreplay: go test ./internal/sim -run '%s' -deviations %d -schedule %s",
						bound, x.runs, err, strings.Join(x.trail, "\n"), t.Name(), bound, x.schedule())
				}
				t.Logf("%d deviations: %d schedules in %v", bound, x.runs, time.Since(began).Round(time.Millisecond))
			}
		})
	}
}

// explore runs all schedules of a case.
func (x *explorer) explore(k *handOvers) error {
	if *handFlag != "" {
		for part := range strings.SplitSeq(*handFlag, ".") {
			var c choice
			if _, err := fmt.Sscan(part, &c.chosen); err != nil {
				return err
			}
			x.path = append(x.path, c)
		}
		return x.once(k)
	}
	for {
		if err := x.once(k); err != nil {
			return err
		}
		if !x.advance() {
			return nil
		}
	}
}

// once runs one schedule.
func (x *explorer) once(k *handOvers) (err error) {
	x.begin()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	s := newExplored(x, k)
	defer x.end()
	s.bringUp()
	x.quiet = false
	s.begin()
	for s.live() {
	}
	return s.finished()
}
