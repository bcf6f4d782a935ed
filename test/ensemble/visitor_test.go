package ensemble

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/test/ensemble/cluster"
	"github.com/pinfold-zk/pinfold/test/ensemble/load"
	"github.com/pinfold-zk/pinfold/zk"
)

// A visitor is a session of the Go client with an ephemeral znode. It starts at its
// home; when it loses the connection it tries the next member, and so on. It writes,
// or reads, or only pings.
type visitor struct {
	home      *cluster.Member
	path      string // of the ephemeral, which it writes or reads
	c         *client.Client
	suspended atomic.Int64 // how often it lost its connection
	failed    atomic.Int64 // operations without an answer

	mu      sync.Mutex
	answers []answer
}

// An answer is when an operation of a visitor succeeded, since the origin of its
// crowd, and how long the operation took.
type answer struct{ at, took time.Duration }

// A crowd is the visitors of an ensemble.
type crowd struct {
	t       *testing.T
	origin  time.Time
	addrs   []string
	follow  bool // visitors follow the members as the configuration has them
	stop    chan struct{}
	wg      sync.WaitGroup
	writers []*visitor
	readers []*visitor
	idle    []*visitor
	clock   visitor // has no session, and only waits: its gaps are the machine's
}

func newCrowd(t *testing.T, e *cluster.Ensemble) *crowd {
	c := &crowd{t: t, origin: time.Now(), addrs: e.Clients(), stop: make(chan struct{})}
	t.Cleanup(c.end)
	c.wg.Go(func() { c.repeat(&c.clock, stepPause, func(context.Context) error { return nil }) })
	return c
}

// Between the operations of a visitor: of one with a single operation outstanding, and
// of each operation of one with many.
const (
	stepPause     = time.Millisecond
	pipelinePause = 20 * time.Millisecond
)

// writer adds a visitor that has so many writes outstanding.
func (c *crowd) writer(home *cluster.Member, outstanding int) {
	c.t.Helper()
	v := c.visitor(home)
	c.writers = append(c.writers, v)
	pause := stepPause
	if outstanding > 1 {
		pause = pipelinePause
	}
	data := make([]byte, 100)
	for range outstanding {
		c.wg.Go(func() {
			c.repeat(v, pause, func(ctx context.Context) error {
				_, err := v.c.Set(ctx, v.path, data, -1)
				return err
			})
		})
	}
}

// reader adds a visitor that reads.
func (c *crowd) reader(home *cluster.Member) {
	c.t.Helper()
	v := c.visitor(home)
	c.readers = append(c.readers, v)
	c.wg.Go(func() {
		c.repeat(v, stepPause, func(ctx context.Context) error {
			_, _, err := v.c.Get(ctx, v.path)
			return err
		})
	})
}

// pinger adds a visitor that only pings.
func (c *crowd) pinger(home *cluster.Member) {
	c.t.Helper()
	c.idle = append(c.idle, c.visitor(home))
}

// visitor begins a session at its home.
func (c *crowd) visitor(home *cluster.Member) *visitor {
	c.t.Helper()
	v := &visitor{home: home}
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	servers, members := "", client.Hosts(cluster.InTurn(c.addrs, home.ID-1))
	if c.follow {
		servers, members = home.Client, client.FollowMembers(client.Member.ClientAddr)
	}
	var err error
	if v.c, err = client.Dial(ctx, servers, client.SessionTimeout(shortTimeout), members); err != nil {
		c.t.Fatal(err)
	}
	v.path = fmt.Sprintf("/visitor-%v", v.c.SessionID()) // an earlier crowd's session may not have ended yet
	states, _ := v.c.States()
	c.wg.Go(func() {
		for s := range states {
			if s == client.Suspended {
				v.suspended.Add(1)
			}
		}
	})
	if _, err := v.c.Create(ctx, v.path, nil, zk.Ephemeral, nil); err != nil {
		c.t.Fatal(err)
	}
	return v
}

// all are all visitors.
func (c *crowd) all() []*visitor { return slices.Concat(c.writers, c.readers, c.idle) }

