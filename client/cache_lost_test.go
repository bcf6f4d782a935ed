package client

import (
	"testing"
	"testing/synctest"

	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// When events are dropped while everything is compared already, because events
// were dropped before, the answers under way may be older than what the events
// told of: the comparison begins again.
func TestCacheComparesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, p := connected(t, "a", WatchQueue(2))
		busy, free := make(chan struct{}), make(chan struct{})
		keep := func(path string) bool { // has the cache busy while events for /m/busy are handled
			busy <- struct{}{}
			<-free
			return false
		}
		var k *Cache
		made := after(func() (err error) {
			k, err = NewCache(t.Context(), c, "/m", CacheDepth(1), CacheFilter(keep))
			return err
		})
		p.reply(p.expect(wire.OpAddWatch).xid, 1, zk.OK)
		p.reply(p.expect(wire.OpSync).xid, 1, zk.OK, text("/m"))
		p.reply(p.expect(wire.OpExists).xid, 1, zk.OK, cacheStat(1))
		p.reply(p.expect(wire.OpGetData).xid, 1, zk.OK, buffer("one"), cacheStat(1))
		if err := <-made; err != nil {
			t.Fatal(err)
		}
		defer k.Close()

		// overflow tells of more changes than the cache has room for, with play
		// between the first and the last.
		overflow := func(play func()) {
			p.event(zk.EventNodeCreated, "/m/busy")
			<-busy
			p.event(zk.EventNodeDataChanged, "/m")
			play()
			p.event(zk.EventNodeDataChanged, "/m")
			p.event(zk.EventNodeDataChanged, "/m")
			synctest.Wait()
			free <- struct{}{}
		}
		overflow(func() {})
		check := p.expect(wire.OpExists)
		overflow(func() { p.reply(check.xid, 1, zk.OK, cacheStat(1)) })
		p.reply(p.expect(wire.OpExists).xid, 3, zk.OK, cacheStat(3))
		p.reply(p.expect(wire.OpGetData).xid, 3, zk.OK, buffer("three"), cacheStat(3))
		synctest.Wait()
		if data, _, _ := k.Get("/m"); string(data) != "three" || k.Zxid() != 3 {
			t.Errorf("at %v the data is %q", k.Zxid(), data)
		}
		p.silent()
	})
}

func cacheStat(mzxid zk.Zxid) func([]byte) []byte {
	return func(b []byte) []byte { return wire.AppendStat(b, &zk.Stat{Czxid: 1, Mzxid: mzxid}) }
}

// A change of a znode whose creation was lost is told while the comparison that finds the
// znode is under way: Zxid waits for all that is below it, as old as the comparison.
func TestCacheComparesBelowWhatAnEventFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, p := connected(t, "a", WatchQueue(2))
		busy, free := make(chan struct{}), make(chan struct{})
		keep := func(path string) bool {
			if path == "/m/busy" {
				busy <- struct{}{}
				<-free
			}
			return path != "/m/busy"
		}
		var k *Cache
		made := after(func() (err error) {
			k, err = NewCache(t.Context(), c, "/m", CacheFilter(keep))
			return err
		})
		stat := func(created, children zk.Zxid, n int32) func([]byte) []byte {
			return func(b []byte) []byte {
				return wire.AppendStat(b, &zk.Stat{Czxid: created, Mzxid: created, Pzxid: children, NumChildren: n})
			}
		}
		name := func(s string) func([]byte) []byte { // a list of one
			return func(b []byte) []byte { return text(s)(append(b, 0, 0, 0, 1)) }
		}
		p.reply(p.expect(wire.OpAddWatch).xid, 2, zk.OK)
		p.reply(p.expect(wire.OpSync).xid, 2, zk.OK, text("/m"))
		p.reply(p.expect(wire.OpExists).xid, 2, zk.OK, stat(1, 2, 1))
		p.reply(p.expect(wire.OpGetData).xid, 2, zk.OK, buffer("m"), stat(1, 2, 1))
		p.reply(p.expect(wire.OpGetChildren2).xid, 2, zk.OK, name("a"), stat(1, 2, 1))
		p.reply(p.expect(wire.OpGetData).xid, 2, zk.OK, buffer("a"), stat(2, 2, 0))
		if err := <-made; err != nil {
			t.Fatal(err)
		}
		defer k.Close()

		p.event(zk.EventNodeCreated, "/m/busy")
		<-busy
		for range 3 { // in truth 3 has created /m/a/c and /m/a/c/d
			p.event(zk.EventNodeDataChanged, "/m")
		}
		synctest.Wait()
		free <- struct{}{}
		p.reply(p.expect(wire.OpExists).xid, 5, zk.OK, stat(1, 2, 1))
		check := p.expect(wire.OpExists) // of /m/a
		p.event(zk.EventNodeDataChanged, "/m/a/c")
		data := p.expect(wire.OpGetData)
		p.reply(check.xid, 6, zk.OK, stat(2, 3, 1))
		p.reply(data.xid, 6, zk.OK, buffer("c"), stat(3, 3, 1))
		p.reply(p.expect(wire.OpGetChildren2).xid, 6, zk.OK, name("c"), stat(2, 3, 1))
		p.reply(p.expect(wire.OpGetChildren2).xid, 6, zk.OK, name("d"), stat(3, 3, 1))
		p.reply(p.expect(wire.OpExists).xid, 6, zk.OK, stat(3, 3, 1))
		data = p.expect(wire.OpGetData)
		synctest.Wait()
		if _, _, ok := k.Get("/m/a/c/d"); ok || k.Zxid() != 2 {
			t.Errorf("at %v, without /m/a/c/d, which 3 has created", k.Zxid())
		}
		p.reply(data.xid, 6, zk.OK, buffer("d"), stat(3, 3, 0))
		synctest.Wait()
		if _, _, ok := k.Get("/m/a/c/d"); !ok || k.Zxid() != 6 {
			t.Errorf("at %v, /m/a/c/d is there: %v", k.Zxid(), ok)
		}
		p.silent()
	})
}
