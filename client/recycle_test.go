package client

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// Data that was given back is where later data of about its size goes, once. What
// was not given back stays as it is.
func TestRecycle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, p := connected(t, "a")
		get := func(body func([]byte) []byte) (data []byte) {
			t.Helper()
			got := after(func() (err error) { data, _, err = c.Get(t.Context(), "/a"); return err })
			p.reply(p.expect(wire.OpGetData).xid, 1, zk.OK, body, statOf(0))
			check(t, "get", <-got, nil, false)
			return data
		}
		kept := get(buffer("kept"))
		first := get(buffer(strings.Repeat("1", 1000)))
		c.Recycle(first)
		if again := get(buffer(strings.Repeat("2", 900))); &again[0] != &first[0] || string(again) != strings.Repeat("2", 900) {
			t.Errorf("data that was given back is not used: %.20s…", again)
		}
		if third := get(buffer(strings.Repeat("3", 900))); &third[0] == &first[0] || first[0] != '2' {
			t.Error("data that was given back is used twice")
		}
		for _, other := range []string{"small", strings.Repeat("4", len(first)+cap(first))} {
			c.Recycle(first)
			if data := get(buffer(other)); &data[0] == &first[0] || string(data) != other {
				t.Errorf("%d bytes are in the memory of %d", len(data), cap(first))
			}
		}
		c.Recycle(first)
		if data := get(buffer("")); data == nil || len(data) != 0 {
			t.Errorf("empty data is %#v", data)
		}
		if data := get(func(b []byte) []byte { return append(b, 255, 255, 255, 255) }); data != nil {
			t.Errorf("null data is %#v", data)
		}
		if string(kept) != "kept" {
			t.Errorf("data that was not given back is now %q", kept)
		}
	})
}

// What is given back is bounded, and given to the garbage collector by a Client that
// is idle.
func TestRecycledIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, p := connected(t, "a")
		for range 2 * keepRecycled / 1024 {
			c.Recycle(make([]byte, 10, 1024))
		}
		if n := len(c.recycled.free); n != keepRecycled/1024 {
			t.Errorf("%d KiB are kept, want %d", n, keepRecycled/1024)
		}
		c.mu.Lock()
		c.recycled.forget()
		c.mu.Unlock()
		c.Recycle(make([]byte, largestRecycled+1))
		c.Recycle(nil)
		if n := len(c.recycled.free); n != 0 {
			t.Errorf("%d pieces are kept that are too large or nothing", n)
		}
		c.Recycle(make([]byte, 1000))
		c.Recycle(make([]byte, 1000))
		time.Sleep(c.SessionTimeout() / 2) // until a ping
		p.expect(wire.OpPing)
		p.reply(wire.XidPing, 0, zk.OK)
		synctest.Wait()
		if c.recycled.free != nil || c.recycled.stock != nil {
			t.Errorf("%d and %d pieces are kept by an idle client", len(c.recycled.free), len(c.recycled.stock))
		}
	})
}
