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
