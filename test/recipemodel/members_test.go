package recipemodel

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/recipe"
	"github.com/pinfold-zk/pinfold/zk"
)

// groups have members, who come and go. Those that have a name have it alone.
type groups struct {
	w     *world
	path  string
	named map[string]*arena

	mu     sync.Mutex // guards what follows
	joined int64
	stay   map[string]zk.Zxid // members that stay at the end
	view   map[*life][]recipe.GroupMember
}

func newGroup(w *world, path string) role {
	k := &groups{w: w, path: path, named: map[string]*arena{}, stay: map[string]zk.Zxid{}, view: map[*life][]recipe.GroupMember{}}
	for _, n := range []string{"a", "b"} {
		k.named[n] = newArena(w, "member "+n)
	}
	return k
}

func (k *groups) name() string { return "group" }

func (k *groups) done() int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.joined
}

func (k *groups) work(ctx context.Context, l *life) error {
	for ctx.Err() == nil {
		once, cancel := l.bounded(ctx)
		name := []string{"a", "b", "", ""}[l.roll(4)]
		g := recipe.NewGroup(l.c, k.path, recipe.GroupOptions{WaitForName: l.roll(2) == 0})
		session := l.c.SessionID()
		m, err := g.Join(once, name, fmt.Appendf(nil, "client %d", l.n))
		switch {
		case err == nil:
			err = k.stays(ctx, l, m, name, session)
		case errors.Is(err, zk.ErrNodeExists):
			err = nil
		}
		err = l.goes(ctx, once, "group", err)
		cancel()
		if err != nil {
			return err
		}
		wait(ctx, time.Duration(l.roll(50))*time.Millisecond)
	}
	return context.Cause(ctx)
}

// stays is what a member does: nothing, for a while.
func (k *groups) stays(ctx context.Context, l *life, m *recipe.Membership, name string, session zk.SessionID) error {
	k.mu.Lock()
	k.joined++
	k.mu.Unlock()
	h := &holding{l: l, token: m.Token(), session: session, lost: m.Lost(), late: true}
	if a := k.named[name]; a != nil {
		a.enter(h)
		defer a.leave(h)
	}
	l.rest(ctx)
	if l.abandon.Load() {
		return errAbandoned
	}
	if k.w.ctx.Err() != nil && l.roll(2) == 0 { // to the end, if it has not ended
		wait(l.ctx, time.Minute)
		select {
		case <-m.Lost():
		default:
			k.mu.Lock()
			k.stay[m.Name()] = m.Token()
			k.mu.Unlock()
		}
		return context.Cause(ctx)
	}
	if a := k.named[name]; a != nil {
		a.leave(h)
	}
	return l.gives(ctx, m.Leave)
}

func (k *groups) watch(ctx context.Context, l *life) error {
	for members, err := range recipe.NewGroup(l.c, k.path, recipe.GroupOptions{}).Watch(ctx) {
		if err != nil {
			return err
		}
		if !slices.IsSortedFunc(members, func(a, b recipe.GroupMember) int { return int(a.Token - b.Token) }) {
			k.w.errorf("group: the members %v are not in the order in which they joined", members)
		}
		k.mu.Lock()
		k.view[l] = members
		k.mu.Unlock()
	}
	return errors.New("the members ended without an error")
}

// same reports whether members are those that stay.
func (k *groups) same(members []recipe.GroupMember) bool {
	there := map[string]zk.Zxid{}
	for _, m := range members {
		there[m.Name] = m.Token
	}
	return maps.Equal(there, k.stay)
}

func (k *groups) quiet(ctx context.Context, c *client.Client) {
	members, err := recipe.NewGroup(c, k.path, recipe.GroupOptions{}).Members(ctx)
	k.mu.Lock()
	defer k.mu.Unlock()
	if err != nil || !k.same(members) {
		k.w.errorf("group: at the end there are %v, %v, not %v", members, err, k.stay)
	}
	for _, l := range k.w.connected() {
		if !k.same(k.view[l]) {
			k.w.errorf("group: at the end client %d sees %v, not %v", l.n, k.view[l], k.stay)
		}
	}
}

func (k *groups) end(ctx context.Context, c *client.Client) { k.w.demandChildren(ctx, c, k.path, 0) }

// meetings are rendezvous, one after the other: persistent ones, which are filled
// in by one, and ephemeral ones, which end with their starters.
type meetings struct {
	w    *world
	path string

	mu    sync.Mutex // guards what follows
	uses  int
	all   map[int]*meeting
	count int64
	own   map[string]*starter // of ephemeral ones
}

