package pipeline

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

var preemptFlag = flag.Int("preemptions", -1, "TestExplore: how many preemptions are tried; -1 is what each case says")

// The explorer runs every interleaving of the hand-overs of a few requests through
// the machine, with a model of the stages: a request is a number, a batch a list of
// them. Whatever runs next is one call of Next by one worker, which ends its stage
// and takes up another. After each call it checks M1 to M4 and, of the invariants of
// the server, P1, P2 and P3 (answers in order, after a durable write, nothing
// skipped); where nothing can run any more, every request must have been answered.

// kind is the kind of server that is explored.
type kind struct {
	name      string
	leads     bool // proposals are acknowledged by followers; one of them and this server are a quorum
	follows   bool // requests are forwarded; proposals, commits come as packets
	stuckDisk bool // the first turn of Log never ends
	prompt    bool // Callers make small writes, and may be replaced during each
	closes    bool // the server is closed at any time; what was submitted is finished
	callers   [][]int
	preempts  int // how often a worker that could go on is made to wait; -1 is no bound
}

// world is one state: the machine, what is between the stages, and what each worker
// has in hand. It is copied for each branch.
type world struct {
	k   *kind
	m   Machine
	now time.Duration

	requests []int    // wait for Order
	mail     []string // wait for Order: "logged", "ack 3", "proposal 3", "commit 3"
	jobs     []int    // wait for Log: the last request of a batch
	steps    []int    // wait for Apply
	network  []string // packets on their way to this server

	ordered, logged, acked, committed, released, applied int // the last request of each
	forwarded                                            int

	hands []hand
	last  int // the hand that ran last
	left  int // preemptions that may still happen
}

// hand is a goroutine.
type hand struct {
	turn   Turn
	script []int // of a Caller: what it still submits
	link   bool  // it reads packets
	awake  bool
	mail   []string
	group  []int
	steps  []int
	stuck  bool
}

func (w *world) clone() *world {
	c := *w
	for _, p := range [...]*[]int{&c.requests, &c.jobs, &c.steps} {
		*p = slices.Clone(*p)
	}
	c.mail, c.network = slices.Clone(w.mail), slices.Clone(w.network)
	c.hands = slices.Clone(w.hands)
	for i := range c.hands {
		h := &c.hands[i]
		h.mail, h.group, h.steps = slices.Clone(h.mail), slices.Clone(h.group), slices.Clone(h.steps)
	}
	return &c
}

// key identifies a state.
func (w *world) key() string {
	c := *w
	c.k = nil
	c.m.group = nil
	return fmt.Sprintf("%+v", c)
}

func newWorld(k *kind) *world {
	w := &world{k: k, m: *New(nil), left: k.preempts, last: -1}
	w.m.Deadline(time.Hour)
	w.m.Prompt(k.prompt)
	w.m.Gather(k.leads)
	if !k.leads && !k.follows {
		w.m.Alone()
	}
	for v := Orderer; v < workers; v++ {
		w.hands = append(w.hands, hand{turn: Turn{Worker: v}, awake: true})
	}
	for i, script := range k.callers {
		h := hand{script: script, awake: true, link: i == len(k.callers)-1}
		h.turn.Replaceable = true
		w.hands = append(w.hands, h)
	}
	return w
}

// can reports whether a hand can do something.
func (w *world) can(i int) bool {
	h := &w.hands[i]
	return h.awake && !h.stuck && !h.turn.Exit
}

// step has hand i do its next thing: a Caller that has no turn submits, or brings a packet; any
// other call ends its stage and takes up the next.
func (w *world) step(i int) {
	h := &w.hands[i]
	if h.turn.Worker == Caller && h.turn.Stage == None {
		switch {
		case len(h.script) > 0:
			w.requests = append(w.requests, h.script[0])
			h.script = h.script[1:]
			w.m.Submitted(1)
		case len(w.network) > 0 && h.link:
			w.mail = append(w.mail, w.network[0])
			w.network = w.network[1:]
			w.m.Arrived(1)
		}
	}
	w.put(h)
	wake, ok := w.m.Next(&h.turn, w.now)
	if ok {
		w.take(h)
	} else {
		h.awake = h.turn.Worker == Caller && len(h.script) > 0
	}
	for v := Orderer; v < workers; v++ {
		if wake.Has(v) {
			w.hands[v-1].awake = true
		}
	}
}

// take gives a stage what waits for it.
func (w *world) take(h *hand) {
	switch h.turn.Stage {
	case Order:
		h.mail, w.mail = w.mail, nil
	case Log:
		h.group, w.jobs = w.jobs[:h.turn.Jobs], slices.Clone(w.jobs[h.turn.Jobs:])
		h.stuck = w.k.stuckDisk && len(h.group) > 0
	case Apply:
		h.steps, w.steps = w.steps, nil
	}
}