// repeat does an operation again and again until the crowd ends, or the session.
func (c *crowd) repeat(v *visitor, pause time.Duration, operation func(context.Context) error) {
	for {
		began := time.Now()
		err := operation(context.Background())
		switch now := time.Now(); {
		case err == nil:
			v.mu.Lock()
			v.answers = append(v.answers, answer{now.Sub(c.origin), now.Sub(began)})
			v.mu.Unlock()
		case errors.Is(err, zk.ErrSessionExpired), errors.Is(err, client.ErrClosed):
			return
		default:
			v.failed.Add(1)
		}
		select {
		case <-c.stop:
			return
		case <-time.After(pause):
		}
	}
}

// end ends the operations, and then the sessions.
func (c *crowd) end() {
	select {
	case <-c.stop:
		return
	default:
	}
	close(c.stop)
	var closing sync.WaitGroup
	for _, v := range c.all() {
		closing.Go(func() { _ = v.c.Close() }) // some sessions are over
	}
	closing.Wait()
	c.wg.Wait()
}

// lost counts the sessions that are over: the client was told, or the ephemeral is
// gone or of another session.
func (c *crowd) lost(ctx context.Context) (lost, suspended int64, err error) {
	judge, err := client.Dial(ctx, "", client.SessionTimeout(sessionTimeout), client.Hosts(cluster.InTurn(c.addrs, 0)))
	if err != nil {
		return 0, 0, err
	}
	defer judge.Close()
	if err := judge.Sync(ctx, "/"); err != nil {
		return 0, 0, err
	}
	for _, v := range c.all() {
		suspended += v.suspended.Load()
		stat, exists, err := judge.Exists(ctx, v.path)
		if err != nil {
			return 0, 0, err
		}
		if !exists || zk.SessionID(stat.EphemeralOwner) != v.c.SessionID() || v.c.State() == client.Expired {
			lost++
		}
	}
	return lost, suspended, nil
}

// longestGap is the longest time in [from, to] in which one of the visitors for which
// ok holds, the worst of them, had no answer.
func (c *crowd) longestGap(list []*visitor, from, to time.Time, ok func(*visitor) bool) (longest time.Duration) {
	for _, v := range list {
		if !ok(v) {
			continue
		}
		gap, _ := load.LongestGap(v.times(), from.Sub(c.origin), to.Sub(c.origin))
		longest = max(longest, gap)
	}
	return longest
}

// worstGap is when the longest gap of all the visitors in [from, to] began, since from.
func (c *crowd) worstGap(list []*visitor, from, to time.Time) (at time.Duration) {
	var longest time.Duration
	for _, v := range list {
		gap, began := load.LongestGap(v.times(), from.Sub(c.origin), to.Sub(c.origin))
		if gap > longest {
			longest, at = gap, began-from.Sub(c.origin)
		}
	}
	return at
}

// writesGap is the longest time in [from, to] without an acknowledged write of any writer, and
// when it began, since from.
func (c *crowd) writesGap(from, to time.Time) (gap, at time.Duration) {
	var all []time.Duration
	for _, v := range c.writers {
		all = append(all, v.times()...)
	}
	gap, at = load.LongestGap(all, from.Sub(c.origin), to.Sub(c.origin))
	return gap, at - from.Sub(c.origin)
}

// times returns when the visitor's operations succeeded, since the origin of its crowd.
func (v *visitor) times() (list []time.Duration) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, a := range v.answers {
		list = append(list, a.at)
	}
	return list
}

// took returns how long the operations took that succeeded in [from, to], sorted.
func (c *crowd) took(list []*visitor, from, to time.Time) (took []time.Duration) {
	for _, v := range list {
		v.mu.Lock()
		for _, a := range v.answers {
			if a.at >= from.Sub(c.origin) && a.at <= to.Sub(c.origin) {
				took = append(took, a.took)
			}
		}
		v.mu.Unlock()
	}
	slices.Sort(took)
	return took
}
