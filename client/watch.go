package client

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// A Watch reports changes of a znode.
//
// A watch that GetW, ExistsW or ChildrenW leaves is one-shot: its channel carries
// one event and is closed. A watch of AddWatch is persistent: its channel carries
// events until it is removed or the session ends. An event is in the channel
// before any answer that shows the change is given to its operation, and survives
// reconnection: a change during the outage is reported when there is
// one again, once. A session that ends closes every channel after an event of type
// zk.EventNone with state zk.StateExpired, zk.StateAuthFailed or zk.StateClosed.
//
// An event says that the znode has changed, not how often. A persistent watch
// whose reader is slow joins events after the first sixteen unread ones: one of
// the same type as the last unread event of its path adds nothing. When
// [WatchQueue] of them are unread all the same, they are replaced by a single one
// of type zk.EventNone and state zk.StateSyncConnected, which says that anything
// may have changed: read again. The same event is given after a reconnection,
// because servers do not report to persistent watches what they missed; what one-shot
// watches of the Client on the same znodes missed, may be delivered after it. When
// the session ends, unread events may be dropped in favour of the one that says so.
//
// A persistent watch that is no longer wanted should be removed, as its events cost
// the server and the Client memory and time until the session ends.
type Watch struct {
	client *Client
	kind   watchKind
	path   string // the server's
	one    chan zk.Event
	many   *pump[zk.Event] // nil for a one-shot watch
	sink   eventSink       // takes the events instead of a channel, if there is one
	over   bool            // guarded by the Client's mu: fired, removed or ended
	deep   bool            // guarded by it, too: the server is asked for a recursive watch
}

// An eventSink takes events in their place among the answers: it is called under
// the Client's mu, by the goroutine that reads them, and must not wait.
type eventSink interface{ event(e zk.Event) }

// put gives a persistent watch an event.
func (w *Watch) put(e zk.Event) {
	if w.sink != nil {
		w.sink.event(e)
		return
	}
	w.many.put(e)
}

// last gives a watch an event, and closes its channel.
func (w *Watch) last(e zk.Event) {
	w.over = true
	switch {
	case w.sink != nil:
		w.sink.event(e)
	case w.many != nil:
		w.many.end(e)
	default:
		w.one <- e
		close(w.one)
	}
}

// watchKind is the list of setWatches that a watch belongs to.
type watchKind int

const (
	dataWatch watchKind = iota
	existWatch
	childWatch
	persistentWatch
	recursiveWatch
	watchKinds
)

// Events is the channel of the watch.
func (w *Watch) Events() <-chan zk.Event {
	if w.many != nil {
		return w.many.out
	}
	return w.one
}

// Path is the znode that is watched, as the caller named it.
func (w *Watch) Path() string { return w.client.inner(w.path) }

// watchTable holds the watches that the server has, by the server's path. The
// Client's mu guards it.
type watchTable struct {
	byPath [watchKinds]map[string][]*Watch
	deep   map[string]struct{} // paths with a recursive watch at the server, whichever Watch uses it
	told   string              // path whose watches tellParent has notified with the event before
}

func (t *watchTable) init() {
	for i := range t.byPath {
		t.byPath[i] = map[string][]*Watch{}
	}
	t.deep = map[string]struct{}{}
}

func (c *Client) newWatch(kind watchKind, path string) *Watch {
	return &Watch{client: c, kind: kind, path: c.outer(path), one: make(chan zk.Event, 1)}
}

func (c *Client) newPersistent(kind watchKind, path string) *Watch {
	limit := c.opts.watchQueue
	return &Watch{client: c, kind: kind, path: c.outer(path), many: newPump(func(q []zk.Event, e zk.Event) []zk.Event {
		return joinEvents(q, e, limit)
	})}
}

