package replica

import (
	"time"

	"github.com/pinfold-zk/pinfold/internal/znode"
)

// A task makes memory for the long multi after the one that was applied: the pages of new memory can take as long as all else
// that a multi does (znode.Spare). There is time for it: while others write, the next one rests for longer than the last one took.

// spareRest is how long the task rests after each piece of memory: what the multi has kept waiting goes first.
const spareRest = time.Millisecond

// makeSpare starts the task if a long multi was applied and memory is needed, and if the last task has ended and what it has made
// is in use. Stage Apply, no lock.
func (a *applier) makeSpare() {
	if !a.spareDue {
		return
	}
	a.spareDue = false
	needs := a.tree.Needs()
	if needs.None() || a.spare.Load() != nil || a.making.Swap(true) {
		return
	}
	a.driver.Spawn(func() (again bool) {
		a.driver.Rest(spareRest)
		a.spare.Store(znode.NewSpare(needs, func(b []byte) {
			if a.o.Tree.Populate != nil {
				a.o.Tree.Populate(b)
			}
			a.driver.Rest(spareRest)
		}))
		a.making.Store(false)
		return false
	})
}

// takeSpare gives the tree what the task has made. Stage Apply.
func (a *applier) takeSpare() {
	if s := a.spare.Swap(nil); s != nil {
		a.tree.Accept(s)
	}
}
