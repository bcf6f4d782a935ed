package recipemodel

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/test/inproc"
	"github.com/pinfold-zk/pinfold/zk"
)

// patience is how long clients may take to get over all faults, in virtual time.
const patience = 5 * time.Minute

// A world is a server, and the clients that use it.
type world struct {
	t       *testing.T
	s       *inproc.Server
	rng     *rand.Rand // of the one who makes faults
	seed    uint64
	clients int // that live at the same time
	began   time.Time

	ctx     context.Context // ends the work
	stop    context.CancelFunc
	homes   sync.WaitGroup // those who live there
	dying   sync.WaitGroup // clients that are being closed
	closing chan struct{}  // closed when all clients are to close

	mu    sync.Mutex // guards what follows
	lives map[*life]struct{}
	born  int
	trace []string

	roles []role
}

// A role is something that clients do, and what is to be checked of it.
type role interface {
	name() string
	// work goes on until ctx ends, or the client is of no more use; the error says
	// why.
	work(ctx context.Context, l *life) error
	// done grows while work is done.
	done() int64
	// quiet checks, when the work has ended and all faults are over. Sessions live.
	quiet(ctx context.Context, c *client.Client)
	// end checks when all sessions but that of c are over.
	end(ctx context.Context, c *client.Client)
}

// A watcher is a role that clients also look at for as long as they live.
type watcher interface {
	watch(ctx context.Context, l *life) error
}

func newWorld(t *testing.T, seed uint64, clients int) *world {
	w := &world{
		t: t, s: inproc.Start(t), rng: rand.New(rand.NewPCG(seed, 0)), seed: seed, clients: clients, began: time.Now(),
		closing: make(chan struct{}), lives: map[*life]struct{}{},
	}
	w.ctx, w.stop = context.WithCancel(context.Background())
	return w
}

// logf notes what happens, for a seed that fails.
func (w *world) logf(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trace = append(w.trace, fmt.Sprintf("%9.4f  ", time.Since(w.began).Seconds())+fmt.Sprintf(format, args...))
}

// errorf notes a broken promise.
func (w *world) errorf(format string, args ...any) {
	w.logf("BROKEN: "+format, args...)
	w.t.Errorf("seed %d, at %.4f s: "+format, append([]any{w.seed, time.Since(w.began).Seconds()}, args...)...)
}

// instant lets everything happen that happens at this moment.
func (w *world) instant() { wait(context.Background(), time.Microsecond) }

// wait waits, unless ctx ends.
func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// run is the whole test of a seed.
func (w *world) run(lasts time.Duration) {
	for n := range w.clients {
		w.homes.Go(func() { w.home(n) })
	}
	(&faults{w}).run(lasts)
	w.heal()
	w.demandProgress()
	w.logf("the work ends")
	w.stop()
	wait(context.Background(), 2*time.Minute) // what goes on in the background has its time
	synctest.Wait()
	c := w.s.Client(w.t)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, r := range w.roles {
		r.quiet(ctx, c)
	}
	close(w.closing)
	w.homes.Wait()
	w.dying.Wait()
	for _, r := range w.roles {
		r.end(ctx, c)
	}
	if err := c.Close(); err != nil {
		w.errorf("close: %v", err)
	}
}

// demandProgress demands that all roles get on once there are no more faults.
func (w *world) demandProgress() {
	for i, r := range w.roles {
		late := time.Now().Add(patience)
		for before := r.done(); r.done() < before+3; wait(context.Background(), 50*time.Millisecond) {
			if time.Now().After(late) {
				w.errorf("%s: no progress for %v, though there are no faults", w.rolesNames()[i], patience)
				break
			}
		}
	}
}

func (w *world) rolesNames() (names []string) {
	for _, r := range w.roles {
		names = append(names, r.name())
	}
	return names
}

// home is where clients live one after the other.
func (w *world) home(n int) {
	for first := true; w.ctx.Err() == nil; first = false {
		l, err := w.birth(first)
		if err != nil {
			if w.ctx.Err() == nil {
				w.errorf("client %d: dial: %v", n, err)
			}
			return
		}
		l.live()
		l.leave()
	}
}

