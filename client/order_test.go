package client

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// Requests leave in the order in which they were started, whatever their form,
// and callbacks run in that order.
func TestOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, p := connected(t, "a")
		var j journal
		ctx := t.Context()
		c.SetAsync(ctx, "/1", []byte("x"), 0, func(s zk.Stat, err error) { j.add("1: version %d, %v", s.Version, err) })
		c.GetAsync(ctx, "/2", func(data []byte, s zk.Stat, err error) { j.add("2: %s, version %d, %v", data, s.Version, err) })
		wait := after(func() error {
			data, _, err := c.Get(ctx, "/3")
			j.add("3: %s, %v", data, err)
			return err
		})
		synctest.Wait()
		c.ExistsAsync(ctx, "/4", func(_ zk.Stat, exists bool, err error) { j.add("4: %v, %v", exists, err) })
		c.DeleteAsync(ctx, "/5", -1, func(err error) { j.add("5: %v", err) })
		var xids []int32
		for _, want := range []struct {
			op   wire.OpCode
			path string
		}{{wire.OpSetData, "/1"}, {wire.OpGetData, "/2"}, {wire.OpGetData, "/3"}, {wire.OpExists, "/4"}, {wire.OpDelete, "/5"}} {
			a := p.expect(want.op)
			if a.path() != want.path {
				t.Errorf("%v of %s, want %s", a.op, a.path(), want.path)
			}
			xids = append(xids, a.xid)
		}
		p.silent()
		p.reply(xids[0], 1, zk.OK, statOf(7))
		p.reply(xids[1], 1, zk.OK, buffer("two"), statOf(8))
		p.reply(xids[2], 1, zk.OK, buffer("three"), statOf(9))
		if err := <-wait; err != nil {
			t.Error(err)
		}
		p.reply(xids[3], 1, zk.ErrNoNode)
		p.reply(xids[4], 2, zk.ErrNotEmpty)
		synctest.Wait()
		j.lines = sortThird(j.lines)
		j.want(t, "1: version 7, <nil>", "2: two, version 8, <nil>", "3: three, <nil>", "4: false, <nil>",
			"5: delete /5: zookeeper: directory not empty")
		if z := c.LastZxid(); z != 2 {
			t.Errorf("last zxid %v", z)
		}
	})
}

// sortThird puts the waiting operation, which callbacks do not wait for, third.
func sortThird(lines []string) []string {
	var out []string
	third := ""
	for _, l := range lines {
		if l[0] == '3' {
			third = l
		} else {
			out = append(out, l)
		}
	}
	return append(append(append([]string{}, out[:2]...), third), out[2:]...)
}

// Callbacks run one by one in request order, and may start operations themselves.
func TestCallbacksMayStartOperations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, p := connected(t, "a", MaxOutstanding(1))
		var j journal
		ctx := NoWait(t.Context())
		c.DeleteAsync(ctx, "/1", -1, func(error) {
			j.add("1 begins")
			c.DeleteAsync(ctx, "/3", -1, func(error) { j.add("3") })
			if _, _, err := c.Get(ctx, "/4"); err != nil {
				t.Error(err)
			}
			j.add("1 ends")
		})
		c.DeleteAsync(ctx, "/2", -1, func(error) { j.add("2") })
		for range 2 {
			p.reply(p.expect(wire.OpDelete).xid, 1, zk.OK)
		}
		p.reply(p.expect(wire.OpDelete).xid, 1, zk.OK)
		j.want(t, "1 begins")
		p.reply(p.expect(wire.OpGetData).xid, 1, zk.OK, buffer(""), statOf(0))
		j.want(t, "1 ends", "2", "3")
	})
}

// The end of a context abandons the wait; the request keeps its place, and its
// answer is awaited and discarded.
func TestContextAbandonsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, p := connected(t, "a")
		ctx, cancel := context.WithCancelCause(t.Context())
		gone := after(func() error {
			_, err := c.Set(ctx, "/a", nil, -1)
			return err
		})
		synctest.Wait()
		read := after(func() error {
			_, _, err := c.Get(ctx, "/b")
			return err
		})
		synctest.Wait()
		stay := after(func() error {
			_, _, err := c.Get(t.Context(), "/c")
			return err
		})
		set, get, get2 := p.expect(wire.OpSetData), p.expect(wire.OpGetData), p.expect(wire.OpGetData)
		why := errors.New("no patience")
		cancel(why)
		check(t, "a write whose wait ends", <-gone, why, true)
		check(t, "a read whose wait ends", <-read, why, false)
		if _, _, err := c.Get(ctx, "/d"); !errors.Is(err, why) {
			t.Errorf("get with a context that has ended: %v", err)
		}
		p.silent()
		p.reply(set.xid, 1, zk.OK, statOf(1))
		p.reply(get.xid, 1, zk.OK, buffer("b"), statOf(1))
		p.reply(get2.xid, 1, zk.OK, buffer("c"), statOf(1))
		check(t, "the one behind", <-stay, nil, false)
	})
}

