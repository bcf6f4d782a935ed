package node

import (
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/pinfold-zk/pinfold/internal/rawio"
	"github.com/pinfold-zk/pinfold/internal/replica"
)

// How the runtime's monitor is kept awake.
const (
	// dozeWindow is how often it is decided whether the process is busy: whether it has used a fiftieth of a
	// processor since the last time. To keep the monitor awake takes a three hundredth. A process that is not is told
	// sooner of many writes.
	dozeWindow = 200 * time.Millisecond
	busyPart   = 50
)

// KeepMonitorAwake has a goroutine hold one processor (P) of Go in a sleep while the process is
// busy, so that the runtime's monitor does not fall asleep (rawio.Doze, ADR 30), until stop is
// called. That goroutine wakes every replica.LookEvery, and calls look: with again false if it does not do so any more. A
// token of busy says that the process is busy. KeepMonitorAwake
// adds this processor to those that the runtime has chosen, so a program calls it
// once, for all its nodes, or not at all if they are not its main work. It does nothing if the
// environment sets GOMAXPROCS.
func KeepMonitorAwake(look func(again bool), busy <-chan struct{}) (stop func()) {
	if os.Getenv("GOMAXPROCS") != "" {
		return func() {}
	}
	runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 1)
	end := make(chan struct{})
	var ended sync.WaitGroup
	ended.Go(func() { keepAwake(look, busy, end) })
	return func() {
		close(end)
		ended.Wait()
		runtime.SetDefaultGOMAXPROCS()
	}
}

func keepAwake(look func(again bool), busy, end <-chan struct{}) {
	defer look(false)
	tick := time.NewTicker(dozeWindow)
	defer tick.Stop()
	used := processorTime()
	for {
		before := used
		used = processorTime()
		if used-before < dozeWindow/busyPart {
			look(false)
			select {
			case <-end:
				return
			case <-tick.C:
				continue
			case <-busy:
			}
		}
		for range dozeWindow / replica.LookEvery {
			look(true)
			if !doze(replica.LookEvery, end) {
				return
			}
		}
	}
}

// doze holds a processor for d, also if the runtime wants it back in between. It returns false at the end of keepAwake.
func doze(d time.Duration, end <-chan struct{}) (goOn bool) {
	for until := time.Now().Add(d); ; {
		select {
		case <-end:
			return false
		default:
		}
		left := time.Until(until)
		if left <= 0 {
			return true
		}
		rawio.Doze(left)
	}
}

// processorTime is the processor time that the process has used.
func processorTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0 // it is never busy
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
