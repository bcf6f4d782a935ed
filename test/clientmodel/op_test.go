package clientmodel

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/zk"
)

// kind is what an operation does.
type kind int

const (
	create kind = iota
	create2
	createTTL
	set
	remove
	get
	exists
	children
	getACL
	setACL
	syncing
	multi
	multiRead
	addWatch
	unwatch    // Watch.Remove
	unwatchAll // RemoveAllWatches
	forget     // ForgetWatches
	ask        // Ephemerals, AllChildrenNumber, CheckWatches, WhoAmI, Config
	addAuth
	kinds
)

var kindNames = [kinds]string{"create", "create2", "createTTL", "set", "delete", "get", "exists", "children", "getACL", "setACL",
	"sync", "multi", "multiRead", "addWatch", "watch.remove", "removeAllWatches", "forgetWatches", "ask", "addAuth"}

// weights says how often each kind is done.
var weights = [kinds]int{10, 5, 1, 16, 8, 14, 8, 8, 2, 3, 2, 6, 4, 8, 6, 2, 1, 2, 1}

// op is an operation of an actor, with what became of it.
type op struct {
	id    int
	kind  kind
	n     int    // which of a kind
	path  string // the server's
	name  string // the actor's
	mode  zk.CreateMode
	asked int32 // version
	watch bool
	parts []*op // of a multi

	async, noWait bool
	bounded       bool // its context ends

	// Points in the history of the run: before it was begun, when its call had
	// returned or, if it waits, when it was over, and when it was over.
	begun, queued, done int64

	calls    int // of its callback
	err      error
	data     []byte
	stat     zk.Stat
	exists   bool
	list     []string
	made     string // path
	acl      []zk.ACL
	lastZxid zk.Zxid // of the Client when it was over
	w        *watch  // that it leaves
	target   *watch  // that it removes

	era      int     // of the session
	attached int64   // how often the Client had got a connection before
	zxid     zk.Zxid // the least state that explains what it was told; see explain
}

func (o *op) String() string {
	s := fmt.Sprintf("operation %d, %s %s", o.id, kindNames[o.kind], o.path)
	if o.async {
		s += " async"
	}
	if o.watch {
		s += " watch"
	}
	return fmt.Sprintf("%s v%d [%d %d %d]: %v", s, o.asked, o.begun, o.queued, o.done, o.err)
}

// mark is what the data of a write has of it. No other write has the same.
func (o *op) mark() []byte { return fmt.Appendf(nil, "#%d#", o.id) }

func (o *op) marked() []zk.ACL {
	return []zk.ACL{{Perms: zk.PermAll, ID: zk.AnyoneUnsafe}, {Perms: zk.PermRead, ID: zk.ID{Scheme: "digest", ID: string(o.mark()) + ":x"}}}
}

// marksItself reports whether the write leaves its mark in the log.
func (o *op) marksItself() bool {
	switch o.kind {
	case create, create2, createTTL, set, setACL:
		return true
	}
	return false
}

func (o *op) isWrite() bool { return o.marksItself() || o.kind == remove || o.kind == multi }

var names = []string{"/a", "/b", "/c", "/a/x", "/a/y", "/b/x", "/a/x/z"}

// base is the znode that all happens below.
const base = "/m"

// next chooses an operation, as often as not on the znode of the last one.
func (a *actor) next(rng *rand.Rand, last *string) *op {
	o := &op{n: rng.IntN(12), asked: -1}
	total := 0
	for _, w := range weights {
		total += w
	}
	for at := rng.IntN(total); at >= weights[o.kind]; o.kind++ {
		at -= weights[o.kind]
	}
	a.place(o, rng, last)
	switch o.kind {
	case create, create2, createTTL:
		modes := []zk.CreateMode{zk.Persistent, zk.Persistent, zk.Persistent, zk.Ephemeral, zk.PersistentSequential, zk.EphemeralSequential, zk.Container}
		o.mode = modes[rng.IntN(len(modes))]
		if o.kind == createTTL {
			o.mode = zk.PersistentWithTTL
		}
	case get, exists, children:
		o.watch = rng.IntN(3) == 0
	case multi, multiRead:
		for i := range 1 + rng.IntN(3) {
			a.part(o, i, rng)
		}
	}
	o.id = int(a.run.ids.Add(1))
	return o
}

// place chooses the znode and its version.
func (a *actor) place(o *op, rng *rand.Rand, last *string) {
	o.name = names[rng.IntN(len(names))]
	switch again := rng.IntN(2) == 0; o.kind {
	case children, addWatch:
		if !again && rng.IntN(3) == 0 {
			o.name = "" // the base
			break
		}
		fallthrough
	default:
		if again && (*last != "" || o.kind >= get && o.kind != multi) {
			o.name = *last
		}
	}
	*last = o.name
	o.path = base + o.name
	if a.c.Chroot() == "" {
		o.name = o.path
	} else if o.name == "" {
		o.name = "/"
	}
	if rng.IntN(6) == 0 {
		o.asked = int32(rng.IntN(4))
	}
}

