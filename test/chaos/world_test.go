package chaos

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/test/ensemble/cluster"
	"github.com/pinfold-zk/pinfold/zk"
)

// sessionTimeout is short, so that the sessions of dead clients end in time.
const sessionTimeout = 4 * time.Second

// A world is the ensemble, and the clients that use it.
type world struct {
	t     *testing.T
	e     *cluster.Ensemble
	began time.Time

	ctx      context.Context // ends the workers
	stop     context.CancelFunc
	workers  sync.WaitGroup
	draining atomic.Bool // nobody begins anything new

	mu    sync.Mutex // guards lives
	lives map[*life]struct{}

	roles []role
}

// A role is something that clients do, and what is to be checked of it.
type role interface {
	name() string
	// work goes on until ctx ends, which is when its client dies. It returns the
	// error that made it stop.
	work(ctx context.Context, l *life) error
	// progress grows while work is done.
	progress() int64
	// drain is called by one client when all others have ended, and check after
	// that.
	drain(ctx context.Context, l *life) error
	check(w *world)
}

func newWorld(t *testing.T, e *cluster.Ensemble) *world {
	w := &world{t: t, e: e, began: time.Now(), lives: map[*life]struct{}{}}
	w.ctx, w.stop = context.WithCancel(context.Background())
	t.Cleanup(func() {
		w.stop()
		w.workers.Wait()
	})
	return w
}

// employ starts twenty workers.
func (w *world) employ() {
	barrier := newBarriers(w)
	once, least := newPipe("/once", false), newPipe("/least", true)
	for _, job := range []struct {
		role role
		n    int
	}{
		{&locks{resource: newResource("lock")}, 5}, {&elections{resource: newResource("election")}, 4},
		{once, 1}, {once.consumers(), 2}, {least, 1}, {least.consumers(), 2}, {barrier, 5},
	} {
		w.roles = append(w.roles, job.role)
		for range job.n {
			w.workers.Go(func() { w.employee(job.role) })
		}
	}
}

// employee lives again and again.
func (w *world) employee(r role) {
	for w.ctx.Err() == nil {
		l, err := w.birth(w.ctx)
		if err != nil {
			if w.ctx.Err() == nil {
				w.t.Errorf("%s: %v", r.name(), err)
			}
			return
		}
		err = r.work(l.ctx, l)
		if l.ctx.Err() == nil && !excused(err) {
			w.t.Errorf("%s: %v", r.name(), err)
		}
		l.end()
	}
}

// excused are the errors of those whose session the servers have ended.
func excused(err error) bool {
	return err == nil || errors.Is(err, context.Canceled) || errors.Is(err, zk.ErrSessionExpired) || errors.Is(err, client.ErrClosed)
}

// A life is a client from its birth to its death.
type life struct {
	w      *world
	c      *client.Client
	line   *line
	ctx    context.Context
	cancel context.CancelFunc
	died   atomic.Bool
}

func (w *world) birth(ctx context.Context) (*life, error) {
	l := &life{w: w, line: &line{}}
	c, err := client.Dial(ctx, strings.Join(w.e.Clients(), ","), client.SessionTimeout(sessionTimeout), client.Dialer(l.line.dial))
	if err != nil {
		return nil, err
	}
	l.c = c
	l.ctx, l.cancel = context.WithCancel(ctx)
	w.mu.Lock()
	w.lives[l] = struct{}{}
	w.mu.Unlock()
	return l, nil
}

// die is the sudden death: nothing that the client sends gets anywhere any more.
func (l *life) die() {
	l.died.Store(true)
	l.line.kill()
	l.cancel()
}

// end closes the session, if the client is not dead.
func (l *life) end() {
	l.w.mu.Lock()
	delete(l.w.lives, l)
	l.w.mu.Unlock()
	l.cancel()
	l.c.Close() // of a dead one the servers end the session
}

func (w *world) living() (list []*life) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for l := range w.lives {
		if !l.died.Load() {
			list = append(list, l)
		}
	}
	return list
}

// finish demands that every role gets on once all is well, ends the work, and
// checks.
func (w *world) finish() {
	w.t.Helper()
	w.e.Links.Heal(true)
	if err := w.whole(); err != nil {
		w.t.Fatal(err)
	}
	for _, r := range w.roles {
		w.await(r)
	}
	w.draining.Store(true)
	w.stop()
	w.workers.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	l, err := w.birth(ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	defer l.end()
	for _, r := range w.roles {
		if err := r.drain(ctx, l); err != nil {
			w.t.Errorf("%s: at the end: %v", r.name(), err)
		}
		r.check(w)
		w.t.Logf("%-28s %d", r.name(), r.progress())
	}
}

// await waits until a role has done something more.
func (w *world) await(r role) {
	w.t.Helper()
	before := r.progress()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for late := time.After(patience); r.progress() < before+3; {
		select {
		case <-again.C:
		case <-late:
			w.t.Errorf("%s: no progress for %v although all servers serve", r.name(), patience)
			return
		}
	}
}

// pause waits for a while that varies.
func pause(ctx context.Context, most time.Duration) {
	t := time.NewTimer(rand.N(most))
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// A line is the network of one client.
type line struct {
	mu    sync.Mutex // guards what follows
	dead  bool
	conns []net.Conn
}

var errDead = errors.New("this client is dead")

func (l *line) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead {
		c.Close()
		return nil, errDead
	}
	l.conns = append(l.conns[max(len(l.conns)-1, 0):], c) // a client has one, or tries another
	return c, nil
}

// cut breaks the connections.
func (l *line) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.conns {
		c.Close()
	}
	l.conns = nil
}

// kill breaks them for ever.
func (l *line) kill() {
	l.mu.Lock()
	l.dead = true
	l.mu.Unlock()
	l.cut()
}
