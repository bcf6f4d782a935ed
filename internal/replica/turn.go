package replica

// endLoop ends the taking of turns, and then the writer.
func (r *Replica) endLoop() {
	r.turn.Lock()
	r.over = true
	r.turn.Unlock()
	r.toLog.close()
}

// help does the loop's work in the goroutine that has brought some, if nobody is
// at it; else it leaves it to the loop. A lone request so wakes nobody on its way.
// REQUIRES: no lock is held that step may take.
func (r *Replica) help() { r.helpAs(false) }

// helpAs is help, by the writer or somebody else.
func (r *Replica) helpAs(writer bool) {
	if r.o.Stepped || !r.turn.TryLock() {
		r.inbox.signal()
		return
	}
	if r.over || r.hasFailed() {
		r.turn.Unlock()
		return
	}
	r.writing, r.mayWrite = writer, !writer
	r.step() // a failure of it has been told by fail
	r.writing, r.mayWrite = false, false
	var lone [1]job
	n := copy(lone[:], r.lone)
	clear(r.lone)
	r.lone = r.lone[:0]
	if r.deadline() < r.armed {
		r.inbox.signal() // the timer is the loop's
	}
	r.turn.Unlock()
	r.writeLone(lone[:n])
}

// hasFailed reports whether fail has been called.
func (r *Replica) hasFailed() bool {
	select {
	case <-r.failed:
		return true
	default:
		return false
	}
}
