package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// unread takes what is in a watch's channel, without waiting.
func unread(w *Watch) string {
	var list []string
	for {
		select {
		case e, ok := <-w.Events():
			if !ok {
				return strings.Join(append(list, "closed"), " ")
			}
			list = append(list, fmt.Sprintf("%v:%s", e.Type, e.Path))
		default:
			return strings.Join(list, " ")
		}
	}
}

// leave plays a read that leaves a watch.
func leave(t *testing.T, p *peer, op wire.OpCode, code zk.Code, flag bool, read func() (*Watch, error), body ...func([]byte) []byte) *Watch {
	t.Helper()
	var w *Watch
	done := after(func() (err error) {
		w, err = read()
		return err
	})
	a := p.expect(op)
	if a.watches() != flag {
		t.Errorf("%v of %s asks for a watch: %v, want %v", op, a.path(), a.watches(), flag)
	}
	p.reply(a.xid, 1, code, body...)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	return w
}

func (p *peer) getW(c *Client, path string, flag bool) *Watch {
	return leave(p.t, p, wire.OpGetData, zk.OK, flag, func() (*Watch, error) {
		_, _, w, err := c.GetW(p.t.Context(), path)
		return w, err
	}, buffer(""), statOf(0))
}

func (p *peer) childrenW(c *Client, path string, flag bool) *Watch {
	return leave(p.t, p, wire.OpGetChildren2, zk.OK, flag, func() (*Watch, error) {
		_, _, w, err := c.ChildrenW(p.t.Context(), path)
		return w, err
	}, vector(), statOf(0))
}

func (p *peer) existsW(c *Client, path string, code zk.Code) *Watch {
	return leave(p.t, p, wire.OpExists, code, true, func() (*Watch, error) {
		_, _, w, err := c.ExistsW(p.t.Context(), path)
		return w, err
	}, statOf(0))
}

func (p *peer) addWatch(c *Client, path string, mode, sent zk.AddWatchMode) *Watch {
	p.t.Helper()
	var w *Watch
	done := after(func() (err error) {
		w, err = c.AddWatch(p.t.Context(), path, mode)
		return err
	})
	a := p.expect(wire.OpAddWatch)
	if _, m := a.pathInt(); m != int32(sent) {
		p.t.Errorf("mode %d of %s is sent, want %d", m, path, sent)
	}
	p.reply(a.xid, 1, zk.OK)
	if err := <-done; err != nil {
		p.t.Fatal(err)
	}
	return w
}

// Which events fire which one-shot watches; each fires once.
func TestOneShotWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, p := connected(t, "a")
		for _, x := range []struct {
			event                zk.EventType
			data, exists, absent bool
			child                bool
		}{
			{zk.EventNodeCreated, true, true, true, false},
			{zk.EventNodeDataChanged, true, true, true, false},
			{zk.EventNodeDeleted, true, true, true, true},
			{zk.EventNodeChildrenChanged, false, false, false, true},
			{zk.EventDataWatchRemoved, false, false, false, false},
			{zk.EventNone, false, false, false, false},
		} {
			path := fmt.Sprintf("/%d", int(x.event)+5)
			ws := []*Watch{p.getW(c, path, true), p.existsW(c, path, zk.OK), p.existsW(c, path, zk.ErrNoNode), p.childrenW(c, path, true)}
			p.event(x.event, path)
			p.event(x.event, path)
			p.event(x.event, path+"/x")
			synctest.Wait()
			for i, fires := range []bool{x.data, x.exists, x.absent, x.child} {
				want := ""
				if fires {
					want = fmt.Sprintf("%v:%s closed", x.event, path)
				}
				if got := unread(ws[i]); got != want {
					t.Errorf("%v: watch %d has %q, want %q", x.event, i, got, want)
				}
				if ws[i].Path() != path {
					t.Errorf("path %q", ws[i].Path())
				}
			}
		}
	})
}

// A read that fails leaves no watch, but for exists of what is not there.
func TestNoWatchOfFailedReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, p := connected(t, "a")
		var j journal
		c.GetWAsync(t.Context(), "/a", func(_ []byte, _ zk.Stat, w *Watch, err error) { j.add("%v %v", w, err) })
		c.ChildrenWAsync(t.Context(), "/a", func(_ []string, _ zk.Stat, w *Watch, err error) { j.add("%v %v", w, err) })
		c.ExistsWAsync(t.Context(), "/a", func(_ zk.Stat, _ bool, w *Watch, err error) { j.add("%v %v", w, err) })
		for _, code := range []zk.Code{zk.ErrNoNode, zk.ErrNoAuth, zk.ErrNoAuth} {
			p.reply(p.next().xid, 1, code)
		}
		j.want(t, "<nil> get /a: zookeeper: no node", "<nil> ls /a: zookeeper: not authorised", "<nil> exists /a: zookeeper: not authorised")
		for kind, byPath := range c.watches.byPath {
			if len(byPath) > 0 {
				t.Errorf("kind %d has %d watches", kind, len(byPath))
			}
		}
	})
}

