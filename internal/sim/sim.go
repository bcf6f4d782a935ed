// Package sim runs whole servers of an ensemble in one goroutine, under virtual
// time, from one seed: the Zab core, the log on a file system in memory that
// crashes, snapshots, the tree, sessions, and the client protocol, with clients
// that use all of it. What one seed does it does every time.
//
//	sim.go       the run: virtual time, the queue of events, a seed's course
//	profile.go   what a seed decides on before it begins
//	member.go    one server: its life, its disk, its goroutines' turns
//	network.go   links between members: first in, first out; election messages: not
//	faults.go    what goes wrong
//	damage.go    disks whose bits flip
//	stranger.go  a process on the members' ports that is none of them
//	diverge.go   trees that go wrong in memory
//	client.go    clients: connections, sessions
//	request.go   clients: what they ask
//	answers.go   clients: what they must be answered
//	watches.go   clients: the events that they must have been sent
//	expiry.go    sessions that end, and must not
//	local.go     sessions that one member alone knows
//	readonly.go  members without a quorum, which serve clients that only read
//	model.go     ZooKeeper's interface as a sequential program
//	rules.go     its rules of paths, ACLs and quotas
//	checker.go   Zab's invariants, by the names of ZooKeeper's TLA+ specification
//	history.go   what is committed, and whether it is what clients have asked for
//	registers.go what porcupine is given to judge
//	voters.go    voters with weights and in groups
//	roster.go    the configuration of the ensemble, and changes of it
//	reconfigure.go  an operator that changes it, and its place in the model
//	configurations.go  invariants of the configuration
//	epochs.go    the epoch files at a start
//	coverage.go  what a run has come by
//	trace.go     what happened: as a hash, and as text
//
// The specification is zookeeper-specifications in Apache's repository, modules
// Zab, ZabWithFLEAndSYNC and ZkV3_7_0; checker.go says how each of its
// invariants is checked here.
package sim

import (
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"time"

	"github.com/pinfold-zk/pinfold/zk"
)

// Options says what to run.
type Options struct {
	Seed  uint64
	Trace bool // keep what happens as text
	// Effects leaves out the checks of a member's order of work (see checker):
	// what is wrong has to show in what members deliver or clients see.
	Effects bool
	// Reconfigures has the run change the configuration of the ensemble, whatever the seed says.
	Reconfigures bool
	// Impatient gives members zab.Config.ProgressLimit, of two ticks. Without it their syncLimits are too
	// short for that to matter.
	Impatient bool
}

// Result is what came of a run.
type Result struct {
	Hash      uint64 // of everything that happened
	Events    int
	Virtual   time.Duration
	Coverage  Coverage
	Violation *Violation // nil if all is well
	Registers [][]Access // of some znodes, each for itself: to be linearizable
	Trace     []string   // if it was asked for
}

// Violation is a broken promise.
type Violation struct {
	Invariant string
	Detail    string
	At        time.Duration
}

// Error says what is violated, when and how.
func (v *Violation) Error() string {
	return fmt.Sprintf("%s is violated at %v: %s", v.Invariant, v.At, v.Detail)
}

// Run runs a seed to its end, or to the first violation.
func Run(o Options) (res Result) {
	s := newSim(o)
	defer func() {
		if p := recover(); p != nil {
			v, ok := p.(*Violation)
			if !ok {
				v = &Violation{"NoPanic", fmt.Sprintf("%v\n%s", p, debug.Stack()), s.now}
			}
			res.Violation = v
		}
		res.Hash, res.Events, res.Virtual = s.trace.hash, s.ran, s.now
		res.Coverage, res.Trace = s.cover, s.trace.lines
		if res.Violation == nil {
			res.Registers = s.registers.accesses(s.history)
		}
		s.end()
	}()
	s.run()
	return res
}

// Sim is one run.
type Sim struct {
	o       Options
	rng     *rand.Rand
	profile profile
	now     time.Duration
	queue   eventQueue
	seq     uint64
	ran     int

	members   []*member // by id, from 1; [0] is nil
	net       network
	stranger  *intruder
	clients   []*client
	check     checker
	history   *history
	cover     Coverage
	trace     trace
	registers registers
	changes   []*ask        // requests for a change of the configuration
	answered  zk.Zxid       // the latest write that a client was answered
	faulting  bool          // faults happen
	quiet     time.Duration // since then nothing has gone wrong, see disturbed
	finished  bool
}

func newSim(o Options) *Sim {
	s := &Sim{o: o, rng: rand.New(rand.NewPCG(o.Seed, 0x9e3779b97f4a7c15))}
	s.trace.on = o.Trace
	s.profile = drawProfile(s.rng)
	s.profile.drawVariants(rand.New(rand.NewPCG(o.Seed, 0x7fb5d329728ea185)))
	s.profile.drawReconfigurations(rand.New(rand.NewPCG(o.Seed, 0x7265636f6e666967)), o.Reconfigures)
	s.history = newHistory(s)
	s.check.init(s)
	s.net.init(s)
	s.stranger = newIntruder(s)
	return s
}