// put does what a stage does, and hands over what it has made.
func (w *world) put(h *hand) {
	switch h.turn.Stage {
	case Order:
		w.order(h)
	case Log:
		for _, last := range h.group {
			w.logged = last
			if !w.k.leads && !w.k.follows {
				w.steps = append(w.steps, last)
				w.m.Applying(1)
			}
		}
		if len(h.group) > 0 && (w.k.leads || w.k.follows) {
			w.mail = append(w.mail, "logged")
			w.m.Arrived(1)
		}
	case Apply:
		for _, last := range h.steps {
			if last != w.applied+1 {
				panic(fmt.Sprintf("P1, P3: %d is applied after %d", last, w.applied))
			}
			if last > w.durable() {
				panic(fmt.Sprintf("P2: %d is applied, durable is %d", last, w.durable()))
			}
			w.applied = last
		}
	}
	h.mail, h.group, h.steps = nil, nil, nil
}

// order is the model of the stage Order.
func (w *world) order(h *hand) {
	for _, e := range h.mail {
		var z int
		switch what, at, _ := strings.Cut(e, " "); what {
		case "ack":
			fmt.Sscan(at, &z)
			w.acked = max(w.acked, z)
		case "proposal":
			fmt.Sscan(at, &z)
			w.ordered = z
			w.jobs = append(w.jobs, z)
			w.m.Logging(1, true)
			w.network = append(w.network, fmt.Sprint("commit ", z))
		case "commit":
			fmt.Sscan(at, &z)
			w.committed, w.acked = z, z // by others
		}
	}
	if w.k.leads {
		w.committed = w.durable()
	}
	for w.released < w.committed {
		w.released++
		w.steps = append(w.steps, w.released)
		w.m.Applying(1)
		w.m.Committed(1, w.now)
	}
	if w.m.Round(w.now) {
		for range w.requests {
			if w.k.follows {
				w.forwarded++
				w.network = append(w.network, fmt.Sprint("proposal ", w.forwarded))
				continue
			}
			w.ordered++
			w.jobs = append(w.jobs, w.ordered)
			w.m.Logging(1, true)
			if w.k.leads {
				w.network = append(w.network, fmt.Sprint("ack ", w.ordered))
			}
		}
		w.requests = nil
	}
	w.m.Deadline(w.now + time.Hour)
}

// durable is what is on the disks of a quorum: on a leader its own and that of one
// follower, or of two followers if its own is stuck; what a follower is told is
// committed, is.
func (w *world) durable() int {
	switch {
	case w.k.follows || w.k.stuckDisk:
		return w.acked
	case w.k.leads:
		return min(w.acked, w.logged)
	}
	return w.logged
}

// check verifies the machine's invariants.
func (w *world) check() error {
	owners := [stages]int{}
	for i := range w.hands {
		if h := &w.hands[i]; !h.turn.Exit {
			owners[h.turn.Stage]++
			if h.turn.Stage == Log && h.turn.Worker != Writer && !(w.k.prompt && h.turn.Worker == Caller) {
				return fmt.Errorf("M3: the %v waits for the disk", h.turn.Worker)
			}
			if h.turn.taken > MaxTurns && h.turn.Worker == Caller {
				return fmt.Errorf("M4: a Caller runs %d stages", h.turn.taken)
			}
		}
	}
	for s := Order; s < stages; s++ {
		if owners[s] > 1 || w.m.owned[s] != (owners[s] == 1) {
			return fmt.Errorf("M1: %v has %d owners, the machine says %v", s, owners[s], w.m.owned[s])
		}
		if h := &w.hands[s-1]; w.m.ready(s, w.now) && owners[s] == 0 && !h.awake {
			return fmt.Errorf("M2: %v has work and no owner, and the %v sleeps", s, h.turn.Worker)
		}
	}
	return nil
}

// done checks a state in which nothing can run.
func (w *world) done() error {
	submitted := 0
	for _, script := range w.k.callers {
		submitted += len(script)
	}
	if w.applied != submitted {
		return fmt.Errorf("nothing runs any more, and %d of %d requests are answered", w.applied, submitted)
	}
	if w.k.closes {
		for i := Orderer; i < workers; i++ {
			if !w.hands[i-1].turn.Exit {
				return fmt.Errorf("the %v does not exit", i)
			}
		}
	}
	return nil
}

// explorer visits each state once.
type explorer struct {
	seen  map[string]bool
	trail []string
}