// joinEvents adds e to the events that wait, as Watch says.
func joinEvents(queue []zk.Event, e zk.Event, limit int) []zk.Event {
	for i := len(queue) - 1; i >= 0 && i >= len(queue)-joinWithin; i-- {
		if queue[i].Path == e.Path {
			if queue[i].Type == e.Type && queue[i].State == e.State {
				return queue
			}
			break
		}
	}
	if queue = append(queue, e); len(queue) <= limit || e.State != zk.StateSyncConnected {
		return queue
	}
	return append([]zk.Event(nil), zk.Event{Type: zk.EventNone, State: zk.StateSyncConnected, Zxid: -1})
}

// joinWithin is how many unread events are looked at for one to join.
const joinWithin = 64

// register adds the watch of a read that was answered with code. A read that
// found no znode leaves a watch only if it was exists.
func (t *watchTable) register(w *Watch, code zk.Code) bool {
	if w.deep && code == zk.OK {
		t.deep[w.path] = struct{}{}
	}
	switch {
	case w.over: // its caller is gone
		return false
	case w.kind == existWatch && code == zk.OK:
		w.kind = dataWatch
	case w.kind == existWatch && code == zk.ErrNoNode, code == zk.OK:
	default:
		w.finish()
		return false
	}
	t.byPath[w.kind][w.path] = append(t.byPath[w.kind][w.path], w)
	t.told = "" // this watch has not been notified
	return true
}

// event fires the watches that e is for; c.mu is held. The path of a znode's event is
// absolute.
func (c *Client) event(e zk.Event) {
	path := e.Path
	e.Path = strings.Clone(c.inner(path))
	t := &c.watches
	told := t.told == path && e.Type == zk.EventNodeChildrenChanged
	t.told = ""
	switch e.Type {
	default:
		return // removals, which this Client has asked for itself
	case zk.EventNodeCreated, zk.EventNodeDataChanged:
		t.fire(dataWatch, path, e)
		t.fire(existWatch, path, e)
	case zk.EventNodeChildrenChanged:
		t.fire(childWatch, path, e)
	case zk.EventNodeDeleted:
		t.fire(dataWatch, path, e)
		t.fire(existWatch, path, e)
		t.fire(childWatch, path, e)
	}
	if !told {
		t.putPersistent(path, e)
	}
	if e.Type != zk.EventNodeChildrenChanged && len(t.byPath[recursiveWatch]) > 0 {
		t.fireRecursive(path, e)
	}
	if len(t.deep) > 0 {
		c.tellParent(path, e)
	}
}

func (t *watchTable) putPersistent(path string, e zk.Event) {
	for _, w := range t.byPath[persistentWatch][path] {
		w.put(e)
	}
}

// fire gives the one-shot watches of a path their event.
func (t *watchTable) fire(kind watchKind, path string, e zk.Event) {
	list, ok := t.byPath[kind][path]
	if !ok {
		return
	}
	delete(t.byPath[kind], path)
	for _, w := range list {
		w.last(e)
	}
}

// fireRecursive notifies the recursive watches of path and of all above it.
func (t *watchTable) fireRecursive(path string, e zk.Event) {
	for at := path; ; {
		for _, w := range t.byPath[recursiveWatch][at] {
			w.put(e)
		}
		i := strings.LastIndexByte(at, '/')
		if at == "/" || i < 0 {
			return
		}
		at = at[:max(i, 1)]
	}
}

// finish closes the channel of a watch without an event; c.mu is held, or the watch has
// not been published.
func (w *Watch) finish() {
	if w.over {
		return
	}
	w.over = true
	switch {
	case w.sink != nil:
	case w.many != nil:
		w.many.cancel()
	default:
		close(w.one)
	}
}

// discard forgets the watch of a read whose caller is gone.
func (c *Client) discard(w *Watch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w.finish()
	c.watches.remove(w)
}

// remove forgets a watch.
func (t *watchTable) remove(w *Watch) {
	list, ok := t.byPath[w.kind][w.path]
	if !ok {
		return
	}
	list = slices.DeleteFunc(list, func(o *Watch) bool { return o == w })
	if t.byPath[w.kind][w.path] = list; len(list) == 0 {
		delete(t.byPath[w.kind], w.path)
	}
}

