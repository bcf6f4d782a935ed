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
	stop := KeepMonitorAwake(func(bool) {})
	if n := runtime.GOMAXPROCS(0); n != before+1 {
		t.Errorf("there are %d processors, before there were %d", n, before)
	}
	runtime.GC()
	stop()
	os.Setenv("GOMAXPROCS", "3")
	before = runtime.GOMAXPROCS(0)
	KeepMonitorAwake(func(bool) {})()
	if n := runtime.GOMAXPROCS(0); n != before {
		t.Errorf("GOMAXPROCS is in the environment, and %d processors became %d", before, n)
	}
}
