// Package bench puts load on a ZooKeeper server, any that speaks the client
// protocol, and measures what comes of it: rates, latencies, and with process
// ids what the server spends.
//
// Requests are encoded once and sent many at a time over raw connections, and
// replies are checked where they lie, so that the server is the bottleneck and
// not the generator: about 0.2 µs a request. A reply that breaks the protocol
// ends the run with an error.
//
// The workloads are Mix, Create, Fill, Watch, Watches, Idle and Connect; Floor is a server
// that does nothing, to see what a machine can do at best; Compare runs them
// against several servers in turn.
package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Options is what every workload has in common.
type Options struct {
	Servers        []string      // host:port; connections are spread over them
	TLS            *Encryption   // of the connections; nil: none
	Pids           []int         // of the servers on this machine, to measure their cost
	Duration       time.Duration // how long is measured
	Warmup         time.Duration // how long before that
	SessionTimeout time.Duration // 0: 30 s
	Loops          int           // goroutines that drive connections; 0: half the processors
	Progress       io.Writer     // a line each second; nil for none
}

// dialers is how many handshakes are under way at once: each waits for a
// transaction, and a group commit carries them together.
const dialers = 64

// drainTimeout bounds the wait for what is still under way at the end.
const drainTimeout = 30 * time.Second

// errConnect says that sessions could not be opened; stop returns the reason.
var errConnect = errors.New("bench: not every session could be opened")

// A run is one load: connections on loops, and the phases they go through.
// Its methods are called from one goroutine, in the order connect, start,
// measure or await, stop.
type run struct {
	o       Options
	loops   []*loop
	epoch   time.Time
	started bool
	wg      sync.WaitGroup
	revival *revival        // nil: a lost connection ends the run
	ctx     context.Context // ends when the caller's does, and with the first error
	cancel  context.CancelFunc
	mu      struct {
		sync.Mutex
		err error // the first
	}
}

// newRun prepares a run that ends when ctx does. stop must be called.
func newRun(ctx context.Context, o Options) (*run, error) {
	if len(o.Servers) == 0 {
		return nil, errors.New("bench: no server given")
	}
	if o.SessionTimeout == 0 {
		o.SessionTimeout = 30 * time.Second
	}
	if o.Loops == 0 {
		o.Loops = max(1, runtime.GOMAXPROCS(0)/2)
	}
	r := &run{o: o, epoch: time.Now()}
	r.ctx, r.cancel = context.WithCancel(ctx)
	for range o.Loops {
		l, err := newLoop(r.epoch)
		if err != nil {
			return nil, errors.Join(err, r.stop())
		}
		r.loops = append(r.loops, l)
	}
	return r, nil
}

// prepare returns a run with n sessions, the i-th of which runs script(i) after start.
// stop must be called, unless there is an error.
func prepare(ctx context.Context, o Options, n int, script func(i int) script) (*run, error) {
	r, err := newRun(ctx, o)
	if err != nil {
		return nil, err
	}
	if err := r.connect(n, script); err != nil {
		return nil, errors.Join(err, r.stop())
	}
	return r, nil
}

// connect opens n sessions; the i-th runs script(i). Only before start.
func (r *run) connect(n int, script func(i int) script) error {
	var mu sync.Mutex // guards the loops' lists
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(dialers, n) {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= n || r.ctx.Err() != nil {
					return
				}
				sock, s, err := r.dial(i, script(i))
				if err != nil {
					if r.ctx.Err() == nil {
						r.fail(err)
					}
					return
				}
				mu.Lock()
				err = r.loops[i%len(r.loops)].adopt(s, sock)
				mu.Unlock()
				if err != nil {
					r.fail(err)
				}
			}
		})
	}
	wg.Wait()
	if r.err() == nil {
		return r.ctx.Err() // interrupted; else stop returns why
	}
	return errConnect
}

// dial opens the i-th session.
func (r *run) dial(i int, sc script) (socket, *session, error) {
	addr := r.o.Servers[i%len(r.o.Servers)]
	conn, response, err := dialSession(r.ctx, r.o.TLS, addr, sourceAddr(addr, i),
		newSessionRequest(r.o.SessionTimeout))
	if err != nil {
		return socket{}, nil, err
	}
	s := newSession(sc, r.loops[i%len(r.loops)].tally)
	s.number = i
	s.granted(response)
	sock, err := conn.take()
	return sock, s, err
}

// sourceAddr spreads very many connections over loopback addresses: one pair
// of addresses has no more than 28,000 ports to give.
func sourceAddr(addr string, i int) *net.TCPAddr {
	const each = 20000
	host, _, err := net.SplitHostPort(addr)
	ip := net.ParseIP(host).To4()
	if err != nil || ip == nil || !ip.IsLoopback() || i < each {
		return nil
	}
	return &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(i/each))}
}

// start sets the loops going.
func (r *run) start() {
	r.started = true
	for _, l := range r.loops {
		r.wg.Go(func() {
			if err := l.run(); err != nil {
				r.fail(err)
			}
		})
	}
}

// fail ends the run with an error, unless it has one.
func (r *run) fail(err error) {
	r.mu.Lock()
	if r.mu.err == nil {
		r.mu.err = err
	}
	r.mu.Unlock()
	r.cancel()
}

// err returns the first error of a connection or a script; nil if there is
// none, also if the run was interrupted.
func (r *run) err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.err
}

