package client

import (
	"context"
	"errors"

	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// Remove takes the watch back and closes its channel; events that have not been
// read are gone. The server forgets the watch too, unless that would take another
// watch of this Client on the same znode with it; then events that come are
// discarded. A watch that has fired, or was removed, is left alone. An error says
// that the server may still hold the watch: the context's, and if that had ended
// before, the server was not asked; or zk.ErrUnimplemented of servers before 3.5.
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

// RemoveAsync is Remove with a callback. When the context ends before there is a
// place among the outstanding operations, the watch stays.
func (w *Watch) RemoveAsync(ctx context.Context, done func(err error)) {
	c := w.client
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.enterRemoval(ctx); err != nil {
		c.callBackNow(errDone(done), &Error{Op: "removewatches", Path: c.inner(w.path), Err: err})
		return
	}
	if w.over {
		c.window.leave(1)
		c.callBackNow(errDone(done), nil)
		return
	}
	w.finish()
	c.watches.remove(w)
	c.unwatchAsync(w.path, w.kind, removedDone(done))
}

// removal is the request that informs the server that a watch of a kind has been
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

// undo notes that a removal takes all that the server has on a path.
func (t *watchTable) undo(k *call, path string) {
	if k.op == wire.OpRemoveWatches {
		delete(t.deep, path)
	}
}

// unwatch sends a removal and waits for the answer. c.mu is held, and released.
func (c *Client) unwatch(ctx context.Context, path string, kind watchKind) error {
	k, body, ask := c.removal(path, kind)
	if ask {
		err := c.certain(ctx)
		if err == nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			c.mu.Unlock()
			return &Error{Op: k.name, Path: k.path, Err: err}
		}
		k, body, ask = c.removal(path, kind) // it may have waited
	}
	if !ask {
		c.mu.Unlock()
		return nil
	}
	c.watches.undo(&k, path)
	return removed(c.doLocked(ctx, k, body.Append).err)
}

// unwatchAsync is unwatch with a completion. It has a place in the window; c.mu is
// held.
func (c *Client) unwatchAsync(path string, kind watchKind, done completion) {
	k, body, ask := c.removal(path, kind)
	k.done, k.async = done, true
	var err error
	if ask {
		if err = c.queue(&k, body.Append); err == nil {
			c.watches.undo(&k, path)
			c.link.poke()
			return
		}
	}
	if !errors.Is(err, zk.ErrUnimplemented) {
		err = nil
	}
	c.window.leave(1) // there is nothing to send, or no connection
	c.callBackNow(done, err)
}

// enterRemoval takes a place in the window for a removal, and waits until it is
// known what the server knows, if there is one. c.mu is held, but not while it waits.
func (c *Client) enterRemoval(ctx context.Context) error {
	err := c.enterWindow(ctx)
	if err == nil && c.link != nil {
		if err = c.certain(ctx); err != nil {
			c.window.leave(1)
		}
	}
	return err
}

// removed is the error of a removal, for which a watch that has just fired, or ended
// with its connection, is as good.
func removed(err error) error {
	if errors.Is(err, zk.ErrNoWatcher) || errors.Is(err, zk.ErrConnectionLoss) {
		return nil
	}
	return err
}

// removedDone is the completion of a removal.
type removedDone func(error)

func (f removedDone) complete(r *result) { f(removed(r.err)) }

// RemoveAllWatches takes back all watches of this Client on a znode: those of data
// and existence (zk.WatcherData), of children (zk.WatcherChildren), those of
// AddWatch by their mode (zk.WatcherPersistent, zk.WatcherPersistentRecursive), or
// all (zk.WatcherAny). Each channel is closed after a final event of type
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

// RemoveAllWatchesAsync is RemoveAllWatches with a callback.
func (c *Client) RemoveAllWatchesAsync(ctx context.Context, path string, which zk.WatcherType, done func(err error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.enterRemoval(ctx)
	if err != nil {
		c.callBackNow(errDone(done), &Error{Op: "removewatches", Path: path, Err: err})
		return
	}
	kinds, err := c.dropWatches(path, which)
	if err != nil {
		c.window.leave(1)
		c.callBackNow(errDone(done), err)
		return
	}
	c.window.used += len(kinds) - 1 // a place for each, as they must not be apart
	left := len(kinds)
	for _, kind := range kinds {
		c.unwatchAsync(c.outer(path), kind, removedDone(func(e error) {
			if err == nil {
				err = e
			}
			if left--; left == 0 {
				done(err)
			}
		}))
	}
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
		var rest []*Watch // a cache's, which only the cache may remove
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
	k, body := c.watchCheck(path, which)
	return c.do(ctx, k, body.Append).err
}

// CheckWatchesAsync is CheckWatches with a callback.
func (c *Client) CheckWatchesAsync(ctx context.Context, path string, which zk.WatcherType, done func(err error)) {
	k, body := c.watchCheck(path, which)
	c.begin(ctx, k, body.Append, errDone(done))
}

func (c *Client) watchCheck(path string, which zk.WatcherType) (call, wire.PathInt) {
	k := call{op: wire.OpCheckWatches, name: "checkwatches", path: path, invalid: CheckPath(path)}
	return k, wire.PathInt{Path: c.outer(path), Value: int32(which)}
}
