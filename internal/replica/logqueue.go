package replica

import (
	"math"
	"slices"
	"sync"
)

// logQueue holds the jobs that wait for the writer.
type logQueue struct {
	room int // jobs from which on put waits
	mu   struct {
		sync.Mutex
		sync.Cond // it was changed, or fail was called
		jobs      []job
		busy      bool // somebody writes
		closed    bool
	}
}

func (q *logQueue) init(room int) {
	q.room = room
	q.mu.L = &q.mu.Mutex
}

// put appends a job. While the queue is full it waits, unless it must not; false
// means that failed was closed.
func (q *logQueue) put(j job, wait bool, failed <-chan struct{}) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for wait && len(q.mu.jobs) >= q.room {
		select {
		case <-failed:
			return false
		default:
		}
		q.mu.Wait()
	}
	q.mu.jobs = append(q.mu.jobs, j)
	if len(q.mu.jobs) == 1 && !q.mu.busy {
		q.mu.Broadcast()
	}
	return true
}

// own makes the caller the writer if nobody is, and nothing waits. It has to call
// done.
func (q *logQueue) own() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.mu.busy || len(q.mu.jobs) > 0 || q.mu.closed {
		return false
	}
	q.mu.busy = true
	return true
}

// done ends own, and what take began.
func (q *logQueue) done() {
	q.mu.Lock()
	q.mu.busy = false
	if len(q.mu.jobs) > 0 || q.mu.closed {
		q.mu.Broadcast()
	}
	q.mu.Unlock()
}

// full reports whether put would wait.
func (q *logQueue) full() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.mu.jobs) >= q.room
}

// giveUp ends own without done: j, which was to be written, goes before all that wait.
func (q *logQueue) giveUp(j job) {
	q.mu.Lock()
	q.mu.jobs = slices.Insert(q.mu.jobs, 0, j)
	q.mu.busy = false
	q.mu.Broadcast()
	q.mu.Unlock()
}

// take waits for jobs and appends all that there are; none if the queue was closed.
func (q *logQueue) take(group []job) []job {
	q.mu.Lock()
	for q.mu.busy || len(q.mu.jobs) == 0 && !q.mu.closed {
		q.mu.Wait()
	}
	q.mu.busy = len(q.mu.jobs) > 0
	q.mu.Unlock()
	return q.takeSome(group, math.MaxInt)
}

// takeSome appends at most n jobs, without waiting.
func (q *logQueue) takeSome(group []job, n int) []job {
	q.mu.Lock()
	defer q.mu.Unlock()
	n = min(n, len(q.mu.jobs))
	group = append(group, q.mu.jobs[:n]...)
	rest := copy(q.mu.jobs, q.mu.jobs[n:])
	clear(q.mu.jobs[rest:])
	q.mu.jobs = q.mu.jobs[:rest]
	q.mu.Broadcast()
	return group
}

func (q *logQueue) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.mu.jobs)
}

// close has take return without jobs, once there are none.
func (q *logQueue) close() {
	q.mu.Lock()
	q.mu.closed = true
	q.mu.Broadcast()
	q.mu.Unlock()
}

// release wakes who waits in put.
func (q *logQueue) release() {
	q.mu.Lock()
	q.mu.Broadcast()
	q.mu.Unlock()
}