// over reports whether the run is to end early: interrupted, or failed.
func (r *run) over() bool { return r.ctx.Err() != nil }

// total returns the answers and events since the start.
func (r *run) total() uint64 {
	var n uint64
	for _, l := range r.loops {
		n += l.done.Load()
	}
	return n
}

// A window is a stretch of time with what was done and used during it.
type window struct {
	start    time.Time
	elapsed  time.Duration
	ops      uint64
	servers  []ServerCost
	ownCPU   time.Duration
	rates    []float64 // per second, as the progress line showed them
	counters []usage   // of the servers, at the start
}

// open begins a window.
func (r *run) open() (*window, error) {
	w := &window{start: time.Now(), ops: r.total(), ownCPU: ownCPU()}
	for _, pid := range r.o.Pids {
		u, err := processUsage(pid)
		if err != nil {
			return nil, err
		}
		w.counters = append(w.counters, u)
	}
	return w, nil
}

// close ends it.
func (r *run) close(w *window) error {
	w.elapsed = time.Since(w.start)
	w.ops = r.total() - w.ops
	w.ownCPU = ownCPU() - w.ownCPU
	for i, pid := range r.o.Pids {
		u, err := processUsage(pid)
		if err != nil {
			return err
		}
		cpu := u.cpu - w.counters[i].cpu
		w.servers = append(w.servers, ServerCost{
			Pid: pid, CPUSeconds: cpu.Seconds(), RSSBytes: u.rss, RSSBytesBefore: w.counters[i].rss,
		})
	}
	return nil
}

// measure lets the load run for the warm-up, forgets what it counted, and
// counts for the duration or until the run is over.
func (r *run) measure() (*window, error) {
	w, err := r.open()
	if err != nil {
		return nil, err
	}
	if r.o.Warmup > 0 && r.watch(w, "warm-up", r.o.Warmup, nil) {
		for _, l := range r.loops {
			l.resets.Add(1)
		}
		if w, err = r.open(); err != nil {
			return nil, err
		}
	}
	r.watch(w, "", r.o.Duration, nil)
	return w, r.close(w)
}

// await counts until done is closed or the run is over.
func (r *run) await(w *window, label string, done <-chan struct{}) error {
	r.watch(w, label, 1<<62, done)
	return r.close(w)
}

// watch writes the progress line each second until d has passed or done is
// closed, then returns true; false as soon as the run is over.
func (r *run) watch(w *window, label string, d time.Duration, done <-chan struct{}) bool {
	end := time.NewTimer(d)
	defer end.Stop()
	second := time.NewTicker(time.Second)
	defer second.Stop()
	last, lastAt := r.total(), time.Now()
	for {
		select {
		case <-r.ctx.Done():
			return false
		case <-end.C:
			return true
		case <-done:
			return true
		case now := <-second.C:
			n := r.total()
			rate := float64(n-last) / now.Sub(lastAt).Seconds()
			last, lastAt = n, now
			w.rates = append(w.rates, rate)
			r.progress(w, label, n, rate)
		}
	}
}

func (r *run) progress(w *window, label string, total uint64, rate float64) {
	if r.o.Progress == nil {
		return
	}
	fmt.Fprintf(r.o.Progress, "%4.0f s  %12s/s  %13s done", time.Since(w.start).Seconds(),
		grouped(rate), grouped(float64(total)))
	for _, pid := range r.o.Pids {
		if u, err := processUsage(pid); err == nil {
			fmt.Fprintf(r.o.Progress, "  RSS %s MB", grouped(float64(u.rss)/(1<<20)))
		}
	}
	fmt.Fprintf(r.o.Progress, "  %s\n", label)
}

// conclude measures a load that was started, stops it, and makes a Result. ctx is the
// caller's: the Result says whether it has ended early. The Result is nil if nothing was
// measured.
func (r *run) conclude(ctx context.Context, workload string, params map[string]any, per ...kind) (*Result, error) {
	w, err := r.measure()
	if err != nil {
		return nil, errors.Join(err, r.stop())
	}
	err = r.stop()
	res := r.result(w, workload, params, per...)
	res.Interrupted = ctx.Err() != nil || err != nil
	return res, err
}

// stop lets everything be answered, closes the sessions, and ends the loops.
// It returns the run's error, as err does.
func (r *run) stop() error {
	defer r.cancel()
	if !r.started {
		for _, l := range r.loops {
			l.shut()
		}
		return r.err()
	}
	if r.revival != nil {
		r.revival.end()
	}
	if r.err() == nil {
		r.settle(phaseDrain)
		r.settle(phaseClose)
	}
	for _, l := range r.loops {
		l.phase.Store(phaseEnd)
	}
	r.wg.Wait()
	return r.err()
}

// settle moves the loops to a phase and waits until nothing is under way.
func (r *run) settle(phase int32) {
	for _, l := range r.loops {
		l.phase.Store(phase)
		l.settled.Store(false)
	}
	deadline := time.NewTimer(drainTimeout)
	defer deadline.Stop()
	look := time.NewTicker(tick)
	defer look.Stop()
	for !r.settled() {
		select {
		case <-deadline.C:
			r.fail(fmt.Errorf("bench: requests are still unanswered after %v", drainTimeout))
			return
		case <-look.C:
			if r.err() != nil {
				return
			}
		}
	}
}

func (r *run) settled() bool {
	for _, l := range r.loops {
		if !l.settled.Load() {
			return false
		}
	}
	return true
}