// part adds an operation to a multi. The first one leaves a mark.
func (a *actor) part(o *op, i int, rng *rand.Rand) {
	writes := []kind{create, set, set, create2, remove}
	p := &op{kind: writes[rng.IntN(4+min(i, 1))], asked: -1}
	if o.kind == multiRead {
		p.kind = []kind{get, children}[rng.IntN(2)]
	}
	a.place(p, rng, new(names[rng.IntN(len(names))]))
	p.id = int(a.run.ids.Add(1))
	o.parts = append(o.parts, p)
}

// begin does an operation, and waits for it unless it is asynchronous.
func (a *actor) begin(ctx context.Context, o *op) {
	if o.kind == unwatch && !a.target(o) {
		o.kind = get
	}
	if o.kind == forget || o.kind == addAuth {
		o.async = false
	}
	o.attached = a.attached.Load()
	o.begun = a.run.clock.Add(1)
	a.note(o)
	if o.async {
		a.enter(o)
		a.doAsync(ctx, o)
		a.entered(o)
		return
	}
	a.doWaiting(ctx, o)
	a.over(o)
	a.mu.Lock()
	o.queued = o.done
	a.mu.Unlock()
}

// over notes the end of an operation. Whatever an answer shows, its events have come.
func (a *actor) over(o *op) {
	if o.w != nil {
		o.w.registered(a, o)
	}
	a.drain(o.id%64 == 0)
	z := a.c.LastZxid()
	a.mu.Lock()
	defer a.mu.Unlock()
	o.lastZxid, o.done = z, a.run.clock.Add(1)
	o.calls++
	if o.calls > 1 {
		a.fail("%v is completed %d times", o, o.calls)
	}
	if o.w != nil {
		o.w.known = o.done
	}
}

func (a *actor) watched(o *op, w *client.Watch) {
	if (w != nil) != (o.err == nil && (o.watch || o.kind == addWatch)) {
		a.fail("%v: watch %v", o, w != nil)
	}
	if w != nil {
		o.w = &watch{w: w, op: o, recursive: o.kind == addWatch && o.n%2 == 1, lazy: o.id%5 == 0}
	}
}

func (a *actor) doWaiting(ctx context.Context, o *op) {
	var w *client.Watch
	switch c := a.c; o.kind {
	case create:
		o.made, o.err = c.Create(ctx, o.name, o.mark(), o.mode, nil)
	case create2:
		o.made, o.stat, o.err = c.Create2(ctx, o.name, o.mark(), o.mode, nil)
	case createTTL:
		o.made, o.stat, o.err = c.CreateTTL(ctx, o.name, o.mark(), o.mode, nil, time.Hour)
	case set:
		o.stat, o.err = c.Set(ctx, o.name, o.mark(), o.asked)
	case remove:
		o.err = c.Delete(ctx, o.name, o.asked)
	case get:
		if o.watch {
			o.data, o.stat, w, o.err = c.GetW(ctx, o.name)
			break
		}
		o.data, o.stat, o.err = c.Get(ctx, o.name)
	case exists:
		if o.watch {
			o.stat, o.exists, w, o.err = c.ExistsW(ctx, o.name)
			break
		}
		o.stat, o.exists, o.err = c.Exists(ctx, o.name)
	case children:
		if o.watch {
			o.list, o.stat, w, o.err = c.ChildrenW(ctx, o.name)
			break
		}
		o.list, o.stat, o.err = c.Children(ctx, o.name)
	case getACL:
		o.acl, o.stat, o.err = c.GetACL(ctx, o.name)
	case setACL:
		o.stat, o.err = c.SetACL(ctx, o.name, o.marked(), o.asked)
	case syncing:
		o.err = c.Sync(ctx, o.name)
	case multi, multiRead:
		commit, _, fill := a.txn(o)
		o.err = commit(ctx)
		fill()
	case addWatch:
		w, o.err = c.AddWatch(ctx, o.name, o.watchMode())
	case unwatch:
		o.err = o.target.w.Remove(ctx)
	case unwatchAll:
		o.err = c.RemoveAllWatches(ctx, o.name, o.watcherType())
	case forget:
		o.err = c.ForgetWatches(o.name, o.watcherType())
	case ask:
		o.err = a.question(ctx, o)
	case addAuth:
		o.err = c.AddAuth(ctx, "digest", []byte("u:p"))
	}
	a.watched(o, w)
}

func (o *op) watchMode() zk.AddWatchMode { return zk.AddWatchMode(o.n % 2) }

func (o *op) watcherType() zk.WatcherType {
	return []zk.WatcherType{zk.WatcherAny, zk.WatcherData, zk.WatcherChildren, zk.WatcherPersistent, zk.WatcherPersistentRecursive}[o.n%5]
}

