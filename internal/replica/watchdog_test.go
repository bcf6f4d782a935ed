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
			time.Sleep(watchdogTick * 9 / 10)
			if !w.end() {
				t.Fatal("a quick Caller is replaced")
			}
		}
		for range 3 {
			w.begin(&slow)
			time.Sleep(3 * watchdogTick)
			if w.end() {
				t.Error("a slow Caller is not replaced")
			}
			time.Sleep(2 * watchdogTick)
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