// An event is in the channel before the answer that was behind it is given to its
// operation.
func TestEventsBeforeAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, p := connected(t, "a")
		one, many := p.getW(c, "/a", true), p.addWatch(c, "/b", zk.AddWatchPersistent, zk.AddWatchPersistent)
		for i := range pumpBuffer {
			get := make(chan string, 1)
			go func() {
				c.Get(t.Context(), "/a")
				get <- unread(one) + "|" + unread(many)
			}()
			a := p.expect(wire.OpGetData)
			p.event(zk.EventNodeDataChanged, "/a")
			p.event(zk.EventNodeDataChanged, "/b")
			p.reply(a.xid, 2, zk.OK, buffer(""), statOf(0))
			want := "closed|NodeDataChanged:/b"
			if i == 0 {
				want = "NodeDataChanged:/a closed|NodeDataChanged:/b"
			}
			if got := <-get; got != want {
				t.Errorf("the answer came with %q in the channels, want %q", got, want)
			}
		}
	})
}

// What persistent watches tell of.
func TestPersistentWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, p := connected(t, "a")
		plain := p.addWatch(c, "/a/b", zk.AddWatchPersistent, zk.AddWatchPersistent)
		deep := p.addWatch(c, "/a", zk.AddWatchPersistentRecursive, zk.AddWatchPersistentRecursive)
		root := p.addWatch(c, "/", zk.AddWatchPersistentRecursive, zk.AddWatchPersistentRecursive)
		for _, path := range []string{"/a/b", "/ab", "/a"} {
			p.event(zk.EventNodeDataChanged, path)
		}
		p.event(zk.EventNodeChildrenChanged, "/a/b")
		synctest.Wait()
		for i, x := range []struct {
			w    *Watch
			want string
		}{
			{plain, "NodeDataChanged:/a/b NodeChildrenChanged:/a/b"},
			{deep, "NodeDataChanged:/a/b NodeDataChanged:/a"},
			{root, "NodeDataChanged:/a/b NodeDataChanged:/ab NodeDataChanged:/a"},
		} {
			if got := unread(x.w); got != x.want {
				t.Errorf("watch %d: %q, want %q", i, got, x.want)
			}
		}
		if _, err := c.AddWatch(t.Context(), "/a", 2); !errors.Is(err, zk.ErrBadArguments) {
			t.Errorf("mode 2: %v", err)
		}
	})
}

// Behind sixteen unread events those of the same path and type are joined; too many
// become one that says that anything may have changed.
func TestJoiningOfEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, p := connected(t, "a", WatchQueue(4))
		w := p.addWatch(c, "/a", zk.AddWatchPersistentRecursive, zk.AddWatchPersistentRecursive)
		fill := func() {
			for range pumpBuffer {
				p.event(zk.EventNodeDataChanged, "/a")
			}
			p.event(zk.EventNodeDataChanged, "/a/held") // by the pump's goroutine
			synctest.Wait()
		}
		full := strings.Repeat("NodeDataChanged:/a ", pumpBuffer) + "NodeDataChanged:/a/held"
		read := func() string {
			var list []string
			for {
				synctest.Wait()
				got := unread(w)
				if got == "" {
					return strings.Join(list, " ")
				}
				list = append(list, got)
			}
		}
		fill()
		for range 100 {
			p.event(zk.EventNodeDataChanged, "/a/1")
			p.event(zk.EventNodeDataChanged, "/a/2")
		}
		p.event(zk.EventNodeDeleted, "/a/1")
		p.event(zk.EventNodeDataChanged, "/a/1")
		if got, want := read(), full+" NodeDataChanged:/a/1 NodeDataChanged:/a/2 NodeDeleted:/a/1 NodeDataChanged:/a/1"; got != want {
			t.Errorf("joined to %q, want %q", got, want)
		}
		fill()
		for i := range 5 {
			p.event(zk.EventNodeCreated, fmt.Sprintf("/a/%d", i))
		}
		p.event(zk.EventNodeDeleted, "/a/9")
		if got, want := read(), full+" None: NodeDeleted:/a/9"; got != want {
			t.Errorf("overflowed to %q, want %q", got, want)
		}
		fill() // the session's end needs no reader
		c.abandon()
		synctest.Wait()
		got := unread(w)
		if want := " None:/a closed"; !strings.HasSuffix(got, want) {
			t.Errorf("at the end %q", got)
		}
	})
}

