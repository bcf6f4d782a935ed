package recipe

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/zk"
)

// A claim is an ephemeral znode of ours that represents a contender for a lock or its
// holder. It is followed until it is gone or left.
type claim struct {
	c         Client
	path      string
	stat      zk.Stat // as it was created
	revocable bool
	common    bool // others make znodes of the same name

	lost    chan struct{} // closed when it is gone, or may be
	revoked chan struct{} // closed when revocable, and asked back
	stop    context.CancelFunc
	stopped context.Context

	mu       sync.Mutex // guards why and vigil
	why      error      // set before lost is closed
	vigil    *vigil     // of a holder
	askedFor bool       // revoked is closed
}

// What ends a claim beside the end of its session.
var (
	errDeleted   = errors.New("its znode was deleted by another")
	errSuspended = errors.New("the connection has been away for too long")
	errUnheard   = errors.New("no server has heard of the session for too long")
)

// start begins to follow the znode. The context lends its values only.
func (cl *claim) start(ctx context.Context) {
	cl.lost, cl.revoked = make(chan struct{}), make(chan struct{})
	cl.stopped, cl.stop = context.WithCancel(context.WithoutCancel(ctx))
	go cl.follow()
}

// follow watches the znode until it is gone, the session has ended, or the claim
// was left. It reads the data too: "in step 1 call getData() with watch set", says
// the recipes page of revocable locks.
func (cl *claim) follow() {
	ctx := cl.stopped
	for {
		data, stat, w, err := cl.c.GetW(ctx, cl.path)
		switch {
		case ctx.Err() != nil:
			forget(ctx, w)
			return
		case errors.Is(err, zk.ErrConnectionLoss):
			continue
		case errors.Is(err, zk.ErrNoNode), err == nil && stat.Czxid != cl.stat.Czxid:
			forget(ctx, w)
			cl.lose(cl.sessionOr(errDeleted))
			return
		case err != nil:
			cl.lose(err)
			return
		}
		if cl.revocable && asksBack(data) {
			cl.askBack()
		}
		select {
		case e := <-w.Events():
			switch e.State {
			case zk.StateExpired:
				cl.lose(zk.ErrSessionExpired)
				return
			case zk.StateAuthFailed:
				cl.lose(zk.ErrAuthFailed)
				return
			case zk.StateClosed:
				cl.lose(client.ErrClosed)
				return
			}
		case <-ctx.Done():
			forget(ctx, w)
			return
		}
	}
}

// sessionOr is zk.ErrSessionExpired if the claim's session is over, or err.
func (cl *claim) sessionOr(err error) error {
	if cl.c.SessionID() != zk.SessionID(cl.stat.EphemeralOwner) {
		return zk.ErrSessionExpired
	}
	return err
}

// lose tells that the claim is not to be relied on any more, for the first cause.
func (cl *claim) lose(why error) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	if cl.why == nil {
		cl.why = why
		close(cl.lost)
	}
}

// err is ErrLost with its cause, nil while the claim is not lost.
func (cl *claim) err() error {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	if cl.why == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrLost, cl.why)
}

func (cl *claim) askBack() {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	if !cl.askedFor {
		cl.askedFor = true
		close(cl.revoked)
	}
}

// leave deletes the znode and follows it no longer. When the context ends first,
// the error is the context's, and the znode is deleted in the background. Other
// errors are errDeleted, the session's end, or what the servers refuse.
func (cl *claim) leave(ctx context.Context) error {
	cl.stop()
	cl.mu.Lock()
	v := cl.vigil
	cl.mu.Unlock()
	if v != nil {
		v.stop()
	}
	err := cl.remove(ctx)
	if ctx.Err() != nil {
		background(ctx, func(ctx context.Context) { cl.remove(ctx) }) // fails when it is gone, or must stay
	}
	return err
}

// remove deletes the znode until it is gone.
func (cl *claim) remove(ctx context.Context) error {
	for repeated := false; ; repeated = true {
		err := cl.removeOnce(ctx)
		switch {
		case errors.Is(err, zk.ErrNoNode) && repeated:
			return cl.sessionOr(nil)
		case errors.Is(err, zk.ErrNoNode):
			return cl.sessionOr(errDeleted)
		case !errors.Is(err, zk.ErrConnectionLoss) || ctx.Err() != nil:
			return ended(ctx, err)
		}
	}
}

