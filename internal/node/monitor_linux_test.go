package node

import (
	"os"
	"runtime"
	"testing"

	"github.com/pinfold-zk/pinfold/internal/replica"
)

// The monitor is kept awake with one processor more, until stop; a collection ends meanwhile. What the environment says holds.
func TestKeepMonitorAwake(t *testing.T) {
	t.Setenv("GOMAXPROCS", "")
	before := runtime.GOMAXPROCS(0)
	stop := KeepMonitorAwake(func(bool) bool { return false }, nil)
	if n := runtime.GOMAXPROCS(0); n != before+1 {
		t.Errorf("there are %d processors, before there were %d", n, before)
	}
	runtime.GC()
	stop()
	os.Setenv("GOMAXPROCS", "3")
	before = runtime.GOMAXPROCS(0)
	KeepMonitorAwake(func(bool) bool { return false }, nil)()
	if n := runtime.GOMAXPROCS(0); n != before {
		t.Errorf("GOMAXPROCS is in the environment, and %d processors became %d", before, n)
	}
}

// A token of busy has the goroutine look at once, though the process has used no processor time. It looks as long as writes
// begin, and then says that it does not any more.
func TestManyWritesKeepTheMonitorAwake(t *testing.T) {
	t.Setenv("GOMAXPROCS", "")
	looks := make(chan bool, 1000)
	busy := make(chan struct{})
	perWindow := int(dozeWindow / replica.LookEvery)
	looked := 0
	stop := KeepMonitorAwake(func(again bool) bool {
		looks <- again
		looked++
		return looked <= perWindow
	}, busy)
	busy <- struct{}{}
	for n := 0; ; n++ {
		if again := <-looks; again {
			continue
		}
		if n != perWindow+quietLooks {
			t.Errorf("it looked %d times, want %d: in the window in which writes began, and until it saw that they have ended", n, perWindow+quietLooks)
		}
		break
	}
	stop()
	if again := <-looks; again || len(looks) > 0 {
		t.Error("it looks although no write has begun")
	}
}