type meeting struct {
	filled string          // by who has succeeded
	maybe  map[string]bool // by those who do not know
	read   map[string]bool
}

type starter struct {
	l       *life
	session zk.SessionID
	since   time.Time
	closing bool
}

func newMeetings(w *world, path string) role {
	return &meetings{w: w, path: path, all: map[int]*meeting{}, own: map[string]*starter{}}
}

func (k *meetings) name() string { return "rendezvous" }

func (k *meetings) done() int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.count
}

// next is the rendezvous that is used now.
func (k *meetings) next() (int, *meeting) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.uses++
	n := k.uses / 12
	if k.all[n] == nil {
		k.all[n] = &meeting{maybe: map[string]bool{}, read: map[string]bool{}}
	}
	return n, k.all[n]
}

func (k *meetings) work(ctx context.Context, l *life) error {
	for ctx.Err() == nil {
		once, cancel := l.bounded(ctx)
		var err error
		if l.roll(5) == 0 {
			err = k.start(ctx, once, l)
		} else {
			err = k.meet(once, l)
		}
		err = l.goes(ctx, once, "rendezvous", err)
		cancel()
		if err != nil {
			return err
		}
		wait(ctx, time.Duration(l.roll(30))*time.Millisecond)
	}
	return context.Cause(ctx)
}

func (k *meetings) meet(ctx context.Context, l *life) error {
	n, m := k.next()
	r := recipe.NewRendezvous(l.c, fmt.Sprintf("%s/%d", k.path, n), recipe.RendezvousOptions{})
	switch l.roll(3) {
	case 0:
		err := r.Open(ctx)
		if errors.Is(err, zk.ErrNodeExists) || errors.Is(err, zk.ErrConnectionLoss) && ctx.Err() == nil && maybeDone(err) {
			return nil
		}
		return err
	case 1:
		k.mu.Lock()
		data := fmt.Sprintf("master %d", k.uses)
		k.mu.Unlock()
		err := r.Fill(ctx, []byte(data))
		k.mu.Lock()
		defer k.mu.Unlock()
		switch {
		case err == nil && m.filled != "":
			k.w.errorf("rendezvous %d: %q and %q have both filled it in", n, m.filled, data)
		case err == nil:
			m.filled = data
		case errors.Is(err, recipe.ErrFilled), errors.Is(err, recipe.ErrGone):
			return nil
		default:
			m.maybe[data] = true
		}
		return err
	}
	short, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	data, err := r.Wait(short)
	k.mu.Lock()
	defer k.mu.Unlock()
	if err == nil {
		m.read[string(data)] = true
		k.count++
	}
	if errors.Is(err, context.DeadlineExceeded) && short.Err() != nil {
		return nil
	}
	return err
}

// start opens an ephemeral rendezvous, or waits for the end of one of another.
func (k *meetings) start(ctx, once context.Context, l *life) error {
	k.mu.Lock()
	for path, s := range k.own {
		if s.l != l && l.roll(2) == 0 {
			k.mu.Unlock()
			r := recipe.NewRendezvous(l.c, path, recipe.RendezvousOptions{Ephemeral: true})
			err := r.Gone(once)
			k.mu.Lock()
			defer k.mu.Unlock()
			if err == nil && !s.closing && !s.l.doubtful(s.session, s.since) {
				k.w.errorf("rendezvous: %s is said to be over, but its starter goes on", path)
			}
			return err
		}
	}
	k.uses++
	path := fmt.Sprintf("%s/own/%d", k.path, k.uses)
	k.mu.Unlock()
	r := recipe.NewRendezvous(l.c, path, recipe.RendezvousOptions{Ephemeral: true})
	s := &starter{l: l, session: l.c.SessionID(), since: time.Now()}
	err := r.Open(once)
	if err == nil {
		k.mu.Lock()
		k.own[path] = s
		k.mu.Unlock()
		l.rest(ctx)
		k.mu.Lock()
		s.closing = true
		k.mu.Unlock()
	}
	if err == nil || maybeDone(err) {
		closing, cancel := context.WithTimeout(l.ctx, time.Minute)
		defer cancel()
		if err := r.Close(closing); !l.excused(closing, err) {
			return err
		}
	}
	k.mu.Lock()
	delete(k.own, path)
	k.mu.Unlock()
	return err
}

