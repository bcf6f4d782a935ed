package client

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// results is the body of an answer to a multi.
func results(parts ...func([]byte) []byte) func([]byte) []byte {
	return func(b []byte) []byte {
		for _, p := range parts {
			b = p(b)
		}
		return wire.AppendMultiEnd(b)
	}
}

// is one result of a multi.
func is(op wire.OpCode, body ...func([]byte) []byte) func([]byte) []byte {
	return func(b []byte) []byte {
		b = wire.MultiHeader{Type: op}.Append(b)
		for _, f := range body {
			b = f(b)
		}
		return b
	}
}

func fails(code zk.Code) func([]byte) []byte {
	return func(b []byte) []byte { return wire.AppendMultiError(b, code) }
}

// A Txn with an operation of each kind, its results by the types that servers give
// them: 3.8.0 says create for create2.
func TestTxn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, quirk := range []bool{false, true} {
			c, _, p := connected(t, "a/top")
			x := c.Txn()
			x.Check("/c", 3)
			a := x.Create2("/a-", []byte("x"), zk.PersistentSequential, nil)
			b := x.Create("/b", nil, zk.Container, nil)
			l := x.CreateTTL("/l", nil, zk.PersistentWithTTL, nil, time.Minute)
			s := x.Set("/s", nil, -1)
			x.Delete("/d", 2)
			o := x.Create("/o", nil, zk.Ephemeral, nil)
			done := after(func() error { return x.Commit(t.Context()) })
			q := p.expect(wire.OpMulti)
			d := jute.NewDecoder(q.body)
			ops := wire.DecodeMulti(&d, wire.OpMulti, nil)
			said := ""
			for _, o := range ops {
				said += fmt.Sprintf("%d %s %d %d;", o.Type, o.Path, o.Version, o.TTL)
			}
			if want := "13 /top/c 3 0;15 /top/a- 0 -1;19 /top/b 0 -1;21 /top/l 0 60000;5 /top/s -1 0;2 /top/d 2 0;1 /top/o 0 -1;"; said != want || x.Len() != 7 {
				t.Errorf("multi %q, want %q", said, want)
			}
			made := is(wire.OpCreate2, text("/top/a-7"), statOf(1))
			if quirk {
				made = is(wire.OpCreate, text("/top/a-7"))
			}
			p.reply(q.xid, 5, zk.OK, results(is(wire.OpCheck), made, is(wire.OpCreate2, text("/top/b"), statOf(2)),
				is(wire.OpCreateTTL, text("/top/l"), statOf(3)), is(wire.OpSetData, statOf(4)), is(wire.OpDelete), is(wire.OpCreate, text("/top/o"))))
			check(t, "commit", <-done, nil, false)
			if a.Path != "/a-7" || quirk == (a.Stat.Version == 1) || b.Path != "/b" || l.Path != "/l" || l.Stat.Version != 3 || s.Version != 4 || o.Path != "/o" {
				t.Errorf("results %+v %+v %+v %+v", a, b, l, s)
			}
		}
	})
}

// Which operation failed, and that nothing was carried out.
func TestTxnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, p := connected(t, "a")
		x := c.Txn()
		made := x.Create("/a", nil, zk.Persistent, nil)
		x.Delete("/b", -1)
		x.Delete("/c", -1)
		var j journal
		x.CommitAsync(t.Context(), func(err error) {
			var which *TxnError
			j.add("%v %v %+v", errors.Is(err, zk.ErrNotEmpty), errors.As(err, &which), *which)
			j.add("%v", err)
		})
		p.reply(p.expect(wire.OpMulti).xid, 5, zk.OK, results(fails(zk.OK), fails(zk.ErrNotEmpty), fails(zk.ErrRuntimeInconsistency)))
		j.want(t, "true true {Index:1 Op:delete Path:/b Err:zookeeper: directory not empty}",
			"multi: operation 1, delete /b: zookeeper: directory not empty")
		if made.Path != "" {
			t.Errorf("a create that was not carried out: %+v", made)
		}
		x = c.Txn()
		x.Delete("/a", -1)
		x.Delete("b", -1)
		err := x.Commit(t.Context())
		if !errors.Is(err, zk.ErrBadArguments) {
			t.Errorf("a bad path: %v", err)
		}
		p.silent()
	})
}

