package client

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// What a request relies on that waits for a connection may be taken back meanwhile.
func TestWatchReliedOnIsRemovedWithoutConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const plain, deep = zk.AddWatchPersistent, zk.AddWatchPersistentRecursive
		c, e, p := connected(t, "a")
		many, all := p.addWatch(c, "/a", plain, plain), p.addWatch(c, "/b", deep, deep)
		p.cut()
		p = e.accept()
		p.asked()
		c.GetWAsync(t.Context(), "/a", func([]byte, zk.Stat, *Watch, error) {})
		c.AddWatchAsync(t.Context(), "/b", plain, func(*Watch, error) {})
		c.GetWAsync(t.Context(), "/b", func([]byte, zk.Stat, *Watch, error) {})
		check(t, "remove", many.Remove(t.Context()), nil, false)
		check(t, "remove", all.Remove(t.Context()), nil, false)
		p.welcome(testSession, 9*time.Second, false)
		if !p.expect(wire.OpGetData).watches() {
			t.Error("a read asks for no watch, and none is there")
		}
		if _, mode := p.expect(wire.OpAddWatch).pathInt(); mode != int32(plain) {
			t.Errorf("the persistent watch gets mode %d", mode)
		}
		if p.expect(wire.OpGetData).watches() {
			t.Error("a read asks for a watch behind one that tells of it")
		}
	})
}

// A persistent watch hears of children from a recursive one that the server has for
// it, also when nobody holds that any more.
func TestPersistentWatchAloneOnARecursiveOne(t *testing.T) {
	const plain, deep = zk.AddWatchPersistent, zk.AddWatchPersistentRecursive
	for name, part := range map[string]func(c *Client, p *peer) *Watch{
		"removed": func(c *Client, p *peer) *Watch {
			all := p.addWatch(c, "/a", deep, deep)
			w := p.addWatch(c, "/a", plain, deep)
			after(func() error { return all.Remove(p.t.Context()) })
			p.expect(wire.OpAddWatch)
			return w
		},
		"forgotten": func(c *Client, p *peer) *Watch {
			p.addWatch(c, "/a", deep, deep)
			w := p.addWatch(c, "/a", plain, deep)
			check(p.t, "forget", c.ForgetWatches("/a", zk.WatcherPersistentRecursive), nil, false)
			return w
		},
		"given up": func(c *Client, p *peer) *Watch {
			ctx, cancel := context.WithCancel(p.t.Context())
			all := after(func() error {
				_, err := c.AddWatch(ctx, "/a", deep)
				return err
			})
			first := p.expect(wire.OpAddWatch)
			var w *Watch
			c.AddWatchAsync(p.t.Context(), "/a", plain, func(left *Watch, _ error) { w = left })
			second := p.expect(wire.OpAddWatch)
			cancel()
			<-all
			p.reply(first.xid, 1, zk.OK)
			p.reply(second.xid, 1, zk.OK)
			synctest.Wait()
			return w
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, _, p := connected(t, "a")
				w := part(c, p)
				p.event(zk.EventNodeCreated, "/a/x")
				p.event(zk.EventNodeDeleted, "/a/x")
				p.event(zk.EventNodeChildrenChanged, "/a") // of a server that has both
				synctest.Wait()
				if got := unread(w); got != "NodeChildrenChanged:/a NodeChildrenChanged:/a" {
					t.Errorf("the persistent watch has %q", got)
				}
			})
		})
	}
}

// The event of a parent follows that of its child at once, on the same connection, from
// a server that sends both; one that comes later is of another change.
func TestEventOfTheParentOfAnotherChange(t *testing.T) {
	const plain, deep = zk.AddWatchPersistent, zk.AddWatchPersistentRecursive
	for name, replace := range map[string]func(c *Client, e *ensemble, p *peer, all *Watch) *peer{
		"on another connection": func(c *Client, e *ensemble, p *peer, all *Watch) *peer {
			p.cut()
			p = e.accept()
			check(p.t, "remove", all.Remove(p.t.Context()), nil, false)
			p.greet(9 * time.Second)
			p.reply(p.expect(wire.OpSetWatches2).xid, 1, zk.OK)
			return p
		},
		"of a watch that replaces another": func(c *Client, e *ensemble, p *peer, all *Watch) *peer {
			done := after(func() error { return all.Remove(p.t.Context()) })
			p.reply(p.expect(wire.OpAddWatch).xid, 1, zk.OK)
			check(p.t, "remove", <-done, nil, false)
			return p
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, e, p := connected(t, "a")
				all := p.addWatch(c, "/a", deep, deep)
				w := p.addWatch(c, "/a", plain, deep)
				p.event(zk.EventNodeCreated, "/a/x")
				synctest.Wait()
				if got := unread(w); got != "NodeChildrenChanged:/a" {
					t.Errorf("the persistent watch has %q", got)
				}
				p = replace(c, e, p, all)
				synctest.Wait()
				unread(w) // perhaps to read again
				p.event(zk.EventNodeChildrenChanged, "/a")
				synctest.Wait()
				if got := unread(w); got != "NodeChildrenChanged:/a" {
					t.Errorf("of another change it has %q", got)
				}
			})
		})
	}
}

// The Client forgets what recursive watches a server has with the watches that they
// are for.
func TestRecursiveWatchesOfTheServerAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const deep = zk.AddWatchPersistentRecursive
		c, e, p := connected(t, "a")
		deepAt := func() int {
			synctest.Wait()
			c.mu.Lock()
			defer c.mu.Unlock()
			return len(c.watches.deep)
		}
		w := p.addWatch(c, "/a", deep, deep)
		p.addWatch(c, "/b", deep, deep)
		done := after(func() error { return w.Remove(t.Context()) })
		p.reply(p.expect(wire.OpRemoveWatches).xid, 1, zk.OK)
		check(t, "remove", <-done, nil, false)
		if n := deepAt(); n != 1 {
			t.Errorf("%d paths after a removal", n)
		}
		check(t, "forget", c.ForgetWatches("/b", zk.WatcherAny), nil, false)
		p.cut()
		e.accept().greet(9 * time.Second)
		if n := deepAt(); n != 0 {
			t.Errorf("%d paths on a new connection", n)
		}
	})
}
