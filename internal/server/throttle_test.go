package server

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-zk/pinfold/internal/config"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

func TestThrottle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		th := newThrottle(&config.Throttle{
			Tokens: 6, FillTime: time.Second, FillCount: 2, FreezeTime: -1,
			Weighted: true, GlobalWeight: 3, RenewalWeight: 2,
		})
		take := func(renewal, want bool) {
			t.Helper()
			if got := th.admit(renewal); got != want {
				t.Errorf("after %v: take(%v) = %v with %d tokens", time.Since(th.filled), renewal, got, th.tokens)
			}
		}
		take(false, true)
		take(true, true)
		take(true, false) // one token is left
		time.Sleep(time.Second)
		take(false, true)
		take(false, false)
		time.Sleep(time.Hour) // never more than the bucket holds
		take(false, true)
		take(false, true)
		take(false, false)
	})
}

// TestThrottleDrops: with a probability of 1 nobody gets in, however full the
// bucket; it falls again while there are tokens.
func TestThrottleDrops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		th := newThrottle(&config.Throttle{
			Tokens: 2, FillTime: time.Second, FillCount: 1, FreezeTime: time.Millisecond,
			DropIncrease: 1, DropDecrease: 0.5,
		})
		for range 2 {
			if !th.admit(false) {
				t.Error("a full bucket refuses")
			}
		}
		time.Sleep(time.Millisecond) // until the probability may change again
		if th.admit(false) || th.dropping != 1 {
			t.Errorf("empty: dropping %v", th.dropping)
		}
		time.Sleep(2 * time.Second)
		th.admit(false)
		if th.dropping != 0.5 {
			t.Errorf("full again: dropping %v", th.dropping)
		}
	})
}

func TestLargeRequests(t *testing.T) {
	l := newLargeRequests(&config.Requests{LargeBytes: 10, LargeMaxBytes: 50})
	for i, step := range []struct {
		bytes int
		want  bool
	}{{10, true}, {30, true}, {21, false}, {20, true}, {11, false}, {10, true}} {
		if got := l.admit(step.bytes); got != step.want {
			t.Errorf("step %d: admit(%d) = %v", i, step.bytes, got)
		}
	}
	l.done(30)
	if !l.admit(30) {
		t.Error("no room after one was done")
	}
	off := newLargeRequests(&config.Requests{LargeBytes: -1, LargeMaxBytes: 1})
	if !off.admit(1 << 20) {
		t.Error("refused though it is switched off")
	}
}

// TestThrottledOp: a request that waited too long is answered without being
// executed; sessions begin and end all the same.
func TestThrottledOp(t *testing.T) {
	s := newRig(t, func(setup *rigSetup) { setup.cfg.Requests.ThrottledOpWait = time.Nanosecond })
	c := s.open()
	if r := c.call(wire.OpCreate, createBody("/a", nil, zk.Persistent)); r.Err != zk.ErrThrottledOp {
		t.Errorf("create: %v", r.Err)
	}
	if c.has("/a") {
		t.Error("it was executed")
	}
	if r := c.call(wire.OpCloseSession, nil); r.Err != zk.OK {
		t.Errorf("closeSession: %v", r.Err)
	}
}