// event is something that will happen.
type event struct {
	at  time.Duration
	seq uint64
	f   func()
}

// eventQueue is a heap: the earliest first, of those the one that was put first.
type eventQueue []event

func (q eventQueue) less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].seq < q[j].seq
}

func (q *eventQueue) push(e event) {
	*q = append(*q, e)
	h := *q
	for i := len(h) - 1; i > 0; {
		up := (i - 1) / 2
		if !h.less(i, up) {
			break
		}
		h[i], h[up] = h[up], h[i]
		i = up
	}
}

func (q *eventQueue) pop() event {
	h := *q
	e := h[0]
	n := len(h) - 1
	h[0], h[n] = h[n], event{}
	h = h[:n]
	*q = h
	for i := 0; ; {
		least := i
		for c := 2*i + 1; c <= 2*i+2 && c < n; c++ {
			if h.less(c, least) {
				least = c
			}
		}
		if least == i {
			return e
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
}

// after has f called in d, or at once if d is negative.
func (s *Sim) after(d time.Duration, f func()) {
	s.seq++
	s.queue.push(event{s.now + max(d, 0), s.seq, f})
}

// between draws a duration.
func (s *Sim) between(least, most time.Duration) time.Duration {
	if most <= least {
		return least
	}
	return least + time.Duration(s.rng.Int64N(int64(most-least)))
}

// chance is true with probability p.
func (s *Sim) chance(p float64) bool { return p > 0 && s.rng.Float64() < p }

// fail ends the run with a violation.
func (s *Sim) fail(invariant, format string, args ...any) {
	if s.o.Effects && isOrderOfWork(invariant) {
		return
	}
	panic(&Violation{invariant, fmt.Sprintf(format, args...), s.now})
}

// maxEvents ends a run that goes round in circles.
const maxEvents = 2_000_000

// runUntil runs events until done says so or the time is over. It reports
// whether done did.
func (s *Sim) runUntil(until time.Duration, done func() bool) bool {
	for len(s.queue) > 0 && s.queue[0].at <= until {
		e := s.queue.pop()
		s.now = e.at
		s.ran++
		if s.ran > maxEvents {
			s.fail("Progress", "%d events and no end: %s", s.ran, s.describe())
		}
		e.f()
		if done != nil && done() {
			return true
		}
	}
	s.now = max(s.now, until)
	return false
}

// run is a seed's course: the ensemble is started, clients work while things go
// wrong, everything is healed, and then the service must work, all members must
// have come to the same state, and every session without a client must end.
func (s *Sim) run() {
	p := &s.profile
	s.traceProfile()
	s.members = []*member{nil}
	for id := 1; id <= p.size(); id++ {
		s.members = append(s.members, newMember(s, id))
	}
	for _, m := range s.members[1 : 1+p.voters+p.observers] {
		s.after(s.between(0, p.startSpread), m.start)
	}
	for _, m := range s.members[1+p.voters+p.observers:] {
		s.after(s.between(0, p.length/2), m.start)
	}
	for i := range p.clients {
		s.clients = append(s.clients, newClient(s, i))
	}
	for _, c := range s.clients {
		s.after(s.between(0, time.Second), c.begin)
	}
	s.faulting = true
	s.scheduleFault()
	s.scheduleDivergence()
	s.scheduleHandOver()
	s.stranger.begin()
	s.scheduleUpkeep()
	s.runUntil(p.length, nil)
	s.heal()
	s.mustProgress()
	s.mustConverge()
	if p.reconfigs.on {
		s.mustReconfigure()
		s.mustConverge()
	}
	s.mustExpire()
}

// progressLimit is how long a healed ensemble may take until it answers a write.
const progressLimit = 60 * time.Second

// mustProgress demands that a new client's write is answered.
func (s *Sim) mustProgress() {
	c := newClient(s, len(s.clients))
	c.probe = true
	s.clients = append(s.clients, c)
	c.begin()
	began := s.now
	if !s.runUntil(s.now+progressLimit, func() bool { return c.probed }) {
		s.fail("Progress", "%v after all was healed no write is answered: %s", progressLimit, s.describe())
	}
	s.cover.Recovery.add(s.now - began)
}

// mustConverge demands that all members come to serve the same state.
func (s *Sim) mustConverge() {
	for _, c := range s.clients {
		c.retire()
	}
	began := s.now
	s.letHeal()
	if !s.runUntil(s.now+progressLimit, s.converged) && !s.readmit() {
		s.fail("Convergence", "%v after the last write members differ: %s", progressLimit, s.describe())
	}
	s.cover.Convergence.add(s.now - began)
	s.mustHeal()
}

// healing reports whether some member heals that is not lost.
func (s *Sim) healing() bool {
	return slices.ContainsFunc(s.members[1:], func(m *member) bool { return m.up && !m.stranded() && m.rep.Healing() })
}

// letHeal writes when members that heal have what was there, if the configuration may change: those that have
// forgotten their promises wait for that, and members that join may wait for their votes.
func (s *Sim) letHeal() {
	if s.profile.reconfigs.on {
		s.runUntil(s.now+progressLimit, func() bool {
			return !slices.ContainsFunc(s.members[1:], func(m *member) bool {
				return !m.gone && (!m.up || m.rep.Healing() && !m.stranded() && !m.rep.Serving())
			})
		})
		s.writeToHeal()
	}
}

// mustHeal demands that one write is enough for members that have forgotten their promises, and have all else.
func (s *Sim) mustHeal() {
	if !s.healing() {
		return
	}
	s.writeToHeal()
	if !s.runUntil(s.now+progressLimit, func() bool { return s.converged() && !s.healing() }) {
		s.fail("Convergence", "%v after a write members have not healed: %s", progressLimit, s.describe())
	}
}

func (s *Sim) writeToHeal() {
	if s.healing() {
		s.cover.WriteHeals++
		s.mustProgress()
		for _, c := range s.clients {
			c.retire()
		}
	}
}

// readmit handles voters that have accepted a later epoch than the one that serves: they
// cannot follow before an election in which they take part (docs/zab.md, Strangers). It does what
// docs/ops/epochs.md tells the operator to do, and reports whether members converge then. A leader
// that is a quorum by itself does not wait for votes of others, and without it there is no
// quorum that they could heal from: then these voters are lost, until the epoch files are reset.
func (s *Sim) readmit() bool {
	l, late := s.leader(), s.lockedOut()
	if len(late) == 0 {
		return false
	}
	s.cover.LockedOut++
	if s.holds(func(id int) bool { return id == l.id }) {
		for _, m := range late {
			m.stop(false)
			m.gone = true
		}
		return s.runUntil(s.now+progressLimit, s.converged)
	}
	return s.changeLeader(l) || s.releasePromises()
}

// lockedOut returns the voters that have accepted a later epoch than the one that serves.
func (s *Sim) lockedOut() (late []*member) {
	l := s.leader()
	for _, m := range s.members[1:] {
		if l != nil && m.up && !m.rep.Serving() && m.shadow.epochs.accepted.durable > l.shadow.epoch {
			late = append(late, m)
		}
	}
	return late
}

// changeLeader stops the leader and starts it again when the others have elected one or cannot.
func (s *Sim) changeLeader(l *member) bool {
	l.stop(false)
	s.runUntil(s.now+progressLimit, func() bool { return s.leader() != nil })
	l.start()
	return s.runUntil(s.now+progressLimit, s.converged)
}

// releasePromises restarts voters that are locked out still, because the others were a quorum before
// they came, with the mark of a server that has forgotten which epochs it had accepted.
func (s *Sim) releasePromises() bool {
	late := s.lockedOut()
	for _, m := range late {
		m.stop(false)
		m.forget()
		s.cover.Released++
		m.start()
	}
	return len(late) > 0 && s.runUntil(s.now+progressLimit, s.converged)
}

// converged reports whether all members serve, and have the same state.
func (s *Sim) converged() bool {
	var first *member
	for _, m := range s.members[1:] {
		if m.gone || m.stranded() {
			continue
		}
		if !m.up || !m.rep.Serving() || !m.rep.Drained() || m.diverged() || !s.hasHealed(m) {
			return false
		}
		if first == nil {
			first = m
		}
		if m.rep.LastApplied() != first.rep.LastApplied() {
			return false
		}
	}
	for _, m := range s.members[1:] {
		if m.gone || m.stranded() {
			continue
		}
		if got, want := m.digest(), first.digest(); got != want {
			s.fail("EqualDigest", "at %v member %d has digest %d, member %d %d", m.rep.LastApplied(), m.id, got, first.id, want)
		}
	}
	return true
}

// hasHealed reports whether a member has its vote again, as far as it can without a write (mustHeal): if it has
// forgotten its promises, it needs all other voters for that, and that these do not change.
func (s *Sim) hasHealed(m *member) bool {
	if !m.rep.Healing() {
		return true
	}
	h, _, err := m.dir.Healing()
	return err == nil && h.Forgot && (s.profile.reconfigs.on || slices.ContainsFunc(s.members[1:], func(o *member) bool { return o != m && o.isVoter() && o.gone }))
}

// mustExpire demands that the sessions whose clients are gone end, and their
// ephemerals with them.
func (s *Sim) mustExpire() {
	if !s.profile.awaitExpiry {
		return
	}
	limit := s.now + 4*s.profile.maxSession + progressLimit
	if !s.runUntil(limit, func() bool { return s.history.liveSessions() == 0 }) {
		s.fail("SessionExpiry", "%d sessions without clients live on: %s", s.history.liveSessions(), s.describe())
	}
	if !s.runUntil(s.now+progressLimit, s.converged) {
		s.fail("Convergence", "after the sessions' end members differ: %s", s.describe())
	}
}

// describe says how the members are, for a failure.
func (s *Sim) describe() string {
	text := ""
	for _, m := range s.members[1:] {
		text += "\n  " + m.describe()
	}
	return text
}

// end releases what the run has held.
func (s *Sim) end() {
	s.finished = true
	s.net.end()
}
