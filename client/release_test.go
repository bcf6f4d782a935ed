package client

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// unsure has a Client forget that the servers are later ones than 3.4.
func unsure(c *Client) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.newer = false
}

// wantRelease checks the error of an operation that the server is too old for.
func wantRelease(t *testing.T, what string, err error, release string) {
	t.Helper()
	check(t, what, err, zk.ErrUnimplemented, false)
	if want := "(servers know it from " + release + " on)"; err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("%s: %v; want %s", what, err, want)
	}
}

// A Client that may not send the question tries.
func TestReleaseCannotBeAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, p := connected(t, "a", MaxRequest(29))
		unsure(c)
		done := after(func() error { _, err := c.WhoAmI(t.Context()); return err })
		p.reply(p.expect(wire.OpWhoAmI).xid, 1, zk.OK, func(b []byte) []byte { return append(b, 0, 0, 0, 0) })
		check(t, "whoami", <-done, nil, false)
	})
}

// A server of release 3.4 is not sent what it would close the connection over.
func TestOldServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, e, p := connected(t, "a/top")
		unsure(c)
		create := func() error {
			_, _, err := c.Create2(t.Context(), "/a", nil, zk.Ephemeral, nil)
			return err
		}
		done := after(create)
		second := after(create)
		a := p.expect(wire.OpExists)
		if a.path() != "/zookeeper/config" || a.watches() {
			t.Errorf("asked for %q", a.body)
		}
		p.silent()
		p.reply(a.xid, 1, zk.ErrNoNode)
		p.reply(p.expect(wire.OpMulti).xid, 2, zk.ErrMarshalling)
		wantRelease(t, "create2", <-done, "3.5")
		wantRelease(t, "another", <-second, "3.5")
		_, err := c.WhoAmI(t.Context())
		wantRelease(t, "whoami", err, "3.7")
		var j journal
		c.AddWatchAsync(t.Context(), "/a", zk.AddWatchPersistent, func(w *Watch, err error) { j.add("%v %v", w, err) })
		j.want(t, "<nil> addwatch /a: zookeeper: unimplemented (servers know it from 3.6 on)")
		w := p.getW(c, "/a", true)
		wantRelease(t, "remove", w.Remove(t.Context()), "3.5")
		if got := unread(w); got != "closed" {
			t.Errorf("a removed watch has %q", got)
		}
		p.getW(c, "/b", true).RemoveAsync(t.Context(), func(err error) { j.add("%v", err) })
		p.getW(c, "/c", true)
		c.RemoveAllWatchesAsync(t.Context(), "/c", zk.WatcherAny, func(err error) { j.add("%v", err) })
		j.want(t, "removewatches /b: zookeeper: unimplemented (servers know it from 3.5 on)",
			"removewatches /c: zookeeper: unimplemented (servers know it from 3.5 on)")
		p.silent()

		// The next member may be another one.
		p.cut()
		p = e.accept()
		p.greet(9 * time.Second)
		done = after(create)
		p.reply(p.expect(wire.OpExists).xid, 3, zk.OK, statOf(0))
		p.reply(p.expect(wire.OpCreate2).xid, 4, zk.OK, text("/top/a"), statOf(0))
		check(t, "on a later server", <-done, nil, false)
		p.cut()
		p = e.accept()
		p.greet(9 * time.Second)
		done = after(create)
		p.reply(p.expect(wire.OpCreate2).xid, 4, zk.ErrNodeExists)
		check(t, "again", <-done, zk.ErrNodeExists, false)
	})
}

// A server that was upgraded from 3.4 may have no /zookeeper/config.
func TestUpgradedServer(t *testing.T) {
	for _, answer := range []zk.Code{zk.OK, zk.ErrNoAuth} {
		synctest.Test(t, func(t *testing.T) {
			c, _, p := connected(t, "a")
			unsure(c)
			done := after(func() error {
				_, err := c.Ephemerals(t.Context(), "/")
				return err
			})
			p.reply(p.expect(wire.OpExists).xid, 1, zk.ErrNoNode)
			p.reply(p.expect(wire.OpMulti).xid, 1, answer, results(fails(zk.ErrNoNode), fails(zk.ErrRuntimeInconsistency)))
			p.reply(p.expect(wire.OpGetEphemerals).xid, 1, zk.OK, vector())
			check(t, "ephemerals", <-done, nil, false)
		})
	}
}

// A member without a quorum cannot say more than that it has no /zookeeper/config, as
// no standalone server is one.
func TestOldServerReadOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, p := connected(t, "a")
		unsure(c)
		done := after(func() error {
			_, err := c.WhoAmI(t.Context())
			return err
		})
		p.reply(p.expect(wire.OpExists).xid, 1, zk.ErrNoNode)
		p.reply(p.expect(wire.OpMulti).xid, 1, zk.ErrNotReadOnly)
		wantRelease(t, "whoami", <-done, "3.7")
		p.silent()
	})
}

