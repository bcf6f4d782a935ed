package replica

import (
	"errors"
	"time"

	"github.com/pinfold-zk/pinfold/internal/zab"
)

// Why a server does not hand the leadership over.
var (
	ErrNotLeader      = errors.New("replica: this server does not lead an ensemble")
	ErrNotReplaceable = errors.New("replica: no quorum of the other voters is up to date: they cannot go on without this leader")
	ErrNotDrained     = errors.New("replica: the other voters did not get everything in time: this server leads on")
)

// handOverWithin is how long a leader holds writes back until the others have everything. A
// quorum that works needs a round trip and an fsync.
const handOverWithin = time.Second

// handing is a hand-over that is under way. Order owns it.
type handing struct {
	until time.Duration
	done  []func(error)

	restore *restoring // the state is to be restored, and no other server is to lead; nil: it hands over

	// What came meanwhile. Requests are proposed if this server leads on, sessions that come
	// back are answered then: one may be about to be made global by a request.
	held    []*batch
	resumes []resume
}

// HandOver asks a leader to leave the leadership to another voter, and returns at once.
// The leader proposes no more, answers what it has proposed, and leaves its role when a
// quorum of the others has that; these then elect one of them. For a tick it is no
// candidate. Requests that have come meanwhile are not executed, and their connections end.
// The stage Order calls done, which must not block, with nil when the role is left,
// otherwise with one of the errors above. A replica that has failed never calls it.
func (r *Replica) HandOver(done func(error)) {
	r.notify(func(p *pipe) {
		p.handOvers = append(p.handOvers, done)
		p.machine.Arrived(1)
	})
}

// beginHandOvers takes up what HandOver has asked for.
func (o *orderer) beginHandOvers(asked []func(error)) {
	for _, done := range asked {
		switch {
		case o.role != zab.Leading || !o.serving.Load():
			done(ErrNotLeader)
		case !o.core.Replaceable():
			done(ErrNotReplaceable)
		default:
			if o.handing == nil {
				o.handing = &handing{until: o.Now() + handOverWithin}
				o.log.Info("this server is asked to hand the leadership over")
			}
			o.handing.done = append(o.handing.done, done)
		}
	}
}

// stepHandOver leaves the leadership when the others have everything, and everything that
// is committed is answered here.
func (o *orderer) stepHandOver() {
	h := o.handing
	switch {
	case h == nil:
	case h.restore != nil:
		o.stepRestore(h)
	case o.core.Drained() && o.allApplied(true):
		o.handing = nil
		o.core.HandOver()
		o.drive()
		o.endHandOver(h, nil)
	case o.Now() >= h.until || o.turn.Closing || !o.core.Replaceable():
		o.log.Warn("the leadership is not handed over: the other voters did not get everything in time")
		o.handing = nil
		o.allApplied(false)
		o.core.Resume()
		for len(h.held) > 0 && o.serving.Load() {
			b := h.held[0]
			h.held = h.held[1:]
			o.propose(b)
		}
		o.endHandOver(h, ErrNotDrained)
	default:
		o.drive() // pings
	}
}

// endHandOver tells the outcome of a hand-over. Requests that are still held back are
// dropped. Without the role, the sessions that have come back are turned away.
func (o *orderer) endHandOver(h *handing, err error) {
	for _, b := range h.held {
		o.dropRequests(b.reqs)
		o.pool.put(b)
	}
	for _, s := range h.resumes {
		o.resume(s)
	}
	for _, done := range h.done {
		done(err)
	}
}