func (x *explorer) visit(w *world) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	if err := w.check(); err != nil {
		return err
	}
	if k := w.key(); x.seen[k] {
		return nil
	} else {
		x.seen[k] = true
	}
	moves := w.moves()
	if len(moves) == 0 {
		return w.done()
	}
	for _, move := range moves {
		x.trail = append(x.trail, move.name)
		if err := x.visit(move.to()); err != nil {
			return err
		}
		x.trail = x.trail[:len(x.trail)-1]
	}
	return nil
}

// move is something that may happen next.
type move struct {
	name string
	to   func() *world
}

// moves are all things that may happen. To interrupt the hand that ran last, while it
// can go on, is a preemption.
func (w *world) moves() (ms []move) {
	for i := range w.hands {
		if h := &w.hands[i]; h.link && len(w.network) > 0 {
			h.awake = true // the link has something to read
		}
	}
	for i := range w.hands {
		if h := &w.hands[i]; h.turn.Stage == Log && h.turn.Worker == Caller && h.turn.Replaceable {
			ms = append(ms, move{fmt.Sprintf("%v %d is replaced", h.turn.Worker, i), func() *world {
				c := w.clone()
				h := &c.hands[i]
				other := hand{script: h.script, link: h.link, awake: true}
				other.turn.Replaceable = true
				h.script, h.link, h.turn.Replaceable = nil, false, false
				c.hands = append(c.hands, other)
				return c
			}})
		}
		if !w.can(i) {
			continue
		}
		interrupts := w.last >= 0 && i != w.last && w.can(w.last)
		if interrupts && w.left == 0 {
			continue
		}
		ms = append(ms, move{fmt.Sprintf("%v %d", w.hands[i].turn.Worker, i), func() *world {
			c := w.clone()
			if interrupts && c.left > 0 {
				c.left--
			}
			c.last = i
			c.step(i)
			return c
		}})
	}
	if w.k.closes && !w.m.closing && w.submitted() {
		ms = append(ms, move{"close", func() *world {
			c := w.clone()
			c.m.Close()
			c.wake()
			return c
		}})
	}
	if due := w.hands[Orderer-1].turn.Due; len(ms) == 0 && due < time.Hour {
		ms = append(ms, move{"time", func() *world {
			c := w.clone()
			c.now = due
			c.hands[Orderer-1].awake = true // its timer
			return c
		}})
	}
	return ms
}

// submitted reports whether all requests have been submitted.
func (w *world) submitted() bool {
	for i := range w.hands {
		if len(w.hands[i].script) > 0 {
			return false
		}
	}
	return true
}

func (w *world) wake() {
	wake := w.m.Wake(w.now)
	for v := Orderer; v < workers; v++ {
		if wake.Has(v) {
			w.hands[v-1].awake = true
		}
	}
}

func TestExplore(t *testing.T) {
	for _, k := range []kind{
		{name: "standalone", callers: [][]int{{1, 2}, {3}}, preempts: -1},
		{name: "standalone, prompt disk", prompt: true, callers: [][]int{{1, 2}, {3}}, preempts: -1},
		{name: "standalone, closed", callers: [][]int{{1}, {2}}, prompt: true, closes: true, preempts: -1},
		{name: "standalone, four requests", callers: [][]int{{1, 2}, {3, 4}}, preempts: 3},
		{name: "leader", leads: true, prompt: true, callers: [][]int{{1}, {2}, {}}, preempts: 2},
		{name: "leader, three requests", leads: true, prompt: true, callers: [][]int{{1, 2}, {3}, {}}, preempts: 1},
		{name: "leader, disk stalls", leads: true, stuckDisk: true, callers: [][]int{{1, 2}, {3}, {}}, preempts: 2},
		{name: "leader, prompt disk stalls", leads: true, prompt: true, stuckDisk: true, callers: [][]int{{1, 2}, {3}, {}}, preempts: 1},
		{name: "follower", follows: true, prompt: true, callers: [][]int{{1}, {2}, {}}, preempts: 2},
		{name: "follower, three requests", follows: true, prompt: true, callers: [][]int{{1, 2}, {3}, {}}, preempts: 1},
		{name: "follower, disk stalls", follows: true, stuckDisk: true, callers: [][]int{{1}, {2}, {}}, preempts: 3},
		{name: "follower, prompt disk stalls", follows: true, prompt: true, stuckDisk: true, callers: [][]int{{1}, {2}, {}}, preempts: 2},
	} {
		t.Run(k.name, func(t *testing.T) {
			switch {
			case *preemptFlag >= 0:
				k.preempts = *preemptFlag
			case raceDetector: // the machine has no goroutines; this is for the rest of the package
				k.preempts = 0
			}
			x := explorer{seen: map[string]bool{}}
			if err := x.visit(newWorld(&k)); err != nil {
				t.Errorf("%v, after:\n%s", err, strings.Join(x.trail, "\n"))
			}
			t.Logf("%d states", len(x.seen))
		})
	}
}
