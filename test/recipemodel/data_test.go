package recipemodel

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/recipe"
	"github.com/pinfold-zk/pinfold/zk"
)

// maybeDone reports whether an operation that failed may have been, or may yet be,
// carried out.
func maybeDone(err error) bool {
	var e *client.Error
	return err != nil && (!errors.As(err, &e) || e.Maybe)
}

// configs set a configuration that all watch. Each value is set once.
type configs struct {
	w    *world
	path string

	mu     sync.Mutex // guards what follows
	n      int
	sure   int // that many changes took effect
	unsure int // and perhaps that many more
	newest zk.Zxid
	where  map[string]zk.Zxid // the transaction that has made a value
	last   map[*life]string   // that a watcher was told
}

func newConfig(w *world, path string) role {
	return &configs{w: w, path: path, where: map[string]zk.Zxid{}, last: map[*life]string{}}
}

func (k *configs) name() string { return "config" }

func (k *configs) done() int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return int64(k.sure)
}

// value is one that nobody has set.
func (k *configs) value() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.n++
	return fmt.Sprintf("value %d", k.n)
}

// saw notes where a value was seen.
func (k *configs) saw(l *life, v recipe.Value) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !v.Exists {
		return
	}
	if was, ok := k.where[string(v.Data)]; ok && was != v.Stat.Mzxid {
		k.w.errorf("config: client %d sees %q of %v, which was there at %v: it has come back", l.n, v.Data, v.Stat.Mzxid, was)
	}
	k.where[string(v.Data)] = v.Stat.Mzxid
	k.newest = max(k.newest, v.Stat.Mzxid)
}

func (k *configs) work(ctx context.Context, l *life) error {
	g := recipe.NewConfig(l.c, k.path, recipe.ConfigOptions{})
	for ctx.Err() == nil {
		once, cancel := l.bounded(ctx)
		k.mu.Lock()
		before := k.newest
		k.mu.Unlock()
		v, err := g.Get(once)
		if err == nil {
			if v.Stat.Mzxid < before {
				k.w.errorf("config: client %d gets %v when %v was seen before", l.n, v.Stat.Mzxid, before)
			}
			k.saw(l, v)
			err = k.set(once, l, g, v)
		}
		err = l.goes(ctx, once, "config", err)
		cancel()
		if err != nil {
			return err
		}
		l.rest(ctx)
	}
	return context.Cause(ctx)
}

// set changes the value v.
func (k *configs) set(ctx context.Context, l *life, g *recipe.Config, v recipe.Value) error {
	var stat zk.Stat
	var err error
	next := k.value()
	if v.Exists && l.roll(2) == 0 {
		stat, err = g.Update(ctx, []byte(next), v.Stat)
	} else {
		stat, err = g.Set(ctx, []byte(next))
	}
	if err == nil {
		k.saw(l, recipe.Value{Data: []byte(next), Stat: stat, Exists: true})
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case err == nil:
		k.sure++
	case maybeDone(err):
		k.unsure++
	}
	if errors.Is(err, zk.ErrBadVersion) || errors.Is(err, zk.ErrConnectionLoss) && maybeDone(err) && ctx.Err() == nil {
		return nil // another was first, or nobody can tell
	}
	return err
}

func (k *configs) watch(ctx context.Context, l *life) error {
	var last zk.Zxid
	return recipe.NewConfig(l.c, k.path, recipe.ConfigOptions{}).Watch(ctx, func(v recipe.Value) {
		if v.Stat.Mzxid < last {
			k.w.errorf("config: client %d was told of %v after %v", l.n, v.Stat.Mzxid, last)
		}
		last = v.Stat.Mzxid
		k.saw(l, v)
		k.mu.Lock()
		k.last[l] = string(v.Data)
		k.mu.Unlock()
	})
}

