// Package pipeline decides which goroutine runs which stage of a server, and
// when. It is a pure state machine: it is told what arrived and what was finished,
// and answers with the stage that the asking worker runs next and the workers that
// must be woken. It holds no data, no lock and no clock, so the goroutines of a
// server and the simulator drive the same machine.
//
//	Submitted, Arrived           Logging              Applying
//	        |                       |                    |
//	   +----v----+             +----v---+           +----v----+
//	   |  Order  | -- jobs --> |  Log   |           |  Apply  |
//	   +---------+             +--------+           +---------+
//	        ^  |                |     | standalone       ^ |
//	        |  +-- steps -------|-----+------------------+ |
//	        +---- Arrived ------+                          |
//	        +---- Applied (while Await is in force) -------+
//
// Order gives requests their zxids, drives the Zab core, and feeds Log and Apply. Log
// makes jobs durable; it alone uses the disk. Apply changes the tree, fires watches and
// answers.
//
// Each stage has a worker of its own, a goroutine that sleeps until it is woken:
// the Orderer, the Writer and the Applier. Waking a goroutine costs more than the
// work of a single request, so a worker that finishes a stage goes on with the next
// one if that is idle and has little to do (SmallBatch); and a goroutine that
// submits a few requests or packets, a Caller, runs the stages itself. Larger batches
// are left to the stages' own workers, which then run side by side.
//
// Invariants; each has a test of the same name:
//
//	M1  a stage has at most one owner
//	M2  no wake-up is lost: when a call returns, every stage that has work has an
//	    owner, or its own worker is awake and will ask Next
//	M3  only the Writer waits for the disk, except for the write of a single small job: it
//	    is made by a Caller that another goroutine replaces if the write takes long
//	    (Turn.Replaceable), and only if the write before it was quick
//	M4  a Caller is released after MaxTurns stages
//
// The owner serializes all calls, with a lock that it never holds during a stage.
package pipeline

import "time"

// Stage is a part of the way of a request.
type Stage int8

// The stages, in the order in which a request passes them.
const (
	None Stage = iota
	Order
	Log
	Apply
	stages
)

// String is the name of the stage.
func (s Stage) String() string { return [...]string{"none", "order", "log", "apply"}[s] }

// Worker is a kind of goroutine that runs stages.
type Worker int8

// The workers. All but Caller are one goroutine each.
const (
	Caller  Worker = iota // a goroutine that has brought requests or packets; there may be many
	Orderer               // owns Order, unless another worker runs it
	Writer                // owns Log
	Applier               // owns Apply
	workers
)

// String is the name of the worker.
func (w Worker) String() string { return [...]string{"caller", "orderer", "writer", "applier"}[w] }

// own is the stage that a worker is there for.
func (w Worker) own() Stage { return Stage(w) }

const (
	// SmallBatch is the number of requests, packets or transactions up to which a
	// worker goes on with the next stage instead of waking another worker.
	SmallBatch = 32
	// MaxTurns is the number of stages that a Caller runs before it is released:
	// enough for one write on each kind of server, and for its completion.
	MaxTurns = 6
)

// Turn is what a worker is doing. A goroutine keeps one Turn for as long as it
// works, and passes it to Next each time.
type Turn struct {
	Worker Worker
	Stage  Stage // to be run now, and ended by the next call of Next
	Jobs   int   // that a turn of Log takes
	// Replaceable tells that a Caller may wait for the disk: if that takes long, another
	// goroutine does what the Caller would do after its stages.
	Replaceable bool
	// Closing tells that this is the last turn of the stage: everything before it
	// has ended, and nothing waits. The worker then ends.
	Closing bool
	Exit    bool // the worker is to end; nothing is to be run
	// Due is when the Orderer, which has nothing to run now, is to call Next although it was
	// not woken; Never if it will be. It belongs to the call of Next: what is due may change
	// before the Orderer sleeps, and the machine then wakes it only if that is earlier.
	Due time.Duration

	taken int // stages run since the worker was idle
}

// Wakes is a set of workers that are to be woken.
type Wakes uint8

// Has reports whether w is to be woken.
func (ws Wakes) Has(w Worker) bool { return ws&(1<<w) != 0 }

// Machine is the state of one server's pipeline. Its zero value is not ready: use New.
type Machine struct {
	owned  [stages]bool  // a worker runs the stage
	asleep [workers]bool // the worker waits to be woken

	mail     int  // events and packets that wait for Order
	requests int  // requests of this server's clients that wait for Order
	forwards int  // requests of learners that wait for Order to make a round of them
	jobs     int  // waiting for Log
	lone     bool // the only one of them is small, and little else is under way
	prompt   bool // a Caller may write it
	writing  int  // jobs that Log has taken
	steps    int  // waiting for Apply
	stepTxns int  // transactions in them
	applying int  // steps that the owner of Apply has taken

	alone    bool // see Alone
	rounds   rounds
	deadline time.Duration // when Order has something to do by the clock
	armed    time.Duration // the Orderer's timer: Due of its last turn
	awaiting bool          // Order wants to know when all steps are applied

	closing bool // no more work comes from outside
	closed  [stages]bool
	failed  bool
	group   func(jobs int) int
}

// New returns an idle machine, all of whose workers are about to call Next for the
// first time. group chooses how many of the waiting jobs one turn of Log takes; nil
// takes all. The simulator passes one.
func New(group func(jobs int) int) *Machine {
	if group == nil {
		group = func(jobs int) int { return jobs }
	}
	return &Machine{group: group}
}

// Submitted tells that n requests of this server's clients wait for Order.
func (m *Machine) Submitted(n int) { m.requests += n }

