package client

import (
	"encoding/binary"
	"strings"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/zk"
)

// Servers before 3.9 hold one mode of watch a connection and path: a read that
// leaves a watch makes a persistent one on the same path one-shot, and the later of
// two persistent modes replaces the earlier (ZOOKEEPER-4466). So what the server is
// asked for depends on the watches that are there already:
//
//   - a read asks for no watch if a persistent watch reports its changes;
//   - a new persistent watch on the path of a recursive one asks for a recursive one;
//   - a change in the list of children, which a recursive watch does not report, is
//     derived from the events of the children.

// shareWatches changes the end of b, the request that leaves w, accordingly: the
// flag of a read, or the mode of addWatch. earlier calls are under way. c.mu is held.
func (c *Client) shareWatches(w *Watch, b []byte, earlier int) {
	recursive := func() bool { return c.watchedBefore(recursiveWatch, w.path, earlier) }
	switch w.kind {
	case recursiveWatch:
		w.deep = true
	case persistentWatch:
		mode := zk.AddWatchPersistent
		if w.deep = recursive(); w.deep {
			mode = zk.AddWatchPersistentRecursive
		}
		jute.PutInt(b[len(b)-4:], int32(mode))
	default:
		b[len(b)-1] = 1
		if c.watchedBefore(persistentWatch, w.path, earlier) || w.kind != childWatch && recursive() {
			b[len(b)-1] = 0
		}
	}
}

// shareAgain decides again which watches the requests ask for that have waited for a
// connection: watches that they relied on may have been removed meanwhile.
// c.mu is held, and c.out has the requests of all calls.
func (c *Client) shareAgain() {
	b := c.out
	for i := range c.pending.n {
		n := 4 + int(binary.BigEndian.Uint32(b))
		if w := c.pending.at(i).watch; w != nil {
			c.shareWatches(w, b[:n], i)
		}
		b = b[n:]
	}
}

// watched reports whether there is a persistent watch of a kind on a path, or will
// be when the calls that are under way have been answered. c.mu is held.
func (c *Client) watched(kind watchKind, path string) bool {
	return c.watchedBefore(kind, path, c.pending.n)
}

// watchedBefore is watched when the first n calls have been answered.
func (c *Client) watchedBefore(kind watchKind, path string, n int) bool {
	if len(c.watches.byPath[kind][path]) > 0 {
		return true
	}
	for i := 0; c.pending.adding > 0 && i < n; i++ {
		if w := c.pending.at(i).watch; w != nil && !w.over && w.kind == kind && w.path == path {
			return true
		}
	}
	return false
}

// tellParent notifies the watches of a znode's children of what the server's recursive watch
// means for them, which it may have for them alone. A server that has them all sends
// the event of the parent next, and persistent watches must not be notified twice.
func (c *Client) tellParent(path string, e zk.Event) {
	if e.Type != zk.EventNodeCreated && e.Type != zk.EventNodeDeleted || path == "/" {
		return
	}
	t := &c.watches
	parent := path[:max(strings.LastIndexByte(path, '/'), 1)]
	if _, ok := t.deep[parent]; !ok {
		return
	}
	e.Type, e.Path = zk.EventNodeChildrenChanged, c.inner(strings.Clone(parent))
	t.fire(childWatch, parent, e)
	t.putPersistent(parent, e)
	t.told = strings.Clone(parent)
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