// As many asynchronous operations as MaxOutstanding says are under way; the next
// waits for the callback of the first, or for its context. NoWait does not.
func TestMaxOutstanding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, p := connected(t, "a", MaxOutstanding(2))
		var j, started journal // no order between them: callbacks have a goroutine of their own
		begin := func(ctx context.Context, n int) {
			c.DeleteAsync(ctx, fmt.Sprintf("/%d", n), -1, func(err error) { j.add("%d: %v", n, err) })
			started.add("%d", n)
		}
		ctx := t.Context()
		begin(ctx, 1)
		begin(ctx, 2)
		go begin(ctx, 3)
		started.want(t, "1", "2")
		begin(NoWait(ctx), 4)
		started.want(t, "4")
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		begin(short, 5)
		j.want(t, "5: delete /5: context deadline exceeded")
		started.want(t, "5")
		one, two := p.expect(wire.OpDelete), p.expect(wire.OpDelete)
		four := p.expect(wire.OpDelete)
		p.silent()
		p.reply(one.xid, 1, zk.OK)
		p.reply(two.xid, 1, zk.OK)
		j.want(t, "1: <nil>", "2: <nil>")
		started.want(t, "3")
		p.reply(four.xid, 1, zk.OK)
		p.reply(p.expect(wire.OpDelete).xid, 1, zk.OK)
		j.want(t, "4: <nil>", "3: <nil>")
		if c.window.used != 0 {
			t.Errorf("%d places are taken when nothing is outstanding", c.window.used)
		}
	})
}

// Who waits for a place is told of the Client's end, and every callback runs.
func TestOutstandingAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, p := connected(t, "a", MaxOutstanding(1))
		var j journal
		for range 3 {
			go c.DeleteAsync(t.Context(), "/a", -1, func(err error) { j.add("%v", errors.Is(err, ErrClosed)) })
			synctest.Wait()
		}
		c.abandon()
		j.want(t, "true", "true", "true")
		c.DeleteAsync(t.Context(), "/a", -1, func(err error) { j.add("late: %v", err) })
		j.want(t, "late: delete /a: client is closed")
		if err := c.Delete(t.Context(), "/a", -1); !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
		p.expect(wire.OpDelete)
	})
}

// A lost connection fails all that was under way, and says for each whether it may
// have been carried out: not what had not been sent, and not what only reads.
func TestConnectionLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, e, p := connected(t, "a")
		var j journal
		note := func(n int, err error) {
			var e *Error
			errors.As(err, &e)
			j.add("%d: loss %v, maybe %v", n, errors.Is(err, zk.ErrConnectionLoss), e.Maybe)
		}
		ctx := t.Context()
		c.SetAsync(ctx, "/1", nil, -1, func(_ zk.Stat, err error) { note(1, err) })
		c.GetAsync(ctx, "/2", func(_ []byte, _ zk.Stat, err error) { note(2, err) })
		c.SyncAsync(ctx, "/3", func(err error) { note(3, err) })
		p.expect(wire.OpSetData)
		p.expect(wire.OpGetData)
		p.expect(wire.OpSync)
		// The reader sees the end while this goroutine holds the lock, so what is
		// queued meanwhile belongs to the lost connection, and was not sent.
		c.mu.Lock()
		p.cut()
		k := call{op: wire.OpSetData, name: "set", path: "/4", async: true, done: statDone(func(_ zk.Stat, err error) { note(4, err) })}
		c.window.used++
		if err := c.queue(&k, nothing); err != nil {
			t.Error(err)
		}
		c.mu.Unlock()
		j.want(t, "1: loss true, maybe true", "2: loss true, maybe false", "3: loss true, maybe false", "4: loss true, maybe false")
		if s := c.State(); s != Suspended {
			t.Errorf("state %v", s)
		}
		e.accept().greet(9 * time.Second)
	})
}

// Operations that are started without a connection wait for one, behind what must
// go before them: credentials, then watches.
func TestOperationsWaitForAConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, e, p := connected(t, "a")
		var j journal
		auth := after(func() error { return c.AddAuth(t.Context(), "digest", []byte("u:p")) })
		p.reply(p.expect(wire.OpAuth).xid, 0, zk.OK)
		check(t, "addauth", <-auth, nil, false)
		c.GetWAsync(t.Context(), "/w", func(_ []byte, _ zk.Stat, w *Watch, err error) { j.add("watch %v", w != nil) })
		p.reply(p.expect(wire.OpGetData).xid, 5, zk.OK, buffer(""), statOf(0))
		j.want(t, "watch true")
		p.cut()
		synctest.Wait()
		c.GetAsync(t.Context(), "/1", func(_ []byte, _ zk.Stat, err error) { j.add("1: %v", err) })
		later := after(func() error { return c.AddAuth(t.Context(), "digest", []byte("x:y")) })
		synctest.Wait()
		c.GetAsync(t.Context(), "/2", func(_ []byte, _ zk.Stat, err error) { j.add("2: %v", err) })
		j.want(t)
		p = e.accept()
		p.greet(9 * time.Second)
		for range 2 {
			p.expect(wire.OpAuth)
		}
		sw := p.expect(wire.OpSetWatches)
		one, two := p.expect(wire.OpGetData), p.expect(wire.OpGetData)
		p.silent()
		p.reply(wire.XidAuth, 0, zk.OK)
		p.reply(wire.XidAuth, 0, zk.OK)
		check(t, "addauth without a connection", <-later, nil, false)
		p.reply(sw.xid, 6, zk.OK)
		p.reply(one.xid, 6, zk.OK, buffer(""), statOf(0))
		p.reply(two.xid, 6, zk.ErrNoNode)
		j.want(t, "1: <nil>", "2: get /2: zookeeper: no node")
	})
}
