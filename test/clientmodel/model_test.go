package clientmodel

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/internal/vfs"
	"github.com/pinfold-zk/pinfold/test/inproc"
	"github.com/pinfold-zk/pinfold/zk"
)

var (
	seedsFlag = flag.Int("seeds", 30, "TestModel: how many seeds")
	fromFlag  = flag.Uint64("from", 1, "TestModel: the first seed")
	opsFlag   = flag.Int("ops", 60, "TestModel: how many operations a thread does")
)

// TestModel runs seeds. A seed determines what each thread of each client does, what
// becomes of each connection, and the faults. It does not determine how the threads
// interleave, nor which member a client tries first: so a failure may need several
// runs to come again, and another GOMAXPROCS. (After a panic in a goroutine of a
// Client, only -v says which seed it was.)
func TestModel(t *testing.T) {
	all, runs := tally{}, 0
	for i := range *seedsFlag {
		seed := *fromFlag + uint64(i)
		if !t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			ended := false
			defer func() {
				if t.Failed() || !ended {
					t.Error(replay(seed))
				}
			}()
			synctest.Test(t, func(t *testing.T) { newRun(t, seed, all).play() })
			ended = true
		}) {
			return
		}
		if runs++; runs%1000 == 0 {
			fmt.Printf("%d seeds, to %d\n", runs, seed)
		}
	}
	all.report(t, runs)
}

// replay says how to run a seed again.
func replay(seed uint64) string {
	return fmt.Sprintf("replay: go test ./test/clientmodel -run TestModel -count 20 -from %d -seeds 1 -ops %d", seed, *opsFlag)
}

// firstID is the least id of an operation; no version or length looks like it.
const firstID = 1000

const secondAddr = "10.0.0.2:2181"

// run is what a seed determines, and what comes of it.
type run struct {
	t      *testing.T
	seed   uint64
	all    tally
	fs     vfs.FS
	server *inproc.Server
	actors []*actor
	rng    *rand.Rand // of the faults
	calm   atomic.Bool
	clock  atomic.Int64 // counts the points in the history of the run
	ids    atomic.Int64

	failures atomic.Int64

	mu      sync.Mutex
	members [2]member
}

// actor is a Client, and what it was told.
type actor struct {
	run         *run
	index       int
	c           *client.Client
	outstanding int
	renews      bool // its Client begins new sessions
	seeksQuorum bool // and takes a member without one meanwhile
	attached    atomic.Int64
	states      []client.State
	statesOver  chan struct{}
	closeErr    error
	closing     atomic.Int64 // when Close was called
	closed      atomic.Int64 // when it returned
	inTheMiddle bool         // it is called before the end

	mu       sync.Mutex // guards what follows
	dials    int
	conns    []*conn // that are open, and perhaps some that were
	ops      []*op
	watches  []*watch
	sessions map[zk.SessionID]bool
	spans    []*span
	era      int     // how many sessions have ended
	shown    zk.Zxid // by answers of the session
	sent     map[int]bool
	places   map[*op]bool // asynchronous operations: whether they may hold a place
	crowds   [][]*op      // too many of them, or so it seems

	drainMu sync.Mutex // guards the events of watches
}

func (a *actor) fail(format string, args ...any) {
	if a.run.failures.Add(1) <= 4 { // the others follow from these, mostly
		a.run.t.Errorf("client %d: "+format, append([]any{a.index}, args...)...)
	}
}

