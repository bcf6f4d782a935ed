// Package load has client sessions use an ensemble while it is broken, writes
// down what they saw, and checks it.
//
// Each client does all that clients do: it keeps a state of its own below its own
// root by pipelined creates, sets, deletes and multis, persistent and ephemeral;
// it writes and reads registers that all clients share; it sets pairs of znodes
// in multis, creates sequential znodes, and looks at the ephemerals of others.
// When its connection breaks it goes to a random member with the same session.
package load

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pinfold-zk/pinfold/test/ensemble/client"
	"github.com/pinfold-zk/pinfold/test/ensemble/history"
	"github.com/pinfold-zk/pinfold/zk"
)

// Config says what the load is.
type Config struct {
	Addrs    []string // of all members
	Clients  int
	Seed     uint64        // of what is done; what comes of it depends on time
	Timeout  time.Duration // of sessions
	Short    time.Duration // of the sessions of every fourth client, which fall silent at times
	Patience time.Duration // for an answer
	Think    time.Duration // between two actions at most
	// Dial opens the clients' connections; nil: without TLS.
	Dial func(addr string, patience time.Duration) (net.Conn, error)
	Old  bool // a member may be of 3.4, so nothing is asked that it does not know
}

// Slack is what the checks of session lives forgive: how much earlier than its
// timeout a session may end. A leader that was paused ends sessions whose touches
// it has not read yet, and touches that a learner had not passed on die with it.
// And it is how long ephemerals may outlive what a client was told of its loss.
type Slack struct {
	Early, Late time.Duration
}

// A Load is running clients. Its methods may be called from any goroutine.
type Load struct {
	cfg     Config
	origin  time.Time
	workers []*worker
	wg      sync.WaitGroup // of the clients
	busy    sync.WaitGroup // of those that have something to finish
	stop    chan struct{}  // closed when they are to finish
	quiet   chan struct{}  // closed when all have
	acked   atomic.Int64
	lives   atomic.Int64 // sessions begun
	turn    atomic.Int64 // operations on registers, which are changed for new ones

	mu         sync.Mutex
	violations []string
	ops        []history.Op
	writes     []history.Write
	seqs       []history.Sequential
	beacons    []history.Beacon
	looks      []history.Look
	ended      []history.Life
	left       []*keep // of sessions that have ended
}

// setupPatience is how long the first writes may take.
const setupPatience = 30 * time.Second

// Start makes the shared znodes and starts the clients.
func Start(cfg Config) (*Load, error) {
	l := &Load{cfg: cfg, origin: time.Now(), stop: make(chan struct{}), quiet: make(chan struct{})}
	if err := l.setUp(); err != nil {
		return nil, err
	}
	for i := range cfg.Clients {
		w := &worker{
			l: l, number: i, rng: rand.New(rand.NewPCG(cfg.Seed, uint64(i+1))),
			short: i%4 == 3,
		}
		l.workers = append(l.workers, w)
		l.busy.Add(1)
		l.wg.Go(w.run)
	}
	return l, nil
}

// session makes a session that connects as Config.Dial says.
func (l *Load) session(timeout, patience time.Duration) *client.Session {
	s := client.New(timeout, patience)
	if l.cfg.Dial != nil {
		s.Dial = l.cfg.Dial
	}
	return s
}

func (l *Load) setUp() error {
	defer company(l.session, l.cfg.Addrs)()
	s := l.session(l.cfg.Timeout, setupPatience)
	if err := s.Connect(l.cfg.Addrs[0]); err != nil {
		return err
	}
	var reqs []client.Request
	paths := []string{privateRoot, registerRoot, pairRoot, sequentialRoot, beaconRoot}
	for i := range pairs {
		paths = append(paths, pairPath(i), pairPath(i)+"/a", pairPath(i)+"/b")
	}
	for i := range queues {
		paths = append(paths, queuePath(i))
	}
	for _, p := range paths {
		reqs = append(reqs, client.Create(p, nil, zk.Persistent))
	}
	replies, err := s.Do(reqs...)
	if err != nil {
		return err
	}
	for i, r := range replies {
		if r.Code != zk.OK {
			return fmt.Errorf("load: create %s: %w", paths[i], r.Code)
		}
	}
	_, err = s.Close()
	return err
}