// Arrived tells that n events or packets wait for Order.
func (m *Machine) Arrived(n int) { m.mail += n }

// Logging tells that n jobs wait for Log. lone says that there is a single one, that it
// is small, and that what was proposed before it is committed.
func (m *Machine) Logging(n int, lone bool) {
	m.jobs += n
	m.lone = lone && m.jobs == 1
}

// Prompt tells whether the next write of a small job will probably be quick: the disk was
// quick, and no other work on files is due. Log's owner calls it at the end of its turn.
func (m *Machine) Prompt(yes bool) { m.prompt = yes }

// Applying tells that a step of so many transactions was queued for Apply.
func (m *Machine) Applying(txns int) {
	m.steps++
	m.stepTxns += txns
}

// Deadline sets when Order has something to do by the clock. Order's owner calls it
// at the end of its turn.
func (m *Machine) Deadline(at time.Duration) { m.deadline = at }

// Await asks for a message to Order, as Arrived, when no step is left to apply.
func (m *Machine) Await(yes bool) { m.awaiting = yes }

// Unlogged is the number of jobs that are not durable.
func (m *Machine) Unlogged() int { return m.jobs + m.writing }

// Unapplied is the number of steps that are not applied.
func (m *Machine) Unapplied() int { return m.steps + m.applying }

// Close tells that nothing comes from outside any more. What waits is finished,
// stage by stage, and the workers are told to exit.
func (m *Machine) Close() { m.closing = true }

// Fail ends all work: every worker is told to exit, and no stage is given out.
func (m *Machine) Fail() { m.failed = true }

// Next ends the stage of t, if there is one, and gives t the stage that its worker
// runs next. It reports false if there is none: a Caller then returns to its own
// business, any other worker sleeps until it is woken, or exits. wake holds the
// workers that the caller must wake, after it has released the lock.
func (m *Machine) Next(t *Turn, now time.Duration) (wake Wakes, ok bool) {
	m.end(t)
	m.asleep[t.Worker] = false
	t.Stage, t.Jobs, t.Closing = None, 0, false
	if m.failed {
		t.Exit = true
		return m.Wake(now), false
	}
	s := t.Worker.own()
	if s == None || !m.free(s, now) {
		// The one nearest to the end of the pipeline: what is begun is finished before
		// more is begun.
		s = Apply
		for s > None && !(m.free(s, now) && m.may(t, s)) {
			s--
		}
	}
	if s == None {
		m.rest(t)
	} else {
		m.begin(t, s)
	}
	return m.Wake(now), s != None
}

// rest tells that a worker has nothing to do.
func (m *Machine) rest(t *Turn) {
	t.taken = 0
	w := t.Worker
	if w == Caller {
		return
	}
	if t.Exit = m.closed[w.own()]; t.Exit {
		return
	}
	m.asleep[w] = true
	if w == Orderer {
		m.armed = m.due()
		t.Due = m.armed
	}
}

// end releases the stage that a worker has run.
func (m *Machine) end(t *Turn) {
	switch t.Stage {
	case None:
		return
	case Log:
		m.writing = 0
	case Apply:
		if m.applying = 0; m.awaiting && m.steps == 0 {
			m.mail++
		}
	}
	m.owned[t.Stage] = false
	if t.Closing {
		m.closed[t.Stage] = true
	}
}

// free reports whether a stage has work and no owner.
func (m *Machine) free(s Stage, now time.Duration) bool { return m.ready(s, now) && !m.owned[s] }

// may reports whether a worker may run a stage that is not its own: one that has
// little to do, while the server is not being closed.
func (m *Machine) may(t *Turn, s Stage) bool {
	if t.Worker == Applier || t.Worker == Caller && t.taken >= MaxTurns || m.closing {
		return false
	}
	switch s {
	case Order:
		return m.mail+m.requests+m.forwards <= SmallBatch
	case Log: // M3
		return t.Replaceable && m.lone && m.prompt && m.mail+m.requests == 0
	}
	return m.stepTxns <= SmallBatch
}

// ready reports whether a stage has work. A stage that is to be closed has, once
// everything before it is closed.
func (m *Machine) ready(s Stage, now time.Duration) bool {
	if m.closed[s] {
		return false
	}
	switch s {
	case Order:
		return m.closing || m.mail > 0 || now >= m.deadline || m.roundDue(now)
	case Log:
		return m.jobs > 0 || m.closed[Order]
	}
	return m.steps > 0 || m.closed[Log]
}

// begin gives a stage to a worker.
func (m *Machine) begin(t *Turn, s Stage) {
	m.owned[s] = true
	t.Stage = s
	t.taken++
	switch s {
	case Order:
		t.Closing = m.closing
		m.mail = 0
	case Log:
		if t.Closing = m.jobs == 0; t.Closing {
			return
		}
		t.Jobs = m.group(m.jobs)
		m.jobs, m.writing, m.lone = m.jobs-t.Jobs, t.Jobs, false
	case Apply:
		t.Closing = m.steps == 0
		m.applying, m.steps, m.stepTxns = m.steps, 0, 0
	}
}

// Wake returns the sleeping workers whose stage has work and no owner, and counts
// them as awake. The owner calls it after it has told of work by a goroutine that
// does not call Next.
func (m *Machine) Wake(now time.Duration) (wake Wakes) {
	for w := Orderer; w < workers; w++ {
		if !m.asleep[w] {
			continue
		}
		s := w.own()
		due := m.free(s, now) || m.failed || m.closed[s]
		if w == Orderer && !m.owned[Order] && m.due() < m.armed {
			due = true // its timer is to be set earlier
		}
		if due {
			m.asleep[w] = false
			wake |= 1 << w
		}
	}
	return wake
}