// A server of 3.4 takes a session for another member's, and says so of an operation of
// a multi. The connection is left, and the session taken anew.
func TestTxnOfSessionThatMoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, e, p := connected(t, "a")
		x := c.Txn()
		x.Set("/a", nil, -1)
		x.Set("/b", nil, -1)
		done := after(func() error { return x.Commit(t.Context()) })
		q := p.expect(wire.OpMulti)
		read := after(func() error {
			_, _, err := c.Get(t.Context(), "/a")
			return err
		})
		p.expect(wire.OpGetData)
		p.reply(q.xid, 5, zk.OK, results(fails(zk.ErrSessionMoved), fails(zk.ErrRuntimeInconsistency)))
		err := <-done
		check(t, "commit", err, zk.ErrConnectionLoss, false)
		if !errors.Is(err, zk.ErrSessionMoved) {
			t.Errorf("why it is lost: %v", err)
		}
		check(t, "get", <-read, zk.ErrConnectionLoss, false)
		p.ended()
		if ask := e.accept().greet(9 * time.Second); ask.SessionID != testSession {
			t.Errorf("session %v after it moved", ask.SessionID)
		}
	})
}

// Who gives up a Commit may look at the results while the answer comes.
func TestTxnOfOneWhoIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, p := connected(t, "a")
		ctx, cancel := context.WithCancel(t.Context())
		x := c.Txn()
		made := x.Create("/a", nil, zk.Persistent, nil)
		done := after(func() error { return x.Commit(ctx) })
		q := p.expect(wire.OpMulti)
		cancel()
		check(t, "commit", <-done, context.Canceled, true)
		p.reply(q.xid, 5, zk.OK, results(is(wire.OpCreate2, text("/a"), statOf(1))))
		synctest.Wait()
		if made.Path != "" {
			t.Errorf("result %+v", made)
		}
	})
}

func TestReadTxn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, p := connected(t, "a")
		x := c.ReadTxn()
		a, b, l := x.Get("/a"), x.Get("/b"), x.Children("/l")
		var j journal
		x.CommitAsync(t.Context(), func(err error) { j.add("%v: %s %v, %v, %v", err, a.Data, a.Stat.Version, b.Err, l.Names) })
		q := p.expect(wire.OpMultiRead)
		p.reply(q.xid, 5, zk.OK, results(is(wire.OpGetData, buffer("x"), statOf(9)), fails(zk.ErrNoNode), is(wire.OpGetChildren, vector("k", "m"))))
		j.want(t, "<nil>: x 9, get /b: zookeeper: no node, [k m]")
		if x.Len() != 3 {
			t.Errorf("length %d", x.Len())
		}
	})
}

// Results that are not those of the operations break the connection.
func TestTxnResultsThatDoNotFit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, e, p := connected(t, "a")
		for i, body := range []func([]byte) []byte{
			results(),
			results(is(wire.OpDelete), is(wire.OpDelete)),
			results(is(wire.OpSetData, statOf(1))),
			results(is(wire.OpGetData, buffer(""), statOf(1))),
			results(is(wire.OpMulti)),
			is(wire.OpDelete),
			text("nonsense"),
		} {
			x := c.Txn()
			x.Delete("/a", -1)
			done := after(func() error { return x.Commit(t.Context()) })
			p.reply(p.expect(wire.OpMulti).xid, 5, zk.OK, body)
			if err := <-done; !errors.Is(err, zk.ErrConnectionLoss) {
				t.Errorf("answer %d: %v", i, err)
			}
			p.ended()
			p = e.accept()
			p.greet(9 * time.Second)
		}
	})
}

