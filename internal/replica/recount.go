package replica

import (
	"time"

	"github.com/pinfold-zk/pinfold/internal/znode"
)

// recountRest is how long the count of quotas rests after each piece of work: clients can
// have a large tree counted as often as they like.
const recountRest = 2 * time.Millisecond

// recountQuotas starts the task that counts the usage of quotas, if a count is due and the
// task does not run. Stage Apply, no lock.
func (a *applier) recountQuotas() {
	r := a.Replica
	if !a.recountDue || r.recounting.Swap(true) {
		return
	}
	r.driver.Spawn(func() (again bool) {
		if !r.stepRecount() || r.Stopping() {
			return false
		}
		r.driver.Rest(recountRest)
		return true
	})
}

// stepRecount counts a piece. It reports false if nothing is due any more.
func (r *Replica) stepRecount() (more bool) {
	since := r.lockRead()
	tree := r.tree
	due := tree.RecountDue()
	done := due && tree.Recount(znode.PieceUnits)
	if !due {
		r.recounting.Store(false) // the applier, which would start another task, waits for the lock
	}
	r.unlockRead(since)
	if done {
		since = r.lockWrite()
		if r.tree == tree {
			tree.EndRecount()
		}
		r.unlockWrite(since)
	}
	return due
}
