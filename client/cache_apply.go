package client

import (
	"errors"
	"fmt"
	"strings"

	"github.com/pinfold-zk/pinfold/zk"
)

// apply carries out what an answer says. The error ends the Cache.
func (r *keeper) apply(n *cacheRead, a *result) error {
	absent := errors.Is(a.err, zk.ErrNoNode) || errors.Is(a.err, zk.ErrNoAuth)
	switch {
	case n.kind == readWatch && errors.Is(a.err, zk.ErrUnimplemented):
		r.oneShot = true
		r.want(readKey{readSync, r.root}, n.mark)
		return nil
	case n.kind == readSync && errors.Is(a.err, zk.ErrNotReadOnly): // it has nothing newer
	case a.err != nil && !absent:
		return a.err
	}
	switch n.kind {
	case readWatch:
		r.recursive = a.watch
		r.want(readKey{readSync, r.root}, n.mark)
	case readSync:
		r.want(readKey{readCheck, r.root}, n.mark).full = true
	case readCheck:
		r.checked(n, a, absent)
	case readData:
		r.read(n, a, absent)
	case readNames:
		return r.listed(n, a, absent)
	}
	return r.full()
}

// full reports that there is more than the options allow.
func (r *keeper) full() error {
	switch {
	case len(r.tree.nodes)+r.fresh > r.opts.znodes:
		return fmt.Errorf("%w: more than %d znodes", ErrCacheFull, r.opts.znodes)
	case r.tree.bytes > r.opts.bytes:
		return fmt.Errorf("%w: more than %d bytes", ErrCacheFull, r.opts.bytes)
	}
	return nil
}

// checked compares a znode that is held with the server's, by Stat.
func (r *keeper) checked(n *cacheRead, a *result, absent bool) {
	if absent {
		r.remove(n.path)
		if n.path == r.root {
			r.spare(r.absence)
			r.absence = a.watch
		}
		return
	}
	node := r.held(n.path, a.stat)
	if node == nil {
		r.spare(a.watch)
		r.want(readKey{readData, n.path}, n.mark)
		return
	}
	r.watchData(node, a.watch)
	if node.stat.Mzxid != a.stat.Mzxid {
		r.want(readKey{readData, n.path}, n.mark)
	}
	switch {
	case !r.within(n.path):
	case r.oneShot, n.full && a.stat.NumChildren > 0, node.pzxid != a.stat.Pzxid:
		l := r.want(readKey{readNames, n.path}, n.mark)
		l.deep, l.full = true, l.full || n.full
	default:
		for name := range node.names {
			c := r.want(readKey{readCheck, below(n.path, name)}, n.mark)
			c.full = c.full || n.full
		}
	}
}

// held returns the znode of the path, if it is the one that the Stat is of. One
// that was deleted before that was created is taken away.
func (r *keeper) held(path string, stat zk.Stat) *cacheNode {
	node := r.tree.nodes[path]
	if node != nil && node.stat.Czxid != stat.Czxid {
		r.remove(path)
		return nil
	}
	return node
}

// within reports whether the children of a znode are held.
func (r *keeper) within(path string) bool {
	if r.opts.depth == unlimitedDepth {
		return true
	}
	below := strings.TrimPrefix(path[len(r.root):], "/")
	if below == "" {
		return r.opts.depth > 0
	}
	return strings.Count(below, "/")+1 < r.opts.depth
}

// read takes a znode's data.
func (r *keeper) read(n *cacheRead, a *result, absent bool) {
	switch {
	case absent:
		r.remove(n.path)
		r.awaitTop(n, a)
		return
	case !r.tree.anchored(n.path):
		// If its parent is there, it will be listed when the parent is read.
		r.spare(a.watch)
		return
	}
	if node := r.held(n.path, a.stat); node != nil {
		changed := node.stat.Mzxid != a.stat.Mzxid
		r.tree.update(node, a.data, a.stat)
		r.watchData(node, a.watch)
		if changed {
			r.tell(zk.EventNodeDataChanged, n.path, node)
		}
		return
	}
	node := r.tree.insert(n.path, a.data, a.stat)
	r.watchData(node, a.watch)
	r.tell(zk.EventNodeCreated, n.path, node)
	switch {
	case !r.within(n.path):
	case r.oneShot, a.stat.NumChildren > 0:
		r.want(readKey{readNames, n.path}, n.mark)
	default:
		node.pzxid = a.stat.Pzxid
	}
}

