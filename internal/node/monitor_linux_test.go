package node

import (
	"os"
	"runtime"
	"testing"
)

// The monitor is kept awake with one processor more, until stop; a collection ends meanwhile. What the environment says holds.
func TestKeepMonitorAwake(t *testing.T) {
	t.Setenv("GOMAXPROCS", "")
	before := runtime.GOMAXPROCS(0)
	stop := KeepMonitorAwake(func(bool) {}, nil)
	if n := runtime.GOMAXPROCS(0); n != before+1 {
		t.Errorf("there are %d processors, before there were %d", n, before)
	}
	runtime.GC()
	stop()
	os.Setenv("GOMAXPROCS", "3")
	before = runtime.GOMAXPROCS(0)
	KeepMonitorAwake(func(bool) {}, nil)()
	if n := runtime.GOMAXPROCS(0); n != before {
		t.Errorf("GOMAXPROCS is in the environment, and %d processors became %d", before, n)
	}
}

// A token of busy has a goroutine look at once, though the process has used no processor time; without one it does not.
func TestManyWritesKeepTheMonitorAwake(t *testing.T) {
	t.Setenv("GOMAXPROCS", "")
	looked := make(chan bool, 1)
	busy := make(chan struct{})
	stop := KeepMonitorAwake(func(again bool) {
		if again {
			select {
			case looked <- true:
			default:
			}
		}
	}, busy)
	defer stop()
	for range 2 { // it takes a token while it is idle, so the second one is told of after the first was acted upon
		busy <- struct{}{}
	}
	<-looked
}