func newRun(t *testing.T, seed uint64, all tally) *run {
	r := &run{t: t, seed: seed, all: all, fs: vfs.NewMem(), rng: rand.New(rand.NewPCG(seed, 0))}
	r.ids.Store(firstID)
	r.server = inproc.StartOn(t, r.fs)
	c := r.server.Client(t)
	for _, p := range []string{base, base + "/a", base + "/b"} {
		if _, err := c.Create(context.Background(), p, []byte("begin"), zk.Persistent, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	for i := range 2 + r.rng.IntN(2) {
		r.actors = append(r.actors, r.newActor(i))
	}
	return r
}

// StateChanged counts how often the Client has got a connection (client.Metrics).
func (a *actor) StateChanged(s client.State) {
	if s == client.Connected || s == client.ConnectedReadOnly {
		a.attached.Add(1)
	}
}

// Answered is of no interest.
func (a *actor) Answered(string, time.Duration, error) {}

func (r *run) newActor(i int) *actor {
	rng := r.rng
	a := &actor{run: r, index: i, outstanding: 1 + rng.IntN(20), sessions: map[zk.SessionID]bool{}, sent: map[int]bool{},
		places: map[*op]bool{}, statesOver: make(chan struct{})}
	opts := []client.Option{client.Dialer(a.dial), client.WithMetrics(a), client.MaxOutstanding(a.outstanding),
		client.SessionTimeout(time.Duration(2+rng.IntN(5)) * time.Second)}
	chroot := ""
	if rng.IntN(2) == 0 {
		chroot = base
	}
	if rng.IntN(2) == 0 {
		a.renews = true
		opts = append(opts, client.NewSession())
	}
	if rng.IntN(3) == 0 {
		a.seeksQuorum = true
		opts = append(opts, client.AllowReadOnly())
	}
	if rng.IntN(3) == 0 {
		opts = append(opts, client.WatchQueue(2+rng.IntN(20)))
	}
	if rng.IntN(3) == 0 {
		opts = append(opts, client.Auth("digest", []byte("v:w")))
	}
	var err error
	if a.c, err = client.Dial(context.Background(), "10.0.0.1:2181,"+secondAddr+chroot, opts...); err != nil {
		r.t.Fatal(err)
	}
	states, _ := a.c.States()
	go func() {
		defer close(a.statesOver)
		for s := range states {
			a.states = append(a.states, s)
		}
	}()
	return a
}

// play runs threads and faults, then lets all come to rest, and checks.
func (r *run) play() {
	all := make(chan struct{})
	var threads sync.WaitGroup
	for _, a := range r.actors {
		for i := range 1 + r.rng.IntN(3) {
			threads.Go(func() { a.thread(i) })
		}
	}
	quit := make(chan struct{})
	var faults sync.WaitGroup
	faults.Go(func() { r.faults(quit) })
	go func() {
		threads.Wait()
		close(all)
	}()
	r.await(all, "threads")
	close(quit)
	faults.Wait()
	r.heal()
	for _, a := range r.actors {
		a.last()
	}
	for _, a := range r.actors {
		a.end()
	}
	<-time.After(time.Second)
	synctest.Wait() // callbacks of what was begun after Close have run
	r.server.Stop()
	r.check()
}

// await waits for what must come, if nobody waits for ever.
func (r *run) await(done <-chan struct{}, what string) {
	select {
	case <-done:
		return
	case <-time.After(time.Hour):
	}
	r.heal()
	select {
	case <-done:
		return
	case <-time.After(time.Hour):
	}
	for _, a := range r.actors {
		a.mu.Lock()
		for _, o := range a.ops {
			if o.done == 0 {
				fmt.Printf("client %d, which is %v: %v has not come to an end\n", a.index, a.c.State(), o)
			}
		}
		a.mu.Unlock()
	}
	fmt.Println(replay(r.seed))
	panic(what + " wait for ever") // the bubble cannot be left otherwise
}

func (r *run) heal() {
	r.calm.Store(true)
	r.mu.Lock()
	r.members = [2]member{}
	r.mu.Unlock()
}

// thread does operations, one after the other. The first of a client's threads does
// most of them asynchronously, and may close the Client.
func (a *actor) thread(i int) {
	rng := rand.New(rand.NewPCG(a.run.seed, uint64(1+a.index)<<16|uint64(i)))
	closes, last := -1, "/a"
	if i == 0 && rng.IntN(4) == 0 {
		closes = rng.IntN(2 * *opsFlag)
	}
	for n := range *opsFlag {
		if n == closes {
			a.inTheMiddle = true
			a.end()
			closes = -1
		}
		if a.closing.Load() > 0 && n%8 > 0 {
			continue
		}
		if rng.IntN(30) == 0 {
			a.twist(rng, &last)
		}
		o := a.next(rng, &last)
		o.async = rng.IntN(4) > 0 == (i == 0)
		ctx, cancel := context.Background(), context.CancelFunc(func() {})
		if rng.IntN(6) == 0 {
			o.bounded = true
			ctx, cancel = context.WithTimeout(ctx, time.Duration(rng.IntN(20))*time.Millisecond)
		}
		a.begin(ctx, o)
		cancel()
		switch n := rng.IntN(100); {
		case n < 3:
			<-time.After(time.Duration(rng.IntN(4000)) * time.Millisecond)
		case n < 30:
			<-time.After(time.Duration(rng.IntN(10)) * time.Millisecond)
		}
	}
}

// twist leaves a watch, has the connection break, and does what has to do with the
// watch while there may be no other yet.
func (a *actor) twist(rng *rand.Rand, last *string) {
	var path, name string
	for i, k := range []kind{addWatch, addWatch, get, children, unwatch, unwatch, addWatch, set} {
		o := a.next(rng, last)
		if i > 0 {
			o.path, o.name = path, name
		}
		path, name = o.path, o.name
		o.kind, o.parts, o.mode, o.watch = k, nil, 0, k == get || k == children
		o.async = i > 0 && rng.IntN(3) > 0
		if i == 2 {
			a.cut()
			<-time.After(time.Microsecond)
		}
		if i > 0 && rng.IntN(3) == 0 {
			continue
		}
		o.bounded = true
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(1+rng.IntN(20))*time.Millisecond)
		a.begin(ctx, o)
		cancel()
	}
}

// cut breaks the connections of the client.
func (a *actor) cut() {
	a.mu.Lock()
	list := a.conns
	a.conns = nil
	a.mu.Unlock()
	for _, c := range list {
		c.Close()
	}
}

// called is the callback of an operation; it may begin another.
func (a *actor) called(o *op) {
	defer a.leave(o)
	a.over(o)
	rng := rand.New(rand.NewPCG(a.run.seed, uint64(o.id)))
	if rng.IntN(40) == 0 {
		<-time.After(time.Millisecond) // it is slow
	}
	if rng.IntN(10) == 0 && !o.noWait && a.closing.Load() == 0 {
		last := strings.TrimPrefix(o.path, base)
		p := a.next(rng, &last)
		if p.kind == forget || p.kind == addAuth {
			p.kind = get
		}
		p.async, p.noWait = true, true
		a.begin(client.NoWait(context.Background()), p)
	}
}

// enter and entered say that an operation is being submitted, and has been. What has
// been and is not over holds a place.
func (a *actor) enter(o *op) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.places[o] = false
}