// end closes all watches with an event of a state; c.mu is held.
func (t *watchTable) end(s zk.KeeperState) {
	for kind := range t.byPath {
		for _, list := range t.byPath[kind] {
			for _, w := range list {
				w.last(zk.Event{Type: zk.EventNone, State: s, Path: w.Path(), Zxid: -1})
			}
		}
	}
	t.init()
}

// maxSetWatches bounds a setWatches request in bytes, so that it fits into the
// server's jute.maxbuffer.
const maxSetWatches = 128 << 10

// appendSetWatches appends the requests that renew all watches on a new connection. What changed since zxid
// fires at once. Persistent watches, to which servers report nothing missed, are notified here.
func (t *watchTable) appendSetWatches(b []byte, zxid zk.Zxid) []byte {
	clear(t.deep)
	t.told = ""
	for path := range t.byPath[recursiveWatch] {
		t.deep[path] = struct{}{}
	}
	var batch wire.SetWatches
	size := 0
	lists := [watchKinds]*[]string{&batch.Data, &batch.Exist, &batch.Child, &batch.Persistent, &batch.PersistentRecursive}
	flush := func() {
		op := wire.OpSetWatches
		if len(batch.Persistent)+len(batch.PersistentRecursive) > 0 {
			op = wire.OpSetWatches2 // servers before 3.6 do not know it
		}
		batch.RelativeZxid = zxid
		for _, list := range lists {
			if *list == nil {
				*list = []string{} // null is malformed
			}
		}
		b = appendFrame(b, func(b []byte) []byte {
			return batch.Append(wire.RequestHeader{Xid: wire.XidSetWatches, Op: op}.Append(b), op)
		})
		batch, size = wire.SetWatches{}, 0
	}
	for kind, byPath := range t.byPath {
		for path, list := range byPath {
			if size > 0 && size+len(path) > maxSetWatches {
				flush()
			}
			if watchKind(kind) != persistentWatch || len(t.byPath[recursiveWatch][path]) == 0 {
				size += len(path) + 4
				*lists[kind] = append(*lists[kind], path)
			}
			for _, w := range list {
				if w.kind >= persistentWatch {
					w.put(zk.Event{Type: zk.EventNone, State: zk.StateSyncConnected, Path: w.Path(), Zxid: -1})
				}
			}
		}
	}
	if size > 0 {
		flush()
	}
	return b
}

// AddWatch leaves a persistent watch on a znode, which need not exist. Mode
// zk.AddWatchPersistent reports changes of its data and its list of children, and
// of its creation and deletion; zk.AddWatchPersistentRecursive of the creation,
// deletion and changes of data of it and of all below it. Servers know it from 3.6
// on; with an older one the error is zk.ErrUnimplemented.
func (c *Client) AddWatch(ctx context.Context, path string, mode zk.AddWatchMode) (*Watch, error) {
	k, body := c.addWatch(path, mode)
	r := c.do(ctx, k, body.Append)
	return r.watch, r.err
}

// AddWatchAsync is AddWatch with a callback.
func (c *Client) AddWatchAsync(ctx context.Context, path string, mode zk.AddWatchMode, done func(w *Watch, err error)) {
	k, body := c.addWatch(path, mode)
	c.begin(ctx, k, body.Append, watchDone(done))
}

func (c *Client) addWatch(path string, mode zk.AddWatchMode) (call, wire.PathInt) {
	k := call{op: wire.OpAddWatch, name: "addwatch", path: path, invalid: CheckPath(path)}
	kind := persistentWatch
	switch mode {
	case zk.AddWatchPersistent:
	case zk.AddWatchPersistentRecursive:
		kind = recursiveWatch
	default:
		k.invalid = fmt.Errorf("watch mode %d does not exist", mode)
	}
	k.watch = c.newPersistent(kind, path)
	return k, wire.PathInt{Path: c.outer(path), Value: int32(mode)}
}