func (k *configs) quiet(ctx context.Context, c *client.Client) {
	v, err := recipe.NewConfig(c, k.path, recipe.ConfigOptions{}).Get(ctx)
	if err != nil {
		k.w.errorf("config: %v", err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, l := range k.w.connected() {
		if k.last[l] != string(v.Data) {
			k.w.errorf("config: client %d was told of %q last, not of %q", l.n, k.last[l], v.Data)
		}
	}
	if n := int(v.Stat.Version) + 1; v.Exists && (n < k.sure || n > k.sure+k.unsure) {
		k.w.errorf("config: %d changes were made, %d were said to be, and %d perhaps", n, k.sure, k.unsure)
	}
}

func (k *configs) end(ctx context.Context, c *client.Client) { k.w.demandChildren(ctx, c, k.path, 0) }

// readies set a configuration of many znodes, which must never be seen in parts.
// Each value says which Set has written it, and how many there are.
type readies struct {
	w    *world
	path string
	most int // names

	mu    sync.Mutex // guards what follows
	n     int
	sets  int
	fence map[int]zk.Zxid // of a set
	done0 map[int]bool    // sets that have succeeded
	high  zk.Zxid         // fence of a set that has succeeded
	last  map[*life]int
}

func newReady(w *world, path string) role {
	k := &readies{w: w, path: path, most: 12, fence: map[int]zk.Zxid{}, done0: map[int]bool{}, last: map[*life]int{}}
	if w.rng.IntN(4) == 0 {
		k.most = 300 // several transactions
	}
	return k
}

func (k *readies) name() string { return "ready" }

func (k *readies) done() int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return int64(k.sets)
}

// read checks that a configuration is whole, and returns whose it is.
func (k *readies) read(l *life, v recipe.ReadyValues) int {
	set := 0
	for name, data := range v.Values {
		var n, of int
		if _, err := fmt.Sscanf(string(data), "%d of %d", &n, &of); err != nil || of != len(v.Values) || set != 0 && n != set {
			k.w.errorf("ready: client %d has read %d values, one of set %d, one, %s, %q", l.n, len(v.Values), set, name, data)
			return n
		}
		set = n
	}
	return set
}

func (k *readies) work(ctx context.Context, l *life) error {
	r := recipe.NewReadyConfig(l.c, k.path, recipe.ReadyOptions{})
	for ctx.Err() == nil {
		once, cancel := l.bounded(ctx)
		var err error
		if l.roll(2) == 0 {
			err = k.set(once, l, r)
		} else {
			short, cancel := context.WithTimeout(once, 2*time.Second) // a writer may have died
			var v recipe.ReadyValues
			if v, err = r.Get(short); err == nil {
				k.read(l, v)
			} else if errors.Is(err, context.DeadlineExceeded) {
				err = nil
			}
			cancel()
		}
		err = l.goes(ctx, once, "ready", err)
		cancel()
		if err != nil {
			return err
		}
		wait(ctx, time.Duration(l.roll(300))*time.Millisecond)
	}
	return context.Cause(ctx)
}

func (k *readies) set(ctx context.Context, l *life, r *recipe.ReadyConfig) error {
	k.mu.Lock()
	k.n++
	n, high := k.n, k.high
	fence := zk.Zxid(max(0, n-l.roll(4)))
	k.fence[n] = fence
	k.mu.Unlock()
	values := map[string][]byte{}
	for range 1 + l.roll(k.most) {
		values[strconv.Itoa(l.roll(k.most))] = nil
	}
	for name := range values {
		values[name] = fmt.Appendf(nil, "%d of %d", n, len(values))
	}
	err := r.Set(ctx, values, fence)
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case err == nil:
		if fence < high {
			k.w.errorf("ready: client %d has set with token %v after one with %v had", l.n, fence, high)
		}
		k.sets++
		k.done0[n] = true
		k.high = max(k.high, fence)
	case errors.Is(err, recipe.ErrSuperseded), errors.Is(err, recipe.ErrStale):
		return nil
	}
	return err
}

func (k *readies) watch(ctx context.Context, l *life) error {
	var last zk.Zxid
	var fence zk.Zxid
	return recipe.NewReadyConfig(l.c, k.path, recipe.ReadyOptions{}).Watch(ctx, func(v recipe.ReadyValues) {
		n := k.read(l, v)
		k.mu.Lock()
		defer k.mu.Unlock()
		if v.Zxid < last || k.fence[n] < fence {
			k.w.errorf("ready: client %d was told of %v with token %v after %v with %v", l.n, v.Zxid, k.fence[n], last, fence)
		}
		last, fence = v.Zxid, k.fence[n]
		k.last[l] = n
	})
}

func (k *readies) quiet(ctx context.Context, c *client.Client) {
	k.mu.Lock()
	k.n += 10
	n := k.n
	k.fence[n] = zk.Zxid(n)
	k.mu.Unlock()
	r := recipe.NewReadyConfig(c, k.path, recipe.ReadyOptions{})
	if err := r.Set(ctx, map[string][]byte{"a": fmt.Appendf(nil, "%d of 1", n)}, zk.Zxid(n)); err != nil {
		k.w.errorf("ready: at the end: %v", err)
	}
	wait(ctx, 10*time.Second)
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, l := range k.w.connected() {
		if k.last[l] != n {
			k.w.errorf("ready: client %d was told of set %d last, not of %d", l.n, k.last[l], n)
		}
	}
}

