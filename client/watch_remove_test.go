package client

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// Watches are taken back with a callback, among other operations in their order;
// where nothing is to be sent, or nothing to be taken back, there is a callback too.
func TestRemoveWatchesAsync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, p := connected(t, "a", MaxOutstanding(2))
		ctx := t.Context()
		var j journal
		data, child, other := p.getW(c, "/a", true), p.childrenW(c, "/a", true), p.getW(c, "/b", true)

		other.RemoveAsync(ctx, func(err error) { j.add("removed %v", err) })
		c.SyncAsync(ctx, "/", func(err error) { j.add("sync %v", err) })
		p.reply(p.expect(wire.OpRemoveWatches).xid, 1, zk.ErrNoWatcher) // it has just fired
		p.reply(p.expect(wire.OpSync).xid, 1, zk.OK, text("/"))
		j.want(t, "removed <nil>", "sync <nil>")
		other.RemoveAsync(ctx, func(err error) { j.add("again %v", err) })
		c.RemoveAllWatchesAsync(ctx, "/b", zk.WatcherAny, func(err error) { j.add("%v", err) })
		p.silent()
		j.want(t, "again <nil>", "removewatches /b: zookeeper: no such watcher")

		c.RemoveAllWatchesAsync(ctx, "/a", zk.WatcherAny, func(err error) { j.add("all %v", err) })
		p.reply(p.expect(wire.OpRemoveWatches).xid, 1, zk.OK)
		j.want(t)
		p.reply(p.expect(wire.OpRemoveWatches).xid, 1, zk.ErrSystem)
		j.want(t, "all removewatches /a: zookeeper: system error")
		if a, b := unread(data), unread(child); a != "DataWatchRemoved:/a closed" || b != "ChildWatchRemoved:/a closed" {
			t.Errorf("events %q, %q", a, b)
		}

		c.CheckWatchesAsync(ctx, "/a", zk.WatcherData, func(err error) { j.add("%v", err) })
		p.reply(p.expect(wire.OpCheckWatches).xid, 1, zk.ErrNoWatcher)
		j.want(t, "checkwatches /a: zookeeper: no such watcher")
		if c.window.used != 0 {
			t.Errorf("%d places are taken for nothing", c.window.used)
		}
	})
}

// Without a place among the outstanding operations the watch stays when the context
// ends.
func TestRemoveAsyncWithoutAPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, p := connected(t, "a", MaxOutstanding(1))
		w := p.getW(c, "/a", true)
		var j journal
		c.SyncAsync(t.Context(), "/", func(err error) { j.add("sync %v", err) })
		asked := p.expect(wire.OpSync)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			w.RemoveAsync(ctx, func(err error) { check(t, "remove", err, context.Canceled, false); j.add("remove") })
			c.RemoveAllWatchesAsync(ctx, "/a", zk.WatcherAny, func(err error) { check(t, "remove all", err, context.Canceled, false); j.add("all") })
		}()
		synctest.Wait()
		cancel()
		j.want(t, "remove", "all")
		p.reply(asked.xid, 1, zk.OK, text("/"))
		p.event(zk.EventNodeDataChanged, "/a")
		synctest.Wait()
		if got := unread(w); got != "NodeDataChanged:/a closed" {
			t.Errorf("event %q", got)
		}
	})
}

// Credentials are accepted, or not, with a callback.
func TestAddAuthAsync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, p := connected(t, "a")
		var j journal
		add := func(name string) {
			c.AddAuthAsync("digest", []byte(name), func(err error) { j.add("%s %v", name, err) })
		}
		add("first")
		p.expect(wire.OpAuth)
		p.reply(wire.XidAuth, 0, zk.OK)
		j.want(t, "first <nil>")
		add("second")
		p.expect(wire.OpAuth)
		p.reply(wire.XidAuth, 0, zk.ErrAuthFailed)
		p.ended()
		j.want(t, "second addauth: zookeeper: authentication failed")
		add("third")
		j.want(t, "third addauth: zookeeper: authentication failed")
	})
}
