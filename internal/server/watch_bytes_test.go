package server

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinfold-zk/pinfold/internal/watch"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// P6: the watches of all clients stay within watchBytes. The client that has most is
// refused first; others get what they need; what fires or ends leaves room.
func TestP6WatchesStayWithinTheirBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit, long = 1 << 20, 100 << 10
		s := newRig(t, func(o *rigSetup) { o.cfg.Client.WatchBytes = limit })
		path := func(i int) string { return "/" + string(rune('a'+i)) + strings.Repeat("w", long) }
		used := func() (n int) {
			s.srv.replica.Watches(func(w *watch.Tables) { n = w.Bytes() })
			return n
		}
		greedy, modest := s.open(), s.open()
		granted := 0
		for i := range 20 {
			switch r := greedy.call(wire.OpExists, readBody(path(i), true)); r.Err {
			case zk.ErrNoNode:
				granted++
			case zk.ErrSystem:
			default:
				t.Fatal(r.Err)
			}
		}
		if granted != limit/2/long || used() > limit/2 {
			t.Errorf("%d watches of %d bytes were granted, %d bytes are used", granted, long, used())
		}
		if r := greedy.call(wire.OpExists, readBody(path(0), true)); r.Err != zk.ErrNoNode {
			t.Errorf("a watch that is there: %v", r.Err)
		}
		if r := modest.call(wire.OpExists, readBody(path(19), true)); r.Err != zk.ErrNoNode {
			t.Errorf("another client: %v", r.Err)
		}
		for _, m := range s.srv.Metrics().Snapshot() {
			if m.Name == "watch_memory_bytes" && int(m.Samples[0].Int) != used() {
				t.Errorf("watch_memory_bytes is %v, want %d", m.Samples, used())
			}
		}
		restored := wire.SetWatches{Data: []string{}, Child: []string{}, Exist: []string{path(1), path(2), path(3), path(4), path(5), path(6)}}
		late := s.open()
		if r, err := late.do(wire.OpSetWatches, restored.Append(nil, wire.OpSetWatches)); err == nil {
			t.Errorf("too many watches are restored: %+v", r)
		}
		greedy.mustCall(wire.OpCloseSession, nil)
		modest.mustCall(wire.OpCloseSession, nil)
		pass(time.Second)
		if n := used(); n != 0 {
			t.Errorf("%d bytes are used when all clients are gone", n)
		}
	})
}