func (k *readies) end(ctx context.Context, c *client.Client) {
	k.w.demandChildren(ctx, c, k.path+"/writer", 0)
	k.w.demandChildren(ctx, c, k.path+"/values", 1)
	k.w.demandChildren(ctx, c, k.path, 3)
}

// counters are changed by adding 1, so that the number, its version and the count
// of changes are the same.
type counters struct {
	w    *world
	path string

	mu     sync.Mutex // guards what follows
	sure   int64
	unsure int64
	by     map[int64]*life // who has made it that number
	last   map[*life]int64
	newest int64
}

func newCounter(w *world, path string) role {
	return &counters{w: w, path: path, by: map[int64]*life{}, last: map[*life]int64{}}
}

func (k *counters) name() string { return "counter" }

func (k *counters) done() int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.sure
}

func (k *counters) work(ctx context.Context, l *life) error {
	n := recipe.NewCounter(l.c, k.path, recipe.CounterOptions{})
	defer func() {
		closing, cancel := context.WithTimeout(l.ctx, time.Minute)
		defer cancel()
		l.excuse(closing, "counter, close", n.Close(closing))
	}()
	for ctx.Err() == nil {
		once, cancel := l.bounded(ctx)
		v, err := k.change(once, l, n)
		switch {
		case errors.Is(err, zk.ErrBadVersion):
			err = nil
		default:
			k.changed(l, v, err)
		}
		err = l.goes(ctx, once, "counter", err)
		cancel()
		if err != nil {
			return err
		}
		if l.roll(3) == 0 {
			l.rest(ctx)
		}
		if l.roll(20) == 0 {
			if err := l.goes(ctx, ctx, "counter, close", n.Close(ctx)); err != nil {
				return err
			}
		}
	}
	return context.Cause(ctx)
}

// change adds 1 in one of two ways.
func (k *counters) change(ctx context.Context, l *life, n *recipe.Counter) (recipe.CounterValue, error) {
	if l.roll(3) > 0 {
		return n.Add(ctx, 1)
	}
	k.mu.Lock()
	before := k.newest
	k.mu.Unlock()
	v, err := n.Get(ctx)
	if err != nil {
		return v, &client.Error{Op: "get", Err: err} // nothing was changed
	}
	if v.N < before {
		k.w.errorf("counter: client %d gets %d when it was %d before", l.n, v.N, before)
	}
	return n.CompareAndSet(ctx, v, v.N+1)
}

func (k *counters) changed(l *life, v recipe.CounterValue, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case err == nil:
		k.sure++
		if o := k.by[v.N]; o != nil || v.N != int64(v.Version) {
			k.w.errorf("counter: client %d has made it %d of version %d", l.n, v.N, v.Version)
		}
		k.by[v.N] = l
		k.newest = max(k.newest, v.N)
	case maybeDone(err):
		k.unsure++
	}
}

func (k *counters) watch(ctx context.Context, l *life) error {
	last := int64(-1)
	return recipe.NewCounter(l.c, k.path, recipe.CounterOptions{}).Watch(ctx, func(v recipe.CounterValue) {
		if v.N < last {
			k.w.errorf("counter: client %d was told of %d after %d", l.n, v.N, last)
		}
		last = v.N
		k.mu.Lock()
		k.last[l] = v.N
		k.mu.Unlock()
	})
}

func (k *counters) quiet(ctx context.Context, c *client.Client) {
	v, err := recipe.NewCounter(c, k.path, recipe.CounterOptions{}).Get(ctx)
	k.mu.Lock()
	defer k.mu.Unlock()
	if err != nil || v.N < k.sure || v.N > k.sure+k.unsure {
		k.w.errorf("counter: it is %d, %v, when %d were added, and %d perhaps", v.N, err, k.sure, k.unsure)
	}
	for _, l := range k.w.connected() {
		if k.last[l] != v.N {
			k.w.errorf("counter: client %d was told of %d last, not of %d", l.n, k.last[l], v.N)
		}
	}
	k.w.demandChildren(ctx, c, k.path, 0) // all ledgers are closed
}

func (k *counters) end(ctx context.Context, c *client.Client) { k.w.demandChildren(ctx, c, k.path, 0) }

// names bind names: ephemeral ones, which one has at a time, and others, which are
// bound to other values again and again.
type names struct {
	*arena
	path string

	mu    sync.Mutex // guards what follows
	n     int
	where map[string]zk.Stat // of the znode that has had a value
	mine  map[string]bool    // ephemeral names that stay
}

func newNames(w *world, path string) role {
	return &names{arena: newArena(w, "names"), path: path, where: map[string]zk.Stat{}, mine: map[string]bool{}}
}

