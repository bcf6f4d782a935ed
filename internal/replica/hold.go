package replica

import (
	"runtime"
	"time"

	"github.com/pinfold-zk/pinfold/zk"
)

// Hold is one hold of the tree's lock, to read or to apply. The caller of ViewAt owns it, and may use it again for its next
// View. The zero value is ready.
type Hold struct {
	since  time.Duration
	until  time.Duration // set by View.End; 0: it is the time when the lock is released
	work   int           // done under the write lock, in units of package znode
	turn   bool          // it has Replica.turn
	paused int           // how often its View has called Pause
}

// A View that has paused more often than freePauses is long. It rests after each piece for as long as the piece has
// taken, and keeps the turn meanwhile: so long requests together use half of a processor, however many there are. The
// servers of an ensemble may share their processors with each other, and clients do not wait for those of one request.
const (
	freePauses = 16
	mostRest   = 2 * time.Millisecond // what a piece takes at most, unless its goroutine has waited for a processor
)

// lockRead acquires the tree's read lock. The caller passes the result to unlockRead.
func (r *Replica) lockRead() (since time.Duration) {
	r.mu.RLock()
	return r.clock.Now()
}

// unlockRead releases the read lock, and counts how long it was held.
func (r *Replica) unlockRead(since time.Duration) { r.unlockReadAt(since, r.clock.Now()) }

func (r *Replica) unlockReadAt(since, until time.Duration) {
	r.mu.RUnlock()
	r.stats.ReadHolds.Add(1, until-since)
}

// lockWrite acquires the tree's write lock. The caller passes the result to unlockWrite.
func (r *Replica) lockWrite() (since time.Duration) {
	r.mu.Lock()
	return r.clock.Now()
}

// unlockWrite releases the write lock, and counts how long it was held.
func (r *Replica) unlockWrite(since time.Duration) {
	held := r.clock.Now() - since
	r.mu.Unlock()
	r.stats.WriteHolds.Add(1, held)
}

// View calls f under the tree's read lock. Nothing is applied while f runs, so f must not
// wait, and must do at most znode.PieceUnits of work between two calls of View.Pause. f
// must not call View.
func (r *Replica) View(f func(View)) { r.ViewAt(new(Hold), r.clock.Now(), false, f) }

// ViewAt is View for callers that have a Hold and have just read the clock. inTurn tells that the caller's
// last View did a whole piece of work: only one such View runs at a time, so that they use
// one processor.
func (r *Replica) ViewAt(h *Hold, now time.Duration, inTurn bool, f func(View)) {
	if inTurn {
		r.awaitTurn(h)
	}
	if h.since, h.until, h.paused = now, 0, 0; inTurn || !r.mu.TryRLock() {
		h.since = r.lockRead()
	}
	defer func() {
		if h.until == 0 {
			h.until = r.clock.Now()
		}
		r.unlockReadAt(h.since, h.until)
		r.endTurn(h)
	}()
	f(View{r.tree, r, h})
}

// End returns the time, until which the hold of the lock is counted. View's function calls
// it at its end, if it needs the time.
func (v View) End() time.Duration {
	v.h.until = v.r.clock.Now()
	return v.h.until
}

// Pause releases the lock, calls between, and acquires the lock again: queued transactions
// are applied meanwhile. It reports whether v still is this server's tree, and is
// right; if not, the caller must not read from it. After its first Pause a View continues as one that is inTurn; after
// freePauses it rests in each.
//
// REQUIRES: the caller is within View's function, and holds no other lock.
func (v View) Pause(between func()) bool {
	until := v.r.clock.Now()
	v.r.unlockReadAt(v.h.since, until)
	if v.h.paused++; v.h.paused > freePauses {
		v.r.driver.Rest(min(until-v.h.since, mostRest))
	}
	v.r.endTurn(v.h)
	between()
	v.r.awaitTurn(v.h)
	v.h.since = v.r.lockRead()
	return v.r.tree == v.Tree && !v.Diverged()
}

// awaitTurn lets other goroutines run, and waits until no other View has the turn.
// REQUIRES: no lock is held.
func (r *Replica) awaitTurn(h *Hold) {
	runtime.Gosched()
	r.turn <- struct{}{}
	h.turn = true
}

func (r *Replica) endTurn(h *Hold) {
	if h.turn {
		h.turn = false
		<-r.turn
	}
}

// Spend counts work that was done with a View.
func (v View) Spend(work int) { v.h.work += work }

// Changing returns nil if the View shows the znode at path, and the list of its children,
// as one transaction left it. Otherwise a multi that changes it is being applied in pieces.
// Then the caller must not read there, nor wait within the View: it waits until the channel
// is closed, in Pause or after the View.
func (v View) Changing(path string) <-chan struct{} {
	if c := v.r.changing; c != nil && c.Changes(path) {
		return c.whole
	}
	return nil
}

// AnyChanging is Changing for the whole tree.
func (v View) AnyChanging() <-chan struct{} {
	if c := v.r.changing; c != nil {
		return c.whole
	}
	return nil
}

// LastZxid is the last transaction whose effects the View can show: while a closeSession is
// being applied in pieces, that transaction.
func (v View) LastZxid() zk.Zxid { return max(v.Tree.LastZxid(), v.r.partial) }