func (a *actor) entered(o *op) {
	a.mu.Lock()
	defer a.mu.Unlock()
	o.queued = a.run.clock.Add(1)
	if _, ok := a.places[o]; !ok {
		return
	}
	a.places[o] = true
	var crowd []*op
	for p, in := range a.places {
		if in && !p.noWait {
			crowd = append(crowd, p)
		}
	}
	if len(crowd) > a.outstanding {
		a.crowds = append(a.crowds, crowd)
	}
}

func (a *actor) leave(o *op) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.places, o)
}

func (a *actor) note(o *op) {
	a.mu.Lock()
	defer a.mu.Unlock()
	o.era = a.era
	a.ops = append(a.ops, o)
}

// last has a client read all, when nothing disturbs it, until it is answered.
func (a *actor) last() {
	if a.closing.Load() > 0 {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; i < len(names); {
			o := &op{kind: get, n: i, name: names[i], path: base + names[i], id: int(a.run.ids.Add(1))}
			if a.c.Chroot() == "" {
				o.name = o.path
			}
			a.begin(context.Background(), o)
			if o.err == nil || errors.Is(o.err, zk.ErrNoNode) || errors.Is(o.err, zk.ErrSessionExpired) && !a.renews {
				i++
			}
		}
	}()
	a.run.await(done, "the last reads")
	if a.c.State() == client.Connected {
		full := make(chan struct{})
		go func() { defer close(full); a.fill() }()
		a.run.await(full, "as many operations as may be outstanding")
	}
	synctest.Wait()
	<-time.After(time.Minute) // slow readers
	a.drain(true)
}