func (k *meetings) quiet(ctx context.Context, c *client.Client) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for n, m := range k.all {
		if len(m.read) > 1 {
			k.w.errorf("rendezvous %d: %v were read", n, m.read)
		}
		for data := range m.read {
			if data != m.filled && (m.filled != "" || !m.maybe[data]) {
				k.w.errorf("rendezvous %d: %q was read, %q has filled it in, and perhaps %v", n, data, m.filled, m.maybe)
			}
		}
		path := fmt.Sprintf("%s/%d", k.path, n)
		if m.filled != "" {
			data, err := recipe.NewRendezvous(c, path, recipe.RendezvousOptions{}).Wait(ctx)
			if err != nil || string(data) != m.filled {
				k.w.errorf("rendezvous %d: at the end %q is read, %v, not %q", n, data, err, m.filled)
			}
		}
		if err := recipe.NewRendezvous(c, path, recipe.RendezvousOptions{}).Close(ctx); err != nil {
			k.w.errorf("rendezvous %d: %v", n, err)
		}
	}
	k.w.demandChildren(ctx, c, k.path+"/own", 0)
}

func (k *meetings) end(ctx context.Context, c *client.Client) {
	names, _, err := c.Children(ctx, k.path)
	if err != nil && !errors.Is(err, zk.ErrNoNode) || len(slices.DeleteFunc(names, func(n string) bool { return n == "own" })) > 0 {
		k.w.errorf("%s has the children %v, %v", k.path, names, err)
	}
}

// barriers are one barrier, which one client at a time closes and opens.
type barriers struct {
	w    *world
	path string

	mu      sync.Mutex // guards what follows
	master  *life      // who closes and opens it
	closed  bool       // for certain
	epoch   int        // how often it may have been opened
	waiters int64
}

func newBarrier(w *world, path string) role { return &barriers{w: w, path: path} }

func (k *barriers) name() string { return "barrier" }

func (k *barriers) done() int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.waiters
}

func (k *barriers) work(ctx context.Context, l *life) error {
	b := recipe.NewBarrier(l.c, k.path, recipe.BarrierOptions{})
	defer k.retire(l)
	for ctx.Err() == nil {
		once, cancel := l.bounded(ctx)
		k.mu.Lock()
		mine := k.master == nil || k.master == l
		if mine {
			k.master = l
		}
		k.mu.Unlock()
		var err error
		if mine {
			err = k.turn(once, l, b)
		} else {
			err = k.wait(once, l, b)
		}
		err = l.goes(ctx, once, "barrier", err)
		cancel()
		if err != nil {
			return err
		}
		wait(ctx, time.Duration(l.roll(30))*time.Millisecond)
	}
	return context.Cause(ctx)
}

// retire lets another be master, if l was. What a dead one has sent may come yet.
func (k *barriers) retire(l *life) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.master == l {
		k.w.homes.Go(func() {
			wait(context.Background(), time.Minute)
			k.mu.Lock()
			defer k.mu.Unlock()
			k.master = nil
		})
	}
}

// turn closes the barrier, or opens it.
func (k *barriers) turn(ctx context.Context, l *life, b *recipe.Barrier) error {
	if l.roll(2) == 0 {
		err := b.Close(ctx)
		k.mu.Lock()
		k.closed = err == nil
		k.mu.Unlock()
		k.w.logf("barrier: client %d has closed it: %v", l.n, err)
		wait(ctx, time.Duration(l.roll(300))*time.Millisecond)
		return err
	}
	k.mu.Lock()
	k.closed = false
	k.epoch++
	k.mu.Unlock()
	k.w.logf("barrier: client %d opens it", l.n)
	err := b.Open(ctx)
	wait(ctx, time.Duration(l.roll(100))*time.Millisecond)
	return err
}

// wait demands that nobody passes while the barrier is closed all the time.
func (k *barriers) wait(ctx context.Context, l *life, b *recipe.Barrier) error {
	k.mu.Lock()
	closed, epoch := k.closed, k.epoch
	k.mu.Unlock()
	short, cancel := context.WithTimeout(ctx, time.Second) // the master may have died
	defer cancel()
	err := b.Wait(short)
	k.mu.Lock()
	defer k.mu.Unlock()
	if errors.Is(err, context.DeadlineExceeded) && short.Err() != nil {
		return nil
	}
	if err == nil {
		k.waiters++
		if closed && epoch == k.epoch {
			k.w.errorf("barrier: client %d has passed when it was closed", l.n)
		}
	}
	return err
}

func (k *barriers) quiet(ctx context.Context, c *client.Client) {
	if err := recipe.NewBarrier(c, k.path, recipe.BarrierOptions{}).Open(ctx); err != nil {
		k.w.errorf("barrier: %v", err)
	}
}

