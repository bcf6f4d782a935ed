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

// A token of busy has the goroutine look at once. It looks as long as the log is written, and then says that it does not any
// more, as it has at the beginning.
func TestManyWritesKeepTheMonitorAwake(t *testing.T) {
	t.Setenv("GOMAXPROCS", "")
	looks := make(chan bool, 1000)
	busy := make(chan struct{})
	looked := 0
	stop := KeepMonitorAwake(func(again bool) bool {
		looks <- again
		if again {
			looked++
		}
		return looked <= 2*looksAWindow
	}, busy)
	if again := <-looks; again {
		t.Error("it looks at the beginning")
	}
	busy <- struct{}{}
	n := 0
	for again := <-looks; again; again = <-looks {
		n++
	}
	if n != 2*looksAWindow+quietLooks {
		t.Errorf("it looked %d times, want %d: in the windows in which the log was written, and until it saw that this has ended",
			n, 2*looksAWindow+quietLooks)
	}
	stop()
	if len(looks) > 0 {
		t.Error("it looks although the log is not written")
	}
}

// Writes in less than half of a window are seldom.
func TestFewWritesLetTheMonitorSleep(t *testing.T) {
	t.Setenv("GOMAXPROCS", "")
	looks := make(chan bool, 1000)
	busy := make(chan struct{})
	looked := 0
	stop := KeepMonitorAwake(func(again bool) bool {
		looks <- again
		looked++
		return looked%(quietLooks-1) == 0
	}, busy)
	<-looks
	busy <- struct{}{}
	n := 0
	for again := <-looks; again; again = <-looks {
		n++
	}
	if n != looksAWindow {
		t.Errorf("it looked %d times, want %d: for a window", n, looksAWindow)
	}
	stop()
}

// The monitor is kept awake without a token while the process is busy, though the log is not written, and not after that.
func TestABusyProcessKeepsTheMonitorAwake(t *testing.T) {
	t.Setenv("GOMAXPROCS", "")
	looks := make(chan bool, 1000)
	stop := KeepMonitorAwake(func(again bool) bool {
		looks <- again
		return false
	}, nil)
	defer stop()
	<-looks
	for n := 0; n <= quietLooks; { // more looks than a process that is not busy makes
		select {
		case again := <-looks:
			if n++; !again {
				n = 0
			}
		default: // keeps a processor busy
		}
	}
	for <-looks {
	}
}