// fill demands that there are as many places for asynchronous operations as there
// should be, when none is outstanding.
func (a *actor) fill() {
	<-time.After(time.Second) // places are given back for several callbacks at a time
	var calls sync.WaitGroup
	release := make(chan struct{})
	for range a.outstanding {
		calls.Add(1)
		a.c.SyncAsync(context.Background(), "/", func(error) { <-release; calls.Done() })
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	calls.Add(1)
	a.c.SyncAsync(ctx, "/", func(err error) {
		if !errors.Is(err, context.DeadlineExceeded) {
			a.fail("one operation more than may be outstanding: %v", err)
		}
		calls.Done()
	})
	close(release)
	calls.Wait()
}

// end closes the Client.
func (a *actor) end() {
	if !a.closing.CompareAndSwap(0, a.run.clock.Add(1)) {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.closeErr = a.c.Close()
		a.closed.Store(a.run.clock.Add(1))
	}()
	a.run.await(done, "Close")
	a.mu.Lock()
	for _, o := range a.ops {
		if o.async && o.queued > 0 && o.queued < a.closing.Load() && o.calls == 0 {
			a.fail("%v is not completed when Close returns", o)
		}
	}
	a.mu.Unlock()
	a.run.await(a.statesOver, "who reads states")
	<-time.After(time.Millisecond) // full channels are closed beside
	a.drain(true)
}

// faults disturbs the clients until the end.
func (r *run) faults(quit <-chan struct{}) {
	for {
		select {
		case <-quit:
			return
		case <-time.After(time.Duration(r.rng.IntN(400)) * time.Millisecond):
		}
		n, which := r.rng.IntN(100), r.rng.IntN(2)
		a := r.actors[r.rng.IntN(len(r.actors))]
		switch {
		case n < 30:
			r.server.Cut()
		case n < 36:
			r.server.Restart()
		case n < 42:
			if id := a.c.SessionID(); id != 0 {
				r.server.Expire(id)
			}
		default:
			r.mu.Lock()
			r.members[which] = []member{well, well, down, deaf, mute, readOnly}[r.rng.IntN(6)]
			r.mu.Unlock()
		}
	}
}

// legal is which state follows which.
var legal = map[client.State][]client.State{
	client.Connecting:        {client.Connected, client.ConnectedReadOnly, client.Closed, client.AuthFailed},
	client.Connected:         {client.Suspended, client.Closed, client.AuthFailed},
	client.ConnectedReadOnly: {client.Suspended, client.Closed, client.AuthFailed},
	client.Suspended:         {client.Connected, client.ConnectedReadOnly, client.Expired, client.Closed, client.AuthFailed},
	client.Expired:           {client.Connecting},
}

// checkStates demands that the states follow each other as State says, and end with
// the last.
func (a *actor) checkStates() {
	for i := 1; i < len(a.states); i++ {
		ok := false
		for _, s := range legal[a.states[i-1]] {
			ok = ok || s == a.states[i]
		}
		if !ok || a.states[i-1] == client.Expired && !a.renews {
			a.fail("%v is followed by %v, in %v", a.states[i-1], a.states[i], a.states)
		}
	}
	if n := len(a.states); n == 0 || a.states[n-1] != a.c.State() {
		a.fail("the states end otherwise than with %v: %v", a.c.State(), a.states)
	}
}

// check compares what the clients were told with what the server has written.
func (r *run) check() {
	h := r.readLog()
	for _, a := range r.actors {
		a.checkStates()
		a.checkOps(h)
		a.checkCrowds()
		a.checkWatches(h)
		r.all.add(a, h)
	}
	h.checkUnclaimed(r)
}
