package migrate

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path"
	"sync"
	"time"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/zk"
)

// Felt is what the canaries have felt in some time.
type Felt struct {
	GapMS    int64 `json:"longest_gap_ms"` // in which a canary had no write acknowledged
	Member   int64 `json:"member"`         // where that canary had begun
	Writes   int64 `json:"writes"`         // that were acknowledged
	Events   int64 `json:"events"`         // that arrived
	Lost     int64 `json:"lost_events"`    // changes that were seen and not notified
	Sessions int64 `json:"lost_sessions"`
}

// String is a line for users.
func (f Felt) String() string {
	return fmt.Sprintf("longest gap %d ms (the session that began at server %d), %d writes, %d events, %d events lost, %d sessions lost",
		f.GapMS, f.Member, f.Writes, f.Events, f.Lost, f.Sessions)
}

// add adds what was felt elsewhere or later.
func (f *Felt) add(g Felt) {
	if g.GapMS > f.GapMS {
		f.GapMS, f.Member = g.GapMS, g.Member
	}
	f.Writes, f.Events, f.Lost, f.Sessions = f.Writes+g.Writes, f.Events+g.Events, f.Lost+g.Lost, f.Sessions+g.Sessions
}

// The time between two writes of a canary, and between two looks for a lost event.
const (
	writeEvery = 10 * time.Millisecond
	lookEvery  = 100 * time.Millisecond
)

// A flock is the canaries: a session on each member, which writes an ephemeral znode of its
// own all the time, and watches that of the next. When its member stops, the session goes to
// another, as any client's does.
type flock struct {
	canaries []*canary
	stop     context.CancelFunc
	running  sync.WaitGroup
	all      Felt // what felt has returned
}

// A canary is one of them.
type canary struct {
	member Member
	dial   func(context.Context) (*client.Client, error)
	path   string // of its znode

	mu   sync.Mutex
	c    *client.Client
	last time.Time // when a write was acknowledged
	now  Felt
}

// hatch opens a session on each of the first n members, and makes their znodes below a path.
// The sessions may go to the others.
func hatch(ctx context.Context, e Ensemble, c *Config, n int, below string) (*flock, error) {
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	f := &flock{stop: stop}
	for i, m := range c.Members[:n] {
		hosts := &preferring{members: append([]Member{m}, append(c.Members[i+1:len(c.Members):len(c.Members)], c.Members[:i]...)...)}
		y := &canary{member: m, dial: func(ctx context.Context) (*client.Client, error) {
			return e.Dial(ctx, "", client.Hosts(hosts))
		}}
		f.canaries = append(f.canaries, y)
		if err := y.begin(ctx, below); err != nil {
			f.close()
			return nil, fmt.Errorf("the canary of server %d: %w (--canary names a znode below which it may create; --canary none does without)", m.ID, err)
		}
	}
	for i, y := range f.canaries {
		f.running.Go(func() { y.write(running) })
		f.running.Go(func() { y.watch(running, f.canaries[(i+1)%len(f.canaries)].path) })
	}
	return f, nil
}

// begin opens the session of a canary, and makes its znode.
func (y *canary) begin(ctx context.Context, below string) error {
	c, err := y.dial(ctx)
	if err != nil {
		return err
	}
	y.path = path.Join(below, fmt.Sprintf("pinfold-migrate-%x", uint64(c.SessionID())))
	y.c, y.last = c, time.Now()
	_, err = c.Create(ctx, y.path, nil, zk.Ephemeral, anyone)
	return err
}

// anyone is the ACL of the canaries' znodes.
var anyone = []zk.ACL{{Perms: zk.PermAll, ID: zk.ID{Scheme: "world", ID: "anyone"}}}

// close ends the sessions, and with them their znodes.
func (f *flock) close() {
	f.stop()
	f.running.Wait()
	for _, y := range f.canaries {
		if y.c != nil {
			_ = y.c.Close() // the session that cannot be closed ends by itself
		}
	}
}

// felt returns what the canaries have felt since the last call.
func (f *flock) felt() (all Felt) {
	for _, y := range f.canaries {
		all.add(y.felt())
	}
	f.all.add(all)
	return all
}

// total returns what the canaries have felt from the beginning on.
func (f *flock) total() Felt {
	f.felt()
	return f.all
}

func (y *canary) felt() Felt {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.gap(time.Now())
	f := y.now
	y.now = Felt{}
	return f
}

// gap enters the time since the last write. y.mu is held.
func (y *canary) gap(now time.Time) {
	y.now.add(Felt{GapMS: now.Sub(y.last).Milliseconds(), Member: y.member.ID})
}

func (y *canary) client() *client.Client {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.c
}

// write writes until ctx ends.
func (y *canary) write(ctx context.Context) {
	tick := time.NewTicker(writeEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		_, err := y.client().Set(ctx, y.path, nil, -1)
		switch {
		case err == nil:
			y.mu.Lock()
			y.gap(time.Now())
			y.last = time.Now()
			y.now.Writes++
			y.mu.Unlock()
		case errors.Is(err, zk.ErrSessionExpired), errors.Is(err, zk.ErrNoNode):
			y.again(ctx)
		}
	}
}

// again opens a new session in place of one that was lost.
func (y *canary) again(ctx context.Context) {
	c, err := y.dial(ctx)
	if err != nil {
		return // the next write fails again
	}
	_, err = c.Create(ctx, y.path, nil, zk.Ephemeral, anyone)
	if err != nil && !errors.Is(err, zk.ErrNodeExists) {
		_ = c.Close() // it is of no use
		return
	}
	y.mu.Lock()
	old := y.c
	y.c = c
	y.now.Sessions++
	y.mu.Unlock()
	_ = old.Close() // it has ended
}

// watch watches a znode until ctx ends. A Client has an event before any answer that shows
// the change: a newer version without an event is an event that was lost.
func (y *canary) watch(ctx context.Context, znode string) {
	for ctx.Err() == nil {
		_, was, w, err := y.client().GetW(ctx, znode)
		if err != nil {
			sleep(ctx, lookEvery) // until there is a connection, and the znode
			continue
		}
		y.await(ctx, znode, was.Mzxid, w)
	}
}

// await waits for the event of a watch that saw the znode at mzxid.
func (y *canary) await(ctx context.Context, znode string, mzxid zk.Zxid, w *client.Watch) {
	for {
		select {
		case <-w.Events():
			y.note(Felt{Events: 1})
			return
		case <-time.After(lookEvery):
		case <-ctx.Done():
			return
		}
		_, now, err := y.client().Get(ctx, znode)
		if err != nil || now.Mzxid == mzxid {
			continue
		}
		select {
		case <-w.Events():
			y.note(Felt{Events: 1})
		default:
			y.note(Felt{Lost: 1})
		}
		return
	}
}

func (y *canary) note(f Felt) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.now.add(f)
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// preferring gives the members in turn, the first one first.
type preferring struct {
	members []Member
	next    int
}

// Next returns the next member.
func (p *preferring) Next(ctx context.Context) (client.Host, error) {
	m := p.members[p.next%len(p.members)]
	p.next++
	host, port, err := net.SplitHostPort(m.Client)
	if err != nil {
		return client.Host{}, err
	}
	addrs, err := net.DefaultResolver.LookupHost(ctx, host)
	if err != nil {
		return client.Host{}, err
	}
	return client.Host{Name: host, Addr: net.JoinHostPort(addrs[0], port)}, nil
}

// Len is the number of members.
func (p *preferring) Len() int { return len(p.members) }
