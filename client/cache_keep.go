package client

import (
	"context"
	"errors"
	"fmt"

	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// keeper keeps a Cache current. Its goroutine owns it; the znodes are the Cache's
// and guarded by its mu.
//
// It goes by the order in which answers and events come over the connection. An
// event comes before every answer that shows its change, and an answer shows at
// least all changes whose events came before it. So a read that is under way when
// an event comes needs not be repeated for it, and a deletion can be carried out
// when it is told of.
type keeper struct {
	*Cache
	gen       int  // of the watches; what comes from earlier ones does not count
	oneShot   bool // there are no recursive watches
	recursive *Watch
	absence   *Watch // for the creation of the top, without a recursive watch

	reads  map[readKey]*cacheRead // in the queue or under way
	queue  []*cacheRead
	flying int // reads under way, of all generations
	fresh  int // of reads: those of the data of znodes that are not held

	marks   marks
	seen    zk.Zxid // newest transaction up to which all events have come
	loading *mark   // of the reading of the whole; nil when that is done
	syncs   []boxItem
	unused  []*Watch // to be taken out of the Client's table
}

type readKind int

const (
	readWatch readKind = iota // leaves the recursive watch
	readSync                  // has a new session's server catch up
	readCheck                 // compares a znode, and all below it, by Stat
	readData
	readNames
)

type readKey struct {
	kind readKind
	path string
}

// cacheRead is a request of a Cache.
type cacheRead struct {
	readKey
	keeper *keeper
	gen    int
	mark   *mark
	deep   bool // check the children that are held, too
	full   bool // and list all of them, whatever the Pzxid
	fresh  bool // counted in keeper.fresh
	sent   bool // under way
	again  bool // its answer may be too old: it is asked for once more
}

// complete puts the answer into the Cache's box. The Client's mu is held.
func (r *cacheRead) complete(answer *result) {
	k := r.keeper
	if !k.box.put(boxItem{read: r, result: *answer, zxid: k.client.lastZxid}) && answer.watch != nil {
		answer.watch.over = true
		k.client.watches.remove(answer.watch)
	}
}

// marks is the transactions up to which the Cache would be current, were it not
// for the reads that hold them: in order, each with the number of its holders.
type marks struct{ first, last *mark }

type mark struct {
	zxid zk.Zxid
	open int
	next *mark
}

// at returns the mark of z, which is not older than the last, with one holder
// more.
func (m *marks) at(z zk.Zxid) *mark {
	if m.last == nil || m.last.zxid != z {
		n := &mark{zxid: z}
		if m.last == nil {
			m.first = n
		} else {
			m.last.next = n
		}
		m.last = n
	}
	m.last.open++
	return m.last
}

// release takes a holder away.
func (m *marks) release(k *mark) {
	k.open--
	for m.first != nil && m.first.open == 0 {
		m.first = m.first.next
	}
	if m.first == nil {
		m.last = nil
	}
}

// keep runs until the Cache is closed, or cannot go on.
func (k *Cache) keep() {
	defer close(k.done)
	r := &keeper{Cache: k, oneShot: k.opts.oneShot}
	r.mu.Lock()
	r.restart(false)
	r.mu.Unlock()
	err := r.send()
	for err == nil && k.stop.Err() == nil {
		items := k.box.take(r.marks.first == nil)
		if len(items) == 0 {
			select {
			case <-k.box.wake:
			case <-k.stop.Done():
			}
			continue
		}
		if err = r.handle(items); err == nil {
			err = r.send()
		}
	}
	r.end(err)
}

// handle takes answers and events, and publishes what came of them at once.
func (r *keeper) handle(items []boxItem) (err error) {
	r.mu.Lock()
	for i := range items {
		item := &items[i]
		switch {
		case item.read != nil:
			err = r.answered(item.read, item)
		case item.reached != nil:
			r.seen = max(r.seen, item.zxid)
			r.syncs = append(r.syncs, *item)
		case item.lost:
			r.missed()
		case item.gen == r.gen:
			err = r.happened(item.event)
		}
		if err != nil {
			break
		}
	}
	r.publish()
	size := len(r.tree.nodes)
	r.mu.Unlock()
	for _, w := range r.unused {
		r.client.discard(w)
	}
	r.unused = nil
	if err != nil || r.loading == nil {
		return err
	}
	if r.opts.progress != nil {
		r.opts.progress(size)
	}
	if r.loading.open == 0 {
		r.loading = nil
		close(r.loaded)
	}
	return nil
}

// publish advances the Cache's zxid and wakes the callers that wait for it.
func (r *keeper) publish() {
	z := r.seen
	if r.marks.first != nil {
		z = r.marks.first.zxid
	}
	r.zxid = max(r.zxid, z)
	waiting := r.syncs[:0]
	for _, s := range r.syncs {
		if s.zxid <= r.zxid {
			close(s.reached)
		} else {
			waiting = append(waiting, s)
		}
	}
	r.syncs = waiting
}

// restart reads the whole subtree: at the start, and when all watches are gone.
func (r *keeper) restart(newSession bool) {
	r.gen++
	r.reads, r.queue, r.fresh = map[readKey]*cacheRead{}, nil, 0
	r.marks = marks{}
	r.tree.walk(func(_ string, n *cacheNode) { r.unwatch(n) })
	r.spare(r.absence)
	r.absence = nil
	m := r.marks.at(r.zxid)
	if r.gen == 1 || r.loading != nil {
		r.loading = m
	}
	kind := readCheck
	if !r.oneShot {
		kind, r.recursive = readWatch, nil
	} else if newSession {
		kind = readSync
	}
	r.want(readKey{kind, r.root}, m).full = true
	r.marks.release(m)
}

// want has something read, and returns the read. The mark gets a holder more.
func (r *keeper) want(key readKey, m *mark) *cacheRead {
	m.open++
	if old := r.reads[key]; old != nil {
		if old.mark.zxid > m.zxid {
			old.mark, m = m, old.mark
		}
		r.marks.release(m)
		return old
	}
	n := &cacheRead{readKey: key, keeper: r, gen: r.gen, mark: m}
	if key.kind == readData && r.tree.nodes[key.path] == nil {
		n.fresh = true
		r.fresh++
	}
	r.reads[key] = n
	r.queue = append(r.queue, n)
	return n
}

// send starts reads, as many as may be under way. The Cache's mu is not held.
func (r *keeper) send() error {
	for len(r.queue) > 0 && r.flying < r.opts.window {
		n := r.queue[0]
		r.queue = r.queue[1:]
		if err := r.start(n); err != nil {
			return err
		}
		n.sent = true
		r.flying++
	}
	return nil
}

// start sends a request. Its answer goes to the box in its place among all that
// comes over the connection, not to the callbacks. A server that is known not to
// have recursive watches is not asked, and taken to have answered so.
func (r *keeper) start(n *cacheRead) error {
	c := r.client
	var k call
	var body wire.PathWatch
	watch := dataWatch
	switch n.kind {
	case readWatch:
		k := call{op: wire.OpAddWatch, name: "addwatch", path: n.path, done: n}
		body := wire.PathInt{Path: c.outer(n.path), Value: int32(zk.AddWatchPersistentRecursive)}
		k.watch = &Watch{client: c, kind: recursiveWatch, path: body.Path, sink: cacheSink{&r.box, r.gen}}
		err := c.submit(r.stop, &k, body.Append)
		if errors.Is(err, zk.ErrUnimplemented) {
			c.mu.Lock()
			defer c.mu.Unlock()
			n.complete(&result{err: err})
			return nil
		}
		return err
	case readSync:
		k, body := c.named(wire.OpSync, "sync", n.path, decodeNothing)
		k.done = n
		return c.submit(context.Background(), &k, body.append)
	case readCheck:
		k, body = c.pathWatch(wire.OpExists, "exists", n.path, decodeStat)
		watch = existWatch
	case readData:
		k, body = c.pathWatch(wire.OpGetData, "get", n.path, decodeData)
	case readNames:
		k, body = c.pathWatch(wire.OpGetChildren2, "ls", n.path, decodeChildren)
		watch = childWatch
	}
	if r.oneShot {
		body.Watch = true
		k.watch = &Watch{client: c, kind: watch, path: body.Path, sink: cacheSink{&r.box, r.gen}}
	}
	k.done = n
	return c.submit(context.Background(), &k, body.Append)
}

// end forgets everything. err is why; nil is Close.
func (r *keeper) end(err error) {
	r.box.close()
	if r.stop.Err() != nil {
		err = nil
	}
	r.mu.Lock()
	if err != nil {
		r.err = fmt.Errorf("client: cache of %s: %w", r.root, err)
	}
	var watches []*Watch
	r.tree.walk(func(_ string, n *cacheNode) { watches = append(watches, n.dataWatch, n.childWatch) })
	r.tree.nodes, r.tree.bytes = nil, 0
	clear(r.feeds)
	r.mu.Unlock()
	for _, w := range append(watches, append(r.unused, r.absence)...) {
		if w != nil {
			r.client.discard(w)
		}
	}
	if r.recursive != nil {
		r.client.takeBack(r.recursive)
	}
}

// takeBack asks the server to forget a persistent watch, and does not wait.
func (c *Client) takeBack(w *Watch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	over := w.over
	w.finish()
	c.watches.remove(w)
	l := c.link
	k, body, ask := c.removal(w.path, w.kind)
	if over || !ask {
		return
	}
	k.done = errDone(func(error) {})
	// An error is that of a Client at its end, whose watches end with it.
	if c.queue(&k, body.Append) == nil {
		l.poke()
	}
}

// sessionEnded restarts the cache in the next session, if there will be one.
func (r *keeper) sessionEnded() error {
	if !r.client.opts.newSession {
		return zk.ErrSessionExpired
	}
	r.restart(true)
	return nil
}

// answered takes the answer to a read.
func (r *keeper) answered(n *cacheRead, i *boxItem) error {
	a := &i.result
	r.flying--
	if n.gen != r.gen {
		r.spare(a.watch)
		return nil
	}
	switch {
	case errors.Is(a.err, zk.ErrSessionExpired):
		return r.sessionEnded()
	case n.again, errors.Is(a.err, zk.ErrConnectionLoss):
		n.sent, n.again = false, false
		r.queue = append(r.queue, n)
		return nil
	}
	delete(r.reads, n.readKey)
	if n.fresh {
		r.fresh--
	}
	r.seen = max(r.seen, i.zxid)
	err := r.apply(n, a)
	if n.gen == r.gen {
		r.marks.release(n.mark)
	}
	return err
}