// A callback may start what has to wait until the release is known.
func TestReleaseAskedInCallback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, p := connected(t, "a", MaxOutstanding(1))
		unsure(c)
		var j journal
		c.SetAsync(t.Context(), "/a", nil, -1, func(zk.Stat, error) {
			c.WhoAmIAsync(NoWait(t.Context()), func(_ []zk.ID, err error) { j.add("whoami %v", err) })
			j.add("started")
		})
		p.reply(p.expect(wire.OpSetData).xid, 1, zk.OK, statOf(1))
		p.reply(p.expect(wire.OpExists).xid, 1, zk.OK, statOf(0))
		p.reply(p.expect(wire.OpWhoAmI).xid, 1, zk.OK, func(b []byte) []byte { return append(b, 0, 0, 0, 0) })
		j.want(t, "started", "whoami <nil>")
	})
}

// Who waits to learn the release waits for a connection too, and can give up.
func TestReleaseUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, e, p := connected(t, "a")
		unsure(c)
		who := func(ctx context.Context) <-chan error {
			return after(func() error {
				_, err := c.WhoAmI(ctx)
				return err
			})
		}
		ctx, cancel := context.WithCancel(t.Context())
		gone, done := who(ctx), who(t.Context())
		p.expect(wire.OpExists)
		cancel()
		check(t, "who gave up", <-gone, context.Canceled, false)
		p.cut()
		p = e.accept()
		p.greet(9 * time.Second)
		p.reply(p.expect(wire.OpExists).xid, 1, zk.ErrNoAuth)
		p.reply(p.expect(wire.OpWhoAmI).xid, 1, zk.OK, func(b []byte) []byte { return append(b, 0, 0, 0, 0) })
		check(t, "whoami", <-done, nil, false)
		unsure(c)
		done = who(t.Context())
		p.expect(wire.OpExists)
		c.abandon()
		if err := <-done; !errors.Is(err, ErrClosed) {
			t.Errorf("at the end: %v", err)
		}
	})
}

// A server says at once that it does not know a request, and closes the connection:
// those before and behind it are lost. It is not asked again.
func TestRefusedOutOfTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, e, p := connected(t, "a")
		var j journal
		ask := func(name string) {
			c.WhoAmIAsync(t.Context(), func(_ []zk.ID, err error) { j.add("%s %v", name, err) })
		}
		set := func(name string) {
			c.SetAsync(t.Context(), "/a", nil, -1, func(_ zk.Stat, err error) {
				j.add("%s %v %v", name, errors.Is(err, zk.ErrConnectionLoss), err != nil && err.(*Error).Maybe)
			})
		}
		const needed = " whoami: zookeeper: unimplemented (servers know it from 3.7 on)"
		set("first")
		set("second")
		ask("third")
		set("fourth")
		first, _, third, _ := p.expect(wire.OpSetData), p.expect(wire.OpSetData), p.expect(wire.OpWhoAmI), p.expect(wire.OpSetData)
		p.reply(third.xid, -1, zk.ErrUnimplemented)
		j.want(t)
		p.reply(first.xid, 1, zk.OK, statOf(1))
		j.want(t, "first false false")
		p.cut()
		p = e.accept()
		p.greet(9 * time.Second)
		j.want(t, "second true true", "third"+needed, "fourth true true")

		ask("again")
		p.silent()
		j.want(t, "again"+needed)
		p.addWatch(c, "/a", zk.AddWatchPersistent, zk.AddWatchPersistent) // of an earlier release
		p.cut()
		p = e.accept()
		p.greet(9 * time.Second)
		p.expect(wire.OpSetWatches2)
		ask("another member")
		p.reply(p.expect(wire.OpWhoAmI).xid, -1, zk.ErrUnimplemented)
		j.want(t, "another member"+needed)
		set("behind it")
		p.reply(p.expect(wire.OpSetData).xid, 1, zk.OK, statOf(1)) // which may be
		j.want(t, "behind it false false")
	})
}

// A multi that has what 3.4 does not know is malformed to it.
func TestTxnOnOldServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, p := connected(t, "a")
		commit := func(x *Txn) error {
			done := after(func() error { return x.Commit(t.Context()) })
			p.reply(p.expect(wire.OpMulti).xid, 1, zk.ErrMarshalling)
			return <-done
		}
		x := c.Txn()
		x.Create("/a", nil, zk.Persistent, nil)
		check(t, "a malformed multi", commit(x), zk.ErrMarshalling, false)
		x = c.Txn()
		x.Create("/a", nil, zk.Persistent, nil)
		x.Create("/b", nil, zk.Container, nil)
		err := commit(x)
		check(t, "a container", err, zk.ErrUnimplemented, false)
		if want := "multi: zookeeper: unimplemented (operation 1, create /b: servers know it in a multi from 3.5 on)"; err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	})
}

// Without /zookeeper/config the error says why there may be none.
func TestConfigOfOldServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, p := connected(t, "a")
		done := after(func() error {
			_, _, err := c.Config(t.Context())
			return err
		})
		p.reply(p.expect(wire.OpGetData).xid, 1, zk.ErrNoNode)
		err := <-done
		check(t, "config", err, zk.ErrNoNode, false)
		if !strings.Contains(err.Error(), "3.5") {
			t.Error(err)
		}
	})
}