// question asks what the model does not check.
func (a *actor) question(ctx context.Context, o *op) (err error) {
	switch o.n % 5 {
	case 0:
		_, err = a.c.Ephemerals(ctx, "/")
	case 1:
		_, err = a.c.AllChildrenNumber(ctx, o.name)
	case 2:
		err = a.c.CheckWatches(ctx, o.name, zk.WatcherAny)
	case 3:
		_, err = a.c.WhoAmI(ctx)
	default:
		_, _, err = a.c.Config(ctx)
	}
	return err
}

// txn builds a multi. fill takes the results over.
func (a *actor) txn(o *op) (commit func(context.Context) error, async func(context.Context, func(error)), fill func()) {
	var fills []func()
	fill = func() {
		for _, f := range fills {
			f()
		}
	}
	if o.kind == multiRead {
		t := a.c.ReadTxn()
		for _, p := range o.parts {
			if p.kind == get {
				r := t.Get(p.name)
				fills = append(fills, func() { p.data, p.stat, p.err = r.Data, r.Stat, r.Err })
			} else {
				r := t.Children(p.name)
				fills = append(fills, func() { p.list, p.err = r.Names, r.Err })
			}
		}
		return t.Commit, t.CommitAsync, fill
	}
	t := a.c.Txn()
	for _, p := range o.parts {
		switch p.kind {
		case create, create2:
			r := t.Create(p.name, p.mark(), p.mode, nil)
			fills = append(fills, func() { p.made = r.Path })
		case set:
			r := t.Set(p.name, p.mark(), p.asked)
			fills = append(fills, func() { p.stat = *r })
		case remove:
			t.Delete(p.name, p.asked)
		}
	}
	return t.Commit, t.CommitAsync, fill
}

func (a *actor) doAsync(ctx context.Context, o *op) {
	end := func(err error) {
		o.err = err
		a.called(o)
	}
	stat := func(st zk.Stat, err error) { o.stat = st; end(err) }
	data := func(b []byte, st zk.Stat, err error) { o.data, o.stat = bytes.Clone(b), st; end(err) }
	path := func(p string, err error) { o.made = p; end(err) }
	path2 := func(p string, st zk.Stat, err error) { o.stat = st; path(p, err) }
	left := func(w *client.Watch, err error) {
		o.err = err
		a.watched(o, w)
		a.called(o)
	}
	switch c := a.c; o.kind {
	case create:
		c.CreateAsync(ctx, o.name, o.mark(), o.mode, nil, path)
	case create2:
		c.Create2Async(ctx, o.name, o.mark(), o.mode, nil, path2)
	case createTTL:
		c.CreateTTLAsync(ctx, o.name, o.mark(), o.mode, nil, time.Hour, path2)
	case set:
		c.SetAsync(ctx, o.name, o.mark(), o.asked, stat)
	case remove:
		c.DeleteAsync(ctx, o.name, o.asked, end)
	case get, exists, children:
		a.readAsync(ctx, o, data, left)
	case getACL:
		c.GetACLAsync(ctx, o.name, func(acl []zk.ACL, st zk.Stat, err error) { o.acl = acl; stat(st, err) })
	case setACL:
		c.SetACLAsync(ctx, o.name, o.marked(), o.asked, stat)
	case syncing:
		c.SyncAsync(ctx, o.name, end)
	case multi, multiRead:
		_, commit, fill := a.txn(o)
		commit(ctx, func(err error) { fill(); end(err) })
	case addWatch:
		c.AddWatchAsync(ctx, o.name, o.watchMode(), left)
	case unwatch:
		o.target.w.RemoveAsync(ctx, end)
	case unwatchAll:
		c.RemoveAllWatchesAsync(ctx, o.name, o.watcherType(), end)
	default:
		c.EphemeralsAsync(ctx, "/", func(_ []string, err error) { end(err) })
	}
}

func (a *actor) readAsync(ctx context.Context, o *op, data func([]byte, zk.Stat, error), left func(*client.Watch, error)) {
	switch c := a.c; {
	case o.kind == get && o.watch:
		c.GetWAsync(ctx, o.name, func(b []byte, st zk.Stat, w *client.Watch, err error) {
			o.data, o.stat = bytes.Clone(b), st
			left(w, err)
		})
	case o.kind == get:
		c.GetAsync(ctx, o.name, data)
	case o.kind == exists && o.watch:
		c.ExistsWAsync(ctx, o.name, func(st zk.Stat, ok bool, w *client.Watch, err error) {
			o.stat, o.exists = st, ok
			left(w, err)
		})
	case o.kind == exists:
		c.ExistsAsync(ctx, o.name, func(st zk.Stat, ok bool, err error) { o.exists = ok; data(nil, st, err) })
	case o.watch:
		c.ChildrenWAsync(ctx, o.name, func(list []string, st zk.Stat, w *client.Watch, err error) {
			o.list, o.stat = slices.Clone(list), st
			left(w, err)
		})
	default:
		c.ChildrenAsync(ctx, o.name, func(list []string, st zk.Stat, err error) {
			o.list = slices.Clone(list)
			data(nil, st, err)
		})
	}
}
