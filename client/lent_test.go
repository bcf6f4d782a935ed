package client

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// Data that was lent to a callback is where later data of about its size goes, when
// the callback has returned. What a waiting operation has returned stays as it is.
func TestLentData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, p := connected(t, "a")
		answer := func(body func([]byte) []byte) {
			p.reply(p.expect(wire.OpGetData).xid, 1, zk.OK, body, statOf(0))
			synctest.Wait()
		}
		lend := func(body func([]byte) []byte) (data []byte, text string) {
			t.Helper()
			c.GetAsync(t.Context(), "/a", func(b []byte, _ zk.Stat, err error) {
				check(t, "get", err, nil, false)
				data, text = b, string(b)
			})
			answer(body)
			return data, text
		}
		kilo := func(digit string) string { return strings.Repeat(digit, 1000) }
		var kept []byte
		got := after(func() (err error) { kept, _, err = c.Get(t.Context(), "/a"); return err })
		answer(buffer(kilo("1")))
		check(t, "get", <-got, nil, false)
		for range 3 {
			if data, text := lend(buffer(kilo("2"))); &data[0] == &kept[0] || text != kilo("2") {
				t.Errorf("lent: %.20s…", text)
			}
		}
		if string(kept) != kilo("1") {
			t.Errorf("data of one who waited is now %.20s…", kept)
		}
		first, _ := lend(buffer(kilo("3")))
		if spoilLent && first[0] != 0xdb {
			t.Errorf("the race detector is on, and data that a callback has kept is %.20q…", first)
		}
		if again, text := lend(buffer(kilo("4"))); &again[0] != &first[0] || text != kilo("4") {
			t.Errorf("memory that was lent is not used again: %.20s…", text)
		}
		for _, other := range []string{"small", strings.Repeat("5", len(first)+cap(first))} {
			if data, text := lend(buffer(other)); &data[0] == &first[0] || text != other {
				t.Errorf("%d bytes are in the memory of %d", len(text), cap(first))
			}
		}
		if data, _ := lend(buffer("")); data == nil || len(data) != 0 {
			t.Errorf("empty data is %#v", data)
		}
		if data, _ := lend(func(b []byte) []byte { return append(b, 255, 255, 255, 255) }); data != nil {
			t.Errorf("null data is %#v", data)
		}
	})
}

// While a callback runs, answers that come go elsewhere.
func TestLentUntilTheCallbackReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, p := connected(t, "a")
		goOn, texts := make(chan struct{}), ""
		ask := func(wait bool) {
			c.GetAsync(t.Context(), "/a", func(b []byte, _ zk.Stat, _ error) {
				if wait {
					<-goOn
				}
				texts += string(b)
			})
		}
		answer := func(data string) { p.reply(p.expect(wire.OpGetData).xid, 1, zk.OK, buffer(data), statOf(0)) }
		ask(false)
		answer("a")
		synctest.Wait()
		for _, data := range []string{"b", "c", "d"} {
			ask(data == "b")
			answer(data)
			synctest.Wait()
		}
		close(goOn)
		synctest.Wait()
		if texts != "abcd" {
			t.Errorf("callbacks were given %q", texts)
		}
	})
}

// What is kept for lending is bounded, and given to the garbage collector by a
// Client that is idle.
func TestLentIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, p := connected(t, "a")
		returned := func(size, n int) {
			list := make(completions, n)
			for i := range list {
				list[i].result.data = make([]byte, 10, size)
			}
			c.lent.giveBack(list)
		}
		returned(1024, 2*keepLent/1024)
		if n := len(c.lent.free); n != keepLent/1024 {
			t.Errorf("%d KiB are kept, want %d", n, keepLent/1024)
		}
		c.mu.Lock()
		c.lent.forget()
		c.mu.Unlock()
		c.lent.giveBack(make(completions, 3)) // of operations without data
		returned(largestLent+1, 1)
		if n := len(c.lent.free); n != 0 {
			t.Errorf("%d pieces are kept that are too large or nothing", n)
		}
		returned(1024, 2)
		time.Sleep(c.SessionTimeout() / 2) // until a ping
		p.expect(wire.OpPing)
		p.reply(wire.XidPing, 0, zk.OK)
		synctest.Wait()
		if c.lent.free != nil || c.lent.stock != nil {
			t.Errorf("%d and %d pieces are kept by an idle client", len(c.lent.free), len(c.lent.stock))
		}
	})
}