// A chroot is in front of every path that goes out, and is taken off every path
// that comes in.
func TestChroot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, p := connected(t, "a/zoo")
		ctx := t.Context()
		var j journal
		c.CreateAsync(ctx, "/s-", nil, zk.PersistentSequential, nil, func(path string, err error) { j.add("create %s %v", path, err) })
		c.Create2Async(ctx, "/x", nil, zk.Persistent, nil, func(path string, _ zk.Stat, err error) { j.add("create2 %s %v", path, err) })
		c.EphemeralsAsync(ctx, "/", func(paths []string, err error) { j.add("ephemerals %v %v", paths, err) })
		c.ConfigAsync(ctx, func(text []byte, _ zk.Stat, err error) { j.add("config %s %v", text, err) })
		c.GetAsync(ctx, "/", func(_ []byte, _ zk.Stat, err error) { j.add("%v", err) })
		c.DeleteAsync(ctx, "/", -1, func(err error) { j.add("%v", err) })
		for _, x := range []struct {
			op   wire.OpCode
			path string
			code zk.Code
			body []func([]byte) []byte
		}{
			{wire.OpCreate, "/zoo/s-", zk.OK, []func([]byte) []byte{text("/zoo/s-3")}},
			{wire.OpCreate2, "/zoo/x", zk.OK, []func([]byte) []byte{text("/zoo/x"), statOf(0)}},
			{wire.OpGetEphemerals, "/zoo", zk.OK, []func([]byte) []byte{vector("/zoo/e", "/zookeeper/e", "/zoo")}},
			{wire.OpGetData, "/zookeeper/config", zk.OK, []func([]byte) []byte{buffer("server.1"), statOf(0)}},
			{wire.OpGetData, "/zoo", zk.ErrNoNode, nil},
			{wire.OpDelete, "/", zk.ErrBadArguments, nil},
		} {
			a := p.expect(x.op)
			if a.path() != x.path {
				t.Errorf("%v of %s, want %s", x.op, a.path(), x.path)
			}
			p.reply(a.xid, 1, x.code, x.body...)
		}
		j.want(t, "create /s-3 <nil>", "create2 /x <nil>", "ephemerals [/e /] <nil>", "config server.1 <nil>", "get /: zookeeper: no node",
			"delete /: zookeeper: bad arguments")

		deep := p.addWatch(c, "/", zk.AddWatchPersistentRecursive, zk.AddWatchPersistentRecursive)
		config := leave(t, p, wire.OpGetData, zk.OK, true, func() (*Watch, error) {
			_, _, w, err := c.ConfigW(ctx)
			return w, err
		}, buffer(""), statOf(0))
		p.event(zk.EventNodeCreated, "/zoo/a")
		p.event(zk.EventNodeDataChanged, "/zoo")
		p.event(zk.EventNodeDataChanged, "/zookeeper/config")
		p.event(zk.EventNodeDataChanged, "/zoom")
		synctest.Wait()
		if a, b := unread(deep), unread(config); a != "NodeCreated:/a NodeDataChanged:/" || b != "NodeDataChanged:/zookeeper/config closed" {
			t.Errorf("events %q, %q", a, b)
		}
		if deep.Path() != "/" || config.Path() != "/zookeeper/config" || c.Chroot() != "/zoo" {
			t.Errorf("paths %s, %s, chroot %s", deep.Path(), config.Path(), c.Chroot())
		}
	})
}

// An answer to what is not the oldest request, or was not sent, breaks the
// connection: nothing behind it can be told apart any more.
func TestWrongXids(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, e, p := connected(t, "a")
		for _, xid := range []int32{0, 1, 77, wire.XidAuth, -3} {
			p.reply(xid, 1, zk.OK)
			p.ended()
			p = e.accept()
			p.greet(9 * time.Second)
		}
		c, p := e.client("b")
		var j journal
		for range 2 {
			c.DeleteAsync(t.Context(), "/a", -1, func(err error) { j.add("%v", errors.Is(err, zk.ErrConnectionLoss)) })
		}
		p.expect(wire.OpDelete)
		p.reply(p.expect(wire.OpDelete).xid, 1, zk.OK)
		p.ended()
		j.want(t, "true", "true")
	})
}
