package client

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// An answer beyond MaxReply is the error of its operation. The connection and all
// other operations go on; a watch that came with it tells nobody.
func TestReplyTooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, p := connected(t, "a", MaxReply(1000))
		var j journal
		large := buffer(strings.Repeat("x", 2000))
		c.GetAsync(t.Context(), "/before", func(data []byte, _ zk.Stat, err error) { j.add("before %s %v", data, err) })
		c.GetWAsync(t.Context(), "/large", func(data []byte, _ zk.Stat, w *Watch, err error) {
			check(t, "get", err, ErrReplyTooLarge, false)
			j.add("%v %v %v", data, w, err)
		})
		c.GetAsync(t.Context(), "/behind", func(data []byte, _ zk.Stat, err error) { j.add("behind %s %v", data, err) })
		for i, data := range []func([]byte) []byte{buffer("b"), large, buffer("c")} {
			p.reply(p.expect(wire.OpGetData).xid, zk.Zxid(i), zk.OK, data, statOf(0))
		}
		j.want(t, "before b <nil>",
			"[] <nil> get /large: the reply is too large (it has 2088 bytes, MaxReply is 1000)",
			"behind c <nil>")
		p.event(zk.EventNodeDataChanged, "/large")

		txn := c.Txn()
		txn.Delete("/a", -1)
		got := after(func() error { return txn.Commit(t.Context()) })
		p.reply(p.expect(wire.OpMulti).xid, 4, zk.OK, large)
		check(t, "multi", <-got, ErrReplyTooLarge, true)
	})
}

// What does not fit into an answer ends a Cache, which would otherwise ask again and
// again.
func TestCacheEndsWithReplyTooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, p := connected(t, "a", MaxReply(1000))
		made := after(func() error { _, err := NewCache(t.Context(), c, "/top"); return err })
		p.reply(p.expect(wire.OpAddWatch).xid, 1, zk.OK)
		p.reply(p.expect(wire.OpSync).xid, 1, zk.OK, text("/top"))
		stat := zk.Stat{NumChildren: 1, Pzxid: 1}
		p.reply(p.expect(wire.OpExists).xid, 1, zk.OK, func(b []byte) []byte { return wire.AppendStat(b, &stat) })
		p.reply(p.expect(wire.OpGetData).xid, 1, zk.OK, buffer("x"), func(b []byte) []byte { return wire.AppendStat(b, &stat) })
		p.reply(p.expect(wire.OpGetChildren2).xid, 1, zk.OK, vector(strings.Repeat("x", 2000)), statOf(0))
		if err := <-made; !errors.Is(err, ErrReplyTooLarge) {
			t.Errorf("NewCache: %v", err)
		}
	})
}

// Without an option a request has at most as many bytes as an Apache server takes: one
// more, and it closes the connection.
func TestLargestRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, p := connected(t, "a")
		const most, besides = 1<<20 - 1, 8 + 6 + 4 + 4 // header, path, length of the data, version
		_, err := c.Set(t.Context(), "/a", make([]byte, most-besides+1), -1)
		check(t, "set", err, zk.ErrBadArguments, false)
		got := after(func() error { _, err := c.Set(t.Context(), "/a", make([]byte, most-besides), -1); return err })
		asked := p.expect(wire.OpSetData)
		if n := len(asked.body) + 8; n != most {
			t.Errorf("a request of %d bytes", n)
		}
		p.reply(asked.xid, 1, zk.OK, statOf(1))
		check(t, "set", <-got, nil, false)
	})
}
