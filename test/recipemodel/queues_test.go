package recipemodel

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/recipe"
	"github.com/pinfold-zk/pinfold/zk"
)

// A queue is what both kinds have.
type queue interface {
	Take(ctx context.Context) ([]byte, error)
	TryTake(ctx context.Context) ([]byte, bool, error)
	Lease(ctx context.Context) (*recipe.Lease, error)
	TryLease(ctx context.Context) (*recipe.Lease, error)
	Size(ctx context.Context) (int, error)
}

// An item is what was put, and what has become of it.
type item struct {
	priority int
	maker    *life
	put      bool // for certain
	unput    bool // for certain not
	taken    int
	acked    int
	unsure   bool // somebody does not know whether it is acknowledged
	had      bool // by anybody
	holder   *holding
}

// queues are a queue, or a priority queue: from what was put nothing is lost, and
// nothing comes out twice.
type queues struct {
	w        *world
	path     string
	priority bool
	bound    int
	leases   bool // what comes out is leased, else taken; or both
	takes    bool

	mu    sync.Mutex // guards what follows
	items []*item
	puts  int64 // that may have been carried out
	count int64
	lose  int // so many items may be lost, with those who have taken them
}

func newQueue(priority bool) func(w *world, path string) role {
	return func(w *world, path string) role {
		k := &queues{w: w, path: path, priority: priority}
		if w.rng.IntN(2) == 0 {
			k.bound = 1 + w.rng.IntN(6)
		}
		how := w.rng.IntN(3)
		k.leases, k.takes = how != 0, how != 1
		return k
	}
}

func (k *queues) name() string {
	return fmt.Sprintf("queue (priorities %v, bound %d)", k.priority, k.bound)
}

func (k *queues) done() int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.count
}

// A view is a client's queue.
type view struct {
	queue
	put, tryPut func(ctx context.Context, priority int, data []byte) error
	last        map[*life]int // of each maker, the last item that was taken
	cut         bool          // a Take was cut off by its context
}

func (k *queues) view(c *client.Client) *view {
	v := &view{last: map[*life]int{}}
	opts := recipe.QueueOptions{MaxSize: k.bound}
	if k.priority {
		q := recipe.NewPriorityQueue(c, k.path, opts)
		v.queue, v.put, v.tryPut = q, q.Put, q.TryPut
		return v
	}
	q := recipe.NewQueue(c, k.path, opts)
	v.queue = q
	v.put = func(ctx context.Context, _ int, data []byte) error { return q.Put(ctx, data) }
	v.tryPut = func(ctx context.Context, _ int, data []byte) error { return q.TryPut(ctx, data) }
	return v
}

func (k *queues) work(ctx context.Context, l *life) error {
	puts, gets := make(chan error, 1), make(chan error, 1)
	v := k.view(l.c) // one for both: it may be used at the same time
	work, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		puts <- k.repeat(work, l, "put", func(once context.Context) error { return k.putOne(once, l, v) })
		stop()
	}()
	go func() {
		gets <- k.repeat(work, l, "get", func(once context.Context) error { return k.getOne(work, once, l, v) })
		stop()
	}()
	one, other := <-puts, <-gets
	k.leaves(l, v)
	return firstUseful(one, other)
}

// firstUseful is that of two errors which says more.
func firstUseful(one, other error) error {
	if errors.Is(one, context.Canceled) {
		return other
	}
	return one
}

// leaves gets what a Take that was cut off has removed.
func (k *queues) leaves(l *life, v *view) {
	if !v.cut {
		return
	}
	wait(l.ctx, 20*time.Second)
	for l.ctx.Err() == nil {
		data, ok, err := v.TryTake(l.ctx)
		if err != nil || !ok {
			if err != nil {
				break
			}
			return
		}
		k.took(l, v, data)
	}
	k.mu.Lock()
	k.lose += 3 // it has died with what was left
	k.mu.Unlock()
}

func (k *queues) repeat(ctx context.Context, l *life, what string, f func(once context.Context) error) error {
	for ctx.Err() == nil {
		once, cancel := l.bounded(ctx)
		err := l.goes(ctx, once, what, f(once))
		cancel()
		if err != nil {
			return err
		}
		if l.roll(3) == 0 {
			wait(ctx, time.Duration(l.roll(100))*time.Millisecond)
		}
	}
	return context.Cause(ctx)
}