func (k *barriers) end(ctx context.Context, c *client.Client) {
	if _, exists, err := c.Exists(ctx, k.path); err != nil || exists {
		k.w.errorf("barrier: at the end it is there: %v, %v", exists, err)
	}
}

// doubles are a double barrier.
type doubles struct {
	w      *world
	path   string
	number int

	mu     sync.Mutex // guards what follows
	all    map[*process]struct{}
	rounds int64
}

// A process is one that may be registered at the double barrier.
type process struct {
	l       *life
	session zk.SessionID
	enough  bool // as many as are needed may have been registered since it came
	inside  bool
	since   time.Time // it is inside
	leaving bool
	left    bool // Leave has succeeded
}

func newDouble(w *world, path string) role {
	return &doubles{w: w, path: path, number: 2 + w.rng.IntN(w.clients-1), all: map[*process]struct{}{}}
}

func (k *doubles) name() string { return "double barrier" }

func (k *doubles) done() int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.rounds
}

func (k *doubles) work(ctx context.Context, l *life) error {
	b := recipe.NewDoubleBarrier(l.c, k.path, k.number, recipe.DoubleBarrierOptions{})
	for ctx.Err() == nil {
		once, cancel := l.bounded(ctx)
		p := k.come(l)
		err := b.Enter(once)
		if err == nil {
			k.entered(p)
			l.rest(ctx)
			if l.abandon.Load() {
				err = errAbandoned
			} else {
				err = k.out(ctx, l, b, p)
			}
		}
		k.gone(p)
		err = l.goes(ctx, once, "double barrier", err)
		cancel()
		if err != nil {
			return err
		}
		wait(ctx, time.Duration(l.roll(30))*time.Millisecond)
	}
	return context.Cause(ctx)
}

// come counts a process from before it registers.
func (k *doubles) come(l *life) *process {
	k.mu.Lock()
	defer k.mu.Unlock()
	p := &process{l: l, session: l.c.SessionID()}
	k.all[p] = struct{}{}
	if len(k.all) >= k.number {
		for q := range k.all {
			q.enough = true
		}
	}
	return p
}

func (k *doubles) entered(p *process) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p.inside, p.since = true, time.Now()
	k.w.logf("double barrier: client %d is inside", p.l.n)
	if !p.enough {
		k.w.errorf("double barrier: client %d has entered when never more than %d were there", p.l.n, len(k.all))
	}
}

// out leaves, and demands that those who were inside then have left too, or died.
func (k *doubles) out(ctx context.Context, l *life, b *recipe.DoubleBarrier, p *process) error {
	k.mu.Lock()
	p.leaving = true
	var inside []*process
	for q := range k.all {
		if q.inside && !q.leaving {
			inside = append(inside, q)
		}
	}
	k.mu.Unlock()
	k.w.logf("double barrier: client %d leaves", l.n)
	once, cancel := l.bounded(ctx)
	defer cancel()
	if err := b.Leave(once); err != nil {
		if once.Err() != nil && errors.Is(err, context.Cause(once)) {
			return nil
		}
		return err
	}
	k.w.logf("double barrier: client %d has left", l.n)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.rounds++
	p.left = true
	for _, q := range inside {
		if _, there := k.all[q]; there && !q.leaving && !q.l.doubtful(q.session, q.since) && !l.doubtful(p.session, p.since) {
			k.w.errorf("double barrier: client %d has left when client %d was inside, since %v", l.n, q.l.n, q.since.Sub(k.w.began))
		}
	}
	return nil
}

// gone forgets a process. One that has ended in another way than by leaving may be
// registered for a while.
func (k *doubles) gone(p *process) {
	k.mu.Lock()
	defer k.mu.Unlock()
	p.leaving = true
	if p.left && !p.l.doubtful(p.session, p.since) {
		delete(k.all, p)
		return
	}
	k.w.homes.Go(func() {
		wait(context.Background(), 30*time.Second)
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.all, p)
	})
}

func (k *doubles) quiet(ctx context.Context, c *client.Client) {
	names, _, err := c.Children(ctx, k.path)
	if err != nil && !errors.Is(err, zk.ErrNoNode) || len(names) > 1 || len(names) == 1 && names[0] != "ready" {
		k.w.errorf("double barrier: at the end there are %v, %v", names, err)
	}
}

func (k *doubles) end(ctx context.Context, c *client.Client) { k.quiet(ctx, c) }