// After a reconnection the server is told of all watches, by setWatches unless there
// are persistent ones, in requests of 128 KiB; persistent ones are told that they
// may have missed something.
func TestSetWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, e, p := connected(t, "a")
		p.getW(c, "/data", true)
		p.existsW(c, "/exists", zk.OK)
		p.existsW(c, "/absent", zk.ErrNoNode)
		p.childrenW(c, "/child", true)
		c.mu.Lock()
		c.lastZxid = 55
		c.mu.Unlock()
		decode := func(p *peer, op wire.OpCode) wire.SetWatches {
			a := p.expect(op)
			if a.xid != wire.XidSetWatches {
				t.Errorf("setWatches has xid %d", a.xid)
			}
			var sw wire.SetWatches
			d := jute.NewDecoder(a.body)
			sw.Decode(&d, op)
			if d.Err() != nil || d.Len() > 0 || sw.RelativeZxid != 55 {
				t.Errorf("%v, %d bytes more, zxid %v", d.Err(), d.Len(), sw.RelativeZxid)
			}
			for _, l := range [][]string{sw.Data, sw.Exist, sw.Child, sw.Persistent, sw.PersistentRecursive} {
				slices.Sort(l)
			}
			p.reply(a.xid, 55, zk.OK)
			return sw
		}
		p.cut()
		p = e.accept()
		p.greet(9 * time.Second)
		sw := decode(p, wire.OpSetWatches)
		if fmt.Sprint(sw.Data, sw.Exist, sw.Child) != "[/data /exists] [/absent] [/child]" {
			t.Errorf("setWatches %+v", sw)
		}
		plain := p.addWatch(c, "/p", zk.AddWatchPersistent, zk.AddWatchPersistent)
		deep := p.addWatch(c, "/r", zk.AddWatchPersistentRecursive, zk.AddWatchPersistentRecursive)
		p.cut()
		p = e.accept()
		p.greet(9 * time.Second)
		sw = decode(p, wire.OpSetWatches2)
		if fmt.Sprint(sw.Data, sw.Exist, sw.Child, sw.Persistent, sw.PersistentRecursive) != "[/data /exists] [/absent] [/child] [/p] [/r]" {
			t.Errorf("setWatches2 %+v", sw)
		}
		synctest.Wait()
		if a, b := unread(plain), unread(deep); a != "None:/p" || b != "None:/r" {
			t.Errorf("persistent watches are told %q, %q", a, b)
		}
		paths := map[string]bool{}
		for i := range 3000 {
			path := fmt.Sprintf("/many/%0100d", i)
			paths[path] = true
			c.mu.Lock()
			c.watches.register(c.newWatch(childWatch, path), zk.OK)
			c.mu.Unlock()
		}
		p.cut()
		p = e.accept()
		p.greet(9 * time.Second)
		requests := 0
		for len(paths) > 0 {
			a := p.next()
			var sw wire.SetWatches
			d := jute.NewDecoder(a.body)
			if sw.Decode(&d, a.op); d.Err() != nil || len(a.body) > 130<<10 || (a.op == wire.OpSetWatches2) != (len(sw.Persistent)+len(sw.PersistentRecursive) > 0) {
				t.Fatalf("%v of %d bytes: %v", a.op, len(a.body), d.Err())
			}
			for _, path := range sw.Child {
				delete(paths, path)
			}
			requests++
		}
		if requests < 3 || requests > 4 {
			t.Errorf("%d requests", requests)
		}
	})
}

// A server that does not take over the watches is left.
func TestSetWatchesRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, e, p := connected(t, "a")
		p.getW(c, "/a", true)
		p.cut()
		p = e.accept()
		p.greet(9 * time.Second)
		p.reply(p.expect(wire.OpSetWatches).xid, 1, zk.ErrUnimplemented)
		p.ended()
		p = e.accept()
		p.greet(9 * time.Second)
		p.expect(wire.OpSetWatches)
	})
}

