package replica

import (
	"time"
)

// A Stepped replica has no goroutines. Its owner, the simulator, is all of them
// in turn: it calls the methods below, one at a time, in any order that it likes.
// What each does is what the goroutine would have done with what has come so far.

// Deadline is when StepLoop has something to do by the clock.
func (r *Replica) Deadline() time.Duration { return r.deadline() }

// HasMail reports whether StepLoop has something to do at once.
func (r *Replica) HasMail() bool { return len(r.inbox.wake) > 0 }

// StepLoop does what is in the inbox and what is due. False means that the
// replica has failed.
func (r *Replica) StepLoop() bool {
	select {
	case <-r.failed:
		return false
	case <-r.inbox.wake:
	default:
	}
	return r.step()
}

// Unwritten is the number of jobs that wait for StepWriter.
func (r *Replica) Unwritten() int { return r.toLog.len() }

// StepWriter makes at most n jobs durable. False means that the disk, and with
// it the replica, has failed.
func (r *Replica) StepWriter(n int) bool {
	group := r.toLog.takeSome(nil, n)
	if len(group) == 0 {
		return true
	}
	if !r.makeDurable(group) {
		return false
	}
	r.unlogged.Add(int64(-len(group)))
	r.durable(group)
	return true
}

// Unapplied is the number of steps that wait for StepApplier.
func (r *Replica) Unapplied() int { return len(r.toApply) }

// StepApplier applies the oldest step.
func (r *Replica) StepApplier() {
	select {
	case s := <-r.toApply:
		r.applyStep(s)
		if r.unapplied.Add(-1) == 0 && r.awaiting.Load() {
			r.inbox.signal()
		}
	default:
	}
}

// Tasks is the number of tasks that wait for StepTask: a snapshot that is being
// written, a place in the log that is looked up.
func (r *Replica) Tasks() int { return len(r.tasks) }

// StepTask does a piece of task i.
func (r *Replica) StepTask(i int) {
	task := r.tasks[i]
	if task() {
		return
	}
	r.tasks = append(r.tasks[:i:i], r.tasks[i+1:]...)
}

// StepSweep submits the deletion of the containers and TTL znodes that are due.
func (r *Replica) StepSweep() {
	for _, path := range r.sweepable() {
		r.Submit([]Request{r.sweepRequest(path)})
	}
}

// Fuzzy reports whether the tree may be ahead of its zxid: it came from the
// leader, and what it is ahead by is on its way.
func (r *Replica) Fuzzy() bool { return r.fuzzy.Load() }