func (k *names) work(ctx context.Context, l *life) error {
	own := recipe.NewNames(l.c, k.path+"/own", recipe.NamesOptions{Ephemeral: true})
	all := recipe.NewNames(l.c, k.path+"/all", recipe.NamesOptions{})
	for ctx.Err() == nil {
		once, cancel := l.bounded(ctx)
		var err error
		if l.roll(2) == 0 {
			err = k.own(ctx, once, l, own)
		} else {
			err = k.all(once, l, all)
		}
		err = l.goes(ctx, once, "names", err)
		cancel()
		if err != nil {
			return err
		}
		wait(ctx, time.Duration(l.roll(30))*time.Millisecond)
	}
	return context.Cause(ctx)
}

// own binds an ephemeral name, and frees it.
func (k *names) own(ctx, once context.Context, l *life, n *recipe.Names) error {
	session := l.c.SessionID()
	err := n.Bind(once, "leader", []byte(l.c.SessionID().String()))
	if errors.Is(err, zk.ErrNodeExists) {
		return nil
	}
	if err != nil {
		if maybeDone(err) { // nobody but this client can free it
			return k.free(l, n, session, err)
		}
		return err
	}
	v, err := n.Resolve(ctx, "leader")
	if renewed := l.c.SessionID(); v.Stat.EphemeralOwner == int64(renewed) {
		session = renewed // it was bound when there was one again
	}
	if err != nil || zk.SessionID(v.Stat.EphemeralOwner) != session {
		if err == nil && !l.doubtful(session, time.Now()) {
			k.w.errorf("names: client %d has bound a name that is session %x's", l.n, v.Stat.EphemeralOwner)
		}
		return k.free(l, n, session, err)
	}
	h := &holding{l: l, token: v.Stat.Czxid, session: session, late: true}
	k.enter(h)
	l.rest(ctx)
	k.leave(h)
	return k.free(l, n, session, nil)
}

// free frees the name if it is this client's.
func (k *names) free(l *life, n *recipe.Names, session zk.SessionID, why error) error {
	ctx, cancel := context.WithTimeout(l.ctx, time.Minute)
	defer cancel()
	v, err := n.Resolve(ctx, "leader")
	owner := zk.SessionID(v.Stat.EphemeralOwner)
	if err == nil && v.Exists && (owner == session || owner == l.c.SessionID()) {
		err = n.Unbind(ctx, "leader")
	}
	if err != nil && !l.excused(ctx, err) {
		return err
	}
	return why
}

// all binds a name to a value that it never had.
func (k *names) all(ctx context.Context, l *life, n *recipe.Names) error {
	name := []string{"a", "b/c", "b/d"}[l.roll(3)]
	k.mu.Lock()
	k.n++
	value := fmt.Sprintf("%s %d", name, k.n)
	k.mu.Unlock()
	var err error
	switch l.roll(4) {
	case 0:
		err = n.Bind(ctx, name, []byte(value))
	case 1:
		err = n.Unbind(ctx, name)
	default:
		err = n.Rebind(ctx, name, []byte(value))
	}
	if err == nil {
		var v recipe.Value
		v, err = n.Resolve(ctx, name)
		k.saw(l, v)
	}
	if errors.Is(err, zk.ErrNodeExists) || errors.Is(err, zk.ErrConnectionLoss) && maybeDone(err) && ctx.Err() == nil {
		return nil
	}
	return err
}

// saw notes where a value was seen: it takes effect once. If the znode was created with it, and
// deleted before its maker could look for it, it may be created again, or set if another has
// created the znode.
func (k *names) saw(l *life, v recipe.Value) {
	k.mu.Lock()
	defer k.mu.Unlock()
	was, ok := k.where[string(v.Data)]
	again := was.Version == 0 && was.Czxid != v.Stat.Czxid
	if ok && len(v.Data) > 0 && was.Mzxid != v.Stat.Mzxid && !again {
		k.w.errorf("names: client %d sees %q of %v, which was there at %v: it has come back", l.n, v.Data, v.Stat.Mzxid, was.Mzxid)
	}
	k.where[string(v.Data)] = v.Stat
}

func (k *names) quiet(ctx context.Context, c *client.Client) {
	k.w.demandChildren(ctx, c, k.path+"/own", 0)
	list, err := recipe.NewNames(c, k.path+"/all", recipe.NamesOptions{}).List(ctx, "")
	slices.Sort(list)
	if s := strings.Join(list, ""); err != nil || !strings.Contains("ab", s) {
		k.w.errorf("names: at the end there are %v, %v", list, err)
	}
}

func (k *names) end(ctx context.Context, c *client.Client) { k.quiet(ctx, c) }