// Remove closes the channel, and tells the server if it takes nothing else away.
func TestRemove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, p := connected(t, "a")
		remove := func(w *Watch, answer zk.Code, want ...zk.WatcherType) {
			t.Helper()
			done := after(func() error { return w.Remove(t.Context()) })
			for _, kind := range want {
				a := p.expect(wire.OpRemoveWatches)
				if path, k := a.pathInt(); path != w.Path() || k != int32(kind) {
					t.Errorf("removeWatches of %s, type %d; want %d", path, k, kind)
				}
				p.reply(a.xid, 1, answer)
			}
			if err := <-done; err != nil {
				t.Error(err)
			}
			p.silent()
			if got := unread(w); got != "closed" {
				t.Errorf("a removed watch has %q", got)
			}
		}
		a, b := p.getW(c, "/a", true), p.existsW(c, "/a", zk.OK)
		child := p.childrenW(c, "/a", true)
		remove(a, zk.OK)
		remove(a, zk.OK)
		remove(b, zk.ErrNoWatcher, zk.WatcherData)
		remove(child, zk.OK, zk.WatcherChildren)
		one, many := p.getW(c, "/a", true), p.addWatch(c, "/a", zk.AddWatchPersistent, zk.AddWatchPersistent)
		remove(one, zk.OK)
		remove(many, zk.OK, zk.WatcherAny)

		// A read that is under way keeps the server's watch.
		w := p.getW(c, "/b", true)
		var next *Watch
		read := after(func() (err error) {
			_, _, next, err = c.GetW(t.Context(), "/b")
			return err
		})
		get := p.expect(wire.OpGetData)
		remove(w, zk.OK)
		p.reply(get.xid, 1, zk.OK, buffer(""), statOf(0))
		check(t, "get", <-read, nil, false)
		p.event(zk.EventNodeDataChanged, "/b")
		synctest.Wait()
		if got := unread(next); got != "NodeDataChanged:/b closed" {
			t.Errorf("the later watch has %q", got)
		}

		// What the server cannot do is an error; a lost connection removes by itself.
		w = p.getW(c, "/c", true)
		done := after(func() error { return w.Remove(t.Context()) })
		p.reply(p.expect(wire.OpRemoveWatches).xid, 1, zk.ErrUnimplemented)
		check(t, "an old server", <-done, zk.ErrUnimplemented, false)
		w = p.getW(c, "/d", true)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		check(t, "one who does not wait", w.Remove(ended), context.Canceled, false)
		p.silent()
		w = p.getW(c, "/d", true)
		done = after(func() error { return w.Remove(t.Context()) })
		p.expect(wire.OpRemoveWatches)
		p.cut()
		check(t, "a lost connection", <-done, nil, false)
	})
}

// Watches of several kinds on one path, on a server that holds one mode a path.
func TestWatchesShareAPath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const plain, deep = zk.AddWatchPersistent, zk.AddWatchPersistentRecursive
		c, e, p := connected(t, "a")
		many := p.addWatch(c, "/a", plain, plain)
		data, child := p.getW(c, "/a", false), p.childrenW(c, "/a", false)
		all := p.addWatch(c, "/a", deep, deep)
		p.event(zk.EventNodeCreated, "/a/x")
		p.event(zk.EventNodeChildrenChanged, "/a") // of a server that has both
		p.event(zk.EventNodeDataChanged, "/a")
		p.event(zk.EventNodeDeleted, "/a/x") // and of one that has the recursive one
		synctest.Wait()
		for i, x := range []struct {
			w    *Watch
			want string
		}{
			{data, "NodeDataChanged:/a closed"},
			{child, "NodeChildrenChanged:/a closed"},
			{many, "NodeChildrenChanged:/a NodeDataChanged:/a NodeChildrenChanged:/a"},
			{all, "NodeCreated:/a/x NodeDataChanged:/a NodeDeleted:/a/x"},
		} {
			if got := unread(x.w); got != x.want {
				t.Errorf("watch %d: %q, want %q", i, got, x.want)
			}
		}
		p.cut() // one mode a path
		p = e.accept()
		p.greet(9 * time.Second)
		var sw wire.SetWatches
		d := jute.NewDecoder(p.expect(wire.OpSetWatches2).body)
		if sw.Decode(&d, wire.OpSetWatches2); len(sw.Persistent) != 0 || len(sw.PersistentRecursive) != 1 {
			t.Errorf("setWatches2 %+v", sw)
		}
		p.reply(wire.XidSetWatches, 1, zk.OK)
		removed := after(func() error { return all.Remove(t.Context()) })
		a := p.expect(wire.OpAddWatch)
		if _, mode := a.pathInt(); mode != int32(plain) {
			t.Errorf("the persistent watch that is left gets mode %d", mode)
		}
		p.reply(a.xid, 1, zk.OK)
		check(t, "remove", <-removed, nil, false)

		p.addWatch(c, "/b", deep, deep)
		p.addWatch(c, "/b", plain, deep)
		p.childrenW(c, "/c", true)
	})
}

