package client

import (
	"testing"
	"testing/synctest"

	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// Of answers that come together, those before a bad one are
// given to their callbacks, and the bad one's callback runs once, with the loss of
// the connection.
func TestAnswersBeforeABadOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, p := connected(t, "a")
		var j journal
		got := func(data []byte, s zk.Stat, err error) { j.add("%q of version %d, %v", data, s.Version, err) }
		var both []byte
		for _, body := range []func([]byte) []byte{
			func(b []byte) []byte { return statOf(7)(buffer("x")(b)) },
			buffer("a Stat is missing"),
		} {
			c.GetAsync(t.Context(), "/a", got)
			head := wire.ReplyHeader{Xid: p.expect(wire.OpGetData).xid, Zxid: 1}
			both = appendFrame(both, func(b []byte) []byte { return body(head.Append(b)) })
		}
		if _, err := p.conn.Write(both); err != nil {
			t.Error(err)
		}
		j.want(t, `"x" of version 7, <nil>`, `"" of version 0, get /a: zookeeper: connection loss (reply to get: jute: input ends within a field)`)
	})
}

// An answer to a ping, which gives back memory that is not used, takes nothing from
// the answers that have come with it.
func TestAnswersBesideAPing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, p := connected(t, "a")
		var j journal
		for range 2 { // the second time into a list that was used before
			var all []byte
			for i := range 3 {
				c.SyncAsync(t.Context(), "/a", func(err error) { j.add("%d: %v", i, err) })
				all = appendFrame(all, wire.ReplyHeader{Xid: p.expect(wire.OpSync).xid, Zxid: 1}.Append)
				all = appendFrame(all, wire.ReplyHeader{Xid: wire.XidPing}.Append)
			}
			if _, err := p.conn.Write(all); err != nil {
				t.Error(err)
			}
			j.want(t, "0: <nil>", "1: <nil>", "2: <nil>")
		}
	})
}

// Results that are put while callbacks run come behind those that wait, and a list
// that comes back is empty throughout: it keeps nothing alive.
func TestDispatcherKeepsNothing(t *testing.T) {
	var d dispatcher
	d.init(func() {}) // the test does its work
	var list completions
	fill := func(paths ...string) {
		for _, path := range paths {
			list.add(pathDone(nil)).text = path
		}
		list = d.put(list)
		if all := list[:cap(list)]; len(list) != 0 {
			t.Errorf("%d results in an empty list", len(list))
		} else {
			for i := range all {
				if all[i].done != nil || all[i].placed || all[i].result.text != "" {
					t.Errorf("result %d of an empty list is %+v", i, all[i].result)
				}
			}
		}
	}
	var worked completions
	want := func(paths ...string) {
		t.Helper()
		worked = d.take(worked)
		if len(worked) != len(paths) {
			t.Fatalf("%d results, want %q", len(worked), paths)
		}
		for i, path := range paths {
			if worked[i].result.text != path || !worked[i].placed {
				t.Errorf("result %d is of %q, want %q", i, worked[i].result.text, path)
			}
		}
	}
	for range 3 {
		fill("/1", "/2", "/3")
		fill("/4")
		want("/1", "/2", "/3", "/4")
		fill("/5", "/6")
		want("/5", "/6")
		fill("/7")
		fill("/8", "/9")
		want("/7", "/8", "/9")
		want()
	}
	if len(d.spare) == 0 || len(d.spare) > keepLists {
		t.Errorf("%d lists are kept", len(d.spare))
	}
	if d.shrink(); d.spare != nil {
		t.Error("lists are kept by an idle dispatcher")
	}
}

// What was answered keeps nothing alive: neither what was asked nor the answer.
func TestAnsweredIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, p := connected(t, "a")
		got := after(func() error { _, _, err := c.Get(t.Context(), "/a"); return err })
		p.reply(p.expect(wire.OpGetData).xid, 1, zk.OK, buffer("x"), statOf(0))
		check(t, "get", <-got, nil, false)
		c.GetAsync(t.Context(), "/b", func([]byte, zk.Stat, error) {})
		p.reply(p.expect(wire.OpGetData).xid, 1, zk.OK, buffer("x"), statOf(0))
		synctest.Wait()
		c.mu.Lock()
		defer c.mu.Unlock()
		for i, k := range c.pending.ring {
			if k.done != nil || k.path != "" {
				t.Errorf("entry %d of the queue still has %s", i, k.path)
			}
		}
		if c.link.result.data != nil || len(c.link.batch) != 0 {
			t.Errorf("the link still has %q and %d results", c.link.result.data, len(c.link.batch))
		}
	})
}