// now is the time since the origin of the history.
func (l *Load) now() time.Duration { return time.Since(l.origin) }

// Acked is how many writes have been acknowledged.
func (l *Load) Acked() int64 { return l.acked.Load() }

// WaitProgress waits until so many more writes have been acknowledged.
func (l *Load) WaitProgress(ctx context.Context, writes int64) error {
	target := l.Acked() + writes
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for l.Acked() < target {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("load: %d writes were acknowledged, want %d more: %w", l.Acked()-target+writes, writes, ctx.Err())
		}
	}
	return nil
}

// violate records what nothing excuses.
func (l *Load) violate(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.violations = append(l.violations, fmt.Sprintf("at %v: %s", l.now(), fmt.Sprintf(format, args...)))
}

// Violations are those found so far, without the checks of the history.
func (l *Load) Violations() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.violations
}

// Stop has the clients finish what they do, and returns when they have. Their
// sessions live on, but for the short ones, with connections that nobody uses.
// The ensemble must be whole: a client waits until it is connected. The error is
// that of ctx; then the clients go on.
func (l *Load) Stop(ctx context.Context) error {
	close(l.stop)
	done := make(chan struct{})
	go func() {
		l.busy.Wait()
		close(l.quiet)
		l.wg.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("load: clients do not come to an end: %w", ctx.Err())
	}
}

// Check judges the history after Stop, and the state that the clients left.
// strict has reads after a sync judged by real time: Apache answers a sync
// without asking whether it still leads, so there they may be stale. patience
// is for what has to end by itself: sessions that nobody uses.
func (l *Load) Check(ctx context.Context, strict bool, slack Slack) ([]string, error) {
	found, err := l.checkFinal(ctx)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	found = append(l.violations, found...)
	lives := append([]history.Life(nil), l.ended...)
	for _, w := range l.workers {
		lives = append(lives, w.life)
	}
	found = append(found, history.CheckLinearizable(l.ops, strict, time.Minute)...)
	found = append(found, history.CheckReads(l.ops)...)
	found = append(found, history.CheckOrder(l.writes)...)
	found = append(found, history.CheckLives(lives, slack.Early)...)
	found = append(found, history.CheckBeacons(lives, l.beacons, l.looks, strict, slack.Late)...)
	found = append(found, history.CheckSequentials(l.seqs)...)
	return found, nil
}

// Stale counts what Check finds with strict and not without it: reads that were
// stale although they followed a sync.
func (l *Load) Stale() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	strict := history.CheckLinearizable(l.ops, true, time.Minute)
	loose := history.CheckLinearizable(l.ops, false, time.Minute)
	return len(strict) - len(loose)
}

// Close ends all sessions that the load still has.
func (l *Load) Close() error {
	for _, w := range l.workers {
		if w.s.ID() == 0 {
			continue
		}
		if err := w.stayAlive(); err != nil {
			return err
		}
		if _, err := w.s.Close(); err != nil {
			return err
		}
	}
	return nil
}

// Lost counts the sessions that servers have given up.
func (l *Load) Lost() (lost int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.ended {
		if e.End == history.Lost {
			lost++
		}
	}
	return lost
}

// Summary says how much the load has seen.
func (l *Load) Summary() string {
	lost := l.Lost()
	l.mu.Lock()
	defer l.mu.Unlock()
	unknown := 0
	for _, o := range l.ops {
		if o.Outcome == history.Unknown {
			unknown++
		}
	}
	return fmt.Sprintf("%d writes acknowledged in %v; %d operations on registers, %d without an answer; "+
		"%d sequential znodes, %d ephemerals looked at %d times; %d sessions, %d lost",
		l.Acked(), l.now().Round(time.Millisecond), len(l.ops), unknown, len(l.seqs), len(l.beacons), len(l.looks),
		l.lives.Load(), lost)
}