// A life is a client, with its network, from its birth to its death.
type life struct {
	w       *world
	n       int
	c       *client.Client
	line    *line
	ctx     context.Context
	cancel  context.CancelFunc
	renews  bool          // it has client.NewSession
	asked   time.Duration // for its session's timeout
	ending  atomic.Bool
	abandon atomic.Bool // it ends without giving back what it has

	mu     sync.Mutex // guards what follows
	rng    *rand.Rand
	over   map[zk.SessionID]bool // sessions that were ended by force
	danger time.Time             // until when a session may end by itself
	unsafe bool                  // any session may have ended
}

func (w *world) birth(first bool) (*life, error) {
	w.mu.Lock()
	n := w.born
	w.born++
	w.mu.Unlock()
	rng := rand.New(rand.NewPCG(w.seed, uint64(n)+1))
	l := &life{w: w, n: n, rng: rng, over: map[zk.SessionID]bool{}, renews: rng.IntN(4) == 0, asked: time.Duration(2+rng.IntN(7)) * time.Second}
	most := time.Duration(1+rng.IntN(8)) * time.Millisecond / 2
	if rng.IntN(8) == 0 {
		most *= 30
	}
	l.line = newLine(w.s, rand.New(rand.NewPCG(w.seed, uint64(n)+1<<32)), most)
	opts := []client.Option{client.Dialer(l.line.dial), client.SessionTimeout(l.asked)}
	if l.renews {
		opts = append(opts, client.NewSession())
	}
	c, err := client.Dial(w.ctx, "10.0.0.1:2181", opts...)
	if err != nil {
		return nil, err
	}
	l.c = c
	l.ctx, l.cancel = context.WithCancel(context.Background())
	w.mu.Lock()
	w.lives[l] = struct{}{}
	w.mu.Unlock()
	w.logf("client %d is born: session %v of %v, renews %v, up to %v", l.n, c.SessionID(), c.SessionTimeout(), l.renews, most)
	return l, nil
}

// live works and watches until the client is of no more use, or the work has ended
// and all are to close.
func (l *life) live() {
	var group sync.WaitGroup
	ctx, cancel := context.WithCancel(l.w.ctx)
	stop := context.AfterFunc(l.ctx, cancel)
	defer stop()
	defer cancel()
	for i, r := range l.w.roles {
		group.Go(func() {
			err := r.work(ctx, l)
			l.excuse(ctx, l.w.rolesNames()[i], err)
			if l.w.ctx.Err() == nil {
				cancel()
				l.cancel()
			}
		})
		if s, ok := r.(watcher); ok {
			group.Go(func() {
				for l.ctx.Err() == nil {
					err := s.watch(l.ctx, l)
					l.excuse(l.ctx, l.w.rolesNames()[i]+", watching", err)
					if !l.renews {
						return
					}
					wait(l.ctx, 10*time.Millisecond)
				}
			})
		}
	}
	if l.w.ctx.Err() == nil {
		<-ctx.Done()
	}
	if l.ctx.Err() == nil {
		select {
		case <-l.w.closing:
		case <-l.ctx.Done():
		}
	}
	l.cancel()
	group.Wait()
}

// leave closes the client. A dead one takes its time, and does not keep the next
// waiting.
func (l *life) leave() {
	l.end()
	l.w.mu.Lock()
	delete(l.w.lives, l)
	l.w.mu.Unlock()
	l.w.dying.Go(func() { l.c.Close() }) // of a dead one the server ends the session
}

// end says that from now on the client may have ended.
func (l *life) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unsafe = true
	l.ending.Store(true)
}

// roll is a number below n.
func (l *life) roll(n int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rng.IntN(n)
}

// timeout is the session's, or what it will be at most.
func (l *life) timeout() time.Duration { return max(l.c.SessionTimeout(), l.asked) }