// What a recursive watch that is gone has told is not held against the next watch
// of its znode.
func TestWatchAfterRecursive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const plain, deep = zk.AddWatchPersistent, zk.AddWatchPersistentRecursive
		c, _, p := connected(t, "a")
		all := p.addWatch(c, "/a", deep, deep)
		p.event(zk.EventNodeCreated, "/a/x")
		synctest.Wait()
		removed := after(func() error { return all.Remove(t.Context()) })
		p.reply(p.expect(wire.OpRemoveWatches).xid, 1, zk.OK)
		check(t, "remove", <-removed, nil, false)
		one := p.addWatch(c, "/a", plain, plain)
		p.event(zk.EventNodeChildrenChanged, "/a")
		synctest.Wait()
		if got, want := unread(one), "NodeChildrenChanged:/a"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	})
}

// A read whose caller has gone leaves no watch, whether its answer has come or not.
func TestWatchOfOneWhoIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, p := connected(t, "a")
		ctx, cancel := context.WithCancel(t.Context())
		read := after(func() error { _, _, _, err := c.GetW(ctx, "/a"); return err })
		add := after(func() error { _, err := c.AddWatch(ctx, "/a", zk.AddWatchPersistent); return err })
		synctest.Wait()
		cancel()
		<-read
		<-add
		for range 2 {
			a := p.next()
			if a.op == wire.OpGetData {
				p.reply(a.xid, 1, zk.OK, buffer(""), statOf(0))
			} else {
				p.reply(a.xid, 1, zk.OK)
			}
		}
		p.event(zk.EventNodeDataChanged, "/a")
		synctest.Wait()
		c.mu.Lock()
		defer c.mu.Unlock()
		for kind, byPath := range c.watches.byPath {
			if len(byPath) > 0 {
				t.Errorf("kind %d has %d watches", kind, len(byPath))
			}
		}
	})
}

// All watches of a znode are taken back together, by type.
func TestRemoveAllWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, p := connected(t, "a")
		data, child := p.getW(c, "/a", true), p.childrenW(c, "/a", true)
		many := p.addWatch(c, "/a", zk.AddWatchPersistent, zk.AddWatchPersistent)
		if err := c.ForgetWatches("/a", zk.WatcherPersistentRecursive); !errors.Is(err, zk.ErrNoWatcher) {
			t.Errorf("no recursive watch: %v", err)
		}
		if err := c.RemoveAllWatches(t.Context(), "/b", zk.WatcherAny); !errors.Is(err, zk.ErrNoWatcher) {
			t.Errorf("no watch: %v", err)
		}
		if err := c.RemoveAllWatches(t.Context(), "/a", zk.WatcherData); err != nil {
			t.Error(err)
		}
		p.silent() // the persistent one would go with it
		done := after(func() error { return c.RemoveAllWatches(t.Context(), "/a", zk.WatcherAny) })
		for i := range 2 {
			a := p.expect(wire.OpRemoveWatches)
			if _, k := a.pathInt(); i == 0 && k != int32(zk.WatcherAny) {
				t.Errorf("type %d", k)
			}
			p.reply(a.xid, 1, []zk.Code{zk.OK, zk.ErrNoWatcher}[i])
		}
		check(t, "remove all", <-done, nil, false)
		if a, b, d := unread(data), unread(child), unread(many); a != "DataWatchRemoved:/a closed" ||
			b != "ChildWatchRemoved:/a closed" || d != "PersistentWatchRemoved:/a closed" {
			t.Errorf("events %q, %q, %q", a, b, d)
		}
		local := p.getW(c, "/c", true)
		check(t, "forget", c.ForgetWatches("/c", zk.WatcherAny), nil, false)
		p.silent()
		if got := unread(local); got != "DataWatchRemoved:/c closed" {
			t.Errorf("event %q", got)
		}
		done = after(func() error { return c.CheckWatches(t.Context(), "/a", zk.WatcherData) })
		p.reply(p.expect(wire.OpCheckWatches).xid, 1, zk.ErrNoWatcher)
		check(t, "check", <-done, zk.ErrNoWatcher, false)
	})
}
