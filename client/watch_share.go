package client

import (
	"context"
	"errors"
	"strings"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// Servers before 3.9 hold one mode of watch a connection and path: a read that
// leaves a watch makes a persistent one on the same path one-shot, and the later of
// two persistent modes replaces the earlier (ZOOKEEPER-4466). So what the server is
// asked for depends on the watches that are there already:
//
//   - a read whose changes a persistent watch tells of asks for no watch;
//   - who wants a persistent watch where there is a recursive one asks for that;
//   - what a recursive watch does not tell, a change in the list of children, is
//     seen from what happens to the children.

// shareWatches changes the end of b, the request that leaves w, accordingly: the
// flag of a read, or the mode of addWatch. c.mu is held.
func (c *Client) shareWatches(w *Watch, b []byte) {
	switch {
	case w.kind == persistentWatch:
		if c.watched(recursiveWatch, w.path) {
			jute.PutInt(b[len(b)-4:], int32(zk.AddWatchPersistentRecursive))
		}
	case w.kind == recursiveWatch:
	case c.watched(persistentWatch, w.path), w.kind != childWatch && c.watched(recursiveWatch, w.path):
		b[len(b)-1] = 0
	}
}

// watched reports whether there is a persistent watch of a kind on a path, or will
// be when the calls that are under way have been answered. c.mu is held.
func (c *Client) watched(kind watchKind, path string) bool {
	if len(c.watches.byPath[kind][path]) > 0 {
		return true
	}
	for i := 0; c.pending.adding > 0 && i < c.pending.n; i++ {
		if w := c.pending.at(i).watch; w != nil && !w.over && w.kind == kind && w.path == path {
			return true
		}
	}
	return false
}

// tellParent tells the watches of a znode's children what its recursive watch means
// for them. A server that has them all sends the event of the parent next, and
// persistent watches must not be told twice.
func (c *Client) tellParent(path string, e zk.Event) {
	if e.Type != zk.EventNodeCreated && e.Type != zk.EventNodeDeleted || path == "/" {
		return
	}
	t := &c.watches
	parent := path[:max(strings.LastIndexByte(path, '/'), 1)]
	if len(t.byPath[recursiveWatch][parent]) == 0 {
		return
	}
	e.Type, e.Path = zk.EventNodeChildrenChanged, c.inner(strings.Clone(parent))
	t.fire(childWatch, parent, e)
	t.putPersistent(parent, e)
	t.told = strings.Clone(parent)
}

// Remove takes the watch back and closes its channel; events that have not been
// read are gone. The server forgets the watch too, unless that would take another
// watch of this Client on the same znode with it; then events that come are
// discarded. A watch that has fired, or was removed, is left alone. An error says
// that the server may still hold the watch: the context's, or zk.ErrUnimplemented
// of servers before 3.5.
func (w *Watch) Remove(ctx context.Context) error {
	c := w.client
	c.mu.Lock()
	if w.over {
		c.mu.Unlock()
		return nil
	}
	w.finish()
	c.watches.remove(w)
	return c.unwatch(ctx, w.path, w.kind)
}

// removal is the request that tells the server that a watch of a kind has been
// removed; ask is false if there is none to send. c.mu is held.
func (c *Client) removal(path string, kind watchKind) (k call, body wire.PathInt, ask bool) {
	k = call{op: wire.OpRemoveWatches, name: "removewatches", path: c.inner(path)}
	body = wire.PathInt{Path: path, Value: int32(kind.remover())}
	switch {
	case c.link == nil || c.closing: // watches end with the connection
		return k, body, false
	case kind == recursiveWatch && c.watched(persistentWatch, path) && !c.watched(recursiveWatch, path):
		// The server's is recursive for both: give the other one its own.
		k.op, body.Value = wire.OpAddWatch, int32(zk.AddWatchPersistent)
		return k, body, true
	}
	return k, body, !c.shared(path, kind)
}

// unwatch sends a removal and waits for the answer. c.mu is held, and released.
func (c *Client) unwatch(ctx context.Context, path string, kind watchKind) error {
	k, body, ask := c.removal(path, kind)
	if !ask {
		c.mu.Unlock()
		return nil
	}
	err := c.doLocked(ctx, k, body.Append).err
	if errors.Is(err, zk.ErrNoWatcher) || errors.Is(err, zk.ErrConnectionLoss) {
		return nil // it has just fired, or ended with the connection
	}
	return err
}

// remover is how removeWatches names the watches of a kind. Before 3.9 servers
// forget a whole persistent watch only when asked to forget all.
func (k watchKind) remover() zk.WatcherType {
	switch k {
	case dataWatch, existWatch:
		return zk.WatcherData
	case childWatch:
		return zk.WatcherChildren
	}
	return zk.WatcherAny
}

// shared reports whether removing watches of a kind from the server would take
// others with them, also one whose request is under way. c.mu is held.
func (c *Client) shared(path string, kind watchKind) bool {
	for other, byPath := range c.watches.byPath {
		if len(byPath[path]) > 0 && kind.overlaps(watchKind(other)) {
			return true
		}
	}
	for i := range c.pending.n {
		w := c.pending.at(i).watch
		if w != nil && !w.over && w.path == path && kind.overlaps(w.kind) {
			return true
		}
	}
	return false
}

// overlaps reports whether two kinds have a list of the server's in common: data
// and exist watches are one list, and persistent ones are in both.
func (k watchKind) overlaps(o watchKind) bool {
	return k >= persistentWatch || o >= persistentWatch || (k == childWatch) == (o == childWatch)
}

// RemoveAllWatches takes back all watches of this Client on a znode: those of data
// and existence (zk.WatcherData), of children (zk.WatcherChildren), those of
// AddWatch by their mode (zk.WatcherPersistent, zk.WatcherPersistentRecursive), or
// all (zk.WatcherAny). Each channel is closed behind an event that says so, of type
// zk.EventDataWatchRemoved, zk.EventChildWatchRemoved or
// zk.EventPersistentWatchRemoved. Without any such watch the error is
// zk.ErrNoWatcher; others are those of [Watch.Remove].
func (c *Client) RemoveAllWatches(ctx context.Context, path string, which zk.WatcherType) error {
	c.mu.Lock()
	kinds, err := c.dropWatches(path, which)
	c.mu.Unlock()
	for _, kind := range kinds {
		c.mu.Lock()
		if e := c.unwatch(ctx, c.outer(path), kind); err == nil {
			err = e
		}
	}
	return err
}

// ForgetWatches is RemoveAllWatches without a word to the server, which may go on
// to send events: they are discarded.
func (c *Client) ForgetWatches(path string, which zk.WatcherType) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err := c.dropWatches(path, which)
	return err
}

