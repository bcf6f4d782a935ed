package sim

import (
	"time"

	"github.com/pinfold-zk/pinfold/internal/pipeline"
	"github.com/pinfold-zk/pinfold/internal/replica"
)

// driver runs the stages of a member in one of its lives (replica.Driver). It has
// the workers that a server has: three of their own, and a Caller each time that a
// connection submits requests or a link delivers packets. The seed decides when each
// worker goes on. A worker owns its stage for as long as the stage's work takes.
type driver struct {
	m       *member
	r       *replica.Replica
	workers [pipeline.Applier + 1]replica.Turn
	timer   int // counts the times that the Orderer's timer was set
	tasks   []func() bool
	tasking bool // a turn of a task is queued
}

// Start implements replica.Driver.
func (d *driver) Start(r *replica.Replica) {
	d.r = r
	for w := pipeline.Orderer; w <= pipeline.Applier; w++ {
		d.workers[w].Worker = w
		d.Wake(w)
	}
}

// Look implements replica.Driver.
func (d *driver) Look(bool) {}

// Wake implements replica.Driver.
func (d *driver) Wake(w pipeline.Worker) {
	if w == pipeline.Orderer {
		d.timer++
	}
	d.m.after(d.wakeDelay(), func() { d.next(&d.workers[w]) })
}

// Work implements replica.Driver. A Caller is a goroutine of its own: it is as if each were
// replaced at once.
func (d *driver) Work(replica.Reader) (goOn bool) {
	t := new(replica.Turn)
	t.Replaceable = d.m.s.profile.promptDisk
	d.m.after(d.wakeDelay(), func() { d.next(t) })
	return true
}

// wakeDelay is how long a goroutine takes to begin.
func (d *driver) wakeDelay() time.Duration {
	p := &d.m.s.profile
	return d.m.turn(p.loopDelay/10, p.loopDelay)
}

// next has a worker take up its next stage, which is run when its time is over.
func (d *driver) next(t *replica.Turn) {
	switch {
	case d.r.Next(t):
		d.m.after(d.stageDelay(t), func() { d.run(t) })
	case t.Worker == pipeline.Orderer && !t.Exit:
		d.sleep()
	}
}

// sleep wakes the Orderer by the clock.
func (d *driver) sleep() {
	d.timer++
	set := d.timer
	due := d.workers[pipeline.Orderer].Due
	if due == pipeline.Never {
		return
	}
	d.m.after(max(d.m.when(due)-d.m.s.now, time.Microsecond), func() {
		if d.timer == set {
			d.next(&d.workers[pipeline.Orderer])
		}
	})
}

// run runs the stage of a worker; the worker then asks for the next one at once, or
// a little later.
func (d *driver) run(t *replica.Turn) {
	m := d.m
	m.s.trace.note(uint64(t.Worker), uint64(t.Jobs))
	if t.Stage == pipeline.Apply && m.corrupt {
		m.applyCorrupted(func() { d.r.Run(t) })
	} else {
		d.r.Run(t)
	}
	select {
	case <-d.r.Failed():
		m.failed()
		return
	default:
	}
	switch t.Stage {
	case pipeline.Log:
		if t.Worker == pipeline.Caller {
			m.s.cover.CallersWrites++
		}
		m.s.check.wrote(m, t.Jobs)
	case pipeline.Apply:
		m.s.check.applied(m)
	}
	m.stepped(uint64(t.Stage))
	if m.s.chance(0.2) {
		m.after(d.wakeDelay(), func() { d.next(t) })
		return
	}
	d.next(t)
}

// stageDelay is how long a stage takes.
func (d *driver) stageDelay(t *replica.Turn) time.Duration {
	p := &d.m.s.profile
	switch {
	case t.Stage == pipeline.Log:
		return d.m.diskDelay()
	case t.Stage == pipeline.Apply:
		return d.m.turn(p.applyDelay/20, p.applyDelay)
	}
	return d.m.turn(p.loopDelay/10, p.loopDelay)
}

// Spawn implements replica.Driver.
func (d *driver) Spawn(task func() (again bool)) {
	d.tasks = append(d.tasks, task)
	d.armTask()
}

// Rest implements replica.Driver. The time between the turns of a task is its rest.
func (d *driver) Rest(time.Duration) {}

// Wait implements replica.Driver. No member is closed in order.
func (d *driver) Wait() {}

// armTask queues the turn of a task, if there is one.
func (d *driver) armTask() {
	p := &d.m.s.profile
	if d.tasking || len(d.tasks) == 0 {
		return
	}
	d.tasking = true
	d.m.after(d.m.s.between(p.taskDelay/10, p.taskDelay), d.stepTask)
}

// stepTask does a piece of one of the tasks.
func (d *driver) stepTask() {
	d.tasking = false
	i := d.m.s.rng.IntN(len(d.tasks))
	if task := d.tasks[i]; !task() {
		d.tasks = append(d.tasks[:i:i], d.tasks[i+1:]...)
	}
	d.m.stepped(6)
	d.armTask()
}