func (k *queues) putOne(ctx context.Context, l *life, v *view) error {
	x := &item{maker: l, priority: l.roll(4)}
	k.mu.Lock()
	n := len(k.items)
	if k.puts > k.count+40 {
		k.mu.Unlock()
		wait(ctx, 300*time.Millisecond) // the queue may be long enough
		n, err := v.Size(ctx)
		k.mu.Lock()
		if err == nil {
			k.puts = k.count + int64(n)
		}
		k.mu.Unlock()
		return err
	}
	k.items = append(k.items, x)
	k.mu.Unlock()
	data := fmt.Appendf(nil, "%d", n)
	var err error
	if l.roll(3) == 0 {
		err = v.tryPut(ctx, x.priority, data)
	} else {
		err = v.put(ctx, x.priority, data)
	}
	k.mu.Lock()
	x.put = err == nil
	if x.unput = errors.Is(err, recipe.ErrFull); !x.unput {
		k.puts++
	}
	k.mu.Unlock()
	if err == nil && k.bound > 0 && l.roll(3) == 0 {
		n, err := v.Size(ctx)
		if err == nil && n > k.bound {
			k.w.errorf("%s: it has %d items", k.name(), n)
		}
	}
	if errors.Is(err, recipe.ErrFull) {
		return nil
	}
	return err
}

// parse finds an item, that somebody has got.
func (k *queues) parse(l *life, data []byte) (*item, int) {
	var n int
	if _, err := fmt.Sscanf(string(data), "%d", &n); err != nil || n < 0 || n >= len(k.items) {
		k.w.errorf("%s: client %d has got %q", k.name(), l.n, data)
		return &item{}, 0
	}
	x := k.items[n]
	if x.unput {
		k.w.errorf("%s: client %d has got %d, which was refused", k.name(), l.n, n)
	}
	x.had = true
	return x, n
}

func (k *queues) getOne(all, ctx context.Context, l *life, v *view) error {
	if !k.takes || k.leases && l.roll(2) == 0 {
		return k.lease(all, ctx, l, v)
	}
	var data []byte
	var err error
	ok := true
	if l.roll(3) == 0 {
		data, ok, err = v.TryTake(ctx)
	} else {
		data, err = v.Take(ctx)
	}
	switch {
	case err == nil && ok:
		k.took(l, v, data)
	case errors.Is(err, zk.ErrSessionExpired), errors.Is(err, client.ErrClosed):
		k.mu.Lock()
		k.lose++
		k.mu.Unlock()
	case err != nil:
		v.cut = true
	}
	return err
}

// took notes that an item was removed, and is here.
func (k *queues) took(l *life, v *view, data []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.count++
	x, n := k.parse(l, data)
	x.taken++
	k.w.logf("queue: client %d has taken %d", l.n, n)
	if x.taken+x.acked > 1 {
		k.w.errorf("%s: item %d was taken %d times, and acknowledged %d times", k.name(), n, x.taken, x.acked)
	}
	if x.holder != nil && x.holder.sound() {
		k.w.errorf("%s: client %d has taken %d, which client %d has a lease of", k.name(), l.n, n, x.holder.l.n)
	}
	if k.leases || k.priority || v.cut {
		return
	}
	if last, ok := v.last[x.maker]; ok && n < last {
		k.w.errorf("%s: client %d has taken %d after %d, which was put later", k.name(), l.n, n, last)
	}
	v.last[x.maker] = n
}

func (k *queues) lease(all, ctx context.Context, l *life, v *view) error {
	session := l.c.SessionID()
	var lease *recipe.Lease
	var err error
	if l.roll(3) == 0 {
		lease, err = v.TryLease(ctx)
	} else {
		lease, err = v.Lease(ctx)
	}
	if errors.Is(err, recipe.ErrLeaseLost) && l.doubtful(session, time.Now()) {
		return nil
	}
	if err != nil || lease == nil {
		return err
	}
	h := &holding{l: l, session: session, lost: lease.Lost(), token: lease.Token(), late: true, since: time.Now()}
	x := k.leased(l, h, lease)
	if l.roll(2) == 0 {
		l.rest(all)
	}
	if l.abandon.Load() {
		return errAbandoned
	}
	k.mu.Lock()
	x.holder = nil
	k.mu.Unlock()
	end := lease.Release
	if l.roll(4) != 0 {
		end = func(ctx context.Context) error { return k.ack(ctx, lease, x) }
	}
	once, cancel := l.bounded(all)
	defer cancel()
	err = end(once)
	if all.Err() == nil && once.Err() != nil && errors.Is(err, context.Cause(once)) {
		if err = end(all); errors.Is(err, recipe.ErrLeaseLost) { // it went on, or was ended all the same
			return nil
		}
	}
	if errors.Is(err, recipe.ErrLeaseLost) && l.doubtful(h.session, h.since) {
		return nil
	}
	return err
}