// removeOnce deletes the znode, but not another's under the same name, unless that
// was made since it looked.
func (cl *claim) removeOnce(ctx context.Context) error {
	if cl.common {
		stat, exists, err := cl.c.Exists(ctx, cl.path)
		if err != nil {
			return err
		}
		if !exists || stat.Czxid != cl.stat.Czxid {
			return zk.ErrNoNode
		}
	}
	return cl.c.Delete(ctx, cl.path, -1)
}

// hold makes the claim that of a holder, which relies on v. It reports
// false when v has given up already.
func (cl *claim) hold(v *vigil) bool {
	cl.mu.Lock()
	cl.vigil = v
	cl.mu.Unlock()
	return v.report(cl.lose)
}

// A vigil follows the states of a session, from one in which a server with a quorum
// answered. It gives up when the session may have expired.
type vigil struct {
	stop func()

	mu   sync.Mutex // guards what follows
	why  error      // it has given up
	tell func(error)
}

// newVigil waits until a server with a quorum answers, and goes on from there.
// patience is how long it may be suspended. The error is the context's, that of
// lost, or the client's end.
func newVigil(ctx context.Context, c Client, patience time.Duration, cl *claim) (*vigil, error) {
	states, cancel := c.States()
	for {
		select {
		case s, ok := <-states:
			switch {
			case s == client.Connected && ok:
				stopped := make(chan struct{})
				var once sync.Once
				v := &vigil{stop: func() { once.Do(func() { close(stopped); cancel() }) }}
				go v.keep(c, states, stopped, patience)
				return v, nil
			case !ok, s >= client.Expired:
				cancel()
				return nil, endOf(s)
			}
		case <-cl.lost:
			cancel()
			return nil, cl.err()
		case <-ctx.Done():
			cancel()
			return nil, context.Cause(ctx)
		}
	}
}

// endOf is the error of a final state.
func endOf(s client.State) error {
	switch s {
	case client.AuthFailed:
		return zk.ErrAuthFailed
	case client.Closed:
		return client.ErrClosed
	}
	return zk.ErrSessionExpired
}

// keep follows the states until stop is called, or it gives up. A connection on which
// something comes may still be one on which nothing arrives, so that the session ends:
// it gives up, too, when its timeout has passed since a server has heard of it.
func (v *vigil) keep(c Client, states <-chan client.State, stopped chan struct{}, patience time.Duration) {
	defer v.stop()
	timer := time.NewTimer(patience)
	timer.Stop()
	defer timer.Stop()
	sure := func() time.Duration { return time.Until(c.Heard().Add(c.SessionTimeout())) }
	unheard := time.NewTimer(sure())
	defer unheard.Stop()
	alone := false // the timer runs
	for {
		select {
		case s, ok := <-states:
			switch {
			case !ok, s >= client.Expired:
				v.giveUp(endOf(s))
				return
			case s == client.Connected:
				timer.Stop()
				alone = false
			case !alone:
				timer.Reset(patience)
				alone = true
			}
		case <-timer.C:
			v.giveUp(errSuspended)
			return
		case <-unheard.C:
			d := sure()
			if d <= 0 {
				v.giveUp(errUnheard)
				return
			}
			unheard.Reset(d)
		case <-stopped:
			return
		}
	}
}

func (v *vigil) giveUp(why error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.why = why
	if v.tell != nil {
		v.tell(why)
	}
}

// report has tell called when the vigil gives up; false if it has done so before.
func (v *vigil) report(tell func(error)) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.tell = tell
	return v.why == nil
}

// wait returns when an event comes. Otherwise it calls forget, and the error says
// why there is no more to wait for.
func (cl *claim) wait(ctx context.Context, events <-chan zk.Event, forget func()) error {
	select {
	case <-events:
		return nil
	case <-ctx.Done():
		forget()
		return context.Cause(ctx)
	case <-cl.lost:
		forget()
		return cl.err()
	case <-cl.revoked:
		forget()
		return ErrRevoked
	}
}

// discard forgets the watch of a znode that will be deleted some time. The server
// is not told, so that it need not know how (3.4 does not).
func discard(w *client.Watch) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	forget(ctx, w)
}

// asksBack reports whether data is what is written to a holder's znode to ask for
// the lock: by the recipes page, or by Curator's Revoker.
func asksBack(data []byte) bool {
	return string(data) == "unlock" || string(data) == "__REVOKE__"
}
