package replica

import (
	"testing"
	"testing/synctest"
	"time"
)

// stoodIn counts the calls of StandIn.
type stoodIn struct{ calls int }

func (s *stoodIn) StandIn() { s.calls++ }

// A Caller that writes for long is replaced once; one that does not is not, however often it writes; and the goroutine sleeps
// when none has written for a while.
func TestWatchdog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w watchdog
		w.init()
		defer w.close()
		var slow, quick stoodIn
		for range 100 {
			w.begin(&quick)
			time.Sleep(LookEvery * 9 / 10)
			if !w.end() {
				t.Fatal("a quick Caller is replaced")
			}
		}
		for range 3 {
			w.begin(&slow)
			time.Sleep(3 * LookEvery)
			if w.end() {
				t.Error("a slow Caller is not replaced")
			}
			time.Sleep(2 * LookEvery)
			synctest.Wait()
			if w.awake {
				t.Error("the goroutine looks although none writes")
			}
		}
		if slow.calls != 3 || quick.calls != 0 {
			t.Errorf("StandIn was called %d and %d times, want 3 and 0", slow.calls, quick.calls)
		}
	})
}

// While another goroutine looks the watchdog's own sleeps, and a slow Caller is replaced by the other one; when that ends, the
// watchdog's own looks on.
func TestWatchdogTended(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w watchdog
		w.init()
		defer w.close()
		var slow, quick stoodIn
		w.tend(true)
		for range 100 {
			w.begin(&quick)
			time.Sleep(LookEvery / 2)
			if !w.end() {
				t.Fatal("a quick Caller is replaced")
			}
			w.tend(true)
			if w.awake {
				t.Fatal("the watchdog's goroutine looks, too")
			}
		}
		w.begin(&slow)
		time.Sleep(10 * LookEvery)
		w.tend(true)
		if slow.calls != 0 {
			t.Error("a Caller is replaced at the first look")
		}
		w.tend(true)
		if w.end() || slow.calls != 1 {
			t.Error("a slow Caller is not replaced")
		}
		w.begin(&slow)
		w.tend(false)
		time.Sleep(3 * LookEvery)
		if w.end() || slow.calls != 2 || quick.calls != 0 {
			t.Error("a Caller that began to write while another goroutine looked is not replaced after that")
		}
		w.begin(&quick)
		w.tend(true)
		w.end()
		time.Sleep(3 * LookEvery)
		synctest.Wait()
		if w.awake {
			t.Error("the watchdog's goroutine looks, too")
		}
	})
}