// listed takes the names of a znode's children.
func (r *keeper) listed(n *cacheRead, a *result, absent bool) error {
	node := r.tree.nodes[n.path]
	switch {
	case absent:
		r.remove(n.path)
		r.awaitTop(n, a)
		return nil
	case node == nil:
		r.spare(a.watch)
		return nil
	case node.stat.Czxid != a.stat.Czxid:
		r.spare(a.watch)
		r.want(readKey{readData, n.path}, n.mark)
		return nil
	}
	r.spare(node.childWatch)
	node.childWatch, node.pzxid = a.watch, a.stat.Pzxid
	names := many[string](a)
	there := make(map[string]struct{}, len(names))
	for _, name := range names {
		path := below(n.path, name)
		if !r.wanted(path) {
			continue
		}
		there[name] = struct{}{}
		if r.tree.nodes[path] == nil {
			r.want(readKey{readData, path}, n.mark)
		} else if n.deep {
			c := r.want(readKey{readCheck, path}, n.mark)
			c.full = c.full || n.full
		}
		if err := r.full(); err != nil {
			return err
		}
	}
	for name := range node.names {
		if _, ok := there[name]; !ok {
			r.remove(below(n.path, name))
		}
	}
	return nil
}

// awaitTop leaves a watch for the creation of the top, when it is not there and no
// other watch tells of it.
func (r *keeper) awaitTop(n *cacheRead, a *result) {
	if r.oneShot && n.path == r.root && errors.Is(a.err, zk.ErrNoNode) {
		r.want(readKey{readCheck, r.root}, n.mark)
	}
}

// happened takes an event. The error ends the Cache.
func (r *keeper) happened(e zk.Event) error {
	if e.Type == zk.EventNone {
		switch e.State {
		case zk.StateSyncConnected:
			r.missed()
		case zk.StateExpired:
			return r.sessionEnded()
		case zk.StateAuthFailed:
			return zk.ErrAuthFailed
		default:
			return ErrClosed
		}
		return nil
	}
	if e.Zxid > 0 { // those of earlier transactions have all come
		r.seen = max(r.seen, e.Zxid-1)
	}
	switch e.Type {
	case zk.EventNodeCreated, zk.EventNodeDataChanged:
		if r.wanted(e.Path) && r.tree.anchored(e.Path) {
			r.changed(e)
		}
	case zk.EventNodeChildrenChanged:
		if r.tree.nodes[e.Path] != nil {
			r.wantNow(readNames, e.Path)
		}
	case zk.EventNodeDeleted:
		r.remove(e.Path)
		if r.oneShot && e.Path == r.root {
			r.wantNow(readCheck, e.Path)
		}
	}
	return nil
}

// changed has the data of a znode read that was created or set. A set of one that is neither held
// nor going to be read tells that its creation was missed, before the oldest comparison under way:
// what is below it is as old, and that comparison does not end before it is held.
func (r *keeper) changed(e zk.Event) {
	missed := e.Type == zk.EventNodeDataChanged && r.tree.nodes[e.Path] == nil && r.reads[readKey{readData, e.Path}] == nil
	if missed && r.marks.first != nil {
		r.want(readKey{readData, e.Path}, r.marks.first)
		return
	}
	r.wantNow(readData, e.Path)
}

// wantNow has something read for which an event has come.
func (r *keeper) wantNow(kind readKind, path string) *cacheRead {
	m := r.marks.at(r.seen)
	n := r.want(readKey{kind, path}, m)
	r.marks.release(m)
	return n
}

// missed compares everything, after events that did not come. A comparison that
// is under way may have been answered before them: it begins again.
func (r *keeper) missed() {
	if r.oneShot { // and the watches that told of them are gone
		r.restart(false)
		return
	}
	if r.recursive != nil { // otherwise all is going to be read
		n := r.wantNow(readCheck, r.root)
		n.again = n.sent
	}
}

// remove takes a znode away, with all below it.
func (r *keeper) remove(path string) {
	r.tree.remove(path, func(path string, n *cacheNode) {
		r.unwatch(n)
		r.tell(zk.EventNodeDeleted, path, n)
	})
}

// watchData remembers the watch of a znode's data instead of an older one.
func (r *keeper) watchData(n *cacheNode, w *Watch) {
	r.spare(n.dataWatch)
	n.dataWatch = w
}

// unwatch forgets a znode's watches.
func (r *keeper) unwatch(n *cacheNode) {
	r.spare(n.dataWatch)
	r.spare(n.childWatch)
	n.dataWatch, n.childWatch = nil, nil
}

// spare has a watch, if there is one, taken out of the Client's table.
func (r *keeper) spare(w *Watch) {
	if w != nil {
		r.unused = append(r.unused, w)
	}
}