// endangers notes that a session may end by itself until a while from now.
func (l *life) endangers(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t := time.Now().Add(d + 2*l.timeout()); t.After(l.danger) {
		l.danger = t
	}
}

// ended notes that somebody ends a session by force.
func (l *life) ended(id zk.SessionID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over[id] = true
}

// forced reports whether a session was ended by force, so that its owner need not
// have learned of it in time.
func (l *life) forced(id zk.SessionID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.unsafe || l.over[id]
}

// doubtful reports whether a session may have ended since a moment, by whatever
// cause.
func (l *life) doubtful(id zk.SessionID, since time.Time) bool {
	return l.forced(id) || l.endangered(since)
}

func (l *life) endangered(since time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.danger.After(since)
}

// bounded is ctx, or one that ends soon.
func (l *life) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	switch l.roll(8) {
	case 0:
		return context.WithTimeout(ctx, time.Duration(l.roll(20_000))*time.Microsecond)
	case 1:
		return context.WithTimeout(ctx, time.Duration(l.roll(1000))*time.Millisecond)
	}
	return context.WithCancel(ctx)
}

// gives has something given back, with a context that may end soon: that it has ended
// is no error, as it is given back in the background then.
func (l *life) gives(ctx context.Context, back func(ctx context.Context) error) error {
	once, cancel := l.bounded(ctx)
	defer cancel()
	err := back(once)
	if once.Err() != nil && errors.Is(err, context.Cause(once)) {
		return nil
	}
	return err
}

// rest is how long somebody keeps what he has.
func (l *life) rest(ctx context.Context) {
	switch l.roll(12) {
	case 0:
		most := 5000
		if l.roll(3) == 0 {
			most = 20_000 // longer than its session may be
		}
		wait(ctx, time.Duration(l.roll(most))*time.Millisecond)
	case 1, 2, 3:
	default:
		wait(ctx, time.Duration(l.roll(30))*time.Millisecond)
	}
}

// excused reports whether err may be the error of an operation with ctx.
func (l *life) excused(ctx context.Context, err error) bool {
	switch {
	case err == nil:
		return true
	case ctx.Err() != nil && errors.Is(err, context.Cause(ctx)):
		return true
	case errors.Is(err, zk.ErrSessionExpired):
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.unsafe || len(l.over) > 0 || !l.danger.IsZero()
	case errors.Is(err, client.ErrClosed), errors.Is(err, errAbandoned):
		return l.ending.Load()
	}
	return false
}

// errAbandoned is why a client ends that has had enough.
var errAbandoned = errors.New("the client ends without giving back what it has")

// excuse demands that an error may be.
func (l *life) excuse(ctx context.Context, what string, err error) {
	if !l.excused(ctx, err) {
		l.w.errorf("client %d: %s: %v", l.n, what, err)
	}
}

// goes tells how to go on after an operation of ctx that is part of the work of
// all: whether there is more to do, and why not.
func (l *life) goes(all, ctx context.Context, what string, err error) error {
	if !l.excused(all, err) {
		l.excuse(ctx, what, err)
	}
	switch {
	case all.Err() != nil:
		return context.Cause(all)
	case errors.Is(err, client.ErrClosed), errors.Is(err, zk.ErrSessionExpired) && !l.renews:
		return err
	case errors.Is(err, zk.ErrSessionExpired):
		wait(all, time.Duration(l.roll(100))*time.Millisecond)
	}
	return nil
}

// living are the clients that are not ending, in the order of their births.
func (w *world) living() []*life {
	w.mu.Lock()
	defer w.mu.Unlock()
	var list []*life
	for n := range w.born {
		for l := range w.lives {
			if l.n == n && !l.ending.Load() {
				list = append(list, l)
			}
		}
	}
	return list
}

// connected are those of living whose sessions live.
func (w *world) connected() []*life {
	return slices.DeleteFunc(w.living(), func(l *life) bool { return l.c.State() != client.Connected })
}

// heal ends all faults.
func (w *world) heal() {
	w.logf("there are no more faults")
	for _, l := range w.living() {
		l.line.heal()
	}
}