// dropWatches ends watches and returns the kinds of those that there were, so that
// asking the server for each takes nothing else. c.mu is held.
func (c *Client) dropWatches(path string, which zk.WatcherType) (kinds []watchKind, err error) {
	for _, kind := range []watchKind{recursiveWatch, persistentWatch, dataWatch, existWatch, childWatch} {
		told := kind.removed(which)
		if told == zk.EventNone {
			continue
		}
		at := c.outer(path)
		var rest []*Watch // a cache's, which nobody but it may take
		for _, w := range c.watches.byPath[kind][at] {
			if w.sink != nil {
				rest = append(rest, w)
				continue
			}
			w.last(zk.Event{Type: told, State: zk.StateSyncConnected, Path: path, Zxid: -1})
			if len(kinds) == 0 || kinds[len(kinds)-1] != kind {
				kinds = append(kinds, kind)
			}
		}
		if c.watches.byPath[kind][at] = rest; len(rest) == 0 {
			delete(c.watches.byPath[kind], at)
		}
	}
	if len(kinds) == 0 {
		return nil, &Error{Op: "removewatches", Path: path, Err: zk.ErrNoWatcher}
	}
	return kinds, nil
}

// removed is the event of a kind's removal; zk.EventNone if which has no place for
// the kind.
func (k watchKind) removed(which zk.WatcherType) zk.EventType {
	switch {
	case k <= existWatch && (which == zk.WatcherData || which == zk.WatcherAny):
		return zk.EventDataWatchRemoved
	case k == childWatch && (which == zk.WatcherChildren || which == zk.WatcherAny):
		return zk.EventChildWatchRemoved
	case k == persistentWatch && (which == zk.WatcherPersistent || which == zk.WatcherAny),
		k == recursiveWatch && (which == zk.WatcherPersistentRecursive || which == zk.WatcherAny):
		return zk.EventPersistentWatchRemoved
	}
	return zk.EventNone
}

// CheckWatches asks the server whether this connection has a watch of a type on a
// znode; if not, the error is zk.ErrNoWatcher. Servers know it from 3.5 on; before
// 3.9, 3.8.0 among them, they answer for the watches of all connections.
func (c *Client) CheckWatches(ctx context.Context, path string, which zk.WatcherType) error {
	k := call{op: wire.OpCheckWatches, name: "checkwatches", path: path, invalid: CheckPath(path)}
	body := wire.PathInt{Path: c.outer(path), Value: int32(which)}
	return c.do(ctx, k, body.Append).err
}