// ack acknowledges an item.
func (k *queues) ack(ctx context.Context, lease *recipe.Lease, x *item) error {
	err := lease.Ack(ctx)
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case err == nil:
		k.count++
		x.acked++
		if x.taken+x.acked > 1 {
			k.w.errorf("%s: %s was taken %d times, and acknowledged %d times", k.name(), lease.Data(), x.taken, x.acked)
		}
	case !errors.Is(err, recipe.ErrLeaseLost):
		x.unsure = true
	}
	return err
}

// leased notes that somebody has a lease, whom nobody else may have it beside.
func (k *queues) leased(l *life, h *holding, lease *recipe.Lease) *item {
	k.mu.Lock()
	x, n := k.parse(l, lease.Data())
	o := x.holder
	x.holder = h
	if x.taken+x.acked > 0 {
		k.w.errorf("%s: client %d has a lease of %d, which was taken %d times, and acknowledged %d times", k.name(), l.n, n, x.taken, x.acked)
	}
	k.mu.Unlock()
	if o == nil {
		return x
	}
	k.w.instant()
	if o.sound() && h.sound() {
		k.w.errorf("%s: client %d has a lease of %d beside client %d", k.name(), l.n, n, o.l.n)
	}
	if h.token <= o.token && h.sound() {
		k.w.errorf("%s: client %d has a lease of %d by %v after %v", k.name(), l.n, n, h.token, o.token)
	}
	return x
}

func (k *queues) quiet(ctx context.Context, c *client.Client) {
	names, _, err := c.Children(ctx, k.path)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		k.w.errorf("%s: %v", k.name(), err)
	}
	if k.bound > 0 && len(names) > 2*k.bound+1 {
		k.w.errorf("%s: at the end there are %v", k.name(), names)
	}
}

func (k *queues) end(ctx context.Context, c *client.Client) {
	k.drain(ctx, c)
	k.mu.Lock()
	defer k.mu.Unlock()
	lost := 0
	var what []int
	for n, x := range k.items {
		if x.put && x.taken+x.acked == 0 && !x.unsure {
			lost++
			what = append(what, n)
		}
	}
	if lost > k.lose {
		k.w.errorf("%s: the items %v of %d are lost; %d takers were cut off", k.name(), what, len(k.items), k.lose)
	}
	names, _, err := c.Children(ctx, k.path)
	if err != nil && !errors.Is(err, zk.ErrNoNode) || strings.Trim(strings.Join(names, " "), " ") != "markers" && len(names) > 0 {
		k.w.errorf("%s: at the end there are %v, %v", k.name(), names, err)
	}
	names, _, err = c.Children(ctx, k.path+"/markers")
	if err != nil && !errors.Is(err, zk.ErrNoNode) || len(names) > 1 { // that of drain
		k.w.errorf("%s: at the end there are the markers %v, %v", k.name(), names, err)
	}
}

// drain takes what is left, which comes in the order that is promised.
func (k *queues) drain(ctx context.Context, c *client.Client) {
	type rank struct{ priority, n int }
	last := map[*life]rank{}
	v := k.view(c)
	for {
		data, ok, err := v.TryTake(ctx)
		if err != nil {
			k.w.errorf("%s: drain: %v", k.name(), err)
		}
		if !ok {
			return
		}
		k.mu.Lock()
		x, n := k.parse(&life{n: -1}, data)
		x.taken++
		if x.taken+x.acked > 1 {
			k.w.errorf("%s: at the end item %d was taken %d times, and acknowledged %d times", k.name(), n, x.taken, x.acked)
		}
		r := rank{0, n}
		if k.priority {
			r.priority = x.priority
		}
		if p, ok := last[x.maker]; ok && slices.Compare([]int{p.priority, p.n}, []int{r.priority, r.n}) > 0 {
			k.w.errorf("%s: at the end %v comes after %v", k.name(), r, p)
		}
		last[x.maker] = r
		k.mu.Unlock()
	}
}
